"""The alerts and the board of manifests/monitoring, by promtool and by a Prometheus that scrapes a server."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from prometheus_client import Histogram, generate_latest

from cluster.metrics import Metrics
from localcluster import apiserver
from localcluster.apiserver import Https
from tests.support.docs.volcano_metrics import expressions, recording_groups, recording_rules
from tests.support.e2e.prometheus_server import PrometheusServer
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until
from tests.support.helm import built_prometheus, built_promtool
from tests.support.manifests import prometheus
from tests.support.manifests.prometheus import (
    board_queries,
    families,
    growing,
    metrics_in,
    rules,
    run_queries,
    write_rules,
)
from tests.support.paths import ROOT

pytestmark = pytest.mark.cluster  # promtool is built with the control plane
#: In queries that give no series where all is well, and there are no Jobs, quotas and scheduling policies.
#: Queues are counted twice a minute: after a start there may be no series for so long.
MAY_BE_EMPTY = (
    "(sluice_queues)",
    "sluice_quota_",
    "sluice_oldest_unacknowledged_stop_timestamp_seconds",
    'code=~"[45].."',
    "sluice_workload_suspensions_total",
    "sluice_unreadable",
    "sluice_policies",
    "sluice_failures_total",
    "sluice_reflector_errors_total",
)


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


def test_what_stands_for_volcano_s_metrics_gives_series(promtool: Path, tmp_path: Path) -> None:
    """Of docs/operating/move-from-volcano.md each expression, and each series under its old name."""
    metrics = Metrics()
    for resource in ("cpu", "memory", "nvidia.com/gpu"):
        metrics.quota_used.labels("root", resource).set(1)
        metrics.quota_capability.labels("root", resource).set(2)
    metrics.quota_waiting.labels("root").set(1)
    metrics.pod_evictions.labels("Reclaimed", "Evict").inc()
    series = growing(generate_latest(metrics.registry).decode())
    histograms = ("scheduling_attempt_duration_seconds", "plugin_execution_duration_seconds")
    for name in (*histograms, "pod_scheduling_sli_duration_seconds"):
        labels = '{le="+Inf",plugin="x",result="scheduled"}'
        series.append({"series": f"scheduler_{name}_bucket{labels}", "values": "0+1x70"})
    for name in ("schedule_attempts_total", "preemption_attempts_total", "preemption_victims_sum"):
        series.append({"series": f'scheduler_{name}{{result="scheduled"}}', "values": "0+1x70"})
    series.append({"series": 'scheduler_pending_pods{queue="unschedulable"}', "values": "1x70"})
    queries = [*expressions(), *(rule["expr"] for rule in recording_rules())]
    assert len(queries) > 20
    assert run_queries(promtool, tmp_path, series, queries) == ""
    (tmp_path / "volcano.yaml").write_text(recording_groups())
    checked = prometheus.run(promtool, "check", "rules", "--lint-fatal", str(tmp_path / "volcano.yaml"))
    assert checked.returncode == 0, checked.stdout + checked.stderr


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


def test_prometheus_answers_each_query_of_the_board_and_an_alert_fires(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """It scrapes a server and evaluates all rules. After a drain the queries have series.

    Then somebody else writes the status of a dozen queues: of all trouble with an alert the quickest to make.
    """
    work = sandbox.queue("work")
    [pod] = sandbox.pods("runs", 1, work)
    sandbox.all_bound([pod])
    with PrometheusServer(built_prometheus(), sandbox.cluster, write_rules(tmp_path), tmp_path) as prometheus:
        until(lambda: prometheus.query('up{job="sluice"} == 1'), "the server to be scraped")
        sandbox.edit(work, stopPolicy="HoldAndDrain")
        for rule in rules():
            prometheus.query(rule["expr"])
        until(lambda: not without_series(prometheus), "each query to have series")
        known = {rule["name"]: (rule["health"], rule.get("lastError", "")) for rule in prometheus.rules()}
        assert known == {rule["alert"]: ("ok", "") for rule in rules()}
        assert prometheus.firing() == set()
        for queue in [sandbox.queue(f"contested-{number}") for number in range(12)]:
            path = f"{QUEUES}/{queue}/status?fieldManager=another-controller"
            sandbox.api.patch(path, {"status": {"state": "Closed"}}).must()
        until(prometheus.firing, "the alert to fire")
        assert prometheus.firing() == {"SluiceSecondController"}


def without_series(prometheus: PrometheusServer) -> list[str]:
    """The queries that should give some and give none. All are asked."""
    empty = [query.expr for query in board_queries() if not prometheus.query(query.expr)]
    return [expr for expr in empty if not any(read in expr for read in MAY_BE_EMPTY)]
