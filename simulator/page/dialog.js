// The confirmation a card may ask for before a click is sent.
import { h } from "./dom.js";
import { t, textOf } from "./words.js";

/** Asks; true when confirmed. Escape and a click beside the dialog mean no. */
export function confirmed({ title, text }, danger) {
  return new Promise((resolve) => {
    const answer = (yes) => () => dialog.close(yes ? "yes" : "no");
    const dialog = h(
      "dialog",
      { class: "confirm", "aria-labelledby": "confirm-title", data: { testid: "confirm" } },
      h("h2", { id: "confirm-title", class: "confirm-title" }, textOf(title)),
      h("p", { class: "confirm-text" }, textOf(text)),
      h(
        "div",
        { class: "confirm-buttons" },
        h(
          "button",
          { type: "button", class: "button", data: { testid: "confirm-cancel" }, on: { click: answer(false) } },
          t("cancel"),
        ),
        h(
          "button",
          {
            type: "button",
            class: `button ${danger ? "button-danger_filled" : "button-primary_filled"}`,
            data: { testid: "confirm-ok" },
            on: { click: answer(true) },
          },
          t("confirm"),
        ),
      ),
    );
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close("no"));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal(); // focuses the first button, which is the harmless one
  });
}
