"""The short way to the handlers: what asks most often does not pass through Flask.

Invariants
- Only what is answered with 200 goes this way: a POST of `application/json`, of known length within the
  limit, on a path of the table, whose handler raises nothing. Everything else goes to Flask as it came,
  which asks the same handler and words the error; so the two ways never answer differently.
- A handler may run twice for a request that it refuses: they have no effect that a second time would add to.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cluster.metrics import Metrics

Handler = Callable[[bytes], bytes]
Environ = dict[str, Any]
WsgiApp = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


#: Of any length that could be within the limit.
LENGTH_DIGITS = 9


class FastPath:
    """A WSGI app in front of Flask's."""

    def __init__(
        self, app: WsgiApp, *, handlers: Mapping[str, Handler], counting: Metrics, limit: int
    ) -> None:
        self._app = app
        self._limit = limit
        self._routes = {
            path: (handler, counting.requests.labels(path, 200), counting.seconds.labels(path))
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
        except Exception:  # noqa: BLE001, RUF100 - Flask asks again, and words whatever it is
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
        known = length.isascii() and length.isdigit() and len(length) <= LENGTH_DIGITS
        return known and int(length) <= self._limit
