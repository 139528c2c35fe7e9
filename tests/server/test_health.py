"""`/healthz`, `/readyz` and `/metrics`."""

from __future__ import annotations

import pytest
from flask import Flask
from flask.testing import FlaskClient
from prometheus_client.parser import text_string_to_metric_families

from cluster.metrics import Metrics
from server.app import PAGES_PER_SECOND, MetricsPage, create_app
from tests.support.http.asking import Server
from tests.support.http.wire_objects import pod, review


def test_the_app_is_ready_once_the_cluster_has_been_read() -> None:
    server = Server()
    server.readiness.synced = False
    reply = server.http.get("/readyz")
    assert reply.status_code == 503
    assert reply.get_json() == {"ok": False, "missing": ["the cluster has not been read yet"]}
    server.readiness.synced = True
    reply = server.http.get("/readyz")
    assert (reply.status_code, reply.get_json()) == (200, {"ok": True, "missing": []})


def test_everybody_may_read_the_metrics_so_no_queue_is_named_unless_it_is_wanted() -> None:
    """Each metric that has a label `queue`, and a queue whose quota is used and waited for."""
    metrics = Metrics()
    named = {"sluice_quota_used", "sluice_quota_capability", "sluice_quota_waiting_pods"}
    metrics.quota_used.labels("secret-project", "cpu").set(7)
    metrics.quota_capability.labels("secret-project", "cpu").set(9)
    metrics.quota_waiting.labels("secret-project").set(3)
    metrics.unmanaged.labels("secret-project").set(1)
    for metric in vars(metrics).values():  # and each that comes later
        labels = getattr(metric, "_labelnames", ())
        if "queue" in labels:
            metric.labels(*("secret-project" for _ in labels))
    page = create_app(metrics=metrics).test_client().get("/metrics").text
    assert "secret-project" not in page
    assert "sluice_members" in page
    whole = create_app(metrics=metrics, names_queues=True).test_client().get("/metrics").text
    found = {
        family.name for family in text_string_to_metric_families(whole) if "secret" in str(family.samples)
    }
    assert named <= found


def test_the_app_is_healthy_before_the_cluster_has_been_read() -> None:
    server = Server()
    server.readiness.synced = False
    assert server.http.get("/healthz").status_code == 200


@pytest.fixture
def app() -> Flask:
    """An app without a store; `client` of pytest-flask calls it."""
    return create_app()


def test_without_a_store_it_is_never_ready(client: FlaskClient) -> None:
    assert client.get("/readyz").status_code == 503


def test_a_dead_thread_makes_it_neither_healthy_nor_ready_and_is_named() -> None:
    dead: list[str] = []
    http = create_app(alive=lambda: dead, ready=list).test_client()
    assert [http.get(path).status_code for path in ("/healthz", "/readyz")] == [200, 200]
    dead.append("queue-controller")
    for path in ("/healthz", "/readyz"):
        reply = http.get(path)
        assert reply.status_code == 503
        assert reply.get_json()["missing"] == ["queue-controller"]


def test_readyz_names_dead_threads_before_what_is_missing() -> None:
    http = create_app(alive=lambda: ["a"], ready=lambda: ["b"]).test_client()
    assert http.get("/readyz").get_json()["missing"] == ["a", "b"]
    assert http.get("/healthz").get_json()["missing"] == ["a"]


def test_probes_may_ask_by_head() -> None:
    reply = create_app(ready=list).test_client().head("/readyz")
    assert (reply.status_code, reply.data) == (200, b"")


def requests_counted(metrics: Metrics) -> dict[tuple[str, str], float]:
    text = create_app(metrics=metrics).test_client().get("/metrics").text
    return {
        (sample.labels["path"], sample.labels["code"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "sluice_requests_total"
    }


def test_metrics_count_requests_by_route_and_not_by_path() -> None:
    metrics = Metrics()
    http = create_app(metrics=metrics).test_client()
    http.post("/mutate/pods", json=review(pod()))
    http.post("/mutate/pods", data=b"nonsense", content_type="application/json")
    for number in range(3):
        http.get(f"/unknown/{number}")
    http.get("/mutate/pods")
    counted = requests_counted(metrics)
    assert counted["/mutate/pods", "503"] == 1
    assert counted["/mutate/pods", "400"] == 1
    assert counted["unknown", "404"] == 3
    assert counted["unknown", "405"] == 1


def test_the_metrics_are_in_prometheus_format() -> None:
    reply = create_app().test_client().get("/metrics")
    assert reply.status_code == 200
    assert reply.content_type.startswith("text/plain")
    names = {family.name for family in text_string_to_metric_families(reply.text)}
    assert {"sluice_requests", "sluice_request_duration_seconds", "sluice_members", "sluice_queues"} <= names


def test_pages_of_the_metrics_are_made_at_a_bounded_rate_on_the_port_of_the_probes() -> None:
    now = [0.0]
    metrics = Metrics()
    page = MetricsPage(metrics, clock=lambda: now[0])
    pages = []
    for _ in range(PAGES_PER_SECOND + 5):
        metrics.failed("a step")
        pages.append(page.recent())
    assert len(set(pages)) == PAGES_PER_SECOND
    assert page.current() not in pages
    now[0] += 1 / PAGES_PER_SECOND
    metrics.failed("a step")
    assert page.recent() == page.current()


def test_two_apps_in_one_process_have_metrics_of_their_own() -> None:
    one, two = Metrics(), Metrics()
    create_app(metrics=one).test_client().get("/healthz")
    assert ("/healthz", "200") not in requests_counted(two)
