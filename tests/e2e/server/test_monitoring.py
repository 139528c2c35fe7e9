"""The alerts and the board of manifests/monitoring, by promtool and with what a server serves."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from prometheus_client import Histogram, generate_latest

from cluster.metrics import Metrics
from localcluster import apiserver
from localcluster.apiserver import Https
from tests.support.e2e.sandbox import Sandbox
from tests.support.helm import built_promtool
from tests.support.manifests import prometheus
from tests.support.manifests.prometheus import board_queries, families, growing, metrics_in, run_queries
from tests.support.paths import ROOT

pytestmark = pytest.mark.cluster  # promtool is built with the control plane


@pytest.fixture(scope="module")
def promtool() -> Path:
    return built_promtool()


def test_each_alert_fires_and_ends(promtool: Path, tmp_path: Path) -> None:
    """tests/manifests/alerts.test.yaml; texts of the annotations are read there, too."""
    rules = prometheus.write_rules(tmp_path)
    shutil.copyfile(ROOT / "tests" / "manifests" / "alerts.test.yaml", tmp_path / "alerts.test.yaml")
    checked = prometheus.run(promtool, "check", "rules", "--lint-fatal", str(rules))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tested = prometheus.run(promtool, "test", "rules", str(tmp_path / "alerts.test.yaml"))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_each_query_of_the_board_gives_series_where_each_metric_has_some(
    promtool: Path, tmp_path: Path
) -> None:
    metrics = Metrics()
    metrics.oldest_unacknowledged_stop.set(1.0)
    for metric in vars(metrics).values():
        labels = getattr(metric, "_labelnames", ())
        if labels:
            child = metric.labels(*("x" for _ in labels))
            (child.observe if isinstance(child, Histogram) else child.inc)(1)
    metrics.requests.labels("/mutate/pods", 500).inc()
    series = growing(generate_latest(metrics.registry).decode())
    assert run_queries(promtool, tmp_path, series, [query.expr for query in board_queries()]) == ""


def test_the_board_reads_what_a_server_serves(promtool: Path, tmp_path: Path, sandbox: Sandbox) -> None:
    """Each metric is there; and each query gives series whose metrics have some at the moment."""
    sandbox.queue("work")
    context = apiserver.caller_context(sandbox.cluster.layout)
    with Https(port=sandbox.cluster.ports.server, context=context) as client:
        page = client.request("GET", "/metrics").body.decode()
    known = families(page)
    queries = []
    for query in board_queries():
        read = {name for name in metrics_in(query.expr) if name != "up"}
        assert read <= known.keys(), query.panel
        if all(known[name].samples for name in read) and "code" not in query.expr:
            queries.append(query.expr)
    assert "max(sluice_leader)" in queries
    assert run_queries(promtool, tmp_path, growing(page), queries) == ""
