// A card of JSON 2.0 as DOM: header, layout and everything that is only read.
import { interactiveContainer, button, checker, datePicker, form, input, multiSelect, select, selectPerson } from "./controls.js";
import { h, replace } from "./dom.js";
import { picture } from "./file.js";
import { hueClass, imagePlaceholder, inline } from "./inline.js";
import { icon, tokenIcon } from "./icons.js";
import { markdown } from "./markdown.js";
import { personChip } from "./people.js";
import { aligned, boxed, gap, size, textSize } from "./style.js";
import { dataTable } from "./table.js";
import { t, textOf } from "./words.js";

const TEMPLATES = "blue wathet turquoise green yellow orange red carmine violet purple indigo grey".split(" ");

/**
 * The card of a message, whose id is `key`. `scratch` keeps what the person typed and unfolded, `send` takes a click;
 * `next` numbers the parts without a name, so that each finds its state again after a redrawing.
 */
export function card(content, { scratch, send, key = "card" }) {
  let count = 0;
  const context = { scratch, send, key, next: () => (count += 1), sizes: content?.config?.style?.text_size ?? {}, form: null };
  const { header, body } = content ?? {};
  const wide = content?.config?.width_mode;
  const node = h("article", { class: `card card-${["compact", "fill"].includes(wide) ? wide : "default"}` });
  if (header) node.append(cardHeader(header));
  if (body) node.append(stack(h("div", { class: "card-body" }), body, context));
  if (!header && !body) node.append(problem(t("broken_card", { reason: "header, body" })));
  const tags = header?.i18n_text_tag_list?.[document.documentElement.lang === "en" ? "en_us" : "zh_cn"] ?? header?.text_tag_list ?? [];
  const parts = [textOf(header?.title), textOf(header?.subtitle), ...tags.map((tag) => textOf(tag.text))];
  const label = parts.filter(Boolean).join(" · ") || textOf(content?.config?.summary);
  if (label) node.setAttribute("aria-label", label);
  return node;
}

function cardHeader({ template, title, subtitle, icon: sign, text_tag_list: tags, i18n_text_tag_list: translated, padding }) {
  const hue = TEMPLATES.includes(template) ? `hue-${template}` : "header-default";
  const localized = translated?.[document.documentElement.lang === "en" ? "en_us" : "zh_cn"];
  const node = h(
    "header",
    { class: `card-header ${hue}`, data: { template: template ?? "default" } },
    sign && prefixIcon(sign, 20),
    h(
      "div",
      { class: "card-header-text" },
      h(
        "div",
        { class: "card-title-row" },
        h("h3", { class: "card-title" }, richOrPlain(title)),
        (localized ?? tags ?? []).map(
          (tag) => h("span", { class: `text-tag ${hueClass(tag.color, "hue-neutral")}` }, textOf(tag.text)),
        ),
      ),
      textOf(subtitle) && h("div", { class: "card-subtitle" }, richOrPlain(subtitle)),
    ),
  );
  return boxed(node, { padding });
}

const richOrPlain = (text) => (["lark_md", "markdown"].includes(text?.tag) ? inline(textOf(text)) : textOf(text));

function prefixIcon({ tag, token, color, size: wanted }, pixels = 16) {
  const drawn = tag === "custom_icon" ? icon("image", { size: pixels }) : tokenIcon(token, { size: parseInt(wanted, 10) || pixels });
  return h("span", { class: `prefix-icon ${hueClass(color) && `colored ${hueClass(color)}`}` }, drawn);
}

export function problem(text) {
  return h("div", { class: "card-error", role: "note" }, icon("warning", { size: 16 }), h("span", {}, text));
}

/** Fills a container with its elements, arranged as it asks. */
function stack(node, container, context) {
  const horizontal = container.direction === "horizontal";
  node.classList.add("stack", horizontal ? "stack-horizontal" : "stack-vertical");
  gap(node, horizontal ? container.horizontal_spacing : container.vertical_spacing);
  boxed(node, container);
  aligned(node, { across: container.horizontal_align, down: container.vertical_align, horizontal });
  node.append(...(container.elements ?? []).map((child) => element(child, context)));
  return node;
}

/** One element; what this page does not know is shown as a fault, not left out. */
export function element(item, context) {
  const draw = Object.hasOwn(ELEMENTS, item?.tag ?? "") ? ELEMENTS[item.tag] : null;
  if (!draw) return problem(t("unsupported", { tag: String(item?.tag) }));
  let node;
  try {
    node = draw(item, context);
  } catch (fault) {
    return problem(t("broken_card", { reason: `${item.tag}: ${fault.message}` }));
  }
  if (item.element_id) node.dataset.elementId = item.element_id;
  return boxed(node, { margin: item.margin });
}

// Content

function markdownElement(item, context) {
  const node = textSize(h("div", { class: "markdown" }, markdown(textOf(item))), item, context.sizes);
  return item.icon ? h("div", { class: "with-icon" }, prefixIcon(item.icon), node) : node;
}

function plainText(text, context) {
  const rich = text?.tag === "lark_md";
  const node = textSize(
    h("div", { class: rich ? "markdown" : "plain-text" }, rich ? markdown(textOf(text)) : textOf(text)),
    text ?? {},
    context.sizes,
  );
  if (hueClass(text?.text_color)) node.classList.add("colored", hueClass(text.text_color));
  if (text?.lines > 0) {
    node.classList.add("clamped");
    node.style.setProperty("--lines", String(Number(text.lines)));
  }
  return node;
}

function div(item, context) {
  const fields = (item.fields ?? []).map(
    (field) => h("div", { class: field.is_short ? "field field-short" : "field" }, plainText(field.text, context)),
  );
  const node = h(
    "div",
    { class: "div" },
    item.text && plainText(item.text, context),
    fields.length > 0 && h("div", { class: "fields" }, fields),
  );
  size(node, item.width);
  return item.icon ? h("div", { class: "with-icon" }, prefixIcon(item.icon), node) : node;
}

function columnSet(item, context) {
  const mode = ["stretch", "flow", "bisect", "trisect"].includes(item.flex_mode) ? item.flex_mode : "none";
  const node = h("div", { class: `columns columns-${mode}` });
  gap(node, item.horizontal_spacing);
  aligned(node, { across: item.horizontal_align, horizontal: true });
  boxed(node, item);
  node.append(...(item.columns ?? []).map((column) => columnElement(column, context)));
  return node;
}

function columnElement(column, context) {
  const node = stack(
    h("div", { class: `column column-${column.width === "weighted" || column.weight ? "weighted" : "auto"}` }),
    column,
    context,
  );
  if (column.weight) node.style.flexGrow = String(Number(column.weight) || 1);
  size(node, column.width);
  return node;
}

function collapsiblePanel(item, context) {
  const key = item.element_id ?? `panel-${context.next()}`;
  const { header = {}, border, background_color: background } = item;
  const node = h("details", { class: `panel ${border ? "panel-bordered" : ""}` });
  node.open = context.scratch.open.get(key) ?? item.expanded === true;
  node.addEventListener("toggle", () => context.scratch.open.set(key, node.open));
  const title = richOrPlain(header.title);
  const arrow = h("span", { class: "panel-arrow" }, icon("chevron", { size: 14 }));
  const ahead = header.icon_position === "left";
  const summary = h(
    "summary",
    { class: `panel-header ${hueClass(header.background_color) && `filled ${hueClass(header.background_color)}`}` },
    ahead && arrow,
    h("span", { class: "panel-title" }, title),
    !ahead && arrow,
  );
  if (header.icon_position === "follow_text") summary.classList.add("panel-follow");
  boxed(summary, { padding: header.padding });
  // "toggle" comes later than the click, and a redrawing may come between.
  summary.addEventListener("click", (event) => event.target.closest("a") || context.scratch.open.set(key, !node.open));
  node.append(
    summary,
    stack(h("div", { class: "panel-body" }), { ...item, margin: undefined, background_color: undefined }, context),
  );
  if (hueClass(background)) node.classList.add("filled", hueClass(background));
  if (border?.corner_radius) boxed(node, { corner_radius: border.corner_radius });
  return node;
}

function person(item) {
  return h(
    "div",
    {},
    personChip(
      item.user_id,
      {
        avatarShown: item.show_avatar !== false,
        nameShown: item.show_name === true,
        size: avatarSize(item.size),
        capsule: item.style === "capsule",
      },
    ),
  );
}

function personList(item) {
  const chips = (item.persons ?? []).map(
    ({ id }) => personChip(
      id,
      { avatarShown: item.show_avatar !== false, nameShown: item.show_name !== false, size: avatarSize(item.size), capsule: true },
    ),
  );
  return h("div", { class: "person-list" }, chips);
}

const avatarSize = (wanted) => (wanted === "large" ? "medium" : "small");

const image = (item) => h(
  "figure",
  { class: "figure" },
  picture(item.img_key, textOf(item.alt) || t("image"), imagePlaceholder(textOf(item.alt), item.img_key)),
  textOf(item.title) && h("figcaption", {}, textOf(item.title)),
);

const hr = () => h("hr", { class: "hr" });

const container = (item, context) => interactiveContainer(
  stack(h("div", { class: "interactive" }), { ...item, margin: undefined }, context),
  item,
  context,
);

const formElement = (item, context) => form(item, context, (node, inner) => stack(node, { ...item, margin: undefined }, inner));

const ELEMENTS = {
  markdown: markdownElement, div, plain_text: plainText, hr, img: image, person, person_list: personList, table: dataTable,
  column_set: columnSet, collapsible_panel: collapsiblePanel, interactive_container: container, form: formElement,
  button, input, select_static: select, select_person: selectPerson, multi_select_static: multiSelect, checker, date_picker: datePicker,
};

/** Puts a newly drawn card in the old one's place; a focused field keeps its focus and its caret. */
export function redraw(holder, fresh) {
  const active = holder.contains(document.activeElement) ? document.activeElement : null;
  const name = active?.dataset.name ?? active?.name;
  const caret = active && "selectionStart" in active ? [active.selectionStart, active.selectionEnd] : null;
  replace(holder, fresh);
  if (!name) return;
  const again = [...holder.querySelectorAll("[data-name]")].find((node) => node.dataset.name === name);
  again?.focus({ preventScroll: true });
  if (again && caret && caret[0] !== null) again.setSelectionRange?.(...caret);
}
