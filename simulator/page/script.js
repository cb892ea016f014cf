// The chat page of the simulator: fetches, listens, and tells the parts of the page what changed.
import * as api from "./api.js";
import { addMessage, changeMessage, drawConversation, watchConversation } from "./conversation.js";
import { replace } from "./dom.js";
import { unpressed, watchPresses } from "./press.js";
import { watchSay } from "./say.js";
import { watchDrops } from "./sharing.js";
import { drawSidebar, drawer, watchDrawer } from "./sidebar.js";
import { choose, currentChat, messagesOf, state, takeMessage, visibleChats } from "./state.js";
import { drawDot, drawTopbar } from "./topbar.js";
import { t } from "./words.js";

const byId = (id) => document.getElementById(id);

function drawAll(options) {
  document.documentElement.lang = state.lang === "zh" ? "zh-CN" : "en";
  document.querySelector("[data-word=skip]").textContent = t("skip");
  drawTopbar({ onViewer: chooseViewer, onLanguage: chooseLanguage, onTheme: chooseTheme });
  drawConversation(options);
  drawList();
  if (!byId("connection").hidden) replace(byId("connection"), t("connecting"));
}

function drawList() {
  drawSidebar(chooseChat);
  drawDot();
}

// Choices

function chooseChat(chatId) {
  choose("chat", chatId);
  drawer(false);
  drawConversation();
  drawList();
}

function chooseViewer(openId) {
  const was = visibleChats().find((chat) => chat.chat_id === state.chat);
  choose("viewer", openId);
  if (!currentChat()) choose("chat", (visibleChats().find((chat) => chat.kind === was?.kind) ?? visibleChats()[0])?.chat_id ?? "");
  drawAll({ keepScroll: state.chat === was?.chat_id });
}

function chooseLanguage(lang) {
  choose("lang", lang);
  drawAll({ keepScroll: true });
}

function chooseTheme(theme) {
  choose("theme", theme);
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  drawTopbar({ onViewer: chooseViewer, onLanguage: chooseLanguage, onTheme: chooseTheme });
}

// What comes in

function take(message) {
  const what = takeMessage(message);
  if (message.chat_id === state.chat) {
    if (what === "new") addMessage(message);
    if (what === "changed") changeMessage(message);
  }
  if (what !== "known") drawList();
}

async function onEvent(event) {
  if (event.kind === "reset") {
    await unpressed();
    state.messages.clear();
    drawAll();
  } else if (event.kind === "members") {
    state.chats = await api.chats();
    await unpressed();
    if (!currentChat()) state.chat = visibleChats()[0]?.chat_id ?? null;
    drawAll({ keepScroll: true });
  } else if (event.kind === "message" || event.kind === "patched") {
    const message = event.message?.content ? event.message : await api.message(event.message_id ?? event.message?.message_id);
    // A private chat comes into being with its first message.
    if (!state.chats.some((chat) => chat.chat_id === message.chat_id)) state.chats = await api.chats();
    await unpressed();
    take(message);
  }
}

/** Whether a message that should be among the fetched ones is not. */
function forgotten(known, fetched) {
  const ids = new Set(fetched.map((message) => message.message_id));
  const since = fetched.length < 200 ? 0 : fetched[0].created_at;
  return known.some((message) => message.created_at > since && !ids.has(message.message_id));
}

/** Fetches everything, at the start and after each lost connection. */
async function fetchAll(first) {
  const parts = [api.people(), api.chats(), api.shortcuts(), api.links(), api.tools().catch(() => [])];
  [state.people, state.chats, state.shortcuts, state.links, state.tools] = await Promise.all(parts);
  if (!state.people.some((person) => person.open_id === state.viewer)) state.viewer = state.people[0]?.open_id ?? null;
  const lists = await Promise.all(state.chats.map((chat) => api.messages(chat.chat_id)));
  await unpressed();
  const gone = !first && state.chats.some((chat, index) => forgotten(messagesOf(chat.chat_id), lists[index]));
  if (gone) state.messages.clear(); // the simulator was restarted without its data, or reset
  if (first || gone) {
    lists.flat().forEach(takeMessage);
    if (!currentChat()) state.chat = visibleChats()[0]?.chat_id ?? null;
    drawAll({ keepScroll: gone });
  } else lists.flat().forEach(take);
}

// The stream's events wait for the first fetch, so that nothing is drawn twice.
let queue = Promise.resolve();
const later = (work) => {
  queue = queue.then(work).catch((fault) => console.error(fault));
};

let started = false;

async function caughtUp() {
  try {
    await fetchAll(!started);
  } catch (fault) {
    lost();
    setTimeout(() => later(caughtUp), 1500);
    throw fault;
  }
  started = true;
  byId("connection").hidden = true;
  document.body.dataset.connected = "true";
}

function lost() {
  document.body.dataset.connected = "false";
  replace(byId("connection"), t("connecting"));
  byId("connection").hidden = false;
}

drawAll();
watchPresses();
watchConversation(() => drawList());
watchDrawer();
watchSay();
watchDrops();
api.stream({ onOpen: () => later(caughtUp), onLost: lost, onEvent: (event) => later(() => onEvent(event)) });
