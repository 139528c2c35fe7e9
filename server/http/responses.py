"""From a request to the WSGI environ, and from the app's response to bytes (PEP 3333). No I/O of its own."""

import http
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import msgspec

from server.http.request_parser import HttpRequest, RequestError

Environ = dict[str, Any]
ResponseHeaders = list[tuple[str, str]]
WsgiApp = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]

#: In the environ: whether the request came by the port of the probes, where everybody may call.
FOR_PROBES = "sluice.for_probes"
BODILESS_STATUSES = ("1", "204", "304")
# Headers that this server sets, whatever the app says.
SERVER_HEADERS = frozenset({"connection", "transfer-encoding", "keep-alive", "upgrade", "trailer", "date"})
#: What no header may hold: control characters, such as line breaks, and what is not Latin-1 (RFC 9110).
_not_in_headers = re.compile(r"[^\t\x20-\x7e\x80-\xff]").search
_KNOWN_NAMES = 256  # clients choose the names, so the cache of them is bounded
_environ_names: dict[bytes, str] = {}


def base_environ(*, host: str, port: int, tls: bool) -> Environ:
    """The part of the environ that all requests of a worker share."""
    return {
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "https" if tls else "http",
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,  # see large_bodies
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "wsgi.input_terminated": True,
        "SERVER_SOFTWARE": "sluice",
        "SERVER_NAME": host,
        "SERVER_PORT": str(port),
        "SCRIPT_NAME": "",
    }


def build_environ(request: HttpRequest, *, base: Environ) -> Environ:
    """The environ of a complete request. Raises RequestError for a target that is no path and no http URL."""
    path, query = _split(request.target)
    environ = base.copy()
    environ["REQUEST_METHOD"] = request.method
    environ["SERVER_PROTOCOL"] = f"HTTP/{request.version}"
    environ["PATH_INFO"] = path
    environ["QUERY_STRING"] = query
    for name, value in request.headers:
        _add_header(environ, name=name, value=value.decode("latin-1"))
    if request.body.tell():
        environ["CONTENT_LENGTH"] = str(request.body.tell())
    request.body.seek(0)
    environ["wsgi.input"] = request.body
    return environ


def _split(target: bytes) -> tuple[str, str]:
    if not target.startswith(b"/"):
        target = _origin_form(target)
    path, _, query = target.partition(b"?")
    if b"%" in path:
        path = unquote_to_bytes(path)
    return path.decode("latin-1"), query.decode("latin-1")


def _origin_form(target: bytes) -> bytes:
    try:
        url = urlsplit(target)
    except ValueError:
        url = urlsplit(b"")
    if url.scheme.lower() not in (b"http", b"https"):
        raise RequestError(400, "the target of a request is a path")
    return (url.path or b"/") + (b"?" + url.query if url.query else b"")


def _add_header(environ: Environ, *, name: bytes, value: str) -> None:
    key = _environ_names.get(name) or _environ_name(name)
    if b"_" in name or key == "HTTP_TRANSFER_ENCODING":
        return  # X_Y and X-Y have the same key; the body is decoded already
    environ[key] = f"{environ[key]},{value}" if key in environ else value


def _environ_name(name: bytes) -> str:
    key = name.decode("latin-1").upper().replace("-", "_")
    if key not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        key = f"HTTP_{key}"
    if len(_environ_names) < _KNOWN_NAMES:
        _environ_names[name] = key
    return key


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response before it is rendered."""

    status: str
    headers: ResponseHeaders
    body: bytes

    @property
    def closes_connection(self) -> bool:
        """Whether the app wants this to be the last response on its connection."""
        return ("Connection", "close") in self.headers


def call_app(app: WsgiApp, environ: Environ) -> HttpResponse:
    """The app's response. Lets the app's exceptions through.

    Raises ValueError for a response that cannot be sent, such as one with a line break in a header.
    """
    started: list[tuple[str, ResponseHeaders]] = []
    written: list[bytes] = []

    def start_response(
        status: str, headers: ResponseHeaders, exc_info: Any = None
    ) -> Callable[[bytes], None]:
        if started and exc_info is None:
            raise ValueError("the app called start_response twice")
        started[:] = [(status, headers)]
        return written.append

    chunks = app(environ, start_response)
    try:
        produced = list(chunks)  # first: a generator calls start_response, or write(), only now
    finally:
        close = getattr(chunks, "close", None)
        if close is not None:
            close()
    if not started:
        raise ValueError("the app never called start_response")
    status, headers = started[0]
    if any(_not_in_headers(text) for text in (status, *chain.from_iterable(headers))):
        raise ValueError("a status or header of the app holds a character that it may not hold")
    return HttpResponse(status, headers, b"".join([*written, *produced]))


def error_response(error: RequestError) -> HttpResponse:
    """The response to a request that does not reach the app."""
    status = f"{error.status} {http.HTTPStatus(error.status).phrase}"
    return HttpResponse(
        status, [("Content-Type", "application/json")], status_error(error.status, error.reason)
    )


def render(response: HttpResponse, *, date: str, keep_alive: bool, to_head: bool) -> bytes:
    """The response as bytes of HTTP/1.1."""
    lines = [f"HTTP/1.1 {response.status}", f"Date: {date}"]
    has_length = bodiless = response.status.startswith(BODILESS_STATUSES)
    for name, value in response.headers:
        lowered = name.lower()
        if lowered not in SERVER_HEADERS:
            has_length = has_length or lowered == "content-length"
            lines.append(f"{name}: {value}")
    if not has_length:
        lines.append(f"Content-Length: {len(response.body)}")
    if not keep_alive:
        lines.append("Connection: close")
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    return head if to_head or bodiless else head + response.body


def status_error(code: int, message: str) -> bytes:
    """The body of every error: a Kubernetes `Status`, whose message kubectl and the API server show."""
    phrase = http.HTTPStatus(code).phrase
    status = {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": "".join(word if word.isupper() else word.capitalize() for word in phrase.split()),
        "message": message,
    }
    return msgspec.json.encode(status)
