// What a person writes to the bot in private.
import * as api from "./api.js";
import { h, replace } from "./dom.js";
import { currentChat, state } from "./state.js";
import { toast } from "./toast.js";
import { t } from "./words.js";

const byId = (id) => document.getElementById(id);

export function drawSay() {
  const form = byId("say");
  const typed = form.querySelector("input")?.value ?? "";
  const focused = form.contains(document.activeElement);
  form.hidden = currentChat()?.kind !== "p2p";
  const input = h("input", {
    class: "control",
    data: { testid: "say" },
    "aria-label": t("say_here"),
    placeholder: t("say_here"),
    maxlength: 4000,
    value: typed,
  });
  replace(form, input, h("button", { type: "submit", class: "button button-primary_filled", data: { testid: "say-send" } }, t("say")));
  if (focused) input.focus();
}

export function watchSay() {
  byId("say").addEventListener("submit", async (event) => {
    event.preventDefault();
    const input = byId("say").querySelector("input");
    const text = input.value.trim();
    if (!text) return;
    input.value = "";
    const said = await api.say({ open_id: state.viewer, text }).catch(() => ({ delivered: false }));
    if (!said.delivered) toast("error", t("say_failed"));
  });
}
