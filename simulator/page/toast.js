// Short notices at the top, as Feishu shows a callback's answer.
import { h } from "./dom.js";
import { icon } from "./icons.js";

const ICONS = { info: "info", success: "done", error: "error", warning: "warning" };

export function toast(type, text) {
  const kind = type in ICONS ? type : "info";
  const node = h(
    "div",
    { class: `toast toast-${kind}`, role: kind === "error" ? "alert" : undefined, data: { testid: "toast", type: kind } },
    icon(ICONS[kind], { size: 18 }),
    h("span", { class: "toast-text" }, text),
  );
  const box = document.getElementById("toasts");
  while (box.childElementCount > 1) box.firstElementChild.remove(); // the newest matter; a pile would hide the card
  box.append(node);
  const leave = () => {
    node.classList.add("toast-leaving");
    setTimeout(() => node.remove(), 200);
  };
  // Long texts stay long enough to be read.
  setTimeout(leave, Math.min(10000, (kind === "error" ? 5000 : 3800) + text.length * 30));
}
