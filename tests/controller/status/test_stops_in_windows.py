"""A stop that only a window makes: taken back while a replica lives that does not know windows, and written
after the edges of other queues.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from cluster.coordination.replica_report import ReplicaReport
from tests.controller.status.test_quota_enforcement import look_again
from tests.controller.status.test_quota_status import Server, StatusBoundary
from tests.support.controller.controller_harness import VERSION, ControllerHarness, Inline, Sent
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


LATER = {**FREEZE, "from": "2030-01-01T12:01:00Z"}
EDGES = ["a", "b", "c"]


class EdgeBoundary(StatusBoundary):
    """Stores edges as well; `edges`: of which queues, in their order."""

    def __init__(self, *queues: Any) -> None:
        super().__init__(*queues)
        self.edges: list[str] = []

    def _write(self, method: str, path: str, body: Any) -> bytes:
        name = path.rpartition("/")[2]
        if name not in self.queues or method != "PATCH":
            return super()._write(method, path, body)
        self.sent.append(Sent(method, path, body))
        self.edges.append(name)
        self.edit(name, **body["spec"])
        return json.dumps(self.queues[name]).encode()

    def edit(self, name: str, **spec: Any) -> None:
        before = self.queues[name]
        meta = before["metadata"]
        version = {
            "generation": meta["generation"] + 1,
            "resourceVersion": str(int(meta["resourceVersion"]) + 100),
        }
        self.queues[name] = {
            **before,
            "metadata": {**meta, **version},
            "spec": {**before["spec"], **spec},
        }


class OneByOne(Inline):
    """Sends one write in a round."""

    def work(self) -> None:
        self.send_one()


def test_the_statuses_of_queues_with_an_edge_follow_the_edges_and_one_by_hand_waits_for_none() -> None:
    boundary = EdgeBoundary(
        queue("root", parent=""), *(queue(name, windows=[LATER]) for name in EDGES), queue("other")
    )
    harness = ControllerHarness(boundary)
    harness._writers[0].__class__ = OneByOne

    def step() -> tuple[list[str], list[str]]:
        """The edges and the statuses that were written."""
        boundary.edges.clear()
        boundary.written.clear()
        harness.sync(rounds=1, seconds=0.1)
        changed = {*boundary.edges, *boundary.written}
        harness.receive_events(*(boundary.queues[name] for name in changed), event="MODIFIED")
        return list(boundary.edges), list(boundary.written)

    harness.receive_events(*boundary.queues.values())
    for _ in range(40):
        step()
    harness.clock.at += timedelta(minutes=1)
    boundary.edit("other", stopPolicy="Hold")
    harness.receive_events(boundary.queues["other"], event="MODIFIED")
    edges: list[str] = []
    statuses: list[str] = []
    for _ in range(20):
        written, said = step()
        edges += written
        if len(edges) < len(EDGES):
            assert not {*said} & {*EDGES}
        statuses += said
    assert (sorted(edges), statuses[0]) == (EDGES, "other")
    assert {*statuses} == {"other", *EDGES}
