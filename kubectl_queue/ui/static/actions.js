// What can be done to a queue: a form, its preview in the plugin's text, the write, and the way of the edit.

import { ask, Refused } from "/static/api.js";
import { element, foreign, visible, withTimes } from "/static/text.js";
import { WINDOW_ACTIONS, windowAction } from "/static/window_actions.js";

const REASON = { flag: "reason", label: "Reason, shown to those whose work it stops" };
const STOP = [
  REASON,
  { flag: "for", label: "Resume after, such as 30m, 2h or 7d" },
  { flag: "until", label: "or at, such as 18:30 or 2030-01-31T18:30:00Z" },
];
export const ACTIONS = {
  suspend: { word: "Suspend", does: "new work waits, what runs goes on", fields: STOP },
  hold: { word: "Hold", does: "as suspend, by its stop policy", fields: STOP },
  drain: {
    word: "Drain",
    does: "new work waits, what runs is evicted",
    fields: [
      ...STOP,
      { flag: "keep", label: "Pods that stay, such as app=db" },
      { flag: "rate", label: "Pods a second, at most" },
      { flag: "deadline", label: "Deadline, such as 2h or 18:30" },
    ],
  },
  resume: { word: "Resume", does: "undoes a suspension and a stop policy", fields: [] },
  close: { word: "Close", does: "takes no new work, and runs out", fields: [REASON] },
  open: { word: "Open", does: "takes and schedules work", fields: [] },
  move: { word: "Move", does: "puts it under another parent", fields: [{ flag: "parent", label: "The queue above", needed: true }] },
};

/** The way that is shown of the last edit of this window; by queue, it outlasts the form. */
let way = { name: "", verb: "", since: 0, steps: "" };

/** The links to all actions; where the viewer may not edit, each says so. */
export function actionsOf(name, rights) {
  const path = `/queues/${encodeURIComponent(name)}`;
  const links = Object.entries(ACTIONS).map(([verb, { word, does }]) =>
    rights.allowed
      ? element("a", { class: "button", href: `${path}/${verb}`, title: does }, word)
      : element("button", { type: "button", "aria-disabled": "true", "aria-describedby": "no-rights" }, word),
  );
  return [
    element("h2", { class: "unseen" }, "Actions"),
    element("p", { class: "tools" }, ...links),
    ...(rights.allowed ? [] : [element("p", { id: "no-rights", class: "quiet" }, "Not allowed: ", visible(rights.reason))]),
  ];
}

function actionOf(verb, search) {
  if (Object.hasOwn(WINDOW_ACTIONS, verb)) return windowAction(verb, search);
  if (Object.hasOwn(ACTIONS, verb)) return { ...ACTIONS[verb], verb, window: "", title: "", fixed: {} };
  return null;
}

/** Build the form of an action in its place. `search`: of the address; it names a window. */
export function actionForm(name, verb, search, place) {
  const action = actionOf(verb, search);
  if (!action) return;
  const path = `/api/queues/${encodeURIComponent(name)}`;
  const fields = action.fields.map((field) => ({ ...field, input: inputOf(field) }));
  const shown = element("div", { class: "preview" });
  const form = element(
    "form",
    { class: "action", "aria-labelledby": "action-heading" },
    element("h2", { id: "action-heading" }, `${action.word} `, action.title, foreign(name), element("span", { class: "quiet" }, ` – ${action.does}`)),
    ...fields.map(({ label, input }) => element("p", {}, element("label", { for: input.id }, label), input)),
    element(
      "p",
      { class: "tools" },
      element("button", { type: "submit" }, "Preview"),
      element("a", { class: "button", href: `/queues/${encodeURIComponent(name)}` }, "Leave it"),
    ),
  );
  const values = () => ({
    ...action.fixed,
    ...Object.fromEntries(fields.filter(({ input }) => input.value).map(({ flag, input }) => [flag, input.value])),
  });
  const preview = async () => {
    shown.replaceChildren("Asking…");
    try {
      const wanted = { verb, window: action.window, values: values() };
      const answer = await ask("POST", `${path}/preview`, wanted);
      shown.replaceChildren(...previewOf(answer, { name, action, path, wanted, preview, shown }));
      shown.querySelector("h3")?.focus();
    } catch (error) {
      shown.replaceChildren(faultOf(error));
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    preview();
  });
  // A preview of other values than those that are there would be a lie.
  form.addEventListener("input", () => shown.replaceChildren());
  place.replaceChildren(form, shown);
  (fields[0]?.input ?? form.querySelector("button")).focus();
}

function inputOf({ flag, needed }) {
  return element("input", { id: `field-${flag}`, autocomplete: "off", spellcheck: "false", required: Boolean(needed) });
}

function faultOf(error) {
  return element("p", { class: "fault", role: "alert" }, visible(error.message));
}

function list(texts, attributes) {
  return texts.length ? element("ul", attributes, ...texts.map((text) => element("li", {}, withTimes(text)))) : null;
}

function previewOf(answer, { name, action, path, wanted, preview, shown }) {
  const parts = [
    element("h3", { tabindex: "-1" }, "What it would do"),
    element("p", {}, foreign(name), " ", element("strong", { id: "outcome" }, withTimes(answer.outcome))),
    list(answer.warnings, { class: "warnings" }),
  ];
  if (answer.refusal) parts.push(element("p", { class: "fault" }, visible(answer.refusal)));
  parts.push(element("p", { class: "quiet" }, "The same in a terminal: ", element("code", {}, foreign(answer.command))));
  if (answer.pods) parts.push(podsOf(path, wanted));
  if (answer.refusal || !answer.isChange) return parts.filter(Boolean);

  const agree = answer.asked.length ? element("input", { type: "checkbox", id: "agree" }) : null;
  const typed = answer.typesName ? element("input", { id: "typed", autocomplete: "off" }) : null;
  const button = element("button", { type: "button", class: "do" }, `${action.word} it`);
  const ready = () => (!agree || agree.checked) && (!typed || typed.value === name);
  const check = () => button.setAttribute("aria-disabled", String(!ready()));
  if (agree) {
    parts.push(list(answer.asked, { class: "asked" }));
    parts.push(element("p", {}, agree, element("label", { for: "agree" }, " I have read this, and mean it")));
    agree.addEventListener("input", check);
  }
  if (typed) {
    parts.push(element("p", {}, element("label", { for: "typed" }, `Every queue is below this one. Type its name, ${name}: `), typed));
    typed.addEventListener("input", check);
  }
  check();
  button.addEventListener("click", async () => {
    if (!ready()) return;
    button.setAttribute("aria-disabled", "true");
    const { uid, generation, outcome, values } = answer;
    const said = { typed: typed?.value ?? "", agreed: Boolean(agree) };
    const agreed = { ...wanted, values, uid, generation, outcome, ...said };
    try {
      const written = await ask("POST", `${path}/edits`, agreed);
      showWritten(shown, { name, verb: wanted.verb, written });
    } catch (error) {
      const again = error instanceof Refused && error.body?.isConflict ? againButton(preview) : null;
      shown.replaceChildren(...[faultOf(error), again].filter(Boolean));
    }
  });
  parts.push(element("p", { class: "tools" }, button));
  return parts.filter(Boolean);
}

function againButton(preview) {
  const button = element("button", { type: "button" }, "Preview again");
  button.addEventListener("click", preview);
  return button;
}

function podsOf(path, wanted) {
  const place = element("div", { class: "pods" });
  const button = element("button", { type: "button" }, "Which pods would go?");
  button.addEventListener("click", async () => {
    button.setAttribute("aria-disabled", "true");
    try {
      const answer = await ask("POST", `${path}/pods`, wanted);
      place.replaceChildren(...[list(answer.warnings, { class: "warnings" }), ...answer.drains.map(drainOf)].filter(Boolean));
    } catch (error) {
      place.replaceChildren(faultOf(error));
    }
  });
  place.append(button);
  return place;
}

function drainOf({ summary, sections }) {
  return element(
    "div",
    {},
    element("p", { class: "summary" }, withTimes(summary)),
    ...sections.flatMap(({ heading, rows }) => [
      element("h4", {}, heading),
      element(
        "ul",
        {},
        ...rows.map(({ cells, blocks }) =>
          element("li", {}, withTimes(cells.filter(Boolean).join(" · ")), blocks.length ? list(blocks, {}) : null),
        ),
      ),
    ]),
  );
}

// The way of an edit.

function showWritten(shown, { name, verb, written }) {
  const steps = element("ol", { class: "steps", id: "steps" });
  shown.replaceChildren(
    ...[
      element("h3", { tabindex: "-1" }, foreign(name), " ", withTimes(written.outcome)),
      list(written.warnings, { class: "warnings" }),
      steps,
    ].filter(Boolean),
  );
  shown.querySelector("h3").focus();
  way = { name, verb, since: written.generation, steps: "" };
  follow();
}

/** Show how far the edit is; called with each frame until it has ended. */
export async function follow() {
  const { name, verb, since } = way;
  const place = document.getElementById("steps");
  if (!name || !place) return;
  try {
    const path = `/api/queues/${encodeURIComponent(name)}/progress?verb=${verb}&since=${since}`;
    const answer = await ask("GET", path);
    if (way.since !== since || way.name !== name) return;
    const text = JSON.stringify(answer);
    if (text !== way.steps) place.replaceChildren(...stepsOf(answer));
    way.steps = text;
    if (answer.steps.every((step) => step.done)) way = { name: "", verb: "", since: 0, steps: "" };
  } catch (error) {
    if (error instanceof Refused) place.replaceChildren(element("li", {}, faultOf(error)));
  }
}

function stepsOf({ steps, never, left, gone }) {
  const current = steps.findIndex((step) => !step.done);
  const items = steps.map(({ name, done, text }, at) =>
    element(
      "li",
      { class: done ? "done" : "", "aria-current": at === current ? "step" : false },
      element("span", { class: "sign", "aria-hidden": "true" }, done ? "✓" : at === current ? "…" : "·"),
      element("strong", {}, name),
      done ? ": yes" : at === current ? ": not yet" : "",
      text ? element("span", {}, " – ", withTimes(text)) : null,
    ),
  );
  if (typeof left === "number" && left + gone > 0) {
    items.push(element("li", {}, element("progress", { max: left + gone, value: gone, "aria-label": "Pods that are gone" }), ` ${gone} gone, ${left} left`));
  }
  if (never) items.push(element("li", { class: "fault" }, visible(never)));
  return items;
}
