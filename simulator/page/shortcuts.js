// Buttons that file a sample request: an invitation in an empty chat, a slim row below a full one.
import * as api from "./api.js";
import { h, replace } from "./dom.js";
import { icon } from "./icons.js";
import { composer } from "./composer.js";
import { currentChat, state } from "./state.js";
import { toast } from "./toast.js";
import { labelOf, t } from "./words.js";

const byId = (id) => document.getElementById(id);

export function drawShortcuts(empty) {
  const bar = byId("shortcut-bar");
  const welcome = byId("welcome");
  const chat = currentChat();
  const offered = chat ? state.shortcuts : [];
  const any = chat && state.tools.length > 0;
  welcome.hidden = !empty || !chat;
  bar.hidden = empty || (offered.length === 0 && !any);
  replace(
    welcome,
    h("div", { class: "welcome-sign", "aria-hidden": "true" }, icon("chat", { size: 30 })),
    h("h2", {}, t("empty_title")),
    h("p", {}, t(offered.length ? "empty_text" : any ? "empty_ask" : "empty_plain")),
    h("div", { class: "welcome-grid" }, !welcome.hidden && offered.map((shortcut, index) => tile(shortcut, index))),
    !welcome.hidden && any && asking("tile tile-ask"),
  );
  replace(
    bar,
    h("span", { class: "shortcut-label" }, icon("bolt", { size: 14 }), t("shortcuts")),
    h(
      "div",
      { class: "shortcut-row", role: "group", "aria-label": t("shortcuts") },
      !bar.hidden && offered.map((shortcut, index) => chip(shortcut, index)),
      !bar.hidden && any && asking("chip chip-ask"),
    ),
  );
}

const asking = (look) => h(
  "button",
  { type: "button", class: look, data: { testid: "ask-for" }, on: { click: () => composer() } },
  icon("bolt", { size: 14 }),
  t("ask_for"),
);

function chip(shortcut, index) {
  return h(
    "button",
    {
      type: "button",
      class: "chip",
      title: labelOf(shortcut.description),
      data: { testid: `shortcut-${index}` },
      on: { click: (event) => press(index, event.currentTarget) },
    },
    labelOf(shortcut.label),
  );
}

function tile(shortcut, index) {
  return h(
    "button",
    {
      type: "button",
      class: "tile",
      data: { testid: `shortcut-${index}` },
      on: { click: (event) => press(index, event.currentTarget) },
    },
    h("span", { class: "tile-label" }, icon("bolt", { size: 16 }), labelOf(shortcut.label)),
    h("span", { class: "tile-text" }, labelOf(shortcut.description)),
  );
}

async function press(index, node) {
  if (node.getAttribute("aria-busy")) return;
  node.setAttribute("aria-busy", "true");
  try {
    const { status, body, uuid } = await api.pressShortcut(index, { open_id: state.viewer, chat_id: state.chat });
    if (status >= 200 && status < 300) {
      toast("success", t("shortcut_done"));
      await follow(index, uuid);
    } else toast("error", t("shortcut_failed", { status, detail: detailOf(body) }));
  } catch (fault) {
    toast("error", t("shortcut_failed", { status: fault.status ?? "–", detail: detailOf(fault.answer) }));
  } finally {
    node.removeAttribute("aria-busy");
  }
}

/** A call that asks nobody has no card: what became of it is said here. */
async function follow(index, uuid) {
  const { label, endings } = state.shortcuts[index];
  if (!endings) return;
  const { body } = await api.followShortcut(index, uuid);
  const ending = body?.status && endings[body.status];
  if (!ending) return;
  const content = body.outcome?.content;
  const detail = content === undefined || content === null ? "" : ` ${typeof content === "string" ? content : JSON.stringify(content)}`;
  toast("success", t("shortcut_ended", { label: labelOf(label), ending: labelOf(ending), detail: detail.slice(0, 300) }));
}

export function detailOf(body) {
  const detail = body?.detail ?? body?.title ?? body?.message ?? (typeof body === "string" ? body : "");
  return typeof detail === "string" && detail ? `: ${detail.slice(0, 200)}` : "";
}
