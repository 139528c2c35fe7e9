// The screen of one queue: why, drain, what waits, history, and what can be done to it.
//
// A part is made anew only where what it says differs, so that the focus and what was marked stay.

import { ask, Refused } from "/static/api.js";
import { actionForm, actionsOf } from "/static/actions.js";
import { element, foreign, plural, time, visible, withoutDistances, withTimes } from "/static/text.js";
import { actionsOfWindow } from "/static/window_actions.js";
import { windowsOf } from "/static/windows.js";
import { POLICIES, PROBLEMS, STATES } from "/static/words.js";

const screen = document.getElementById("queue-screen");

/** The queue that is shown, what its parts said last, its windows, and what the viewer may do to it. */
let shown = { name: "", action: "", said: new Map(), windows: null, rights: null };
let isAsking = false;
let isStale = false;

/** `search`: of the address, which may name a window. */
export async function open(name, action, search) {
  if (shown.name !== name) {
    shown = { name, action: "", said: new Map(), windows: null, rights: null };
    screen.replaceChildren(
      element("h1", { id: "queue-heading" }, "Queue ", foreign(name)),
      ...["state", "actions", "action", "windows", "why", "drain", "waiting", "below", "history"].map((part) =>
        element("section", { id: `queue-${part}`, class: "part" }),
      ),
    );
    askRights(name);
    askWaiting(name);
  }
  // Before anything is asked: a form of another address would take what is typed until the answer is there.
  if (shown.action !== action + search) {
    shown.action = action + search;
    showAction(name, action, search);
  }
  await refresh();
}

export function close() {
  shown = { name: "", action: "", said: new Map(), windows: null, rights: null };
  screen.replaceChildren();
}

/** Ask again what the board says of it; once more where it changed meanwhile. */
export async function refresh() {
  const { name } = shown;
  if (!name) return;
  if (isAsking) {
    isStale = true;
    return;
  }
  isAsking = true;
  try {
    const queue = await ask("GET", `/api/queues/${encodeURIComponent(name)}`);
    if (shown.name === name) show(queue);
  } catch (error) {
    if (shown.name === name) showMissing(error);
  } finally {
    isAsking = false;
  }
  if (isStale) {
    isStale = false;
    await refresh();
  }
}

function part(id, value, make) {
  const text = withoutDistances(JSON.stringify(value));
  if (shown.said.get(id) === text) return;
  shown.said.set(id, text);
  const place = document.getElementById(`queue-${id}`);
  place?.replaceChildren(...make(value).filter(Boolean));
}

function showMissing(error) {
  if (!(error instanceof Refused)) return; // nobody answers: the page says that itself
  part("state", error.message, (text) => [element("p", { class: "fault" }, visible(text))]);
}

function show(queue) {
  part("state", [queue.row, queue.created], () => stateLine(queue));
  part("why", [queue.summary, queue.sections], () => whyPart(queue));
  part("drain", queue.drain, drainPart);
  part("below", queue.below, belowPart);
  part("history", queue.history, historyPart);
  shown.windows = queue.windows;
  showWindows();
}

function stateLine({ row, created }) {
  const state = STATES[row.state];
  const policy = POLICIES[row.stopPolicy];
  return [
    element(
      "p",
      { class: "state" },
      element("span", { class: "sign", "aria-hidden": "true" }, state.sign),
      element("strong", {}, state.word),
      policy.word ? `, stop policy ${policy.word}` : "",
      row.parent ? element("span", {}, ", below ", queueLink(row.parent)) : "",
      created ? element("span", { class: "quiet" }, ", made ", time(created)) : "",
    ),
    row.problem
      ? element("p", { class: "fault" }, `${PROBLEMS[row.problem].sign} ${PROBLEMS[row.problem].word}`)
      : null,
  ];
}

function queueLink(name) {
  return element("a", { href: `/queues/${encodeURIComponent(name)}` }, foreign(name));
}

function heading(text) {
  return element("h2", {}, text);
}

function whyPart({ summary, sections }) {
  const list = element("dl", { class: "why" });
  for (const section of sections) {
    list.append(element("dt", {}, section.heading));
    const body = element("dd", {});
    for (const link of section.chain) {
      const marks = link.marks.length ? element("span", {}, " – ", withTimes(link.marks.join(", "))) : null;
      body.append(
        element("div", {}, queueLink(link.queue), ` ${STATES[link.state].sign} ${STATES[link.state].word}`, marks),
      );
    }
    for (const line of section.lines) body.append(element("div", {}, withTimes(line)));
    list.append(body);
  }
  return [heading("Why"), element("p", { class: "summary" }, withTimes(summary)), list];
}

function drainPart(lines) {
  if (!lines.length) return [];
  return [heading("Drain"), element("ul", {}, ...lines.map((line) => element("li", {}, withTimes(line))))];
}

function belowPart(names) {
  if (!names.length) return [];
  const items = names.slice(0, 200).map((name) => element("li", {}, queueLink(name)));
  if (names.length > 200) items.push(element("li", {}, `and ${names.length - 200} more`));
  return [heading(`${plural(names.length, "queue")} below it`), element("ul", { class: "columns" }, ...items)];
}

function table(caption, headings, rows) {
  return element(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    element(
      "table",
      { class: "list" },
      element("caption", { class: "unseen" }, caption),
      element("thead", {}, element("tr", {}, ...headings.map((text) => element("th", { scope: "col" }, text)))),
      element("tbody", {}, ...rows),
    ),
  );
}

function historyPart(changes) {
  if (!changes.length) return [heading("History"), element("p", { class: "quiet" }, "Nothing of it was changed.")];
  const rows = changes.map((change) =>
    element(
      "tr",
      {},
      element("td", {}, change.at ? time(change.at) : ""),
      element("td", {}, foreign(change.by)),
      element("td", {}, foreign(change.field)),
      element("td", {}, foreign(change.from ?? "")),
      element("td", {}, foreign(change.to ?? "")),
      element("td", {}, change.until ? time(change.until) : ""),
      element("td", {}, foreign(change.reason ?? "")),
    ),
  );
  return [heading("History"), table("History, newest first", ["When", "Who", "What", "From", "To", "Until", "Reason"], rows)];
}

function showWindows() {
  const { name, windows, rights } = shown;
  if (windows) part("windows", [windows, rights], () => windowsPart(windows, { name, rights }));
}

function windowsPart(windows, viewer) {
  const parts = windowsOf(windows, "", (row) => actionsOfWindow(row, windows.rows, viewer));
  return parts.length ? [heading("Change windows"), ...parts] : [];
}

// What waits: asked for once, and again by a button.

async function askWaiting(name, after = "", before = []) {
  const place = document.getElementById("queue-waiting");
  const path = `/api/queues/${encodeURIComponent(name)}/waiting?after=${encodeURIComponent(after)}`;
  let answer;
  try {
    answer = await ask("GET", path);
  } catch (error) {
    answer = { pods: [], next: "", refused: error.message };
  }
  if (shown.name !== name) return;
  const pods = [...before, ...answer.pods];
  const again = element("button", { type: "button" }, "Read again");
  again.addEventListener("click", () => askWaiting(name));
  const more = element("button", { type: "button" }, "More");
  more.addEventListener("click", () => askWaiting(name, answer.next, pods));
  const rows = pods.map((pod) =>
    element(
      "tr",
      {},
      element("td", {}, foreign(`${pod.namespace}/${pod.name}`)),
      element("td", {}, pod.since ? time(pod.since) : ""),
      element("td", {}, withTimes(pod.message)),
    ),
  );
  const none = element("p", { class: "quiet" }, "No pod of it waits.");
  place.replaceChildren(
    heading("What waits"),
    ...(answer.refused ? [element("p", { class: "fault" }, visible(answer.refused))] : []),
    ...(rows.length ? [table("Pods that wait", ["Pod", "Since", "What it says"], rows)] : answer.refused ? [] : [none]),
    element("p", { class: "tools" }, again, answer.next ? more : null, answer.next ? `${pods.length} of more` : ""),
  );
}

// What can be done.

async function askRights(name) {
  let rights;
  try {
    rights = await ask("GET", `/api/queues/${encodeURIComponent(name)}/rights`);
  } catch (error) {
    rights = { allowed: false, reason: `it is not known whether you may: ${error.message}` };
  }
  if (shown.name !== name) return;
  document.getElementById("queue-actions").replaceChildren(...actionsOf(name, rights));
  shown.rights = rights;
  showWindows();
}

function showAction(name, action, search) {
  const place = document.getElementById("queue-action");
  place.replaceChildren();
  if (action) actionForm(name, action, search, place);
}
