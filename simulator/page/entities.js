// HTML entities decoded as text. The browser could do it through markup, which is exactly what must not happen here.

const NAMED = {
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", ensp: "\u2002", emsp: "\u2003", sim: "∼", tilde: "˜",
  ast: "*", lowbar: "_", grave: "`", num: "#", excl: "!", colon: ":", lpar: "(", rpar: ")", lsqb: "[", rsqb: "]", lbrack: "[",
  rbrack: "]", bsol: "\\", sol: "/", vert: "|", verbar: "|", commat: "@", dollar: "$", plus: "+", equals: "=", hyphen: "‐",
  ndash: "–", mdash: "—", hellip: "…", middot: "·", bull: "•", copy: "©", reg: "®", trade: "™", times: "×", yen: "¥",
  euro: "€", pound: "£", laquo: "«", raquo: "»", larr: "←", rarr: "→", uarr: "↑", darr: "↓",
};

export const ENTITY = /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z][a-zA-Z0-9]{1,30}));/y;

/** The text of an entity match, or null when there is no such entity. */
export function entityText([, decimal, hex, name]) {
  if (name !== undefined) return Object.hasOwn(NAMED, name) ? NAMED[name] : null;
  const code = decimal !== undefined ? parseInt(decimal, 10) : parseInt(hex, 16);
  const valid = code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
  return valid ? String.fromCodePoint(code) : "\ufffd";
}
