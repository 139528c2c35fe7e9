// The screen of change windows: what the objects have.

import { ask, Refused } from "/static/api.js";
import { queueLink, windowsPart } from "/static/queue.js";
import { element, visible } from "/static/text.js";

const screen = document.getElementById("windows-screen");
let said = "";

export async function refreshWindows() {
  let queues;
  try {
    queues = await ask("GET", "/api/windows");
  } catch (error) {
    if (error instanceof Refused) screen.replaceChildren(element("p", { class: "fault" }, visible(error.message)));
    return;
  }
  const text = JSON.stringify(queues);
  if (text === said) return;
  said = text;
  const none = element("p", { class: "quiet" }, "No queue has a change window.");
  screen.replaceChildren(
    element("h1", { id: "windows-heading" }, "Change windows"),
    ...(queues.length ? queues.map(ofQueue) : [none]),
  );
}

function ofQueue(queue) {
  const [, ...parts] = windowsPart(queue);
  return element("section", { class: "part" }, element("h2", {}, queueLink(queue.queue)), ...parts);
}
