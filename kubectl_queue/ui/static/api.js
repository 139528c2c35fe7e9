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

/** The lines of the stream, each as its JSON, until it ends. Raises as `ask` where it does not begin.
 *
 * A WebSocket, since a browser opens six other connections to one host in all its windows together. */
export async function* lines(path) {
  const protocols = token ? ["lines", token] : ["lines"]; // an empty one is none
  const socket = new WebSocket(`ws://${location.host}${path}`, protocols);
  const texts = [];
  let isOver = false;
  let wake = () => {};
  socket.onmessage = ({ data }) => { texts.push(data); wake(); };
  socket.onclose = () => { isOver = true; wake(); };
  let isBegun = false;
  try {
    while (true) {
      for (; texts.length; isBegun = true) yield JSON.parse(texts.shift());
      if (isOver) break;
      await new Promise((done) => { wake = done; });
    }
  } finally {
    socket.close();
  }
  if (!isBegun) await whyNot(path);
}

/** A script is not told why a WebSocket was refused: the same address says so. Raises as `ask`. */
async function whyNot(path) {
  try {
    await ask("GET", path);
  } catch (error) {
    if (!(error instanceof Refused && error.status === 400)) throw error; // by now it would not be refused
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
