// The page: which screen the address names, what the stream says, how old it is.

import { ask, enter, lines, Refused } from "/static/api.js";
import { element, foreign, refreshTimes, spanText } from "/static/text.js";
import { follow } from "/static/actions.js";
import * as queue from "/static/queue.js";
import * as tree from "/static/tree.js";
import { refreshWindows } from "/static/windows.js";

/** Seconds after which what is shown is called old, and without a line after which nobody answers. */
const OLD = 15;
const SILENT = 10;

const age = document.getElementById("age");
const noProblems = document.getElementById("no-problems");
const NO_PROBLEMS = noProblems.textContent;
const fault = document.getElementById("fault");
const announcer = document.getElementById("announcer");
const help = document.getElementById("help");
const screens = ["tree", "queue", "windows", "lost"];

/** What the last line said, and when it came. */
let last = { age: null, fault: "", outage: "", at: performance.now() };
let answers = true;
let isLetIn = false;

// Screens. The address names them.

function screenOf(path) {
  if (path === "/windows") return { screen: "windows" };
  const [, first, name, action = ""] = path.split("/");
  if (first === "queues" && name) return { screen: "queue", name: decodeURIComponent(name), action };
  return { screen: "tree" };
}

function showScreen({ isNew = false } = {}) {
  const { screen, name, action } = screenOf(location.pathname);
  for (const each of screens) document.getElementById(`${each}-screen`).hidden = each !== screen;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.screen === screen) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = name ? `${name} – queue` : screen === "windows" ? "Windows" : "Queues";
  if (isNew) document.getElementById("main").focus();
  if (!isLetIn) return;
  if (screen === "queue") queue.open(name, action, location.search);
  else queue.close();
  if (screen === "windows") refreshWindows({ isLookedAt: true });
}

export function go(path) {
  history.pushState(null, "", path);
  showScreen({ isNew: true });
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='/']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  go(link.getAttribute("href"));
});
addEventListener("popstate", () => showScreen({ isNew: true }));

// Keys of all screens.

document.getElementById("help-button").addEventListener("click", () => help.showModal());
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest?.("input, textarea, select");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  if (event.key === "?") {
    event.preventDefault();
    help.showModal();
  } else if (event.key === "/") {
    event.preventDefault();
    if (screenOf(location.pathname).screen !== "tree") go("/");
    document.getElementById("filter").focus();
  }
});

// How old it is.

function showAge() {
  const silent = (performance.now() - last.at) / 1000;
  const isAlone = !answers || silent > SILENT;
  const seconds = last.age === null ? null : last.age + silent;
  const isOld = isAlone || Boolean(last.fault) || Boolean(last.outage) || (seconds !== null && seconds > OLD);
  const known = seconds === null ? "Nothing is known yet." : `Data is ${spanText(seconds)} old.`;
  const isAway = Boolean(last.outage) && !isAlone && !last.fault;
  age.textContent = isAway ? "OLD. No server writes what is shown." : isOld && seconds !== null ? `OLD. ${known}` : known;
  noProblems.textContent = last.outage ? "Whether a stop or a drain waits is not known while no server writes it." : NO_PROBLEMS;
  age.classList.toggle("old", isOld);
  document.body.classList.toggle("is-old", isOld);
  const text = isAlone ? "kubectl queue ui does not answer: the command may have ended." : last.fault || last.outage;
  fault.hidden = !text;
  if (fault.textContent !== text) fault.textContent = text;
}

// The stream.

async function listen() {
  for (let pause = 500; ; pause = Math.min(pause * 2, 5000)) {
    try {
      let isFirst = true;
      for await (const line of lines("/api/stream")) {
        if (isFirst) pause = 500;
        take(line, { isFirst });
        isFirst = false;
      }
      answers = false;
    } catch (error) {
      if (error instanceof Refused && error.status === 401) return lose(error.message);
      answers = error instanceof Refused;
      if (answers) last = { ...last, fault: error.message, at: performance.now() };
    }
    showAge();
    await new Promise((done) => setTimeout(done, pause));
  }
}

function take(line, { isFirst }) {
  last = { age: line.age, fault: line.fault, outage: line.outage, at: performance.now() };
  answers = true;
  if (line.change) {
    if (isFirst) startAnew(line.change);
    announce(tree.apply(line.change).map(tree.stopText).filter(Boolean));
    const { screen } = screenOf(location.pathname);
    if (isFirst) showScreen();
    else if (screen === "queue") queue.refresh();
    refreshWindows({ isLookedAt: screen === "windows" });
    follow();
  }
  showAge();
}

/** A new stream begins with all rows: those that are not among them are gone. */
function startAnew(change) {
  const names = new Set(change.rows.map((row) => row.name));
  change.gone = tree.queueNames().filter((name) => !names.has(name));
}

function announce(texts) {
  if (!texts.length) return;
  const more = texts.length > 3 ? `; and ${texts.length - 3} more` : "";
  announcer.textContent = texts.slice(0, 3).join("; ") + more;
}

function lose(reason) {
  document.getElementById("lost-reason").textContent = reason;
  for (const each of screens) document.getElementById(`${each}-screen`).hidden = each !== "lost";
  age.textContent = "";
}

async function showViewer() {
  const viewer = await ask("GET", "/api/viewer");
  const parts = [
    element("strong", {}, foreign(viewer.context || viewer.cluster || viewer.server)),
    ` (`, foreign(viewer.server), `), as `,
    viewer.user ? foreign(viewer.user) : "a user that the API server does not name",
  ];
  if (viewer.actsAs) parts.push(element("span", { class: "mark" }, " impersonated with --as"));
  document.getElementById("place").replaceChildren("Cluster ", ...parts);
}

async function begin() {
  showScreen();
  try {
    await enter();
  } catch (error) {
    return lose(error.message);
  }
  isLetIn = true;
  showViewer().catch(() => {}); // the stream says what is wrong
  listen();
  setInterval(showAge, 1000);
  setInterval(refreshTimes, 10000);
}

begin();
