// Sizes, spacings and colours that a card asks for, let through only in the forms Feishu documents.
import { hueClass } from "./inline.js";

const SPACINGS = { small: 4, medium: 8, large: 12, extra_large: 16 };
const BOX = /^-?\d{1,3}(?:px)?(?:\s+-?\d{1,3}(?:px)?){0,3}$/;
const pixels = (box) => box.replace(/\d+(?!\d|px)/g, "$&px");

export function gap(node, spacing) {
  const wanted = SPACINGS[spacing] ?? (/^\d{1,2}px$/.test(spacing ?? "") ? parseInt(spacing, 10) : null);
  if (wanted !== null) node.style.gap = `${wanted}px`;
}

export function size(node, width) {
  if (width === "fill") node.classList.add("fill");
  else if (/^\d{2,4}px$/.test(width ?? "")) node.style.flex = `0 1 ${(node.style.width = width)}`;
}

export function boxed(node, { padding, margin, corner_radius: radius, background_style: background, background_color: color }) {
  if (BOX.test(padding ?? "")) node.style.padding = pixels(padding);
  if (BOX.test(margin ?? "")) node.style.margin = pixels(margin);
  if (/^\d{1,3}px$/.test(radius ?? "")) node.style.borderRadius = radius;
  const hue = hueClass(background ?? color);
  if (hue) node.classList.add("filled", hue);
  return node;
}

const FLEX = { left: "flex-start", top: "flex-start", center: "center", right: "flex-end", bottom: "flex-end" };

export function aligned(node, { across, down, horizontal }) {
  if (FLEX[across]) node.style[horizontal ? "justifyContent" : "alignItems"] = FLEX[across];
  if (FLEX[down]) node.style[horizontal ? "alignItems" : "justifyContent"] = FLEX[down];
  return node;
}

const SIZES = {
  "heading-0": 30, "heading-1": 24, "heading-2": 20, "heading-3": 18, "heading-4": 16, heading: 16, normal: 14, notation: 12,
  "xxxx-large": 30, "xxx-large": 24, "xx-large": 20, "x-large": 18, large: 16, medium: 14, small: 12, "x-small": 10, normal_v2: 14,
};

export function textSize(node, { text_size: name, text_align: align }, custom) {
  const phone = matchMedia("(max-width: 720px)").matches;
  const asked = Object.hasOwn(custom, name ?? "") ? (custom[name][phone ? "mobile" : "pc"] ?? custom[name].default) : name;
  const height = SIZES[asked];
  if (height && height !== 14) node.style.fontSize = `${height}px`;
  if (height && height < 14) node.classList.add("quiet");
  if (["center", "right"].includes(align)) node.style.textAlign = align;
  return node;
}
