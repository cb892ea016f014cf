// A file in the conversation: what it is, how large, a way to save it, and its text unfolded on demand.
import { fileUrl } from "./api.js";
import { h, replace } from "./dom.js";
import { icon } from "./icons.js";
import { scratchOf } from "./state.js";
import { bytes, t } from "./words.js";

const TEXT = /\.(txt|md|json|jsonl|csv|tsv|log|ya?ml|toml|ini|xml|html?|css|js|ts|py|sh|sql|diff|patch)$/i;
const SHOWN = 256 * 1024;

const known = new Map(); // file_key → Promise<{size, text}>

function load(key) {
  if (!known.has(key)) {
    const loading = fetch(fileUrl(key)).then(async (response) => {
      if (!response.ok) throw new Error(String(response.status));
      const content = await response.blob();
      return { size: content.size, text: await content.slice(0, SHOWN).text() };
    });
    loading.catch(() => known.delete(key));
    known.set(key, loading);
  }
  return known.get(key);
}

function sizeSaid({ content, files }, key) {
  const entry = [files].flat().find((file) => file?.file_key === key) ?? (files && files[key]);
  return entry?.size ?? entry?.file_size ?? content?.file_size;
}

/** A picture that somebody sent. */
export function imageBubble(message) {
  const file = [message.files].flat()[0];
  const name = file?.file_name ?? t("image");
  return picture(file?.file_key, name) ?? h("div", { class: "bubble" }, name);
}

/** The picture itself; what cannot be shown as one is replaced by what stands for it. */
export function picture(key, alt, missing) {
  if (!key) return missing;
  const node = h("img", { class: "picture", src: fileUrl(key), alt, loading: "lazy" });
  node.addEventListener("error", () => node.replaceWith(missing ?? h("span", {}, alt)));
  return node;
}

export function fileBubble(message) {
  const { file_key: key = "", file_name: name = message.files?.[0]?.file_name ?? key } = message.content ?? {};
  const sizeNode = h("span", { class: "file-size" });
  const show = (size) => {
    sizeNode.textContent = bytes(Number(size));
  };
  const said = sizeSaid(message, key);
  if (said === undefined) load(key).then(({ size }) => show(size), () => undefined);
  else show(said);
  const row = h(
    "div",
    { class: "file-row" },
    h("span", { class: "file-icon", "aria-hidden": "true" }, icon("file", { size: 22 })),
    h("span", { class: "file-text" }, h("span", { class: "file-name" }, name), sizeNode),
    h("a", { class: "button button-small file-download", href: fileUrl(key), download: name }, icon("download", { size: 14 }), t("download")),
  );
  return h("div", { class: "file" }, row, TEXT.test(name) && textPreview(message.message_id, key));
}

function textPreview(messageId, key) {
  const { open } = scratchOf(messageId);
  const content = h("pre", { class: "file-preview", tabindex: "0" });
  const note = h("p", { class: "file-note" });
  const node = h("details", { class: "file-details" }, h("summary", {}, icon("chevron", { size: 14 }), t("preview")), content, note);
  node.addEventListener("toggle", () => {
    open.set("file", node.open);
    if (node.open) load(key).then(fill, () => replace(note, t("preview_failed")));
  });
  const fill = ({ size, text }) => {
    content.textContent = text;
    note.textContent = size > SHOWN ? t("preview_cut", { size: bytes(size) }) : "";
  };
  node.open = open.get("file") ?? false;
  return node;
}
