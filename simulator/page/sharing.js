// Sending files as a person does: dropped onto the conversation, or chosen with the button above it.
import * as api from "./api.js";
import { h } from "./dom.js";
import { icon } from "./icons.js";
import { currentChat, state } from "./state.js";
import { toast } from "./toast.js";
import { t } from "./words.js";

const byId = (id) => document.getElementById(id);

async function share(files) {
  const chat = currentChat();
  if (!chat) return;
  for (const file of files) {
    try {
      const sent = await api.share(file, state.viewer, chat.chat_id);
      if (sent.delivered && sent.delivered.status !== 200) toast("error", t("not_delivered", { error: sent.delivered.error ?? sent.delivered.status }));
    } catch (fault) {
      toast("error", t("not_sent", { name: file.name, status: fault.status ?? "" }));
    }
  }
}

/** The button above a conversation. */
export function shareButton() {
  const input = h("input", { type: "file", multiple: true, hidden: true, data: { testid: "share-input" } });
  input.addEventListener("change", async () => {
    await share([...input.files]);
    input.value = "";
  });
  const button = h(
    "button",
    { type: "button", class: "button button-small", title: t("share_hint"), data: { testid: "share" }, on: { click: () => input.click() } },
    icon("file", { size: 14 }),
    t("share"),
  );
  return [button, input];
}

const carriesFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");

/** Takes what is dropped; anywhere else on the page a dropped file would replace the page. */
export function watchDrops() {
  const conversation = byId("conversation");
  const over = (shown) => conversation.classList.toggle("dropping", shown);
  for (const name of ["dragover", "drop"]) {
    document.addEventListener(name, (event) => carriesFiles(event) && event.preventDefault());
  }
  conversation.addEventListener("dragover", (event) => carriesFiles(event) && over(true));
  conversation.addEventListener("dragleave", (event) => !conversation.contains(event.relatedTarget) && over(false));
  conversation.addEventListener("drop", (event) => {
    over(false);
    if (carriesFiles(event)) share([...event.dataTransfer.files]);
  });
}
