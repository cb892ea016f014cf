// The table element of a card, with Feishu's paging.
import { h, replace } from "./dom.js";
import { hueClass, inline } from "./inline.js";
import { personChip } from "./people.js";
import { locale, t, textOf } from "./words.js";

export function dataTable({ columns = [], rows = [], page_size: asked = 5 }) {
  const pageSize = Math.min(Math.max(Number(asked) || 5, 1), 10);
  const pages = Math.max(1, Math.ceil(rows.length / pageSize));
  const body = h("tbody");
  const pager = h("div", { class: "pager" });
  const show = (page) => {
    replace(
      body,
      rows.slice(page * pageSize, (page + 1) * pageSize).map(
        (row) => h("tr", {}, columns.map((column) => cell(column, row[column.name]))),
      ),
    );
    if (pages < 2) return;
    const turn = (to, word, sign) => h(
      "button",
      {
        type: "button",
        class: "pager-button",
        "aria-label": t(word),
        disabled: to < 0 || to >= pages,
        on: { click: () => show(to) },
      },
      sign,
    );
    replace(
      pager,
      turn(page - 1, "earlier", "‹"),
      h("span", {}, t("page_of", { n: page + 1, total: pages })),
      turn(page + 1, "later", "›"),
    );
  };
  show(0);
  const head = h(
    "tr",
    {},
    columns.map(
      (column) => h(
        "th",
        { scope: "col", class: align(column) },
        textOf({ content: column.display_name, i18n_content: column.i18n_display_name }),
      ),
    ),
  );
  return h(
    "div",
    { class: "table-block" },
    h("div", { class: "table-wrap", tabindex: "0" }, h("table", { class: "table" }, h("thead", {}, head), body)),
    pager,
  );
}

const align = ({ horizontal_align: across }) => (["center", "right"].includes(across) ? `align-${across}` : undefined);

function cell(column, value) {
  return h("td", { class: align(column) }, value === undefined || value === null ? "" : content(column, value));
}

function content({ data_type: type, format = {} }, value) {
  if (type === "number") return number(Number(value), format);
  if (type === "options") return [value].flat().map(optionTag);
  if (type === "persons") return h("span", { class: "person-list" }, [value].flat().map((id) => personChip(id)));
  if (type === "date") return new Date(Number(value)).toLocaleDateString(locale());
  if (type === "markdown" || type === "lark_md") return inline(String(value));
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function number(value, { symbol = "", precision, separator }) {
  const digits = { minimumFractionDigits: precision ?? 0, maximumFractionDigits: precision ?? 10 };
  return symbol + value.toLocaleString(locale(), { ...digits, useGrouping: separator === true });
}

const optionTag = (option) => h("span", { class: `text-tag ${hueClass(option?.color, "hue-neutral")}` }, option?.text ?? option);
