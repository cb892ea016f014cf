// The only way this page makes elements: text goes in as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with properties and children; strings become text nodes, empty children are left out. */
export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") node.className = value;
    else if (key === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    else if (key === "data") for (const [name, datum] of Object.entries(value)) datum !== undefined && (node.dataset[name] = datum);
    else if (key in PROPERTIES) node[PROPERTIES[key]] = value;
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

// Set as properties: as attributes they would only say what the control starts with.
const PROPERTIES = { value: "value", checked: "checked", text: "textContent" };

export function append(node, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === undefined || child === null || child === false || child === "") continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

export function replace(node, ...children) {
  node.replaceChildren();
  return append(node, children);
}

export function svg(path, { size = 16, fill = false } = {}) {
  const node = document.createElementNS(SVG, "svg");
  const attributes = { viewBox: "0 0 24 24", width: size, height: size, "aria-hidden": "true", focusable: "false" };
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.classList.add("icon", fill ? "icon-filled" : "icon-line");
  for (const d of [path].flat()) {
    const line = document.createElementNS(SVG, "path");
    line.setAttribute("d", d);
    node.append(line);
  }
  return node;
}

/** The address if it is plain http or https, otherwise null: no javascript:, no data:, nothing relative. */
export function safeUrl(text) {
  if (typeof text !== "string" || !/^https?:\/\//i.test(text.trim())) return null;
  try {
    const url = new URL(text.trim());
    return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
  } catch {
    return null;
  }
}

export function link(url, ...children) {
  return h("a", { href: url, target: "_blank", rel: "noopener noreferrer", class: "link" }, ...children);
}
