// A form for any call that can be asked for, made of its JSON Schema.
import * as api from "./api.js";
import { h, replace } from "./dom.js";
import { detailOf } from "./shortcuts.js";
import { state } from "./state.js";
import { toast } from "./toast.js";
import { t } from "./words.js";

let last = null; // the tool that was asked for last

export function composer() {
  const names = state.tools.map((tool) => tool.name);
  const chosen = names.includes(last) ? last : names[0];
  const fields = h("div", { class: "compose-fields" });
  let read = fill(fields, toolOf(chosen));
  const tool = h(
    "select",
    { id: "compose-tool", class: "control", data: { testid: "compose-tool" }, on: { change: (event) => (read = fill(fields, toolOf(event.target.value))) } },
    names.map((name) => h("option", { value: name, selected: name === chosen }, name)),
  );
  const dialog = h(
    "dialog",
    { class: "confirm compose", "aria-labelledby": "compose-title", data: { testid: "compose" } },
    h("h2", { id: "compose-title", class: "confirm-title" }, t("ask_for").replace("…", "")),
    h("label", { class: "compose-label", for: "compose-tool" }, t("tool")),
    tool,
    fields,
    h(
      "div",
      { class: "confirm-buttons" },
      h("button", { type: "button", class: "button", on: { click: () => dialog.close() } }, t("cancel")),
      h("button", { type: "button", class: "button button-primary_filled", data: { testid: "compose-file" }, on: { click: () => file() } }, t("file_it")),
    ),
  );
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();

  async function file() {
    last = tool.value;
    let filled;
    try {
      filled = read();
    } catch (fault) {
      return toast("error", fault.message);
    }
    const { status, body } = await api
      .askFor({ tool: tool.value, arguments: filled, open_id: state.viewer, chat_id: state.chat })
      .catch((fault) => ({ status: fault.status ?? "–", body: fault.answer }));
    if (status < 200 || status >= 300) return toast("error", t("shortcut_failed", { status, detail: detailOf(body) }));
    dialog.close();
    toast("success", t("shortcut_done"));
  }
}

const toolOf = (name) => state.tools.find((tool) => tool.name === name) ?? { parameters: {} };

/** Draws the fields of a tool; what comes back reads them, and throws for what is none. */
function fill(node, { description, parameters }) {
  const schema = parameters ?? {};
  const drawn = Object.entries(schema.properties ?? {}).map(([name, property]) => [
    name,
    field(name, resolved(property, schema), (schema.required ?? []).includes(name)),
  ]);
  replace(node, description && h("p", { class: "compose-text" }, description), drawn.map(([, each]) => each.node));
  return () => Object.fromEntries(drawn.map(([name, each]) => [name, each.read()]).filter(([, value]) => value !== undefined));
}

/** What a property is, behind references and beside null. */
function resolved(property, schema) {
  const target = property.$ref && property.$ref.split("/").slice(1).reduce((at, key) => at?.[key], schema);
  const found = { ...(target ?? {}), ...property };
  const ways = (found.anyOf ?? []).map((way) => resolved(way, schema)).filter((way) => way.type !== "null");
  return ways.length ? { ...(ways.find((way) => way.type === "string") ?? ways[0]), ...found, title: found.title } : found;
}

const SIMPLE = ["string", "integer", "number", "boolean"];

function field(name, property, required) {
  const id = `compose-${name}`;
  const known = property.default !== undefined && property.default !== null;
  const start = known ? property.default : "";
  const kind = property.enum ? "enum" : SIMPLE.includes(property.type) ? property.type : "json";
  const common = { id, class: "control", data: { testid: id } };
  let control;
  if (kind === "enum" || kind === "boolean") {
    const options = kind === "enum" ? property.enum : [true, false];
    const shown = (option) => (kind === "boolean" ? t(option ? "yes" : "no") : String(option));
    control = h("select", common, !required && h("option", { value: "" }, "–"), options.map((option, n) => h("option", { value: String(n), selected: option === start }, shown(option))));
    return labelled(name, property, required, control, () => (control.value === "" ? undefined : options[Number(control.value)]));
  }
  const text = kind === "json" ? (known ? JSON.stringify(start) : "") : String(start);
  control = kind === "json" ? h("textarea", { ...common, rows: 3, placeholder: t("as_json"), value: text }) : h("input", { ...common, value: text, inputmode: kind === "string" ? undefined : "decimal" });
  return labelled(name, property, required, control, () => {
    const typed = control.value;
    if (typed === "" && !(required && kind === "string")) return undefined;
    if (kind === "string") return typed;
    try {
      const value = JSON.parse(typed);
      if (kind !== "json" && (typeof value !== "number" || (kind === "integer" && !Number.isInteger(value)))) throw new Error();
      return value;
    } catch {
      throw new Error(t("bad_field", { name, kind: t(kind === "json" ? "as_json" : kind) }));
    }
  });
}

function labelled(name, property, required, control, read) {
  const about = property.description ?? "";
  const node = h(
    "div",
    { class: "compose-field" },
    h("label", { class: "compose-label", for: control.id }, name, !required && h("span", { class: "compose-note" }, ` ${t("optional")}`)),
    about && h("span", { class: "compose-note" }, about),
    control,
  );
  return { node, read };
}
