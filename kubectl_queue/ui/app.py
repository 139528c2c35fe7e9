"""The routes of the page.

| path                               | answers                                           | needs the token |
|------------------------------------|---------------------------------------------------|-----------------|
| `/`, `/queues/NAME...`, `/windows` | the page without any data                         | no              |
| `/static/...`                      | its scripts and its style                         | no              |
| POST `/api/session`                | a token for a code (`keys`)                       | the code        |
| GET `/api/viewer`                  | who looks, at which cluster                       | yes             |
| GET `/api/stream`                  | the rows of all queues, as they change (`stream`) | yes             |

Promises
- Nothing is read, decoded or asked of the API server for a request that `guard` refuses.
- An error is JSON with its text in the plugin's words; none has a trace.
- At most `STREAMS` windows are served, and `QUESTIONS` requests to the API server are under way, at a time;
  more are refused with 503.

Threads: each request in one of the server's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from flask import Flask, Response, render_template, request
from werkzeug.exceptions import HTTPException, abort

from kubectl_queue.access.client import ApiClient
from kubectl_queue.errors import QueueError, ServerError
from kubectl_queue.ui import guard
from kubectl_queue.ui.board import Board
from kubectl_queue.ui.keys import Keys
from kubectl_queue.ui.stream import HEARTBEAT, lines
from kubectl_queue.ui.viewer import Place, read_viewer

STREAMS, QUESTIONS = 16, 8
#: Of questions to the API server: it did not answer, or not as an API server does.
_BAD_GATEWAY = 502

T = TypeVar("T")
#: Makes a client for one request, which hands the warnings of the API server to the function.
Connect = Callable[[Callable[[str], None]], ApiClient]


@dataclass(frozen=True, kw_only=True)
class Backend:
    """What the routes answer from. `used`: called after a code was exchanged."""

    port: int
    keys: Keys
    board: Board
    connect: Connect
    place: Place
    used: Callable[[], None] = lambda: None
    heartbeat: float = HEARTBEAT


class Session(msgspec.Struct, frozen=True):
    token: str


class Code(msgspec.Struct, frozen=True):
    code: str


class Problem(msgspec.Struct, frozen=True):
    error: str


def create_app(backend: Backend) -> Flask:
    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = guard.LARGEST_BODY
    places = _Places()
    _add_guard(app, backend)
    _add_page(app)

    @app.post("/api/session")
    def session() -> Response:
        token = backend.keys.exchange(_body(Code).code)
        if token is None:
            abort(401, "this address was used before; the terminal has a new one")
        backend.used()
        return _json(Session(token))

    @app.get("/api/viewer")
    def viewer() -> Response:
        with places.question():
            return _json(read_viewer(backend.connect(_ignore), backend.place))

    @app.get("/api/stream")
    def stream() -> Response:
        place = places.stream()
        shown = lines(backend.board, heartbeat=backend.heartbeat)
        answer = Response(shown, mimetype="application/x-ndjson")
        answer.call_on_close(place)
        return answer

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
        )
        if refused is not None:
            abort(refused.status, refused.text)
        is_open = not asked.path.startswith("/api/") or asked.path == "/api/session"
        if not is_open and not backend.keys.is_known(guard.bearer(headers.get("Authorization"))):
            abort(401, "this window is not let in, or no longer; open the address that the terminal shows")

    @app.after_request
    def protect(response: Response) -> Response:
        response.headers.update(guard.HEADERS)
        return response

    @app.errorhandler(HTTPException)
    def refused(error: HTTPException) -> Response:
        return _json(Problem(str(error.description)), status=error.code or 500)

    @app.errorhandler(QueueError)
    def failed(error: QueueError) -> Response:
        return _json(
            Problem(str(error)), status=error.code if isinstance(error, ServerError) else _BAD_GATEWAY
        )

    @app.errorhandler(Exception)
    def mistaken(error: Exception) -> Response:
        return _json(Problem(f"{error!r}; this is a mistake in kubectl queue, please report it"), status=500)


def _add_page(app: Flask) -> None:
    @app.get("/")
    @app.get("/windows")
    @app.get("/queues/<name>")
    @app.get("/queues/<name>/<screen>")
    def page(name: str = "", screen: str = "") -> str:
        """The same for each screen: the script reads the address."""
        return render_template("page.html")


class _Places:
    """How much goes on at a time."""

    def __init__(self) -> None:
        self._streams = threading.BoundedSemaphore(STREAMS)
        self._questions = threading.BoundedSemaphore(QUESTIONS)

    def stream(self) -> Callable[[], None]:
        """Take a place; what is returned gives it back."""
        if not self._streams.acquire(blocking=False):
            abort(503, f"{STREAMS} windows are open already")
        return self._streams.release

    @contextmanager
    def question(self) -> Iterator[None]:
        if not self._questions.acquire(blocking=False):
            abort(503, "too many questions at a time")
        try:
            yield
        finally:
            self._questions.release()


def _body(kind: type[T]) -> T:
    try:
        return msgspec.json.decode(request.get_data(), type=kind)
    except msgspec.DecodeError as exc:
        abort(400, str(exc))


def _json(value: object, *, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status=status, mimetype="application/json")


def _ignore(text: str) -> None:
    """Warnings that nobody asked for."""
