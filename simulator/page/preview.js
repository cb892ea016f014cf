// What a message says in one line, and whom it mentions.
import { messagesOf, unreadOf, viewer } from "./state.js";
import { t, textOf } from "./words.js";

/** The line under a chat's name and in a quotation: config.summary, or else the title. */
export function preview(message) {
  const { msg_type: type, content } = message;
  if (type === "text") return String(content?.text ?? "").replace(/<at\b[^>]*>(.*?)<\/at>/g, "@$1");
  if (type === "file" || type === "audio" || type === "media") return t("file", { name: content?.file_name ?? "" });
  if (type === "image" || type === "post") return `[${t("image")}]`;
  if (type === "interactive") return textOf(content?.config?.summary) || textOf(content?.header?.title) || t("card");
  return t("unsupported_type", { type });
}

export const latest = (chatId) => messagesOf(chatId).at(-1);

const AT = /<at\s+(?:id|ids|user_id)\s*=\s*["']?([^"'>\s]+)["']?/gi;

// Only markdown mentions anyone; in plain text an at-tag is just characters.
function mentions(value, ids) {
  if (typeof value === "string") return [...value.matchAll(AT)].some(([, found]) => found.split(",").some((id) => ids.has(id)));
  if (value === null || typeof value !== "object" || value.tag === "plain_text") return false;
  return Object.values(value).some((inner) => mentions(inner, ids));
}

export function mentionsViewer(message) {
  const person = viewer();
  if (!person) return false;
  return mentions(message.content, new Set(["all", person.open_id, person.union_id, person.user_id]));
}

export const unreadMention = (chatId) => unreadOf(chatId).some(mentionsViewer);
