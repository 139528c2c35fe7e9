"""`/healthz`, `/readyz` and `/metrics`.

| path       | 200                                              | otherwise                     |
|------------|--------------------------------------------------|-------------------------------|
| `/healthz` | the process and its threads are alive            | 503 with the dead ones' names |
| `/readyz`  | alive, the whole cluster has been read, and the  | 503 with what is missing, and |
|            | API server serves all fields of our own kinds    | the way out                   |
| `/metrics` | always: the metrics in Prometheus' text format   |                               |
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from flask import Blueprint, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from cluster.metrics import Metrics

#: Texts that say what is wrong; empty if nothing is.
Check = Callable[[], list[str]]


def blueprint(*, alive: Check, ready: Check, metrics: Metrics) -> Blueprint:
    routes = Blueprint("health", __name__)

    @routes.get("/healthz")
    def healthz() -> Response:
        return _checks_response(alive())

    @routes.get("/readyz")
    def readyz() -> Response:
        return _checks_response([*alive(), *ready()])

    @routes.get("/metrics")
    def metrics_page() -> Response:
        return Response(generate_latest(metrics.registry), content_type=CONTENT_TYPE_LATEST)

    return routes


def _checks_response(problems: list[str]) -> Response:
    body = msgspec.json.encode({"ok": not problems, "missing": problems})
    return Response(body, status=503 if problems else 200, mimetype="application/json")
