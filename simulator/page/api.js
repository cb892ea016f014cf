// The backend's HTTP API as this page uses it.

async function call(method, path, body) {
  const response = await fetch(path, {
    method,
    headers: body === undefined ? {} : { "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  let answer = null;
  try {
    answer = text ? JSON.parse(text) : null;
  } catch {
    // an error page; the status says enough
  }
  if (!response.ok) throw Object.assign(new Error(`${method} ${path}: ${response.status}`), { status: response.status, answer });
  return answer;
}

const listed = (answer, key) => (Array.isArray(answer) ? answer : (answer?.[key] ?? []));
const part = encodeURIComponent;

export const people = async () => listed(await call("GET", "/api/people"), "people");
export const chats = async () => listed(await call("GET", "/api/chats"), "chats");
export const shortcuts = async () => listed(await call("GET", "/api/shortcuts"), "shortcuts");
export const links = async () => listed(await call("GET", "/api/links"), "links");
export const messages = async (chatId) => listed(await call("GET", `/api/messages?chat_id=${part(chatId)}&limit=200`), "messages");
export const message = (messageId) => call("GET", `/api/messages/${part(messageId)}`);
export const click = (body) => call("POST", "/api/clicks", body);
export const pressShortcut = (index, body) => call("POST", `/api/shortcuts/${part(index)}`, body);
export const followShortcut = (index, uuid) => call("GET", `/api/shortcuts/${part(index)}/followed/${part(uuid)}`);
export const tools = async () => listed(await call("GET", "/api/tools"), "tools");
export const askFor = (body) => call("POST", "/api/tools", body);
export const say = (body) => call("POST", "/api/say", body);
export async function share(file, openId, chatId) {
  const asked = new URLSearchParams({ open_id: openId, chat_id: chatId, name: file.name });
  const response = await fetch(`/api/files?${asked}`, { method: "POST", body: file });
  if (!response.ok) throw Object.assign(new Error(`${response.status}`), { status: response.status });
  return response.json();
}
export const fileUrl = (key) => `/api/files/${part(key)}`;

/**
 * Live updates. The browser's own reconnecting gives up on some errors, so a closed source is opened again here;
 * `onOpen` runs after every (re)connection, to fetch what was missed.
 */
export function stream({ onEvent, onOpen, onLost }) {
  let wait = 500;
  const open = () => {
    const source = new EventSource("/api/stream");
    source.onopen = () => {
      wait = 500;
      onOpen();
    };
    source.onmessage = (message) => onEvent(JSON.parse(message.data));
    source.onerror = () => {
      onLost();
      if (source.readyState !== EventSource.CLOSED) return;
      setTimeout(open, wait);
      wait = Math.min(wait * 2, 5000);
    };
  };
  open();
}
