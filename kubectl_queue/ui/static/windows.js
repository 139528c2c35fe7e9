// Change windows: those that are on, then the next ones, as a table with a time line.

import { ask, Refused } from "/static/api.js";
import { element, foreign, time, visible } from "/static/text.js";

const screen = document.getElementById("windows-screen");
const nextLine = document.getElementById("next-window");
/** Of the `windows` of the plugin: the sign of each. */
const SIGNS = { On: "‖", Due: "!", Overdue: "!", Next: "○", Skipped: "–" };
const PAUSE = 5000;
let said = "";
let askedAt = -PAUSE;

/** Ask again; at most every few seconds, unless somebody looks at the screen. */
export async function refreshWindows({ isLookedAt = false } = {}) {
  if (!isLookedAt && performance.now() - askedAt < PAUSE) return;
  askedAt = performance.now();
  let answer;
  try {
    answer = await ask("GET", "/api/windows");
  } catch (error) {
    if (error instanceof Refused) screen.replaceChildren(element("p", { class: "fault" }, visible(error.message)));
    return;
  }
  const text = JSON.stringify(answer);
  if (text === said) return;
  said = text;
  const heading = element("h1", { id: "windows-heading" }, "Change windows");
  screen.replaceChildren(heading, ...windowsOf(answer, "No queue has a change window."));
  showNext(answer.rows);
}

function showNext(rows) {
  const now = rows.filter((row) => row.state !== "Next" && row.state !== "Skipped");
  const next = rows.find((row) => row.state === "Next");
  nextLine.hidden = !now.length && !next;
  const parts = [];
  if (now.length) parts.push(`${now.length} on now: `, nameOf(now[0]), ", until ", time(now[0].until), ". ");
  if (next) parts.push("Next window: ", nameOf(next), ", ", time(next.start), ".");
  nextLine.replaceChildren(...parts);
}

function nameOf(row) {
  const link = element("a", { href: `/queues/${encodeURIComponent(row.queue)}` }, foreign(row.queue));
  return element("span", {}, foreign(row.window), " of ", link);
}

/** The rows as a table, and what could not be read; `none`: what is said where there are none. `actions`: what
 * can be done to the occurrence of a row. */
export function windowsOf({ rows, refused }, none, actions) {
  const faults = refused.map((text) => element("p", { class: "fault" }, visible(text)));
  if (!rows.length) return none ? [element("p", { class: "quiet" }, none), ...faults] : faults;
  const times = rows.flatMap((row) => [Date.parse(row.start), Date.parse(row.until)]);
  const begin = Math.min(Date.now(), ...times);
  const whole = Math.max(...times) - begin || 1;
  const headings = ["Window", "State", "Starts", "Ends", "Sets", "Reason", ...(actions ? ["Change"] : [])];
  const table = element(
    "table",
    { class: "list windows" },
    element("caption", { class: "unseen" }, "Change windows, those that are on first"),
    element("thead", {}, element("tr", {}, ...headings.map((text) => element("th", { scope: "col" }, text)))),
    element("tbody", {}, ...rows.map((row) => lineOf(row, begin, whole, actions))),
  );
  return [element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of change windows" }, table), ...faults];
}

function lineOf(row, begin, whole, actions) {
  const sets = Object.values(row.sets).join(", ");
  const bar = element("span", { class: "bar" });
  bar.style.setProperty("--from", (Date.parse(row.start) - begin) / whole);
  bar.style.setProperty("--long", (Date.parse(row.until) - Date.parse(row.start)) / whole);
  const line = element(
    "tr",
    {},
    element("td", {}, nameOf(row), element("span", { class: "time-line", "aria-hidden": "true" }, bar)),
    element("td", {}, element("span", { class: "sign", "aria-hidden": "true" }, SIGNS[row.state] ?? ""), row.state),
    element("td", {}, time(row.start)),
    element("td", {}, time(row.until)),
    element("td", {}, foreign(sets)),
    element("td", {}, foreign(row.reason ?? "")),
    actions ? element("td", {}, element("span", { class: "tools" }, ...actions(row))) : null,
  );
  line.dataset.standing = row.state;
  return line;
}
