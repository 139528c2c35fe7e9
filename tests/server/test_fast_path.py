"""The short way and the long way to a handler answer alike, and count alike."""

from __future__ import annotations

import json
from typing import Any

import pytest
from werkzeug.test import EnvironBuilder, TestResponse, run_wsgi_app

from cluster.metrics import Metrics
from server.app import BODY_LIMIT, create_app
from tests.server.test_bad_input import BODIES, NOT_JSON, PATHS, SERVER, refused
from tests.support.cases import each_case

#: Only the very words `application/json` take the short way.
LONG = "application/json; charset=utf-8"


def both(path: str, body: object) -> tuple[TestResponse, TestResponse]:
    return SERVER.post(path, body), SERVER.post(path, body, content_type=LONG)


@each_case("path", PATHS)
def test_good_requests_get_the_same_answer_from_the_fast_path_and_flask(path: str) -> None:
    short, long = both(path, BODIES[path])
    assert short.status_code == 200
    assert (short.status_code, short.data, short.content_type) == (
        long.status_code,
        long.data,
        long.content_type,
    )
    assert int(short.headers["Content-Length"]) == len(short.data)


@each_case("path", PATHS)
def test_bad_requests_get_the_same_error_from_the_fast_path_and_flask(path: str) -> None:
    for body in (*NOT_JSON.values(), b"{}", b"[]"):
        short, long = both(path, body)
        assert short.status_code == 400, body[:20]
        assert (short.data, short.content_type) == (long.data, long.content_type), body[:20]


@each_case("path", PATHS)
def test_before_the_cluster_has_been_read_both_say_so(path: str) -> None:
    SERVER.readiness.synced = False
    try:
        short, long = both(path, BODIES[path])
    finally:
        SERVER.readiness.synced = True
    assert (short.status_code, short.data) == (long.status_code, long.data)


def asked(**environ: Any) -> TestResponse:
    """A request that WSGI servers do not usually hand on."""
    body = json.dumps(BODIES["/mutate/pods"]).encode()
    builder = EnvironBuilder(path="/mutate/pods", method="POST", data=body, content_type="application/json")
    told, status, headers = run_wsgi_app(SERVER.app, {**builder.get_environ(), **environ})
    return TestResponse(told, status, headers, builder.get_request())


@each_case(
    ("length", "code"),
    [("0", 400), (str(BODY_LIMIT + 1), 413), ("9" * 30, 413), ("9" * 5000, 413), ("-1", 400), ("x", 400)],
    ids=lambda value: str(value)[:10],
)
def test_no_length_breaks_anything(length: str, code: int) -> None:
    refused(asked(CONTENT_LENGTH=length), code)


def test_a_length_below_the_bodys_cuts_it() -> None:
    refused(asked(CONTENT_LENGTH="10"), 400)


def counted(metrics: Metrics, code: str) -> float:
    labels = {"path": "/mutate/pods", "code": code}
    return metrics.registry.get_sample_value("sluice_requests_total", labels) or 0.0


@pytest.mark.parametrize("content_type", ["application/json", LONG])
def test_each_request_is_counted_once_by_its_code(content_type: str) -> None:
    """A refusal is worded by Flask after the short way has tried."""
    metrics = Metrics()
    http = create_app(SERVER.store, metrics=metrics).test_client()
    for body in (BODIES["/mutate/pods"], BODIES["/mutate/pods"], 5):
        http.post("/mutate/pods", data=json.dumps(body), content_type=content_type)
    assert (counted(metrics, "200"), counted(metrics, "400")) == (2, 1)
    seconds = metrics.registry.get_sample_value(
        "sluice_request_duration_seconds_count", {"path": "/mutate/pods"}
    )
    assert seconds == 3
