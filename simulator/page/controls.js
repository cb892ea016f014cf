// The parts of a card that a person operates.
import { confirmed } from "./dialog.js";
import { h, safeUrl } from "./dom.js";
import { tokenIcon } from "./icons.js";
import { nameOf } from "./people.js";
import { currentChat, personBy, state } from "./state.js";
import { size } from "./style.js";
import { toast } from "./toast.js";
import { t, textOf } from "./words.js";

const TYPES = ["default", "primary", "danger", "text", "primary_text", "danger_text", "primary_filled", "danger_filled", "laser"];
const BUTTON_SIZES = ["tiny", "small", "medium", "large"];

const behavior = (item, type) => (item.behaviors ?? []).find((each) => each.type === type);

/** Confirms if asked to, opens the link if there is one, sends the callback if there is one. */
async function operate(item, node, context, extra = {}) {
  const danger = String(item.type ?? "").startsWith("danger");
  if (item.confirm && !(await confirmed(item.confirm, danger))) return;
  const target = behavior(item, "open_url");
  const url = target && (safeUrl(target.pc_url) ?? safeUrl(target.default_url));
  if (url) window.open(url, "_blank", "noopener,noreferrer");
  const callback = behavior(item, "callback");
  if (!callback && !extra.form_value) return;
  const called = { ...(item.name && { name: item.name }), ...(callback && { value: callback.value }) };
  await context.send({ ...called, ...extra }, node);
}

export function button(item, context) {
  const type = TYPES.includes(item.type) ? item.type : "default";
  const classes = ["button", `button-${type}`, `button-${BUTTON_SIZES.includes(item.size) ? item.size : "medium"}`];
  const node = h(
    "button",
    {
      type: "button",
      class: classes.join(" "),
      disabled: item.disabled === true,
      title: textOf(item.disabled ? item.disabled_tips : item.hover_tips) || undefined,
      data: { name: item.name, cardAction: "" },
    },
    item.icon && tokenIcon(item.icon.token),
    h("span", { class: "button-text" }, textOf(item.text)),
  );
  size(node, item.width);
  node.addEventListener("click", (event) => {
    event.stopPropagation();
    press(item, node, context);
  });
  return node;
}

async function press(item, node, context) {
  if (node.getAttribute("aria-disabled") === "true") return;
  const { form: open } = context;
  if (item.form_action_type === "reset") return open?.reset();
  if (item.form_action_type !== "submit" || !open) return operate(item, node, context);
  // As in the real client: a missing required field is said here and nothing is sent.
  if (!open.complete()) return toast("error", t("required_missing"));
  return operate(item, node, context, { form_value: open.values() });
}

export function interactiveContainer(node, item, context) {
  size(node, item.width);
  if (item.has_border) node.classList.add("interactive-bordered");
  if (item.disabled || !(item.behaviors ?? []).length) return node;
  Object.assign(node, { tabIndex: 0, role: "button" });
  node.dataset.cardAction = "";
  if (item.name) node.dataset.name = item.name;
  const act = (event) => {
    if (event.target !== node && event.target.closest("a, button, input, textarea, select, summary, label")) return;
    event.preventDefault();
    if (node.getAttribute("aria-disabled") === "true") return;
    operate(item, node, context);
  };
  node.addEventListener("click", act);
  node.addEventListener("keydown", (event) => event.target === node && (event.key === "Enter" || event.key === " ") && act(event));
  return node;
}

/** A form gathers its fields by name; `fill` draws its elements with the form in their context. */
export function form(item, context, fill) {
  const fields = new Map();
  const gathered = {
    add: (name, field) => fields.set(name, field),
    values: () => Object.fromEntries(
      [...fields].map(([name, field]) => [name, field.value()]).filter(([, value]) => value !== undefined),
    ),
    complete: () => {
      const missing = [...fields.values()].filter((field) => field.mark(field.required && isEmpty(field.value())));
      missing[0]?.node.focus();
      return missing.length === 0;
    },
    reset: () => {
      for (const name of fields.keys()) context.scratch.fields.delete(name);
      for (const field of fields.values()) field.reset();
    },
  };
  const stay = (event) => event.preventDefault();
  const node = h("form", { class: "form", novalidate: true, data: { name: item.name }, on: { submit: stay } });
  return fill(node, { ...context, form: gathered });
}

const isEmpty = (value) => value === undefined || value === "" || value === false || (Array.isArray(value) && value.length === 0);

/**
 * A control with its label, its draft and its place in the form. `read` and `write` translate between the control and the value;
 * outside a form a change is a click of its own, with what `sent` makes of the value.
 */
function field(item, context, { node, control = node, read, write, initial, sent }) {
  const { scratch, form: open } = context;
  const key = item.name ?? item.element_id ?? `field-${context.next()}`;
  if (item.name) control.dataset.name = item.name;
  if (item.required) control.setAttribute("aria-required", "true");
  write(scratch.fields.has(key) ? scratch.fields.get(key) : initial);
  node.addEventListener("input", () => {
    scratch.fields.set(key, read());
    mark(false);
  });
  const mark = (wrong) => {
    node.classList.toggle("invalid", wrong);
    control.setAttribute("aria-invalid", String(wrong));
    return wrong;
  };
  if (open && item.name) {
    open.add(item.name, { node: control, value: read, required: item.required === true, mark, reset: () => write(initial) });
  } else {
    node.addEventListener("change", () => behavior(item, "callback") && operate(item, node, context, sent(read())));
  }
  return node;
}

function labelled(item, { key }, node, control = node) {
  const text = textOf(item.label);
  if (!text) {
    control.setAttribute("aria-label", textOf(item.placeholder) || item.name || item.tag);
    return node;
  }
  control.id = `field-${key}-${item.name ?? item.element_id}`;
  return h(
    "div",
    { class: `labelled ${item.label_position === "left" ? "labelled-left" : ""}` },
    h(
      "label",
      { for: control.id, class: "label" },
      text,
      item.required && h("span", { class: "required", "aria-hidden": "true" }, " *"),
    ),
    node,
  );
}

export function input(item, context) {
  const multiline = item.input_type === "multiline_text";
  const limit = Math.min(Math.max(Number(item.max_length) || 1000, 1), 1000);
  const control = h(multiline ? "textarea" : "input", {
    class: "control",
    placeholder: textOf(item.placeholder) || t("type_here"),
    maxlength: limit,
    disabled: item.disabled === true,
    autocomplete: "off",
    ...(multiline ? { rows: Math.min(Number(item.rows) || 3, 12) } : { type: item.input_type === "password" ? "password" : "text" }),
  });
  const counter = h("span", { class: "counter", "aria-hidden": "true" });
  const count = () => {
    counter.textContent = control.value ? `${control.value.length}/${limit}` : "";
  };
  control.addEventListener("input", count);
  const write = (value) => {
    control.value = value ?? "";
    count();
  };
  const node = h("div", { class: multiline ? "input input-multiline" : "input" }, control, counter);
  size(node, item.width);
  field(
    item,
    context,
    {
      node,
      control,
      read: () => control.value,
      write,
      initial: item.default_value ?? "",
      sent: (value) => ({ input_value: value }),
    },
  );
  return labelled(item, context, node, control);
}

const optionTexts = (item) => (item.options ?? []).map(({ value, text }) => [value, textOf(text)]);

/** Those whom a picker names; without a list the people of the chat, and where that is a private one everybody. */
function candidates(item) {
  const chat = currentChat();
  const members = chat?.kind === "p2p" ? state.people.map((person) => person.open_id) : (chat?.members ?? []);
  const ids = item.options?.length ? item.options.map((option) => option.value) : members;
  return ids.map((id) => [id, nameOf(personBy(id))]);
}

export const select = (item, context) => dropDown(item, context, optionTexts(item));
export const selectPerson = (item, context) => dropDown(item, context, candidates(item));

function dropDown(item, context, offered) {
  const blank = h("option", { value: "" }, textOf(item.placeholder) || t("choose"));
  const options = offered.map(([value, text]) => h("option", { value }, text));
  const control = h("select", { class: "control select", disabled: item.disabled === true }, blank, options);
  size(control, item.width);
  const write = (value) => {
    control.value = value ?? "";
  };
  field(
    item,
    context,
    {
      node: control,
      read: () => control.value || undefined,
      write,
      initial: item.initial_option ?? item.options?.[item.initial_index - 1]?.value ?? "",
      sent: (value) => ({ option: value }),
    },
  );
  return labelled(item, context, control);
}

export function multiSelect(item, context) {
  const boxes = (item.options ?? []).map(
    (option) => h("input", { type: "checkbox", value: option.value, disabled: item.disabled === true }),
  );
  const shown = h("span", { class: "multi-shown" });
  const chosen = () => boxes.filter((box) => box.checked).map((box) => box.value);
  const show = () => {
    const texts = (item.options ?? []).filter((option, index) => boxes[index].checked).map((option) => textOf(option.text));
    shown.textContent = texts.join(", ") || textOf(item.placeholder) || t("choose");
    shown.classList.toggle("placeholder", texts.length === 0);
  };
  const summary = h("summary", { class: "control select" }, shown);
  const node = h(
    "details",
    { class: "multi" },
    summary,
    h(
      "div",
      { class: "multi-options", role: "group" },
      (item.options ?? []).map((option, index) => h("label", { class: "option" }, boxes[index], textOf(option.text))),
    ),
  );
  node.addEventListener("input", show);
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !node.open) return;
    node.open = false;
    summary.focus();
  });
  size(node, item.width);
  const write = (values) => {
    for (const box of boxes) box.checked = (values ?? []).includes(box.value);
    show();
  };
  field(
    item,
    context,
    {
      node,
      control: summary,
      read: () => (chosen().length ? chosen() : undefined),
      write,
      initial: item.selected_values ?? [],
      sent: (values) => ({ options: values }),
    },
  );
  return labelled(item, context, node, summary);
}

export function checker(item, context) {
  const control = h("input", { type: "checkbox", disabled: item.disabled === true });
  const node = h("label", { class: "checker" }, control, h("span", { class: "checker-text" }, textOf(item.text)));
  const strike = () => node.classList.toggle("checker-done", control.checked && item.checked_style?.show_strikethrough === true);
  node.addEventListener("input", strike);
  const write = (value) => {
    control.checked = value === true;
    strike();
  };
  return field(
    item,
    context,
    { node, control, read: () => control.checked, write, initial: item.checked === true, sent: (value) => ({ checked: value }) },
  );
}

export function datePicker(item, context) {
  const control = h("input", { type: "date", class: "control", disabled: item.disabled === true });
  size(control, item.width);
  const write = (value) => {
    control.value = String(value ?? "").slice(0, 10);
  };
  const read = () => (control.value ? `${control.value} ${offset()}` : undefined);
  field(item, context, { node: control, read, write, initial: item.initial_date ?? "", sent: (value) => ({ option: value }) });
  return labelled(item, context, control);
}

// Feishu sends a day with the person's offset: "2024-05-30 +0800".
function offset() {
  const minutes = -new Date().getTimezoneOffset();
  const size = Math.abs(minutes);
  return `${minutes < 0 ? "-" : "+"}${String(Math.floor(size / 60)).padStart(2, "0")}${String(size % 60).padStart(2, "0")}`;
}
