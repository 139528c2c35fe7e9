"""The metrics of the server: former names, and gauges without a value."""

from __future__ import annotations

import re

from prometheus_client import generate_latest

from cluster.metrics import Metrics


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_counters_have_their_former_names_for_a_release() -> None:
    metrics = Metrics()
    metrics.evicted("QueueStopped", "Evict")
    metrics.evicted("QueueStopped", "Scale")
    for what in ("list", "event", "event", "error", "unreadable"):
        metrics.reflected("pods", what)
    metrics.job_recreations.labels("done").inc()
    assert value(metrics, "sluice_pod_evictions_total", reason="QueueStopped", how="Evict") == 1
    assert value(metrics, "sluice_workload_suspensions_total", reason="QueueStopped", how="Scale") == 1
    former = [
        value(metrics, "sluice_evictions_total", reason="QueueStopped", how=how) for how in ("Evict", "Scale")
    ]
    assert former == [1, 1]
    assert value(metrics, "sluice_reflector_events_total", kind="pods") == 2
    assert value(metrics, "sluice_reflected_total", kind="pods", what="event") == 2
    assert value(metrics, "sluice_reflected_total", kind="pods", what="error") == 1
    assert value(metrics, "sluice_recreations_total", how="Suspend", outcome="done") == 1


def test_histograms_have_their_former_names_for_a_release() -> None:
    metrics = Metrics()
    metrics.request_duration.labels("/mutate/pods").observe(0.002)
    for name in ("sluice_request_duration_seconds", "sluice_request_seconds"):
        assert value(metrics, f"{name}_count", path="/mutate/pods") == 1
        assert value(metrics, f"{name}_bucket", path="/mutate/pods", le="0.0025") == 1
        assert value(metrics, f"{name}_bucket", path="/mutate/pods", le="0.001") == 0


def test_a_gauge_that_has_no_value_has_no_series() -> None:
    metrics, name = Metrics(), "sluice_oldest_unacknowledged_stop_timestamp_seconds"
    assert value(metrics, name) is None
    metrics.oldest_unacknowledged_stop.set(1700000000.0)
    assert value(metrics, name) == 1700000000
    metrics.oldest_unacknowledged_stop.set(None)
    assert value(metrics, name) is None


def test_no_series_says_when_another_one_was_created() -> None:
    metrics = Metrics()
    metrics.evicted("QueueStopped", "Evict")
    metrics.request_duration.labels("/mutate/pods").observe(0.002)
    assert not re.findall(r"\w+_created\b", generate_latest(metrics.registry).decode())


def test_names_follow_the_rules_of_prometheus() -> None:
    """Seconds say of what: a duration, or a moment. (The former names go with the next release.)"""
    former = {"sluice_request_seconds", "sluice_acknowledgement_seconds"}
    names = {family.name for family in Metrics().registry.collect()} - former
    seconds = {name for name in names if name.endswith("_seconds")}
    assert {name for name in seconds if re.search("_(duration|timestamp)_seconds$", name)} == seconds
