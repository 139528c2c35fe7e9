"""The WSGI app: every endpoint, and the same JSON form for every error.

| error                                         | answer                              |
|-----------------------------------------------|-------------------------------------|
| not JSON, wrong type, missing, nested too deep | 400                                |
| unknown path                                  | 404                                 |
| wrong method                                  | 405                                 |
| longer than `BODY_LIMIT` (without the worker) | 413                                 |
| not `application/json`                        | 415                                 |
| the cluster has not been read yet (webhooks)  | 503                                 |

The JSON is a Kubernetes `Status`, so the API server and kubectl show its message. The worker refuses some
requests before the app is called, such as those with too large a body, in the same form
(`server.http.refusals`).

A request passes `CloseWhenUnready`, then `FastPath`, then Flask. Who may call what is decided before that, by
the worker (`server.http.authorization`): no caller without a right reaches the app.

| path       | 200                                              | otherwise                     |
|------------|--------------------------------------------------|-------------------------------|
| `/healthz` | the process and its threads are alive            | 503 with the dead ones' names |
| `/readyz`  | alive, the whole cluster has been read, and the  | 503 with what is missing, and |
|            | API server serves all fields of our own kinds;   | the way out                   |
|            | `warnings`: what it does not ask us about        |                               |
| `/metrics` | always: the metrics in Prometheus' text format   |                               |
"""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from flask import Blueprint, Flask, Response, g, request
from prometheus_client import CONTENT_TYPE_LATEST, Metric, generate_latest
from prometheus_client.registry import Collector
from werkzeug.exceptions import HTTPException, UnsupportedMediaType

from cluster.cache.store import Clock, Store
from cluster.exceptions import NotReady, Unreadable
from cluster.metrics import Metrics
from cluster.token_bucket import TokenBucket
from extender.routes import Scoring
from extender.routes import handlers as extender_handlers
from queues.membership import MembershipSettings
from server.http.limits import REVIEW_BYTES
from server.http.refusals import Count
from server.http.responses import FOR_PROBES, Environ, WsgiApp, status_error
from webhooks.routes import handlers as webhook_handlers
from webhooks.settings import AdmissionSettings

BodyHandler = Callable[[bytes], bytes]
#: Texts that say what is wrong; empty if nothing is.
ProbeCheck = Callable[[], list[str]]

#: For any path; the worker enforces the limit of each path (`server.http.limits`).
BODY_LIMIT = REVIEW_BYTES
#: On the port of the probes: a page takes 4 ms, and everybody may ask. Beyond that the last one is sent.
PAGES_PER_SECOND = 20
#: The label by which series name a queue.
QUEUE = "queue"
#: Digits of a length that can be within the limit.
LENGTH_DIGITS = 9

log = logging.getLogger(__name__)


def create_app(
    store: Store | None = None,
    *,
    admission: AdmissionSettings | None = None,
    metrics: Metrics | None = None,
    alive: ProbeCheck = list,
    ready: ProbeCheck | None = None,
    scoring: Scoring = lambda: None,
    is_reading_for_scores: Callable[[], bool] = bool,
    names_queues: bool = False,
) -> Flask:
    """The app, which answers from `store`; without a store it knows no cluster and is not ready.

    `names_queues`: whether the page of the metrics has series by queue.
    """
    store = store or Store(membership_settings=MembershipSettings(), clock=Clock())
    metrics = metrics or Metrics()
    app = Flask("sluice", static_folder=None)
    app.url_map.merge_slashes = False
    app.config["MAX_CONTENT_LENGTH"] = BODY_LIMIT
    handlers = {
        **extender_handlers(store, scoring=scoring, is_reading_for_scores=is_reading_for_scores),
        **webhook_handlers(store, admission or AdmissionSettings()),
    }
    for path, handler in handlers.items():
        app.add_url_rule(
            path, endpoint=path[1:].replace("/", "-"), view_func=_view(handler), methods=["POST"]
        )
    page = MetricsPage(metrics, names_queues=names_queues)
    app.register_blueprint(
        _health_routes(
            alive=alive,
            ready=ready or _ready(store),
            # No reason to leave the Service: no replica would answer once the API server asks again.
            warnings=lambda: store.registrations.state.lines,
            page=page,
        )
    )
    _register_error_handlers(app)
    _record_metrics(app, metrics)
    fast_path = FastPath(app.wsgi_app, handlers=handlers, metrics=metrics, limit=BODY_LIMIT)
    app.wsgi_app = CloseWhenUnready(fast_path, store=store)  # type: ignore[method-assign] # Flask documents this
    return app


def _view(handler: BodyHandler) -> Callable[[], Response]:
    def view() -> Response:
        return Response(handler(request.get_data(cache=False)), mimetype="application/json")

    return view


def _ready(store: Store) -> ProbeCheck:
    return lambda: [] if store.synced else ["the cluster has not been read yet"]


def _health_routes(
    *, alive: ProbeCheck, ready: ProbeCheck, warnings: ProbeCheck, page: MetricsPage
) -> Blueprint:
    routes = Blueprint("health", __name__)

    @routes.get("/healthz")
    def healthz() -> Response:
        return _checks_response(alive())

    @routes.get("/readyz")
    def readyz() -> Response:
        return _checks_response([*alive(), *ready()], warnings=warnings())

    @routes.get("/metrics")
    def metrics_page() -> Response:
        body = page.recent() if request.environ.get(FOR_PROBES) else page.current()
        return Response(body, content_type=CONTENT_TYPE_LATEST)

    return routes


class UnnamedQueues:
    """The metrics but those that name queues, for `generate_latest`: everybody may read the page."""

    def __init__(self, registry: Collector) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            if not any(QUEUE in sample.labels for sample in family.samples):
                yield family


class MetricsPage:
    """The metrics as Prometheus reads them; without `names_queues` only those that name no queue."""

    def __init__(
        self, metrics: Metrics, *, names_queues: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._registry = metrics.registry if names_queues else UnnamedQueues(metrics.registry)
        self._clock = clock
        self._pages = TokenBucket(PAGES_PER_SECOND, now=clock())
        self._last = b""

    def current(self) -> bytes:
        self._last = generate_latest(self._registry)
        return self._last

    def recent(self) -> bytes:
        """One that is at most a moment old: `PAGES_PER_SECOND` are made."""
        return self.current() if self._pages.try_take(self._clock()) else self._last


def _checks_response(problems: list[str], *, warnings: list[str] | None = None) -> Response:
    answer = {"ok": not problems, "missing": problems, **({"warnings": warnings} if warnings else {})}
    body = msgspec.json.encode(answer)
    return Response(body, status=503 if problems else 200, mimetype="application/json")


def _register_error_handlers(app: Flask) -> None:
    @app.before_request
    def only_json() -> None:
        if (
            request.method == "POST"
            and request.url_rule is not None
            and request.mimetype != "application/json"
        ):
            raise UnsupportedMediaType("send application/json")

    @app.errorhandler(Unreadable)
    def unreadable(exc: Unreadable) -> Response:
        return _error_response(400, str(exc))

    @app.errorhandler(NotReady)
    def not_ready(exc: NotReady) -> Response:
        return _error_response(503, str(exc))

    @app.errorhandler(HTTPException)
    def refused(exc: HTTPException) -> Response:
        response = _error_response(exc.code or 500, exc.description or "")
        for key, value in exc.get_headers():
            if key == "Allow":
                response.headers[key] = value
        return response

    @app.errorhandler(Exception)
    def failed(_exc: Exception) -> Response:
        log.exception("%s %s failed", request.method, request.path)
        return _error_response(500, "an error inside sluice; its log says more")


def _record_metrics(app: Flask, metrics: Metrics) -> None:
    @app.before_request
    def begin() -> None:
        g.began = time.perf_counter()

    @app.after_request
    def end(response: Response) -> Response:
        path = request.url_rule.rule if request.url_rule is not None else "unknown"
        metrics.requests.labels(path, response.status_code).inc()
        if "began" in g:
            metrics.request_duration.labels(path).observe(time.perf_counter() - g.began)
        return response


def refusal_counter(app: Flask, metrics: Metrics) -> Count:
    """Counts requests that the worker refuses before `app` is called, by the paths of the app."""
    paths = {rule.rule for rule in app.url_map.iter_rules()}

    def count(path: str, status: int) -> None:
        metrics.requests.labels(path if path in paths else "unknown", status).inc()

    return count


def _error_response(code: int, message: str) -> Response:
    return Response(status_error(code, message), status=code, mimetype="application/json")


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
        self, app: WsgiApp, *, handlers: Mapping[str, BodyHandler], metrics: Metrics, limit: int
    ) -> None:
        self._app = app
        self._limit = limit
        self._routes = {
            path: (handler, metrics.requests.labels(path, 200), metrics.request_duration.labels(path))
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
