"""Quotas that nobody should write: each has a clear answer, and everybody else is answered as before."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.cache.members import Members
from tests.support.cases import each_case
from tests.support.http.asking import Server
from tests.support.http.wire_objects import NAMED, member, pod, queue
from tests.webhooks.queues.test_queue_edits import create, edit

#: A quantity that is none, one below zero, one beyond all bounds; a weight of 0; thousands of resources.
BAD: dict[str, Any] = {
    "capability.cpu": {"capability": {"cpu": "two"}},
    "capability.memory": {"capability": {"memory": "-1Gi"}},
    "deserved.cpu": {"deserved": {"cpu": 10**30}},
    "guarantee.resource.cpu": {"guarantee": {"resource": {"cpu": "1e30"}}},
    "weight": {"weight": 0},
    "capability:": {"capability": {f"example.com/r{number}": "1" for number in range(5000)}},
    "deserved.cpu: ": {"deserved": {"cpu": "3"}, "capability": {"cpu": "2"}},
}


@each_case("place", BAD)
def test_it_is_refused_by_its_place(place: str) -> None:
    server, bad = Server().has(queue("q"), queue("other")), BAD[place]
    for answer in (create(server, queue("new", **bad)), edit(server, queue("q"), queue("q", **bad))):
        assert (answer.allowed, answer.code) == (False, 422)
        assert answer.message.startswith(f"spec.{place}"), answer.message
    assert edit(server, queue("other"), queue("other", capability={"cpu": "2"})).allowed


@each_case("spec", BAD.values(), ids=BAD)
def test_stored_all_the_same_it_holds_up_nobody_else(spec: dict[str, Any]) -> None:
    """The definition, or this webhook, may not have been there."""
    server = Server().has(queue("bad", **spec), queue("below", parent="bad"), queue("other"))
    for name in ("below", "other"):
        work = pod(annotations={NAMED: name}, resources={"requests": {"cpu": "1"}})
        assert server.ask("/mutate/pods", work).allowed
    assert edit(server, queue("bad", **spec), queue("bad")).allowed


def test_a_parent_that_closes_a_cycle_is_refused() -> None:
    server = Server().has(queue("lab", capability={"cpu": "2"}), queue("team", parent="lab"))
    answer = edit(server, queue("lab", capability={"cpu": "2"}), queue("lab", parent="team"))
    assert (answer.allowed, "cycle" in answer.message) == (False, True), answer.message


def test_a_capability_of_root_is_answered_by_counts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many run: no pod is looked at."""
    server = Server().has(queue("root", parent=""), queue("lab"))
    resources = {"requests": {"cpu": "2"}}
    for number in range(20):
        server.has(member(f"w-{number}", queue="lab", nodeName="node-1", resources=resources))

    def looked_at(*_: object) -> None:
        raise AssertionError("pods were looked at")

    for name in ("in_queue", "waiting_in", "by_uid"):
        monkeypatch.setattr(Members, name, looked_at)
    answer = edit(server, queue("root", parent=""), queue("root", parent="", capability={"cpu": "8"}))
    assert answer.allowed
    assert answer.warnings == [
        'queue "root" uses cpu 40 of 8: nothing is evicted for that, and nothing that requests it is '
        "released until enough has ended"
    ]
