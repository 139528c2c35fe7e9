"""The gauges of quotas: what is used, the limits, who waits; and how many series there are at most."""

from __future__ import annotations

import pytest

from cluster.metrics import Metrics
from controller import quota_gauges
from controller.gauges import set_gauges
from controller.quota_gauges import RESOURCES, set_quota_gauges
from queues.well_known import QUOTA_GATE
from tests.controller.test_gauges import gauge
from tests.support.http.asking import Server
from tests.support.http.wire_objects import Wire, member, queue


def running(name: str, of: str) -> Wire:
    requests = {"cpu": "500m", "memory": "1Ki"}
    return member(
        name, of, nodeName="node-1", containers=[{"name": "c", "resources": {"requests": requests}}]
    )


def series(metrics: Metrics, name: str) -> int:
    return sum(len(family.samples) for family in metrics.registry.collect() if family.name == name)


def test_a_queue_with_a_quota_has_what_it_and_all_below_it_use() -> None:
    server, metrics = (
        Server().has(queue("lab", capability={"cpu": "4"}), queue("vision", parent="lab")),
        Metrics(),
    )
    server.has(running("a", "lab"), running("b", "vision"), member("c", "vision", gates=[QUOTA_GATE]))
    set_gauges(server.store, metrics)
    assert gauge(metrics, "sluice_quota_used", queue="lab", resource="cpu") == 1
    assert gauge(metrics, "sluice_quota_used", queue="vision", resource="memory") == 1024
    assert gauge(metrics, "sluice_quota_used", queue="vision", resource="pods") == 1
    assert gauge(metrics, "sluice_quota_capability", queue="lab", resource="cpu") == 4
    assert gauge(metrics, "sluice_quota_capability", queue="vision", resource="cpu") is None
    assert gauge(metrics, "sluice_quota_waiting_pods", queue="lab") == 1
    assert gauge(metrics, "sluice_quota_series_left_out") == 0


def test_a_queue_without_a_quota_has_no_series_nor_one_that_has_lost_it() -> None:
    server, metrics = Server().has(queue("lab", capability={"cpu": "4"}), queue("free")), Metrics()
    server.has(running("a", "lab"), running("b", "free"))
    set_gauges(server.store, metrics)
    assert gauge(metrics, "sluice_quota_waiting_pods", queue="free") is None
    server.has(queue("lab", version=2, generation=2))
    set_gauges(server.store, metrics)
    for name in ("sluice_quota_used", "sluice_quota_capability", "sluice_quota_waiting_pods"):
        assert series(metrics, name) == 0


def test_of_a_queue_with_thousands_of_resources_few_have_series() -> None:
    many = {f"a{number}.example.com/r": "1" for number in range(5000)}
    server, metrics = Server().has(queue("lab", capability={**many, "cpu": "4"})), Metrics()
    set_gauges(server.store, metrics)
    assert series(metrics, "sluice_quota_used") == RESOURCES
    assert gauge(metrics, "sluice_quota_capability", queue="lab", resource="cpu") == 4
    assert gauge(metrics, "sluice_quota_series_left_out") == 5001 - RESOURCES


def test_of_too_many_queues_those_near_root_have_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_gauges, "SERIES", 4)
    server, metrics = Server().has(queue("z", capability={"cpu": "4"})), Metrics()
    server.has(*(queue(f"a{number}", parent="z", capability={"cpu": "1"}) for number in range(9)))
    set_quota_gauges(server.store, metrics)
    assert gauge(metrics, "sluice_quota_used", queue="z", resource="cpu") == 0
    assert (series(metrics, "sluice_quota_used"), series(metrics, "sluice_quota_waiting_pods")) == (4, 4)
    assert gauge(metrics, "sluice_quota_series_left_out") == 6
