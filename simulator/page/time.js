// <local_datetime>: a moment in the reader's own time zone and language.
import { h } from "./dom.js";
import { locale } from "./words.js";

const two = (number) => String(number).padStart(2, "0");

function zone(date) {
  const minutes = -date.getTimezoneOffset();
  const size = Math.abs(minutes);
  return `GMT${minutes < 0 ? "-" : "+"}${Math.floor(size / 60)}:${two(size % 60)}`;
}

const inLocale = (options) => (date) => date.toLocaleDateString(locale(), options);

const FORMATS = {
  date_num: (date) => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`,
  date_short: inLocale({ month: "short", day: "numeric" }),
  date: inLocale({ year: "numeric", month: "short", day: "numeric" }),
  week: inLocale({ weekday: "long" }),
  week_short: inLocale({ weekday: "short" }),
  time: (date) => `${two(date.getHours())}:${two(date.getMinutes())}`,
  time_sec: (date) => `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`,
  timezone: zone,
};

export function localTime(millisecond, format) {
  const date = new Date(Number(millisecond) || Date.now());
  if (Number.isNaN(date.getTime())) return h("span", { class: "card-error" }, `local_datetime ${millisecond}`);
  const show = FORMATS[format] ?? FORMATS.date_num;
  return h("time", { datetime: date.toISOString(), title: date.toLocaleString(locale()) }, show(date));
}
