// The inline half of Feishu's card markdown: emphasis, links, code, and its own tags.
import { h, link, safeUrl } from "./dom.js";
import { ENTITY, entityText } from "./entities.js";
import { icon, tokenIcon } from "./icons.js";
import { mention, personChip } from "./people.js";
import { localTime } from "./time.js";
import { t } from "./words.js";

const MAX_DEPTH = 24; // deeper nesting is an attack on the stack, not a text
const TAG = /<(at|person|font|text_tag|number_tag|local_datetime|link|a|raw|br|hr)((?:\s+[\w-]+\s*=\s*(?:'[^']*'|"[^"]*"|[^\s'"<>]*)|\s+[\w-]+)*)\s*(\/?)>/iy;
const ATTRIBUTE = /([\w-]+)(?:\s*=\s*(?:'([^']*)'|"([^"]*)"|([^\s'"<>]*)))?/g;
const BARE_URL = /https?:\/\/[^\s<>"'`\\^{}|\u3000-\u303f\uff00-\uffef]+/iy;
const EMOJI = {
  DONE: "✅",
  OK: "👌",
  THUMBSUP: "👍",
  SMILE: "😄",
  HEART: "❤️",
  FINGERHEART: "🫰",
  APPLAUSE: "👏",
  CRY: "😢",
  ERROR: "❌",
  CHECKMARK: "✅",
};
const PUNCTUATION = /[!-/:-@[-`{-~]/;

export function attributesOf(text) {
  const found = {};
  for (const [, name, single, double, bare] of text.matchAll(ATTRIBUTE)) found[name.toLowerCase()] = single ?? double ?? bare ?? "true";
  return found;
}

const HUES =
  "blue wathet turquoise green lime yellow orange red carmine violet purple indigo grey neutral".split(" ");

/** The class for one of Feishu's colours; shades such as red-600 take their hue. */
export function hueClass(color, fallback = "") {
  const name = String(color ?? "").split("-")[0];
  return HUES.includes(name) ? `hue-${name}` : fallback;
}

/** Nodes for one run of inline markdown. */
export function inline(source, depth = 0) {
  return new Inline(source, depth).parse();
}

class Inline {
  constructor(source, depth) {
    this.source = source;
    this.depth = depth;
    this.at = 0;
    this.nodes = [];
    this.text = "";
    this.absent = new Set(); // closers known not to follow, so that hostile text costs no quadratic time
  }

  parse() {
    if (this.depth > MAX_DEPTH) return [this.source];
    while (this.at < this.source.length) if (!this.step()) this.literal(this.source[this.at]);
    this.flush();
    return this.nodes;
  }

  step() {
    switch (this.source[this.at]) {
      case "\\": return this.escape();
      case "&": return this.entity();
      case "`": return this.code();
      case "!": return this.image();
      case "[": return this.linkText();
      case "<": return this.tag();
      case "*": case "_": case "~": return this.emphasis();
      case "\n": return this.node(h("br"), 1);
      case ":": return this.emoji();
      case "h": case "H": return this.bareUrl();
      default: return false;
    }
  }

  literal(text) {
    this.text += text;
    this.at += text.length;
  }

  flush() {
    if (this.text) this.nodes.push(this.text);
    this.text = "";
  }

  node(node, length) {
    this.flush();
    this.nodes.push(node);
    this.at += length;
    return true;
  }

  match(pattern) {
    pattern.lastIndex = this.at;
    return pattern.exec(this.source);
  }

  /** Where `closer` next stands at or after `from`, or -1, remembering an absence. */
  find(closer, from) {
    if (this.absent.has(closer)) return -1;
    const found = this.source.indexOf(closer, from);
    if (found < 0) this.absent.add(closer);
    return found;
  }

  inner(from, to) {
    return inline(this.source.slice(from, to), this.depth + 1);
  }

  escape() {
    const next = this.source[this.at + 1];
    if (!next || !PUNCTUATION.test(next)) return false;
    this.text += next;
    this.at += 2;
    return true;
  }

  entity() {
    const match = this.match(ENTITY);
    const text = match && entityText(match);
    if (!text) return false;
    this.text += text;
    this.at += match[0].length;
    return true;
  }

  code() {
    const [ticks] = this.match(/`+/y);
    const start = this.at + ticks.length;
    const key = `code${ticks.length}`;
    if (this.absent.has(key)) return this.literal(ticks), true;
    for (let end = this.source.indexOf(ticks, start); end >= 0; end = this.source.indexOf(ticks, end)) {
      let run = end;
      while (this.source[run] === "`") run += 1;
      if (run - end === ticks.length) {
        return this.node(h("code", { class: "code" }, this.source.slice(start, end).replace(/^ (.*) $/s, "$1")), run - this.at);
      }
      end = run;
    }
    this.absent.add(key);
    this.literal(ticks);
    return true;
  }

  /** For "[text](target)" at `from`: where the text ends and the target; null when it is none. */
  bracket(from) {
    const middle = this.find("](", from);
    if (middle < 0) return null;
    const text = this.source.slice(from + 1, middle);
    if (text.includes("\n\n") || text.includes("[")) return null;
    let nested = 0;
    for (let end = middle + 2; end < this.source.length && end - middle < 4096; end += 1) {
      const char = this.source[end];
      if (/\s/.test(char)) return null;
      if (char === "(") nested += 1;
      if (char === ")" && nested-- === 0) return { textEnd: middle, target: this.source.slice(middle + 2, end), end: end + 1 };
    }
    return null;
  }

  image() {
    if (this.source[this.at + 1] !== "[") return false;
    const found = this.bracket(this.at + 1);
    if (!found) return false;
    return this.node(imagePlaceholder(this.source.slice(this.at + 2, found.textEnd), found.target), found.end - this.at);
  }

  linkText() {
    const found = this.bracket(this.at);
    if (!found) return false;
    const url = safeUrl(decoded(found.target));
    const children = this.inner(this.at + 1, found.textEnd);
    // A target that is not http(s) is dropped, as the real client drops it; its text remains text.
    return this.node(url ? link(url, children) : h("span", {}, children), found.end - this.at);
  }

  bareUrl() {
    const match = this.match(BARE_URL);
    if (!match || /\w/.test(this.source[this.at - 1] ?? "")) return false;
    const text = match[0].replace(/[.,;:!?)\]*_~]+$/, "");
    const url = safeUrl(text);
    return url ? this.node(link(url, text), text.length) : false;
  }

  emoji() {
    const match = this.match(/:([A-Z]+):/y);
    if (!match || !Object.hasOwn(EMOJI, match[1])) return false;
    this.text += EMOJI[match[1]];
    this.at += match[0].length;
    return true;
  }

  emphasis() {
    const char = this.source[this.at];
    let run = this.at;
    while (this.source[run] === char) run += 1;
    const length = Math.min(run - this.at, 2);
    if (char === "~" && length < 2) return false;
    const marker = char.repeat(length);
    const start = this.at + length;
    const wordBefore = /[\p{L}\p{N}]/u.test(this.source[this.at - 1] ?? "");
    if (run - this.at > 3 || /\s|^$/.test(this.source[start] ?? "") || (char === "_" && wordBefore)) return this.literal(this.source.slice(this.at, run)), true;
    const end = this.closer(marker, start);
    if (end < 0) return this.literal(marker), true;
    const tag = char === "~" ? "s" : length === 2 ? "strong" : "em";
    return this.node(h(tag, {}, this.inner(start, end)), end + length - this.at);
  }

  closer(marker, start) {
    for (let end = this.find(marker, start + 1); end >= 0; end = this.source.indexOf(marker, end)) {
      let run = end;
      while (this.source[run] === marker[0]) run += 1;
      const escaped = this.source[end - 1] === "\\" || /\s/.test(this.source[end - 1]);
      const wordAfter = marker[0] === "_" && /[\p{L}\p{N}]/u.test(this.source[run] ?? "");
      const fits = run - end === marker.length || run - end === 3;
      if (!escaped && !wordAfter && fits) return run - marker.length;
      end = run;
    }
    this.absent.add(marker);
    return -1;
  }

  tag() {
    const match = this.match(TAG);
    if (!match) return false;
    const name = match[1].toLowerCase();
    const attributes = attributesOf(match[2]);
    const start = this.at + match[0].length;
    if (name === "br") return this.node(h("br"), match[0].length);
    if (name === "hr") return this.node(h("span", { class: "hr-inline", role: "separator" }), match[0].length);
    const closing = match[3] ? start : this.closingTag(name, start);
    // Without a closing tag a mention still is one; any other tag is just text.
    if (closing < 0 && name !== "at") return false;
    const end = closing < 0 ? start : closing;
    const length = (closing < 0 || match[3] ? end : end + name.length + 3) - this.at;
    return this.node(TAGS[name](attributes, () => this.inner(start, end), this.source.slice(start, end)), length);
  }

  /** The closing tag that belongs here, past nested tags of the same name. */
  closingTag(name, start) {
    const pattern = new RegExp(`<(/?)${name}(?=[\\s>])`, "gi");
    if (this.absent.has(`</${name}`)) return -1;
    pattern.lastIndex = start;
    let open = 0;
    for (let match = pattern.exec(this.source); match; match = pattern.exec(this.source)) {
      if (!match[1]) open += 1;
      else if (open-- === 0) return this.source[match.index + name.length + 2] === ">" ? match.index : -1;
    }
    this.absent.add(`</${name}`);
    return -1;
  }
}

/** Entities resolved, for attribute values and link targets. */
export const decoded = (text) => text.replace(new RegExp(ENTITY.source, "g"), (...match) => entityText(match) ?? match[0]);

export function imagePlaceholder(alt, key) {
  return h(
    "span",
    { class: "image", role: "img", "aria-label": alt || t("image"), title: key },
    icon("image", { size: 20 }),
    h("span", {}, alt || t("image")),
    h("code", {}, key),
  );
}

function colored(color, children) {
  const node = h("span", { class: hueClass(color) && `colored ${hueClass(color)}` }, children);
  if (/^rgba?\([\d\s.,%]+\)$/.test(color ?? "")) node.style.color = color;
  return node;
}

function numberTag({ background_color: background, font_color: color, url }, children) {
  const badge = h("span", { class: `number-tag ${hueClass(background, "hue-grey")}` }, colored(color, children));
  return safeUrl(url) ? link(safeUrl(url), badge) : badge;
}

const TAGS = {
  at: ({ id, ids, email }) => {
    const several = (ids ?? "").split(",").filter(Boolean);
    return several.length ? h("span", {}, several.map((each) => [mention(each.trim()), " "])) : mention(id ?? email ?? "");
  },
  person: ({ id, show_name: nameShown, show_avatar: avatarShown, style }) => personChip(
    id ?? "",
    { nameShown: nameShown !== "false", avatarShown: avatarShown !== "false", capsule: style === "capsule" },
  ),
  font: ({ color }, children) => colored(color, children()),
  text_tag: ({ color }, children) => h("span", { class: `text-tag ${hueClass(color, "hue-neutral")}` }, children()),
  number_tag: (attributes, children) => numberTag(attributes, children()),
  local_datetime: ({ millisecond, format_type: format, link: target }) => {
    const node = localTime(millisecond, format);
    return safeUrl(target) ? link(safeUrl(target), node) : node;
  },
  link: ({ icon: token, url, pc_url: pcUrl }, children) => {
    const target = safeUrl(pcUrl) ?? safeUrl(url);
    const content = [token && tokenIcon(token, { size: 14 }), children()];
    return target ? link(target, content) : h("span", {}, content);
  },
  a: ({ href }, children, text) => (safeUrl(href) ? link(safeUrl(href), text ? children() : href) : h("span", {}, children())),
  raw: (attributes, children, text) => h("span", {}, text),
};
