"""The gauges that follow from the store."""

from __future__ import annotations

from datetime import timedelta

from cluster.metrics import Metrics
from controller.gauges import largest, set_gauges, set_policy_gauges
from queues.managed_namespaces import read_selector
from queues.membership import MembershipSettings
from queues.policies.policy_set import NO_POLICIES
from queues.policies.policy_texts import read_policies
from tests.support.http.asking import Server
from tests.support.http.wire_objects import Wire, member, namespace, queue
from tests.support.rules.cases import NOW


def gauge(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_members_are_counted_and_those_whose_queue_does_not_exist() -> None:
    server, metrics = Server().has(queue("research")), Metrics()
    server.has(member("a", "research"), member("b", "research"), member("c", "absent"))
    set_gauges(server.store, metrics)
    assert gauge(metrics, "sluice_members") == 3
    assert gauge(metrics, "sluice_members_without_queue") == 1


def test_waiting_members_without_the_marker_are_counted() -> None:
    """The markers are what makes the extender see a pod; pods of before the installation have none."""
    server, metrics = Server().has(queue("research"), member("a", "research")), Metrics()
    set_gauges(server.store, metrics)
    assert gauge(metrics, "sluice_unmarked_members") == 1
    server.has(member("a", "research", version=2, nodeName="node-1", status={"phase": "Running"}))
    set_gauges(server.store, metrics)
    assert gauge(metrics, "sluice_unmarked_members") == 0


def test_in_mode_gate_no_member_lacks_the_marker() -> None:
    """There no scheduler asks, and an alert would never end."""
    server, metrics = Server().has(queue("research"), member("a", "research")), Metrics()
    set_gauges(server.store, metrics, schedulers_ask=False)
    assert gauge(metrics, "sluice_unmarked_members") == 0


def test_of_many_queues_the_largest_have_a_series_and_the_rest_one_together() -> None:
    by_queue = {"a": 1, "b": 5, "c": 2, "d": 2}
    assert largest(by_queue, limit=2) == {"b": 5, "c": 2, "_other": 3}
    assert largest(by_queue, limit=4) == by_queue


def test_queues_that_are_drained_are_counted_by_what_their_condition_says() -> None:
    def draining(name: str, reason: str) -> Wire:
        condition = {"type": "Drained", "status": str(reason == "Drained"), "reason": reason}
        return queue(name, status={"state": "Open", "conditions": [condition]})

    server, metrics = Server(), Metrics()
    server.has(draining("a", "Blocked"), draining("b", "Blocked"), draining("c", "Drained"), queue("d"))
    set_gauges(server.store, metrics)
    states = ("Draining", "Blocked", "DeadlinePassed", "Drained")
    counted = [gauge(metrics, "sluice_draining_queues", state=state) for state in states]
    assert counted == [0, 2, 0, None]


def test_members_in_namespaces_that_are_not_managed_are_counted_by_queue() -> None:
    """A queue without any has no series."""
    rules = MembershipSettings(managed_namespaces=read_selector("sluice.dev/managed=true"))
    server, metrics = Server(rules=rules).has(queue("research"), member("a", "research")), Metrics()
    assert server.store.members.get("team", "a") is not None
    set_gauges(server.store, metrics)
    assert gauge(metrics, "sluice_unmanaged_members", queue="research") == 1
    managed = namespace("team")
    managed["metadata"] |= {"labels": {"sluice.dev/managed": "true"}, "resourceVersion": "9"}
    server.has(managed)
    set_gauges(server.store, metrics)
    assert gauge(metrics, "sluice_unmanaged_members", queue="research") is None


def test_queues_are_counted_by_the_state_in_their_status() -> None:
    """A state that no queue is in any more has no series."""
    server, metrics = Server(), Metrics()
    server.has(queue("a", status={"state": "Open"}), queue("b", status={"state": "Closing"}))
    set_gauges(server.store, metrics)
    assert gauge(metrics, "sluice_queues", state="Closing") == 1
    server.has(queue("b", version=2, status={"state": "Closed"}))
    set_gauges(server.store, metrics)
    assert gauge(metrics, "sluice_queues", state="Closing") is None
    assert gauge(metrics, "sluice_queues", state="Closed") == 1
    assert gauge(metrics, "sluice_queues", state="Open") == 1


def test_policies_are_counted_by_state_with_the_time_at_which_none_was_broken() -> None:
    metrics, good = Metrics(), "actions: allocate\ntiers: [{}]"
    name = "sluice_policies_last_good_read_timestamp_seconds"
    set_policy_gauges(read_policies({"a": good, "b": good}), metrics, now=NOW)
    assert [gauge(metrics, "sluice_policies", state=state) for state in ("ok", "broken")] == [2, 0]
    later = NOW + timedelta(hours=1)
    set_policy_gauges(read_policies({"a": good, "b": "actions: x"}), metrics, now=later)
    assert [gauge(metrics, "sluice_policies", state=state) for state in ("ok", "broken")] == [1, 1]
    assert gauge(metrics, name) == NOW.timestamp()
    set_policy_gauges(NO_POLICIES, metrics, now=later)
    assert [gauge(metrics, "sluice_policies", state=state) for state in ("ok", "broken")] == [0, 0]
    assert gauge(metrics, name) == NOW.timestamp()
