"""Condition QuotaEnforced of a queue: what the leader waits for, and what it takes from a former leader."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.coordination.replica_report import ReplicaReport
from controller.controller import RESYNC_SECONDS
from controller.status.count_slots import COUNT_SECONDS
from tests.controller.status.test_quota_status import Server, running
from tests.support.controller.controller_harness import VERSION
from tests.support.http.wire_objects import Wire, member, namespace, queue

SEEN = ReplicaReport(VERSION, members=VERSION, quotas=True)


def enforced(server: Server, name: str = "lab") -> str:
    conditions = server.boundary.queues[name]["status"].get("conditions", [])
    return next((each["reason"] for each in conditions if each["type"] == "QuotaEnforced"), "")


def edited(**capability: str) -> Wire:
    """A queue that had no capability when it was created."""
    return queue("lab", generation=2, capability=capability)


def wait_for_requests(server: Server) -> None:
    """Until nothing is under way that was asked for before."""
    server.harness.clock.seconds += server.harness.store.bind_passes.request_seconds
    server.settle()


def look_again(server: Server) -> None:
    """Until all queues are looked at, though nothing has changed."""
    server.harness.clock.seconds += RESYNC_SECONDS
    server.settle()


def change(server: Server, name: str, *, version: int, **spec: Any) -> None:
    now = server.boundary.queues[name]
    meta = {
        **now["metadata"],
        "resourceVersion": str(version),
        "generation": now["metadata"]["generation"] + 1,
    }
    server.boundary.queues[name] = {**now, "metadata": meta, "spec": {**now["spec"], **spec}}
    server.has(server.boundary.queues[name], event="MODIFIED")
    server.settle()


def test_a_new_queue_has_its_capability_from_the_beginning() -> None:
    server = Server(queue("lab", capability={"cpu": "4"}), queue("free"))
    assert (enforced(server), enforced(server, "free")) == ("Enforced", "")


def test_a_capability_of_devices_holds_once_claims_are_known() -> None:
    server = Server(
        queue("lab", capability={"deviceclass/gpu": "4"}), queue("other", capability={"cpu": "4"})
    )
    devices = server.harness.store.device_claims
    assert (enforced(server), enforced(server, "other")) == ("DevicesUnknown", "Enforced")
    devices.classes.replace([])
    devices.claims.not_served()
    look_again(server)
    assert enforced(server) == "DevicesUnknown"
    devices.claims.replace([])
    look_again(server)
    assert enforced(server) == "Enforced"


def message(server: Server) -> str:
    conditions = server.boundary.queues["lab"]["status"]["conditions"]
    return str(next(each["message"] for each in conditions if each["type"] == "QuotaEnforced"))


def test_what_a_capability_of_a_stopped_queue_waits_for_reads_as_no_danger() -> None:
    """Nothing starts meanwhile. Once it is resumed that counts again."""
    server = Server(edited(cpu="4"))
    waits = (
        'the capability of queue "lab" does not hold yet: what was let through before it came may still start'
    )
    assert (enforced(server), message(server)) == ("RequestsUnderWay", waits)
    change(server, "lab", version=1_000, state="Suspended")
    server.harness.clock.seconds += COUNT_SECONDS
    server.settle()
    assert enforced(server) == "RequestsUnderWay"
    assert message(server) == f"nothing starts while it is stopped, so its capability may come later: {waits}"
    change(server, "lab", version=2_000, state="Open")
    server.harness.clock.seconds += COUNT_SECONDS
    server.settle()
    assert (enforced(server), message(server)) == ("RequestsUnderWay", waits)


def test_a_capability_that_is_set_later_holds_once_what_was_asked_for_before_is_over() -> None:
    server = Server(edited(cpu="4"))
    assert enforced(server) == "RequestsUnderWay"
    wait_for_requests(server)
    assert enforced(server) == "Enforced"
    assert server.step(seconds=COUNT_SECONDS) == server.step(seconds=COUNT_SECONDS) == []


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        ({"cpu": "9"}, "Enforced"),
        ({"cpu": "1"}, "Enforced"),
        ({"cpu": "4", "memory": "1"}, "RequestsUnderWay"),
    ],
    ids=["raised", "lowered", "of one more resource"],
)
def test_a_capability_that_holds_goes_on_holding_for_other_amounts(
    capability: dict[str, str], expected: str
) -> None:
    server = Server(queue("lab", capability={"cpu": "4"}))
    change(server, "lab", version=900, capability=capability)
    assert enforced(server) == expected


def test_more_than_the_capability_is_said_while_it_is_used() -> None:
    server = Server(queue("lab", capability={"cpu": "1"}), queue("vision", parent="lab"))
    server.has(running("a", "vision"), running("b", "lab"))
    server.settle()
    assert enforced(server) == "OverCapability"
    server.has(running("a", "vision", version=2, status={"phase": "Succeeded"}), event="MODIFIED")
    server.settle()
    assert enforced(server) == "Enforced"


def test_a_queue_that_comes_below_is_waited_for() -> None:
    server = Server(queue("lab", capability={"cpu": "4"}), queue("vision"))
    change(server, "vision", version=900, parent="lab")
    assert enforced(server) == "RequestsUnderWay"
    wait_for_requests(server)
    assert enforced(server) == "Enforced"


def test_a_replica_that_knows_no_quotas_is_named_and_what_it_let_through_is_waited_for() -> None:
    server = Server(queue("lab", capability={"cpu": "4"}))
    server.harness.others = {"old": ReplicaReport(VERSION, members=VERSION)}
    look_again(server)
    assert enforced(server) == "ReplicaUnaware"
    server.harness.others = {"new": SEEN}
    look_again(server)
    assert enforced(server) == "RequestsUnderWay"
    wait_for_requests(server)
    assert enforced(server) == "Enforced"


def test_a_replica_that_is_behind_is_waited_for() -> None:
    server = Server(edited(cpu="4"))
    server.harness.others = {"late": ReplicaReport(1, members=VERSION, quotas=True)}
    change(server, "lab", version=900, capability={"cpu": "4", "memory": "1"})
    wait_for_requests(server)
    assert enforced(server) == "ReplicaBehind"
    server.harness.others = {"late": SEEN}
    server.settle()
    assert enforced(server) == "RequestsUnderWay"


@pytest.mark.parametrize(
    ("generation", "reason", "expected"),
    [
        (2, "Enforced", "Enforced"),
        (2, "RequestsUnderWay", "RequestsUnderWay"),
        (1, "Enforced", "RequestsUnderWay"),
    ],
    ids=["it held", "it did not", "of a former generation"],
)
def test_a_new_leader_takes_it_from_the_status(generation: int, reason: str, expected: str) -> None:
    said = {
        "type": "QuotaEnforced",
        "status": str(reason == "Enforced"),
        "reason": reason,
        "observedGeneration": generation,
    }
    status = {"conditions": [said]}
    server = Server(queue("lab", generation=2, capability={"cpu": "4"}, status=status))
    assert enforced(server) == expected


def test_what_the_last_leader_said_counts_and_not_what_an_earlier_term_knew() -> None:
    """Another leader has met a replica that knows no quotas since."""
    server = Server(queue("lab", capability={"cpu": "4"}))
    assert enforced(server) == "Enforced"
    stored = server.boundary.queues["lab"]
    [*others, said] = stored["status"]["conditions"]
    assert said["type"] == "QuotaEnforced"
    stored["status"]["conditions"] = [*others, {**said, "status": "False", "reason": "ReplicaUnaware"}]
    stored["metadata"]["resourceVersion"] = "500"
    server.has(stored, event="MODIFIED")
    next(part for part in server.harness.controller.parts if part.name == "quota_enforcement").begin_term()
    server.settle()
    assert enforced(server) == "RequestsUnderWay"


def test_a_pod_without_a_gate_is_waited_for_until_its_bind_meets_the_guard() -> None:
    server = Server(queue("lab", capability={"cpu": "4"}))
    server.has(namespace("team"), member("a", "lab"))
    server.settle()
    assert enforced(server) == "RequestsUnderWay"
    server.has(namespace("team", labels={"sluice.dev/guard": "x"}, version=2), event="MODIFIED")
    wait_for_requests(server)
    assert enforced(server) == "Enforced"
