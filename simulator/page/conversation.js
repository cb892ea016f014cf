// The middle of the page: the chosen chat's messages, kept steady under the reader's eyes.
import { h, replace } from "./dom.js";
import { icon } from "./icons.js";
import { draw, highlight, messageNode } from "./message.js";
import { avatar, botAvatar, groupAvatar } from "./people.js";
import { unpressed } from "./press.js";
import { drawSay } from "./say.js";
import { shareButton } from "./sharing.js";
import { drawShortcuts } from "./shortcuts.js";
import { currentChat, markRead, messagesOf, personBy, state } from "./state.js";
import { dayLabel, t } from "./words.js";

const byId = (id) => document.getElementById(id);
let missed = 0;

const nodeOf = (messageId) => byId("messages").querySelector(`:scope > [data-message-id="${CSS.escape(messageId)}"]`);

export const chatName = (chat) => (chat.kind === "p2p" ? "Assent" : chat.name);

/** Draws the whole conversation: another chat, another reader or another language. */
export function drawConversation({ keepScroll = false } = {}) {
  const chat = currentChat();
  const scroller = byId("scroller");
  const before = scroller.scrollTop;
  drawHead(chat);
  const list = byId("messages");
  const messages = chat ? messagesOf(chat.chat_id) : [];
  replace(list, withDays(messages));
  list.setAttribute("aria-label", chat ? chatName(chat) : t("chats"));
  drawShortcuts(messages.length === 0);
  drawSay();
  seen();
  missNothing();
  scroller.scrollTop = keepScroll ? before : lastBeginning();
}

function withDays(messages) {
  let day = null;
  return messages.flatMap((message) => {
    const label = dayLabel(message.created_at);
    const parts = label === day ? [] : [dayNode(label)];
    day = label;
    return [...parts, messageNode(message)];
  });
}

const dayNode = (label) => h("li", { class: "day", data: { day: label } }, h("span", {}, label));

function drawHead(chat) {
  if (!chat) {
    const person = personBy(state.viewer);
    replace(byId("conversation-head"), h("h1", { class: "chat-title" }, person ? t("not_member", { name: person.name }) : ""));
    return;
  }
  const group = chat.kind === "group";
  const people = (chat.members ?? []).map(personBy).filter(Boolean);
  replace(
    byId("conversation-head"),
    group ? groupAvatar() : botAvatar(),
    h(
      "div",
      { class: "chat-heading" },
      h("h1", { class: "chat-title" }, chatName(chat)),
      h("div", { class: "chat-subtitle" }, subtitle(chat, people)),
    ),
    shareButton(),
    group && h("div", { class: "faces" }, people.map((person) => avatar(person, "small"))),
  );
}

function subtitle(chat, people) {
  if (chat.kind === "p2p") return t("private_chat");
  return [t("members", { n: people.length }), chat.has_bot === false && t("without_bot")].filter(Boolean).join(" · ");
}

/** A new message in the chosen chat. */
export function addMessage(message) {
  const list = byId("messages");
  const follow = atBottom();
  const messages = messagesOf(state.chat);
  const place = messages.findIndex((each) => each.message_id === message.message_id);
  const next = messages[place + 1] && nodeOf(messages[place + 1].message_id);
  const node = messageNode(message);
  node.classList.add("message-new");
  steady(() => {
    const label = dayLabel(message.created_at);
    const lastDay = [...list.querySelectorAll(".day")].at(-1)?.dataset.day;
    if (!next && label !== lastDay) list.append(dayNode(label));
    list.insertBefore(node, next ?? null);
    drawShortcuts(false);
  });
  seen();
  if (follow) return toBottom("smooth");
  missed += 1;
  drawNewer();
}

/** A changed message in the chosen chat: its own element changes, everything else stays where it is. */
export function changeMessage(message) {
  const node = nodeOf(message.message_id);
  if (!node) return;
  steady(() => draw(node, message));
  highlight(node);
}

const atBottom = () => {
  return lastBeginning() - byId("scroller").scrollTop < 80;
};

function toBottom(behavior) {
  missNothing();
  const scroller = byId("scroller");
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  scroller.scrollTo({ top: lastBeginning(), behavior: calm ? "auto" : behavior });
}

/** Where the end of the conversation is read from: its last message, from the beginning if it is taller than the page. */
function lastBeginning() {
  const scroller = byId("scroller");
  const last = byId("messages").lastElementChild;
  if (!last) return scroller.scrollHeight;
  const top = last.getBoundingClientRect().top - scroller.getBoundingClientRect().top + scroller.scrollTop;
  return Math.min(top - 8, scroller.scrollHeight - scroller.clientHeight);
}

/** Makes a change without moving the first message the reader fully sees. */
function steady(change) {
  const scroller = byId("scroller");
  const top = scroller.getBoundingClientRect().top;
  const rows = [...byId("messages").children];
  const anchor = rows.find((row) => row.getBoundingClientRect().top >= top) ?? rows.at(-1);
  const before = anchor?.getBoundingClientRect().top;
  change();
  if (!anchor?.isConnected) return;
  const moved = anchor.getBoundingClientRect().top - before;
  if (Math.abs(moved) >= 1) scroller.scrollTop += moved;
}

/** The reader has come to the end. The button that goes makes room: not under a press, which would miss its target. */
async function reached() {
  if (missed === 0) return;
  await unpressed();
  if (missed > 0 && atBottom()) missNothing();
}

function missNothing() {
  missed = 0;
  drawNewer();
}

function drawNewer() {
  const button = byId("newer");
  button.hidden = missed === 0;
  replace(button, icon("arrow", { size: 14 }), t("newer", { n: missed }));
}

function seen() {
  if (state.chat && document.visibilityState === "visible") markRead(state.chat);
}

export function watchConversation(onRead) {
  byId("newer").addEventListener("click", () => toBottom("smooth"));
  byId("scroller").addEventListener("scroll", reached, { passive: true });
  document.addEventListener("visibilitychange", () => {
    seen();
    onRead();
  });
}
