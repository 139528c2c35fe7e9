// What can be done to one occurrence of a change window. The address of each names the window, and the occurrence
// by when it begins by its schedule; without that it is the one that is on, or else the next one.

import { element, foreign, time, visible } from "/static/text.js";

const REASON = { flag: "reason", label: "Reason, shown with the window" };
const END = { flag: "until", label: "or until, such as 18:30 or 2030-01-31T18:30:00Z" };

export const WINDOW_ACTIONS = {
  skip: { word: "Skip", does: "leaves it out; one that is on ends now", fields: [REASON] },
  start: {
    word: "Start",
    does: "it begins now, in place of its time",
    fields: [{ flag: "for", label: "Lasts, such as 30m or 2h; as long as usual if empty" }, END, REASON],
  },
  extend: {
    word: "Extend",
    does: "it ends later",
    fields: [{ flag: "for", label: "Longer by, such as 30m or 2h" }, END, REASON],
  },
};

const AGAIN = { word: "Start", does: "it is not left out any more", fields: [] };

/** The action of an address, with what it fixes. */
export function windowAction(verb, search) {
  const asked = new URLSearchParams(search);
  const window = asked.get("window") ?? "";
  const at = asked.get("at");
  const action = verb === "start" && at ? AGAIN : WINDOW_ACTIONS[verb];
  const title = element("span", {}, "window ", foreign(window), at ? " of " : "", at ? time(at) : "", " of ");
  return { ...action, verb, window, title, fixed: at ? { at } : {} };
}

/** What can be done to the occurrence of a row; `rows`: all that are shown, those that are on first. */
export function actionsOfWindow(row, rows, { name, rights }) {
  if (row.queue !== name || !row.scheduled || !rights) return [];
  return wordsOf(row, rows).map(({ verb, at }) => button(verb, row, at, { name, rights }));
}

function wordsOf(row, rows) {
  const at = row.scheduled;
  const isNext = rows.find((each) => each.queue === row.queue && each.window === row.window) === row;
  if (row.state === "On" || row.state === "Due") return [{ verb: "skip" }, { verb: "extend", at }];
  if (row.state === "Skipped") return [{ verb: "start", at }];
  if (row.state !== "Next") return [];
  return [{ verb: "skip", at }, { verb: "extend", at }, ...(isNext ? [{ verb: "start" }] : [])];
}

function button(verb, row, at, { name, rights }) {
  const { word } = WINDOW_ACTIONS[verb];
  const of = element("span", { class: "unseen" }, ` ${visible(row.window)} of ${row.start}`);
  if (!rights.allowed) {
    return element("button", { type: "button", "aria-disabled": "true", "aria-describedby": "no-rights" }, word, of);
  }
  const asked = new URLSearchParams({ window: row.window, ...(at ? { at } : {}) });
  return element("a", { class: "button", href: `/queues/${encodeURIComponent(name)}/${verb}?${asked}` }, word, of);
}
