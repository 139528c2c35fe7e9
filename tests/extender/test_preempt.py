"""`POST /extender/preempt`: whom a pod may push aside."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cases import each_case, with_new
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    GROUP,
    Wire,
    member,
    namespace,
    pod,
    queue,
)

META = {
    "node-b": {"Pods": [{"UID": "u-1"}, {"UID": "u-2"}], "NumPDBViolations": 1},
    "node-a": {"Pods": [], "NumPDBViolations": 0},
}


def ask(server: Server, of: Wire, **victims: Any) -> dict[str, Any]:
    reply = server.post("/extender/preempt", {"Pod": of, **(victims or {"NodeNameToMetaVictims": META})})
    assert reply.status_code == 200, reply.text
    body = dict(reply.get_json())
    assert list(body) == ["NodeNameToMetaVictims"]
    assert None not in body["NodeNameToMetaVictims"].values(), "null as a node's value breaks kube-scheduler"
    return dict(body["NodeNameToMetaVictims"])


PASSING = pytest.mark.parametrize(
    "of", [pod(), member(queue="research")], ids=["of no queue", "of a queue that schedules"]
)


def new_server() -> Server:
    return Server().has(
        queue("research"), queue("stopped", state="Suspended"), queue("held", stopPolicy="Hold")
    )


@pytest.fixture
def server() -> Server:
    return new_server()


@each_case("of", [pod(), member(queue="research")], ids=["of no queue", "of one that schedules"])
@with_new(server=new_server)
def test_the_victims_that_kube_scheduler_chose_are_echoed(server: Server, of: Wire) -> None:
    assert ask(server, of) == META


@each_case(
    "of",
    [
        member(queue="stopped"),
        member(queue="held"),
        member(queue="absent"),
        pod(annotations={GROUP: "gang"}),
    ],
    ids=["suspended", "held", "queue not there", "podgroup not there"],
)
@with_new(server=new_server)
def test_a_pod_that_may_not_be_scheduled_evicts_no_pod(server: Server, of: Wire) -> None:
    assert ask(server, of) == {}


@each_case("of", [pod(), member(queue="research")], ids=["of no queue", "of one that schedules"])
@with_new(server=new_server)
def test_before_the_cluster_has_been_read_no_pod_is_evicted(server: Server, of: Wire) -> None:
    server.readiness.synced = False
    assert ask(server, of) == {}


def test_whole_pods_are_answered_by_uid(server: Server) -> None:
    victims = {"node-a": {"Pods": [member("v-1"), member("v-2")], "NumPDBViolations": 2}}
    assert ask(server, member(queue="research"), NodeNameToVictims=victims) == {
        "node-a": {"Pods": [{"UID": "uid-v-1"}, {"UID": "uid-v-2"}], "NumPDBViolations": 2}
    }


def test_what_the_scheduler_sends_by_uid_wins_over_whole_pods(server: Server) -> None:
    both = {"NodeNameToMetaVictims": META, "NodeNameToVictims": {"other": {"Pods": []}}}
    assert ask(server, member(queue="research"), **both) == META


def test_no_candidates_give_no_candidates(server: Server) -> None:
    assert ask(server, member(queue="research"), NodeNameToMetaVictims={}, NodeNameToVictims=None) == {}
    assert ask(server, member(queue="research"), NodeNameToMetaVictims=None, NodeNameToVictims={}) == {}


def test_victims_that_are_null_are_not_echoed_as_a_null_list(server: Server) -> None:
    """Go's `nil` slice is null on the wire, both ways; a node's own value never is."""
    [only] = ask(server, pod(), NodeNameToMetaVictims={"node-a": {"Pods": None}}).values()
    assert only == {"Pods": None, "NumPDBViolations": 0}


def test_a_call_without_candidates_is_refused(server: Server) -> None:
    reply = server.post("/extender/preempt", {"Pod": member()})
    assert reply.status_code == 400
    assert "NodeNameToMetaVictims" in reply.get_json()["message"]


def test_it_opens_no_pass(server: Server) -> None:
    """Preemption binds nobody: the pod comes back through filter."""
    ask(server, member(queue="research"))
    assert len(server.store.bind_passes) == 0


def test_a_pod_of_a_namespace_that_is_not_selected_gets_no_victims() -> None:
    """Its queue schedules, and not for this namespace."""
    server = Server().has(queue("vision", namespaceSelector={"matchLabels": {"team": "a"}}))
    assert ask(server, member(queue="vision")) == {}
    server.has(namespace("team", labels={"team": "a"}, version=2))
    assert ask(server, member(queue="vision")) == META
