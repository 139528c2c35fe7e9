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
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException, UnsupportedMediaType

from cluster.cache.store import Clock, Store
from cluster.exceptions import NotReady, Unreadable
from cluster.metrics import Metrics
from extender.routes import handlers as extender_handlers
from queues.membership import MembershipSettings
from server.health import Check
from server.health import blueprint as health_routes
from server.http.limits import REVIEW_BYTES
from server.http.refusals import Count
from server.http.responses import status_error
from server.middleware import CloseWhenUnready, FastPath, Handler
from webhooks.routes import handlers as webhook_handlers
from webhooks.settings import AdmissionSettings

#: For any path; the worker enforces the limit of each path (`server.http.limits`).
BODY_LIMIT = REVIEW_BYTES

log = logging.getLogger(__name__)


def create_app(
    store: Store | None = None,
    *,
    admission: AdmissionSettings | None = None,
    metrics: Metrics | None = None,
    alive: Check = list,
    ready: Check | None = None,
) -> Flask:
    """The app, which answers from `store`; without a store it knows no cluster and is not ready."""
    store = store or Store(rules=MembershipSettings(), clock=Clock())
    metrics = metrics or Metrics()
    app = Flask("sluice", static_folder=None)
    app.url_map.merge_slashes = False
    app.config["MAX_CONTENT_LENGTH"] = BODY_LIMIT
    handlers = {**extender_handlers(store), **webhook_handlers(store, admission or AdmissionSettings())}
    for path, handler in handlers.items():
        app.add_url_rule(
            path, endpoint=path[1:].replace("/", "-"), view_func=_view(handler), methods=["POST"]
        )
    app.register_blueprint(health_routes(alive=alive, ready=ready or _ready(store), metrics=metrics))
    _register_error_handlers(app)
    _record_metrics(app, metrics)
    fast_path = FastPath(app.wsgi_app, handlers=handlers, metrics=metrics, limit=BODY_LIMIT)
    app.wsgi_app = CloseWhenUnready(fast_path, store=store)  # type: ignore[method-assign] # Flask documents this
    return app


def _view(handler: Handler) -> Callable[[], Response]:
    def view() -> Response:
        return Response(handler(request.get_data(cache=False)), mimetype="application/json")

    return view


def _ready(store: Store) -> Check:
    return lambda: [] if store.synced else ["the cluster has not been read yet"]


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
            metrics.seconds.labels(path).observe(time.perf_counter() - g.began)
        return response


def refusal_counter(app: Flask, metrics: Metrics) -> Count:
    """Counts requests that the worker refuses before `app` is called, by the paths of the app."""
    paths = {rule.rule for rule in app.url_map.iter_rules()}

    def count(path: str, status: int) -> None:
        metrics.requests.labels(path if path in paths else "unknown", status).inc()

    return count


def _error_response(code: int, message: str) -> Response:
    return Response(status_error(code, message), status=code, mimetype="application/json")
