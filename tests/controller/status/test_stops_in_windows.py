"""A stop that only a window makes is taken back while a replica lives that does not know windows."""

from __future__ import annotations

from typing import Any

from cluster.coordination.replica_report import ReplicaReport
from tests.controller.status.test_quota_enforcement import look_again
from tests.controller.status.test_quota_status import Server
from tests.support.controller.controller_harness import VERSION
from tests.support.http.wire_objects import queue

OLD = ReplicaReport(VERSION, members=VERSION, open=(), passes=(), binds=(), quotas=True)
NEW = ReplicaReport(VERSION, members=VERSION, open=(), passes=(), binds=(), quotas=True, windows=True)
FREEZE = {
    "name": "freeze",
    "from": "2030-01-01T00:00:00Z",
    "until": "2030-02-01T00:00:00Z",
    "stopPolicy": "Hold",
}
ON = {"name": "freeze", "start": FREEZE["from"], "until": FREEZE["until"]}


def active(server: Server) -> str:
    conditions = server.boundary.queues["lab"]["status"].get("conditions", [])
    return next((each["status"] for each in conditions if each["type"] == "Active"), "")


def waits_for(server: Server) -> str:
    stop: dict[str, Any] = server.boundary.queues["lab"]["status"].get("stop") or {}
    return str(stop.get("waitingFor", ""))


def settle(server: Server) -> None:
    for _ in range(3):
        look_again(server)


def test_an_acknowledgement_is_taken_back_when_an_older_replica_comes() -> None:
    server = Server(queue("lab", windows=[FREEZE], inWindow=[ON]))
    server.harness.others = {"new": NEW}
    settle(server)
    assert active(server) == "False"
    server.harness.others = {"old": OLD}
    settle(server)
    assert active(server) == "Unknown"
    assert waits_for(server).startswith("ReplicaUnaware: replica old is of a version that does not know")
    server.harness.others = {"new": NEW}
    settle(server)
    assert active(server) == "False"


def test_a_stop_of_the_spec_needs_no_replica_to_know_windows() -> None:
    server = Server(queue("lab", stopPolicy="Hold", windows=[FREEZE], inWindow=[ON]))
    server.harness.others = {"old": OLD}
    settle(server)
    assert active(server) == "False"
