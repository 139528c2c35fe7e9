"""WSGI apps in front of Flask: the fast path, and closing connections while the server is not ready.

A request passes `CloseWhenUnready`, then `FastPath`, then Flask.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cluster.cache.store import Store
from cluster.metrics import Metrics

Handler = Callable[[bytes], bytes]
Environ = dict[str, Any]
WsgiApp = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]

#: Digits of a length that can be within the limit.
LENGTH_DIGITS = 9


class CloseWhenUnready:
    """Closes the connection after each response while the store is not synced; the app answers all the same.

    kube-scheduler and kube-apiserver keep their connections: they would ask a replica that is cut off for as
    long as it answers "not ready", however many others there are. A closed connection is dialled again, and
    then the Service can direct it to another replica.
    """

    def __init__(self, app: WsgiApp, *, store: Store) -> None:
        self._app = app
        self._store = store

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        if self._store.synced:
            return self._app(environ, start_response)

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            return start_response(status, [*headers, ("Connection", "close")], exc_info)

        return self._app(environ, start)


class FastPath:
    """Calls the handlers of the most frequent requests without Flask.

    Invariants
    - It serves only what is answered with 200: a POST of `application/json` with a known length within the
      limit, on a path of the table, whose handler raises nothing. Everything else goes to Flask unchanged.
      Flask calls the same handler and words the error, so the two never answer differently.
    - A handler may run twice for a request that it refuses: a handler has no effect that happens twice then.
    """

    def __init__(
        self, app: WsgiApp, *, handlers: Mapping[str, Handler], metrics: Metrics, limit: int
    ) -> None:
        self._app = app
        self._limit = limit
        self._routes = {
            path: (handler, metrics.requests.labels(path, 200), metrics.seconds.labels(path))
            for path, handler in handlers.items()
        }

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        route = self._routes.get(environ["PATH_INFO"])
        if route is None or not self._is_eligible(environ):
            return self._app(environ, start_response)
        handler, requests, seconds = route
        began = time.perf_counter()
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        try:
            answer = handler(body)
        except Exception:  # noqa: BLE001, RUF100 - Flask calls the handler again and words the error
            environ["wsgi.input"] = io.BytesIO(body)
            return self._app(environ, start_response)
        requests.inc()
        seconds.observe(time.perf_counter() - began)
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
        return [answer]

    def _is_eligible(self, environ: Environ) -> bool:
        if environ["REQUEST_METHOD"] != "POST" or environ.get("CONTENT_TYPE") != "application/json":
            return False
        length = environ.get("CONTENT_LENGTH", "")
        if len(length) > LENGTH_DIGITS and length.isdigit():
            # Still too long, and a number that Flask can read.
            environ["CONTENT_LENGTH"] = "9" * LENGTH_DIGITS
            return False
        is_number = length.isascii() and length.isdigit() and len(length) <= LENGTH_DIGITS
        return is_number and int(length) <= self._limit
