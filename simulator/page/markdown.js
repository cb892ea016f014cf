// The block half of Feishu's card markdown. Every source line becomes DOM; none becomes HTML.
import { h } from "./dom.js";
import { inline } from "./inline.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#-]*)\s*$/;
const HEADING = /^(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^\s*(?:<hr\s*\/?>|(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})\s*$/i;
const ITEM = /^(\s*)(?:([-*+])|(\d{1,9})[.)])\s+(.*)$/;
const QUOTE = /^\s{0,3}>\s?(.*)$/;
const TABLE_RULE = /^\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?\s*$/;

const MAX_QUOTES = 12;

/** Nodes for a whole markdown text. */
export function markdown(source, depth = 0) {
  const lines = source.replace(/\r\n?/g, "\n").split("\n");
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    const read = [fence, heading, rule, quote, list, table, blank].find((reader) => reader(lines, at, blocks, depth));
    at = read ? blocks.next : paragraph(lines, at, blocks);
  }
  return blocks;
}

// Each reader looks at the line `at`; if it is its kind, it pushes a node, leaves the next line in `blocks.next` and says so.

function took(blocks, next, node) {
  if (node) blocks.push(node);
  blocks.next = next;
  return true;
}

function fence(lines, at, blocks) {
  const open = FENCE.exec(lines[at]);
  if (!open) return false;
  let end = at + 1;
  while (end < lines.length && !(lines[end].trim().startsWith(open[1]) && /^[`~]+$/.test(lines[end].trim()))) end += 1;
  const code = lines.slice(at + 1, end).join("\n");
  return took(
    blocks,
    end + 1,
    h(
      "div",
      { class: "code-block" },
      open[2] && h("span", { class: "code-language" }, open[2]),
      h("pre", { tabindex: "0" }, h("code", {}, code)),
    ),
  );
}

function heading(lines, at, blocks) {
  const match = HEADING.exec(lines[at]);
  if (!match) return false;
  const level = match[1].length;
  // Headings of a card stand below the page's own in the outline, whatever their size.
  return took(
    blocks,
    at + 1,
    h("div", { class: `md-heading md-h${level}`, role: "heading", "aria-level": Math.min(level + 3, 6) }, inline(match[2])),
  );
}

function rule(lines, at, blocks) {
  return RULE.test(lines[at]) && took(blocks, at + 1, h("hr", { class: "hr" }));
}

function quote(lines, at, blocks, depth) {
  if (!QUOTE.test(lines[at]) || depth > MAX_QUOTES) return false;
  const inner = [];
  let end = at;
  // A line that goes on without the sign still belongs to the quotation, until an empty one.
  const belongs = (line) => line.trim() && (QUOTE.test(line) || !startsBlock(line));
  for (; end < lines.length && belongs(lines[end]); end += 1) inner.push(QUOTE.exec(lines[end])?.[1] ?? lines[end]);
  return took(blocks, end, h("blockquote", { class: "quote" }, markdown(inner.join("\n"), depth + 1)));
}

function list(lines, at, blocks) {
  if (!ITEM.test(lines[at])) return false;
  const items = [];
  let end = at;
  for (; end < lines.length; end += 1) {
    const match = ITEM.exec(lines[end]);
    // Another kind of sign at the outermost level begins another list.
    if (match && items.length > 0 && match[1].length <= items[0].indent && (match[3] !== undefined) !== items[0].ordered) break;
    if (match) items.push(listItem(match));
    else if (/^\s{2,}\S/.test(lines[end])) items.at(-1).text += `\n${lines[end].trim()}`;
    else break;
  }
  return took(blocks, end, nest(items));
}

function listItem([, space, , number, text]) {
  const indent = space.replace(/\t/g, "    ").length;
  return { indent, level: Math.min(Math.floor(indent / 2), 12), ordered: number !== undefined, number: Number(number), text };
}

/** Items with indents become lists within lists. */
function nest(items) {
  const first = items[0];
  const top = h(
    first.ordered ? "ol" : "ul",
    { class: "list", start: first.ordered && first.number !== 1 ? first.number : undefined },
  );
  const stack = [{ level: first.level, node: top }];
  for (const item of items) {
    while (stack.length > 1 && item.level < stack.at(-1).level) stack.pop();
    let open = stack.at(-1);
    if (item.level > open.level && open.node.lastElementChild) {
      const node = h(item.ordered ? "ol" : "ul", { class: "list" });
      open.node.lastElementChild.append(node);
      open = { level: item.level, node };
      stack.push(open);
    }
    open.node.append(h("li", {}, inline(item.text)));
  }
  return top;
}

const startsTable = (lines, at) => lines[at].includes("|") && TABLE_RULE.test(lines[at + 1] ?? "");

function table(lines, at, blocks) {
  if (!startsTable(lines, at)) return false;
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => inline(cell.trim()));
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  const head = h("tr", {}, cells(lines[at]).map((cell) => h("th", { scope: "col" }, cell)));
  const rows = lines.slice(at + 2, end).map((line) => h("tr", {}, cells(line).map((cell) => h("td", {}, cell))));
  return took(
    blocks,
    end,
    h("div", { class: "table-wrap", tabindex: "0" }, h("table", { class: "table" }, h("thead", {}, head), h("tbody", {}, rows))),
  );
}

function blank(lines, at, blocks) {
  return lines[at].trim() === "" && took(blocks, at + 1);
}

const startsBlock = (line) => [FENCE, HEADING, RULE, ITEM, QUOTE].some((pattern) => pattern.test(line));

function paragraph(lines, at, blocks) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !startsBlock(lines[end]) && !startsTable(lines, end)) end += 1;
  blocks.push(h("p", { class: "paragraph" }, inline(lines.slice(at, end).join("\n"))));
  return end;
}
