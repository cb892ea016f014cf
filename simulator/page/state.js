// What the page knows: who looks, at which chat, in which language, and the messages so far.

const asked = new URLSearchParams(location.search);

function remembered(key) {
  try {
    return localStorage.getItem(`simulator.${key}`);
  } catch {
    return null; // storage may be switched off; the page works without it
  }
}

function remember(key, value) {
  try {
    if (value === null) localStorage.removeItem(`simulator.${key}`);
    else localStorage.setItem(`simulator.${key}`, value);
  } catch {
    // as above
  }
}

const preset = (key) => asked.get(key) ?? remembered(key);
const firstLanguage = () => (navigator.language?.toLowerCase().startsWith("zh") ? "zh" : "en");

export const state = {
  viewer: preset("as"),
  chat: preset("chat"),
  lang: ["zh", "en"].find((lang) => preset("lang")?.toLowerCase().startsWith(lang)) ?? firstLanguage(),
  theme: ["light", "dark"].includes(preset("theme")) ? preset("theme") : "auto",
  people: [],
  chats: [],
  shortcuts: [],
  tools: [],
  links: [],
  messages: new Map(), // chat_id → messages, oldest first
};

/** Remembers a choice, and keeps it in the address so that a reload or a shared link shows the same. */
export function choose(key, value) {
  const name = { viewer: "as" }[key] ?? key;
  state[key] = value;
  remember(name, key === "theme" && value === "auto" ? null : value);
  const url = new URL(location.href);
  // Language and look belong to the reader, not to the link, unless the link already says so.
  if (["as", "chat"].includes(name) || url.searchParams.has(name)) url.searchParams.set(name, value);
  history.replaceState(null, "", url);
}

export const viewer = () => state.people.find((person) => person.open_id === state.viewer);

/** A person by any of the three ids that Feishu knows. */
export function personBy(id) {
  return state.people.find((person) => [person.open_id, person.union_id, person.user_id].includes(id));
}

export function visibleChats() {
  const chats = state.chats.filter((chat) => (chat.members ?? []).includes(state.viewer));
  if (!viewer() || chats.some((chat) => chat.kind === "p2p")) return chats;
  // The backend lists a private chat from its first message on; a person sees the bot before that.
  return [...chats, { chat_id: state.viewer.replace(/^ou_/, "oc_p2p_"), name: "", kind: "p2p", members: [state.viewer] }];
}

export const currentChat = () => visibleChats().find((chat) => chat.chat_id === state.chat);

export const messagesOf = (chatId) => state.messages.get(chatId) ?? [];

export function messageBy(messageId) {
  for (const list of state.messages.values()) {
    const found = list.find((message) => message.message_id === messageId);
    if (found) return found;
  }
  return undefined;
}

/** Takes in a message; says whether it was new, changed or already known. */
export function takeMessage(message) {
  const list = state.messages.get(message.chat_id) ?? [];
  state.messages.set(message.chat_id, list);
  const at = list.findIndex((known) => known.message_id === message.message_id);
  if (at >= 0) {
    const known = list[at];
    // Answers may overtake one another; an older version of a card must not replace a newer one.
    if (message.revision < known.revision) return "known";
    const changed = message.revision > known.revision;
    list[at] = { ...known, ...message };
    return changed ? "changed" : "known";
  }
  let place = list.length;
  while (place > 0 && list[place - 1].created_at > message.created_at) place -= 1;
  list.splice(place, 0, message);
  return "new";
}

// Reading

const readKey = (chatId) => `read.${state.viewer}.${chatId}`;
const readUntil = (chatId) => Number(remembered(readKey(chatId)) ?? 0);

export const unreadOf = (chatId) => messagesOf(chatId).filter((message) => message.created_at > readUntil(chatId));

export function markRead(chatId) {
  const last = messagesOf(chatId).at(-1);
  if (last && last.created_at > readUntil(chatId)) remember(readKey(chatId), String(last.created_at));
}

// What a person has typed or unfolded in a card outlives every redrawing of that card.

const scratch = new Map();

export function scratchOf(messageId) {
  const key = `${state.viewer}/${messageId}`;
  if (!scratch.has(key)) scratch.set(key, { fields: new Map(), open: new Map() });
  return scratch.get(key);
}
