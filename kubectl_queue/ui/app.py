"""The routes of the page.

| path                               | answers                                           | needs the token |
|------------------------------------|---------------------------------------------------|-----------------|
| `/`, `/queues/NAME...`, `/windows` | the page without any data                         | no              |
| `/static/...`                      | its scripts and its style                         | no              |
| POST `/api/session`                | a token for a code (`keys`)                       | the code        |
| GET `/api/viewer`                  | who looks, at which cluster                       | yes             |
| GET `/api/stream`                  | the rows of all queues, as they change (`stream`),| yes             |
|                                    | over a WebSocket (`websocket`); else why not      |                 |
| `/api/queues/NAME...`              | one queue and its edits (`queue_routes`)          | yes             |
| GET `/api/windows`                 | the change windows of all queues                  | yes             |

Promises
- Nothing is read, decoded or asked of the API server for a request that `guard` refuses.
- An error is JSON with its text in the plugin's words; none has a trace.
- At most `STREAMS` windows are served, and `QUESTIONS` requests to the API server are under way, at a time;
  more are refused with 503.

Threads: each request in one of the server's.
"""

from __future__ import annotations

import msgspec
from flask import Flask, Response, abort, render_template, request
from werkzeug.exceptions import HTTPException

from kubectl_queue.errors import (
    ClosedError,
    ConfigError,
    CredentialsError,
    QueueError,
    ServerError,
    UnreachableError,
)
from kubectl_queue.ui import guard, websocket
from kubectl_queue.ui.backend import Backend, Places, decoded, ignore, json_answer
from kubectl_queue.ui.one_queue import windows
from kubectl_queue.ui.queue_routes import add_queue_routes
from kubectl_queue.ui.stream import lines
from kubectl_queue.ui.viewer import read_viewer

#: Of questions to the API server: it did not answer, or not as an API server does.
_BAD_GATEWAY = 502


class SessionToken(msgspec.Struct, frozen=True):
    token: str


class Code(msgspec.Struct, frozen=True):
    code: str


_code = msgspec.json.Decoder(Code)


class PageError(msgspec.Struct, frozen=True):
    error: str


def create_app(backend: Backend) -> Flask:
    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = guard.LARGEST_BODY
    places = Places()
    _add_guard(app, backend)
    _add_page(app)

    @app.post("/api/session")
    def session() -> Response:
        token = backend.keys.exchange(decoded(_code).code)
        if token is None:
            abort(401, "this address was used before; the terminal has a new one")
        backend.used()
        return json_answer(SessionToken(token))

    @app.get("/api/viewer")
    def viewer() -> Response:
        with places.question():
            return json_answer(read_viewer(backend.connect(ignore).client, backend.place))

    @app.get("/api/stream")
    def why_no_stream() -> Response:
        """A script is not told why its WebSocket was refused, and asks here."""
        with places.stream():
            abort(400, "the stream is a WebSocket")

    @app.route("/api/stream", websocket=True)
    def stream() -> Response:
        if not websocket.is_asked(request.headers):
            abort(400, "this is no handshake of the stream")
        with places.stream():
            shown = lines(backend.board, heartbeat=backend.heartbeat)
            websocket.serve(request.environ["werkzeug.socket"], request.headers, shown)
            return websocket.Served()

    @app.get("/api/windows")
    def all_windows() -> Response:
        return json_answer(windows(backend.board.shown().frame, now=backend.now()))

    add_queue_routes(app, backend, places)
    return app


def _add_guard(app: Flask, backend: Backend) -> None:
    @app.before_request
    def refuse() -> None:
        asked, headers = request, request.headers
        refused = guard.refusal(
            method=asked.method,
            host=headers.get("Host"),
            origin=headers.get("Origin"),
            port=backend.port,
            is_socket="Upgrade" in headers,
        )
        if refused is not None:
            abort(refused.status, refused.text)
        is_open = not asked.path.startswith("/api/") or asked.path == "/api/session"
        token = guard.bearer(headers.get("Authorization")) or websocket.token_of(headers)
        if not is_open and not backend.keys.is_known(token):
            abort(401, "this window is not let in, or no longer; open the address that the terminal shows")

    @app.after_request
    def protect(response: Response) -> Response:
        response.headers.update(guard.HEADERS)
        return response

    @app.errorhandler(HTTPException)
    def refused(error: HTTPException) -> Response:
        return json_answer(PageError(str(error.description)), status=error.code or 500)

    @app.errorhandler(QueueError)
    def failed(error: QueueError) -> Response:
        return json_answer(PageError(str(error)), status=_status(error))

    @app.errorhandler(Exception)
    def mistaken(error: Exception) -> Response:
        text = f"{error!r}; this is a mistake in kubectl queue, please report it"
        return json_answer(PageError(text), status=500)


def _status(error: QueueError) -> int:
    """The API server's own, where it answered."""
    if isinstance(error, ServerError):
        return error.code
    is_elsewhere = isinstance(error, UnreachableError | CredentialsError | ConfigError | ClosedError)
    return _BAD_GATEWAY if is_elsewhere else 400


def _add_page(app: Flask) -> None:
    @app.get("/")
    @app.get("/windows")
    @app.get("/queues/<name>")
    @app.get("/queues/<name>/<screen>")
    def page(name: str = "", screen: str = "") -> str:
        """The same for each screen: the script reads the address."""
        return render_template("page.html")
