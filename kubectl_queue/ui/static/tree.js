// The tree of queues. A row is made once and then changed in place, so that it keeps the focus and its place.
// Rows are in groups: what of them is not on the screen costs neither layout nor paint (page.css), and is found by
// the browser's own search and by screen readers all the same.
//
// Problems come first when the tree is first shown, and when that is asked for; in between no row jumps, and a
// new queue comes after those that were there.

import { element, foreign, plural, visible, withTimes } from "/static/text.js";
import { POLICIES, PRESSING, PROBLEMS, STATES } from "/static/words.js";

const table = document.getElementById("tree");
const filter = document.getElementById("filter");
const problems = document.getElementById("problems");
const count = document.getElementById("count");

/** By name: what the stream last said of it, its row, and its place among those below the same queue. */
const queues = new Map();
/** The names of those below each queue, as they are shown; "" for the tops. */
let below = new Map();
/** The names as they are shown, all of them. */
let order = [];
let seen = 0;
let focused = "";
/** Rows of a group, and rem of a row of one line: how high a group is before it has been on the screen. */
const GROUP = 50;
const HEIGHT = 1.7625;
/** The groups in their order, each with how many of its rows are not hidden. */
const groups = [];
/** Of a row that is new, as its pattern has it. */
const NOTHING = { state: null, stopPolicy: null, pending: null, running: null, quota: "", cause: "", problem: null };

export function queueNames() {
  return [...queues.keys()];
}

export function rowOf(name) {
  return queues.get(name)?.row;
}

/** Apply a change of the stream; the rows that differ, each with what was there before. */
export function apply(change) {
  const differing = [];
  const isFirst = queues.size === 0;
  for (const name of change.gone) remove(name);
  for (const row of change.rows) {
    const known = queues.get(row.name);
    differing.push({ before: known?.row ?? null, after: row });
    if (known) show(known, row);
    else add(row);
  }
  if (isFirst) setPlaces();
  if (change.order) arrange();
  table.classList.toggle("has-quotas", [...queues.values()].some(({ row }) => row.quota));
  showProblems();
  return isFirst ? [] : differing;
}

/** Forget all: the next change has every row. */
export function forget() {
  queues.clear();
  seen = 0;
}

/** Attributes that a copy has not. */
const UNSAID = { "aria-expanded": null, hidden: null };
/** What each row is a copy of: to copy one is several times as fast as to make its elements. */
const PATTERN = element(
  "tr",
  { role: "row", tabindex: "-1" },
  element(
    "th",
    { role: "rowheader", scope: "row" },
    element("span", { class: "knob", "aria-hidden": "true" }),
    element("a", { tabindex: "-1" }, element("bdi", {})),
  ),
  signedCell(),
  signedCell(),
  element("td", { role: "gridcell", class: "number" }),
  element("td", { role: "gridcell", class: "number" }),
  element("td", { role: "gridcell", class: "quota" }),
  element("td", { role: "gridcell", class: "cause" }),
);

function signedCell() {
  const sign = element("span", { class: "sign", "aria-hidden": "true" });
  sign.append(new Text());
  const cell = element("td", { role: "gridcell" }, sign);
  cell.append(new Text());
  return cell;
}

function add(row) {
  const line = PATTERN.cloneNode(true);
  const [name, state, policy, pending, running, quota, cause] = line.children;
  line.dataset.name = row.name;
  name.lastChild.setAttribute("href", `/queues/${encodeURIComponent(row.name)}`);
  name.lastChild.firstChild.textContent = visible(row.name);
  const cells = { state, policy, pending, running, quota, cause };
  const queue = { row: null, line, cells, place: 1000 + seen++, isOpen: true, isHidden: false, level: 1, said: { ...UNSAID } };
  queues.set(row.name, queue);
  show(queue, row);
}

function show(queue, row) {
  const before = queue.row ?? NOTHING;
  queue.row = row;
  const { cells, line } = queue;
  if (before.state !== row.state) signed(cells.state, STATES[row.state]);
  if (before.stopPolicy !== row.stopPolicy) signed(cells.policy, POLICIES[row.stopPolicy]);
  if (before.pending !== row.pending) cells.pending.textContent = row.pending ?? "";
  if (before.running !== row.running) cells.running.textContent = row.running ?? "";
  if (before.quota !== row.quota) cells.quota.textContent = visible(row.quota);
  if (before.cause !== row.cause) cells.cause.replaceChildren(row.cause ? withTimes(row.cause) : "");
  if (before.state !== row.state) line.dataset.state = row.state;
  if (before.problem !== row.problem) {
    if (row.problem) line.dataset.problem = row.problem;
    else delete line.dataset.problem;
  }
}

function signed(cell, { sign, word } = { sign: "?", word: "" }) {
  cell.firstChild.firstChild.data = sign;
  cell.lastChild.data = word;
}

/** Set attributes of a queue's row, those that differ. */
function say(queue, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (queue.said[name] === value) continue;
    queue.said[name] = value;
    if (value === null) queue.line.removeAttribute(name);
    else queue.line.setAttribute(name, value);
  }
}

function remove(name) {
  const queue = queues.get(name);
  if (!queue) return;
  if (focused === name) {
    const at = order.indexOf(name);
    const isThere = (each) => each !== name && queues.has(each);
    const hadFocus = document.activeElement === queue.line;
    focused = order.slice(at).find(isThere) ?? order.slice(0, at).findLast(isThere) ?? "";
    queue.line.remove();
    if (hadFocus) queues.get(focused)?.line.focus();
  } else queue.line.remove();
  queues.delete(name);
}

/** Problems first: each queue's place is that of the most pressing problem in it or below it. */
export function setPlaces() {
  const pressing = new Map();
  for (const { row } of queues.values()) {
    const own = row.problem ? PRESSING.indexOf(row.problem) : PRESSING.length;
    for (let name = row.name, left = queues.size; name && left > 0; name = queues.get(name)?.row.parent, left--) {
      if ((pressing.get(name) ?? PRESSING.length + 1) <= own) break;
      pressing.set(name, own);
    }
  }
  for (const [name, queue] of queues) queue.place = pressing.get(name);
}

/** Put the rows into their order, without a change of focus. */
export function arrange() {
  below = new Map();
  for (const { row } of queues.values()) {
    const parent = queues.has(row.parent) ? row.parent : "";
    if (!below.has(parent)) below.set(parent, []);
    below.get(parent).push(row.name);
  }
  order = [];
  const lines = [];
  const walk = (parent, level) => {
    const names = below.get(parent) ?? [];
    names.sort((one, other) => queues.get(one).place - queues.get(other).place);
    names.forEach((name, index) => {
      const queue = queues.get(name);
      queue.level = level;
      say(queue, { "aria-level": level, "aria-posinset": index + 1, "aria-setsize": names.length });
      order.push(name);
      lines.push(queue.line);
      if (level < 100) walk(name, level + 1);
    });
  };
  walk("", 1);
  const active = document.activeElement;
  fillGroups(lines);
  if (table.contains(active)) active.focus({ preventScroll: true });
  showVisible();
}

function fillGroups(lines) {
  const number = Math.ceil(lines.length / GROUP);
  while (groups.length < number) groups.push({ body: element("tbody", { role: "rowgroup" }), shown: 0 });
  for (const { body } of groups.splice(number)) body.remove();
  groups.forEach(({ body }, at) => {
    const wanted = lines.slice(at * GROUP, (at + 1) * GROUP);
    const present = body.children;
    const isSame = present.length === wanted.length && wanted.every((line, place) => line === present[place]);
    if (!isSame) body.replaceChildren(...wanted);
    if (!body.isConnected) table.append(body);
  });
}

/** A group of which no row is shown takes no room, and one that was not on the screen that of its rows. */
function sizeGroups() {
  groups.forEach((group, at) => {
    const names = order.slice(at * GROUP, (at + 1) * GROUP);
    const shown = names.filter((name) => !queues.get(name).isHidden).length;
    if (shown === group.shown) return;
    group.shown = shown;
    group.body.hidden = !shown;
    group.body.style.containIntrinsicBlockSize = `${shown * HEIGHT}rem`;
  });
}

/** Hide what is below closed queues, and what the filter leaves out. */
export function showVisible() {
  const wanted = filter.value.trim().toLowerCase();
  const kept = new Set();
  if (wanted) {
    for (const name of order) {
      if (!name.toLowerCase().includes(wanted)) continue;
      for (let each = name; each && !kept.has(each); each = queues.get(each)?.row.parent) kept.add(each);
    }
  }
  let hiddenBelow = 0;
  let shown = 0;
  for (const name of order) {
    const queue = queues.get(name);
    const { level } = queue;
    if (hiddenBelow && level > hiddenBelow) queue.isHidden = true;
    else {
      hiddenBelow = 0;
      queue.isHidden = Boolean(wanted) && !kept.has(name);
      const hasBelow = below.has(name);
      say(queue, { "aria-expanded": hasBelow ? queue.isOpen || Boolean(wanted) : null });
      if (hasBelow && !queue.isOpen && !wanted) hiddenBelow = level;
    }
    say(queue, { hidden: queue.isHidden ? "" : null });
    if (!queue.isHidden) shown += 1;
  }
  sizeGroups();
  count.textContent = wanted ? `${shown} of ${plural(order.length, "queue")}` : plural(order.length, "queue");
  if (!queues.has(focused) || queues.get(focused).isHidden) setFocused(visibleNames()[0] ?? "");
  else setFocused(focused);
}

function visibleNames() {
  return order.filter((name) => !queues.get(name).isHidden);
}

function setFocused(name) {
  if (focused !== name) queues.get(focused)?.line.setAttribute("tabindex", "-1");
  focused = name;
  queues.get(name)?.line.setAttribute("tabindex", "0");
}

function showProblems() {
  const found = [...queues.values()].filter(({ row }) => row.problem);
  found.sort((one, other) => PRESSING.indexOf(one.row.problem) - PRESSING.indexOf(other.row.problem));
  document.getElementById("no-problems").hidden = found.length > 0;
  const wanted = new Map(found.map(({ row }) => [`${row.name} ${row.problem} ${row.cause}`, row]));
  const kept = new Map([...problems.children].map((item) => [item.dataset.key, item]));
  const items = [...wanted].slice(0, 50).map(([key, row]) => kept.get(key) ?? problemItem(key, row));
  if (items.length === problems.children.length && items.every((item, at) => item === problems.children[at])) return;
  const active = document.activeElement?.closest("#problems li")?.dataset.name;
  problems.replaceChildren(...items);
  if (wanted.size > 50) problems.append(element("li", {}, `and ${wanted.size - 50} more`));
  if (active) [...problems.children].find((item) => item.dataset.name === active)?.querySelector("a").focus();
}

function problemItem(key, row) {
  const { sign, word } = PROBLEMS[row.problem];
  const item = element(
    "li",
    {},
    element("span", { class: "sign", "aria-hidden": "true" }, sign),
    element("a", { href: `/queues/${encodeURIComponent(row.name)}` }, foreign(row.name)),
    `: ${word}`,
    row.cause ? element("span", { class: "quiet" }, " – ", withTimes(row.cause)) : null,
  );
  item.dataset.key = key;
  item.dataset.name = row.name;
  return item;
}

/** What a stop has come to, for who does not see the rows; "" where the change is about something else. */
export function stopText({ before, after }) {
  const stops = (row) => row && (row.state !== "Open" || row.stopPolicy !== "None" || row.stopPending);
  const parts = (row) => row && `${row.state} ${row.stopPolicy} ${row.stopPending} ${row.problem}`;
  if (!(stops(before) || stops(after)) || parts(before) === parts(after)) return "";
  const policy = POLICIES[after.stopPolicy].word;
  const words = [STATES[after.state].word, policy && `stop policy ${policy}`];
  if (after.stopPending) words.push("not acknowledged yet");
  else if (before?.stopPending) words.push("acknowledged");
  if (after.problem && after.problem !== "StopNotAcknowledged") words.push(PROBLEMS[after.problem].word);
  return `${visible(after.name)}: ${words.filter(Boolean).join(", ")}`;
}

// Keys and clicks. One row is in the order of Tab.

function focusRow(name) {
  if (!name) return;
  setFocused(name);
  queues.get(name).line.focus();
}

function toggle(name, isOpen) {
  queues.get(name).isOpen = isOpen;
  showVisible();
}

function onKey(event) {
  const line = event.target.closest?.("tr[data-name]");
  if (!line || event.ctrlKey || event.metaKey || event.altKey) return;
  const name = line.dataset.name;
  const names = visibleNames();
  const at = names.indexOf(name);
  const isOpen = below.has(name) && queues.get(name).isOpen;
  const moves = {
    ArrowDown: () => focusRow(names[at + 1]),
    ArrowUp: () => focusRow(names[at - 1]),
    Home: () => focusRow(names[0]),
    End: () => focusRow(names.at(-1)),
    ArrowRight: () => (isOpen ? focusRow(below.get(name).find((each) => names.includes(each))) : below.has(name) && toggle(name, true)),
    ArrowLeft: () => (isOpen ? toggle(name, false) : focusRow(queues.has(queues.get(name).row.parent) && queues.get(name).row.parent)),
    Enter: () => line.querySelector("a").click(),
  };
  if (!(event.key in moves)) return;
  event.preventDefault();
  moves[event.key]();
}

table.addEventListener("keydown", onKey);
table.addEventListener("focusin", (event) => {
  const line = event.target.closest("tr[data-name]");
  if (line) setFocused(line.dataset.name);
});
table.addEventListener("click", (event) => {
  const line = event.target.closest("tr[data-name]");
  if (line && event.target.closest(".knob") && below.has(line.dataset.name)) {
    toggle(line.dataset.name, !queues.get(line.dataset.name).isOpen);
  }
});
filter.addEventListener("input", showVisible);
filter.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    filter.value = "";
    showVisible();
    focusRow(focused);
  } else if (event.key === "Enter" || event.key === "ArrowDown") {
    event.preventDefault();
    const wanted = filter.value.trim().toLowerCase();
    focusRow(visibleNames().find((name) => name.toLowerCase().includes(wanted)));
  }
});
document.getElementById("sort").addEventListener("click", () => {
  setPlaces();
  arrange();
});
