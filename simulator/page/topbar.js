// The strip at the top: who you are, in which language, and the look.
import { h, replace } from "./dom.js";
import { icon } from "./icons.js";
import { avatar, nameOf, roleOf } from "./people.js";
import { drawer } from "./sidebar.js";
import { state, unreadOf, visibleChats } from "./state.js";
import { t } from "./words.js";

const byId = (id) => document.getElementById(id);

export function drawTopbar({ onViewer, onLanguage, onTheme }) {
  const node = byId("topbar");
  const focused = document.activeElement?.dataset?.testid;
  replace(
    node,
    h(
      "button",
      {
        type: "button",
        id: "drawer-toggle",
        class: "icon-button drawer-toggle",
        "aria-label": t("open_chats"),
        "aria-controls": "sidebar",
        "aria-expanded": "false",
        on: { click: () => drawer(true) },
      },
      icon("menu", { size: 20 }),
      h("span", { class: "drawer-dot", id: "drawer-dot", hidden: true }),
    ),
    h(
      "div",
      { class: "brand" },
      h("span", { class: "brand-sign", "aria-hidden": "true" }, icon("check", { size: 18 })),
      h(
        "span",
        { class: "brand-text" },
        h("span", { class: "brand-name" }, t("title")),
        h("span", { class: "brand-note" }, t("subtitle")),
      ),
    ),
    h(
      "div",
      { class: "viewers", role: "group", "aria-labelledby": "viewers-label" },
      h("span", { class: "viewers-label", id: "viewers-label" }, t("you_are")),
      state.people.map((person) => viewerButton(person, onViewer)),
    ),
    h(
      "div",
      { class: "switches" },
      h(
        "div",
        { class: "segment", role: "group", "aria-label": t("language") },
        segment("lang-zh", "中文", state.lang === "zh", () => onLanguage("zh"), { lang: "zh-CN" }),
        segment("lang-en", "English", state.lang === "en", () => onLanguage("en"), { lang: "en" }),
      ),
      h(
        "div",
        { class: "segment", role: "group", "aria-label": t("look") },
        themeButton("auto", "auto", onTheme),
        themeButton("light", "sun", onTheme),
        themeButton("dark", "moon", onTheme),
      ),
    ),
  );
  if (focused) node.querySelector(`[data-testid="${CSS.escape(focused)}"]`)?.focus();
  drawDot();
}

/** On a phone the unread dots are behind the drawer, so its button has one too. */
export function drawDot() {
  byId("drawer-dot").hidden = !visibleChats().some((chat) => chat.chat_id !== state.chat && unreadOf(chat.chat_id).length > 0);
}

function viewerButton(person, onViewer) {
  const chosen = person.open_id === state.viewer;
  return h(
    "button",
    {
      type: "button",
      class: "viewer",
      "aria-pressed": String(chosen),
      data: { testid: `viewer-${person.open_id}` },
      on: { click: () => onViewer(person.open_id) },
    },
    avatar(person, "small"),
    h(
      "span",
      { class: "viewer-text" },
      h("span", { class: "viewer-name" }, nameOf(person)),
      h("span", { class: "viewer-role" }, roleOf(person)),
    ),
  );
}

function segment(testid, content, pressed, onClick, attributes = {}) {
  return h(
    "button",
    {
      type: "button",
      class: "segment-button",
      "aria-pressed": String(pressed),
      data: { testid },
      on: { click: onClick },
      ...attributes,
    },
    content,
  );
}

function themeButton(theme, sign, onTheme) {
  return segment(
    `theme-${theme}`,
    icon(sign, { size: 16 }),
    state.theme === theme,
    () => onTheme(theme),
    { "aria-label": t(theme), title: t(theme) },
  );
}
