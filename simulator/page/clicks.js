// A click on its way: the button turns, its card's other buttons wait, and the answer is shown as Feishu shows it.
import * as api from "./api.js";
import { state } from "./state.js";
import { toast } from "./toast.js";
import { labelOf, t, toastText } from "./words.js";

// What the platform shows when the app behind a card does not answer as it must.
const CODES = {
  no_callback: 200340,
  timeout: 200341,
  unreachable: 200342,
  bad_status: 200671,
  bad_answer: 200672,
  bad_card: 200673,
};

const underway = new Map(); // message_id → what was clicked

/** Sends a click of the person at this page; `holder` is the element that holds the card, through any redrawing. */
export async function send(messageId, holder, what, node, refresh) {
  if (underway.has(messageId)) return;
  const { form_value: form, ...clicked } = what;
  underway.set(messageId, clicked);
  node.dataset.clicked = JSON.stringify(clicked);
  waiting(messageId, holder);
  try {
    answered(await api.click({ message_id: messageId, open_id: state.viewer, ...clicked, ...(form && { form_value: form }) }));
  } catch (fault) {
    if (fault.status === 404 || fault.status === 409) {
      toast("warning", t("click_gone"));
      refresh();
    } else toast("error", t("click_error", { code: fault.status ?? CODES.unreachable }));
  } finally {
    underway.delete(messageId);
    settled(messageId);
  }
}

function answered({ toast: said, error, notice }) {
  // Without words of the platform's own, the error's code stands for them.
  const code = notice?.code ?? CODES[error] ?? CODES.unreachable;
  if (error) toast("error", notice ? t("platform_error", { text: labelOf(notice), code }) : t("click_error", { code }));
  else if (said) toast(said.type ?? "info", toastText(said));
}

const actions = (holder) => holder.querySelectorAll("[data-card-action]");

/** Marks a card as waiting; also called after a redrawing, because the card may change before its click is answered. */
export function waiting(messageId, holder) {
  const clicked = underway.get(messageId);
  if (!clicked) return;
  for (const node of actions(holder)) {
    const mine = node.dataset.clicked === JSON.stringify(clicked) || (clicked.name !== undefined && node.dataset.name === clicked.name);
    node.classList.toggle("button-busy", mine);
    if (mine) node.setAttribute("aria-busy", "true");
    // aria-disabled and not `disabled`: a focused button must not lose the focus while it waits.
    node.setAttribute("aria-disabled", "true");
  }
}

/** Looks for the card anew: while it waited, another reader or another language may have redrawn everything. */
function settled(messageId) {
  for (const node of document.querySelectorAll(`[data-message-id="${CSS.escape(messageId)}"] [data-card-action]`)) {
    node.classList.remove("button-busy");
    node.removeAttribute("aria-busy");
    node.removeAttribute("aria-disabled");
    delete node.dataset.clicked;
  }
}
