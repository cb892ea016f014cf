// The list of chats that the chosen person is in.
import { chatName } from "./conversation.js";
import { h, link, replace, safeUrl } from "./dom.js";
import { icon } from "./icons.js";
import { botAvatar, groupAvatar } from "./people.js";
import { latest, preview, unreadMention } from "./preview.js";
import { state, unreadOf, visibleChats } from "./state.js";
import { clockTime, dayLabel, labelOf, t } from "./words.js";

const byId = (id) => document.getElementById(id);

export function drawSidebar(onChoose) {
  const node = byId("sidebar");
  const focused = document.activeElement?.dataset.testid;
  node.setAttribute("aria-label", t("chats"));
  const recent = (chat) => latest(chat.chat_id)?.created_at ?? 0;
  const chats = [...visibleChats()].sort((a, b) => recent(b) - recent(a));
  replace(
    node,
    h(
      "div",
      { class: "sidebar-head" },
      h("h2", {}, t("chats")),
      h(
        "button",
        { type: "button", class: "icon-button drawer-close", "aria-label": t("close_chats"), on: { click: () => drawer(false) } },
        icon("close", { size: 18 }),
      ),
    ),
    h("ul", { class: "chat-list" }, chats.map((chat) => h("li", {}, chatRow(chat, onChoose)))),
    links(),
  );
  if (focused) node.querySelector(`[data-testid="${CSS.escape(focused)}"]`)?.focus();
  const unread = visibleChats().reduce((sum, chat) => sum + unreadOf(chat.chat_id).length, 0);
  document.title = unread ? `(${unread}) ${t("title")}` : t("title");
}

function chatRow(chat, onChoose) {
  const last = latest(chat.chat_id);
  const unread = unreadOf(chat.chat_id).length;
  const today = last && dayLabel(last.created_at) === t("today");
  return h(
    "button",
    {
      type: "button",
      class: "chat-row",
      "aria-current": chat.chat_id === state.chat ? "true" : undefined,
      data: { testid: `chat-${chat.chat_id}`, unread },
      on: { click: () => onChoose(chat.chat_id) },
    },
    chat.kind === "group" ? groupAvatar() : botAvatar(),
    h(
      "span",
      { class: "chat-row-text" },
      h(
        "span",
        { class: "chat-row-top" },
        h("span", { class: "chat-row-name" }, chatName(chat)),
        chat.kind === "p2p" && h("span", { class: "bot-tag" }, t("bot")),
        last && h("span", { class: "chat-row-time" }, today ? clockTime(last.created_at) : dayLabel(last.created_at)),
      ),
      h(
        "span",
        { class: "chat-row-bottom" },
        unreadMention(chat.chat_id) && h("span", { class: "mentioned" }, t("mentioned")),
        h("span", { class: "chat-row-preview" }, last ? preview(last) : t("no_messages")),
        unread > 0 && h("span", { class: "unread", "aria-label": t("unread", { n: unread }) }, unread > 99 ? "99+" : unread),
      ),
    ),
  );
}

function links() {
  const shown = state.links.filter(({ url }) => safeUrl(url));
  return shown.length > 0 && h(
    "div",
    { class: "links" },
    h("span", { class: "links-title" }, t("links")),
    shown.map(({ label, url }) => link(safeUrl(url), icon("external", { size: 14 }), labelOf(label))),
  );
}

/** On a phone the list is a drawer. */
export function drawer(open) {
  document.body.classList.toggle("drawer-open", open);
  byId("scrim").hidden = !open;
  byId("drawer-toggle")?.setAttribute("aria-expanded", String(open));
  if (open) byId("sidebar").querySelector("button.chat-row")?.focus();
}

export function watchDrawer() {
  byId("scrim").addEventListener("click", () => drawer(false));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !document.body.classList.contains("drawer-open")) return;
    drawer(false);
    byId("drawer-toggle").focus();
  });
}
