// Requests to the command that serves this page. The token is this window's alone: it is in no address and no
// cookie, and dies with the command.

const KEPT = "token"; // sessionStorage is per window, and per port: a reload needs it
const CODE = /^#[\w-]{43}$/;
let token = "";

/** The command refused, or the API server did; the text says why. */
export class Refused extends Error {
  constructor(status, text, body) {
    super(text);
    this.status = status;
    this.body = body;
  }
}

/** Exchange the code of the address for a token, and take it out of the address. */
export async function enter() {
  token = sessionStorage.getItem(KEPT) ?? "";
  if (!CODE.test(location.hash)) return;
  const code = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
  try {
    ({ token } = await ask("POST", "/api/session", { code }));
  } catch (error) {
    if (!(error instanceof Refused && token)) throw error; // a reload of an address that was used: it has one
  }
  sessionStorage.setItem(KEPT, token);
}

/** The answer's JSON. Raises Refused; TypeError where nothing answers. */
export async function ask(method, path, body) {
  const response = await request(method, path, body);
  const answer = await response.json();
  if (!response.ok) throw new Refused(response.status, answer.error ?? response.statusText, answer);
  return answer;
}

/** The lines of the stream, each as its JSON, until it ends. Raises as `ask`. */
export async function* lines(path) {
  const response = await request("GET", path);
  if (!response.ok) throw new Refused(response.status, (await response.json()).error);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (true) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (text + value).split("\n");
    text = parts.pop();
    for (const part of parts) yield JSON.parse(part);
  }
}

function request(method, path, body) {
  const headers = { Authorization: `Bearer ${token}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  return fetch(path, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
  });
}
