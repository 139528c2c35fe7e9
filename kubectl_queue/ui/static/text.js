// Elements from values. Everything that the cluster says becomes a text node; nothing is ever markup.

/** An element. `attributes`: of the element; one that is false or null is left out. */
export function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === false || value === null || value === undefined) continue;
    made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

/** A text that somebody wrote: its direction stays its own. */
export function foreign(text) {
  return element("bdi", {}, visible(String(text)));
}

// Controls, and the marks that turn the direction of what follows: each is shown as its code point.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

export function visible(text) {
  return text.replace(UNSEEN, (sign) => `U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`);
}

// A time, with how far it was when the text was made: that is said anew.
const FAR = / \((?:in \w+|\w+ ago|due|expired)\)/g;
const TIME = new RegExp(`(\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(?:\\.\\d+)?Z)(?:${FAR.source})?`, "g");

export function withoutDistances(text) {
  return text.replace(FAR, "");
}

/** A text with its times as elements, which say how far they are and keep saying it. */
export function withTimes(text) {
  const whole = element("bdi", {});
  let end = 0;
  for (const match of text.matchAll(TIME)) {
    whole.append(visible(text.slice(end, match.index)), time(match[1]));
    end = match.index + match[0].length;
  }
  whole.append(visible(text.slice(end)));
  return whole;
}

/** A time: in the viewer's zone, in UTC, and how far away it is. */
export function time(stamp) {
  const made = element("time", { datetime: stamp });
  made.textContent = timeText(stamp, Date.now());
  return made;
}

export function timeText(stamp, now) {
  const at = new Date(stamp);
  if (Number.isNaN(at.valueOf())) return stamp;
  const today = new Date(now);
  const day = at.toDateString() === today.toDateString() ? {} : { day: "numeric", month: "short" };
  if (at.getFullYear() !== today.getFullYear()) day.year = "numeric";
  const second = at.getUTCSeconds() ? { second: "2-digit" } : {};
  const form = { ...day, hour: "2-digit", minute: "2-digit", ...second, hourCycle: "h23" };
  const local = at.toLocaleString("en-GB", { ...form, timeZoneName: "short" });
  const utc = `${at.toLocaleString("en-GB", { ...form, timeZone: "UTC" })} UTC`;
  return `${local === utc ? utc : `${local}, ${utc}`} (${distance(at - now)})`;
}

export function distance(milliseconds) {
  const span = spanText(Math.abs(milliseconds) / 1000);
  return milliseconds > 0 ? `in ${span}` : `${span} ago`;
}

export function spanText(seconds) {
  const whole = Math.floor(seconds);
  if (whole < 120) return `${whole}s`;
  if (whole < 2 * 3600) return `${Math.floor(whole / 60)}m`;
  if (whole < 2 * 86400) return `${Math.floor(whole / 3600)}h${Math.floor((whole % 3600) / 60) || ""}`.replace(/h(\d+)$/, "h$1m");
  return `${Math.floor(whole / 86400)}d`;
}

/** Every time that is shown says anew how far it is. */
export function refreshTimes() {
  const now = Date.now();
  for (const each of document.querySelectorAll("time")) {
    const text = timeText(each.dateTime, now);
    if (each.textContent !== text) each.textContent = text;
  }
}

/** `1 pod`, `2 pods` */
export function plural(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
