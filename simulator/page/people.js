// People as they appear: names, round pictures made of letters, and mentions.
import { h } from "./dom.js";
import { icon } from "./icons.js";
import { personBy, state, viewer } from "./state.js";
import { has, t } from "./words.js";

export function nameOf(person) {
  if (!person) return t("unknown_person");
  const { name } = person;
  if (name && typeof name === "object") return name[state.lang] ?? name.zh ?? name.en;
  const english = person.en_name ?? person.name_en ?? person.english_name;
  return state.lang === "en" && english ? english : name;
}

export const roleOf = (person) => (person?.role && has(person.role) ? t(person.role) : (person?.role ?? ""));

const HUES = { requester: "blue", approver: "green", outsider: "orange", operator: "violet" };

export function avatar(person, size = "medium") {
  const name = person ? nameOf(person) : "?";
  const letters = /[\u4e00-\u9fff]/.test(name) ? name.slice(-2) : name.split(/\s+/).map((word) => word[0]).join("").slice(0, 2);
  return h("span", { class: `avatar avatar-${size} hue-${HUES[person?.role] ?? "grey"}`, "aria-hidden": "true" }, letters);
}

export function botAvatar(size = "medium") {
  return h("span", { class: `avatar avatar-${size} avatar-bot`, "aria-hidden": "true" }, icon("robot", { size: size === "small" ? 14 : 20 }));
}

export function groupAvatar(size = "medium") {
  return h("span", { class: `avatar avatar-${size} avatar-group`, "aria-hidden": "true" }, icon("people", { size: 20 }));
}

/** A person shown inside a card: picture and name, without notifying anyone. */
export function personChip(id, { avatarShown = true, nameShown = true, size = "small", capsule = false } = {}) {
  const person = personBy(id);
  return h(
    "span",
    { class: capsule ? "person person-capsule" : "person", title: id },
    avatarShown && avatar(person, size),
    nameShown && h("span", { class: "person-name" }, nameOf(person)),
  );
}

/** A mention, which in Feishu notifies; of the reader it stands out. */
export function mention(id) {
  if (id === "all") return h("span", { class: "mention mention-me" }, `@${t("everyone")}`);
  const person = personBy(id);
  const me = person !== undefined && person === viewer();
  return h("span", { class: me ? "mention mention-me" : "mention", title: id, data: { mention: id } }, `@${person ? nameOf(person) : id}`);
}
