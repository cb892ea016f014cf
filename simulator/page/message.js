// One message in the conversation. Its outer element stays for as long as the message does; only what is in it is redrawn.
import * as api from "./api.js";
import { card, problem, redraw } from "./card.js";
import { send, waiting } from "./clicks.js";
import { h, link, replace, safeUrl } from "./dom.js";
import { fileBubble, imageBubble } from "./file.js";
import { avatar, botAvatar, mention, nameOf } from "./people.js";
import { icon } from "./icons.js";
import { unpressed } from "./press.js";
import { mentionsViewer, preview } from "./preview.js";
import { messageBy, personBy, scratchOf, takeMessage } from "./state.js";
import { clockTime, t } from "./words.js";

export function messageNode(message) {
  const node = h(
    "li",
    { class: "message", tabindex: -1, data: { messageId: message.message_id, msgType: message.msg_type } },
    personBy(message.sender) ? avatar(personBy(message.sender)) : botAvatar(),
    h("div", { class: "message-main" }, h("div", { class: "message-meta" }), h("div", { class: "message-body" })),
  );
  draw(node, message);
  return node;
}

/** Draws the message's present version into its element. */
export function draw(node, message) {
  node.dataset.revision = String(message.revision ?? 0);
  node.toggleAttribute("data-mentions-me", mentionsViewer(message));
  replace(node.querySelector(".message-meta"), meta(message));
  const holder = node.querySelector(".message-body");
  const focused = holder.contains(document.activeElement);
  redraw(holder, [message.reply_to && quotation(message.reply_to), body(node, holder, message)]);
  waiting(message.message_id, holder);
  if (focused && !holder.contains(document.activeElement)) node.focus({ preventScroll: true });
}

/** A changed card lights up for a moment. */
export function highlight(node) {
  node.classList.remove("message-changed");
  void node.offsetWidth; // so that a second change in a row lights up again
  node.classList.add("message-changed");
  clearTimeout(lit.get(node));
  lit.set(node, setTimeout(() => node.classList.remove("message-changed"), 2000));
}

const lit = new WeakMap(); // element → the timer that puts its light out

function meta(message) {
  const times = message.revision ?? 0;
  const person = personBy(message.sender);
  return [
    h("span", { class: "sender" }, person ? nameOf(person) : "Assent"),
    !person && h("span", { class: "bot-tag" }, t("bot")),
    h("time", { datetime: new Date(message.created_at).toISOString() }, clockTime(message.created_at)),
    times > 0 && h(
      "span",
      { class: "edited", title: clockTime(message.updated_at ?? message.created_at) },
      times === 1 ? t("updated_once") : t("updated", { n: times }),
    ),
  ];
}

function quotation(messageId) {
  const quoted = messageBy(messageId);
  const original = () => document.querySelector(`[data-message-id="${CSS.escape(messageId)}"]`);
  const jump = () => original()?.scrollIntoView({ block: "center", behavior: "smooth" });
  return h(
    "button",
    { type: "button", class: "quotation", on: { click: jump } },
    icon("reply", { size: 14 }),
    h("span", {}, `${t("reply_to")} ${quoted ? preview(quoted) : messageId}`),
  );
}

function body(node, holder, message) {
  if (message.msg_type === "interactive") return cardBody(node, holder, message);
  if (message.msg_type === "text") return h("div", { class: "bubble" }, textBody(String(message.content?.text ?? "")));
  if (message.msg_type === "file" || message.msg_type === "audio" || message.msg_type === "media") return fileBubble(message);
  if (message.msg_type === "image" || message.msg_type === "post") return imageBubble(message);
  return problem(t("unsupported_type", { type: message.msg_type }));
}

function cardBody(node, holder, message) {
  const refresh = async () => {
    const fresh = await api.message(message.message_id);
    await unpressed();
    if (takeMessage(fresh) === "changed") draw(node, fresh);
  };
  return card(message.content, {
    key: message.message_id,
    scratch: scratchOf(message.message_id),
    send: (what, button) => send(message.message_id, holder, what, button, refresh),
  });
}

const PIECES = /<at user_id="([^"]*)">[^<]*<\/at>|(https?:\/\/[^\s<>"'`\\^{}|\u3000-\u303f\uff00-\uffef]+)/g;

/** A text message knows mentions and addresses, and nothing else. */
function textBody(text) {
  const nodes = [];
  let from = 0;
  for (const match of text.matchAll(PIECES)) {
    nodes.push(text.slice(from, match.index));
    const url = match[2] && safeUrl(match[2]);
    nodes.push(match[1] !== undefined ? mention(match[1]) : url ? link(url, match[2]) : match[0]);
    from = match.index + match[0].length;
  }
  return [...nodes, text.slice(from)];
}
