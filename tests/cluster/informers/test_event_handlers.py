"""A sink that fails for one object takes all others, and that one when it can."""

from __future__ import annotations

import msgspec
import pytest

from cluster.informers.dispatch import IsolatedEventHandler
from cluster.key_backoff import LEAST, KeyBackoff
from cluster.objects import Metadata, Namespace
from cluster.scoring.event_handlers import AssignedPodEventHandler, NodeEventHandler
from cluster.scoring.objects import Node, ScoredPod
from queues.scoring.node_table import NodeTable


def named(name: str, version: int = 1) -> Namespace:
    return Namespace(metadata=Metadata(name=name, uid=name, resource_version=str(version)))


class Picky:
    """Takes everything but what it is told not to."""

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.held: dict[str, int] = {}

    def replace(self, objects: list[Namespace]) -> None:
        for name in self.held.keys() - {obj.metadata.name for obj in objects}:
            del self.held[name]
        for obj in objects:
            self.upsert(obj)

    def upsert(self, obj: Namespace) -> None:
        self._look_at(obj)
        self.held[obj.metadata.name] = obj.metadata.version

    def remove(self, obj: Namespace) -> None:
        self._look_at(obj)
        self.held.pop(obj.metadata.name, None)

    def _look_at(self, obj: Namespace) -> None:
        if obj.metadata.name in self.refused:
            raise ValueError("odd")


class Stage(msgspec.Struct):
    """A sink, and a clock that the test moves."""

    now: float = 100.0
    picky: Picky = msgspec.field(default_factory=Picky)

    def isolated(self) -> IsolatedEventHandler[Namespace]:
        return IsolatedEventHandler(self.picky, kind="namespaces", backoff=KeyBackoff(clock=lambda: self.now))


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_an_event_that_fails_keeps_no_other_out(stage: Stage) -> None:
    sink = stage.isolated()
    stage.picky.refused = {"evil"}
    for name in ("a", "evil", "b"):
        sink.upsert(named(name))
    assert stage.picky.held == {"a": 1, "b": 1}


def test_a_list_is_taken_but_for_what_fails_and_what_is_gone_is_gone(stage: Stage) -> None:
    sink = stage.isolated()
    sink.replace([named("old"), named("evil"), named("a")])
    stage.picky.refused = {"evil"}
    sink.replace([named("evil", 2), named("a", 2), named("b")])
    assert stage.picky.held == {"a": 2, "b": 1}


def test_it_is_handed_over_again_after_the_back_off(stage: Stage) -> None:
    sink = stage.isolated()
    stage.picky.refused = {"evil"}
    sink.upsert(named("evil"))
    stage.picky.refused = set()
    sink.retry()
    assert stage.picky.held == {}
    stage.now += LEAST
    sink.retry()
    assert stage.picky.held == {"evil": 1}


def test_its_next_state_is_handed_over_at_once_and_the_former_never_again(stage: Stage) -> None:
    sink = stage.isolated()
    stage.picky.refused = {"evil"}
    sink.upsert(named("evil"))
    stage.picky.refused = set()
    sink.upsert(named("evil", 2))
    stage.now += LEAST
    sink.retry()
    assert stage.picky.held == {"evil": 2}


def test_an_end_that_fails_is_handed_over_again(stage: Stage) -> None:
    sink = stage.isolated()
    sink.upsert(named("evil"))
    stage.picky.refused = {"evil"}
    sink.remove(named("evil", 2))
    stage.picky.refused = set()
    stage.now += LEAST
    sink.retry()
    assert stage.picky.held == {}


def test_assigned_pods_and_nodes_are_passed_on_to_the_node_table() -> None:
    """They are of types of their own, which must have what every handler of a reflector reads."""
    table, backoff = NodeTable(), KeyBackoff(clock=lambda: 0.0)
    nodes = IsolatedEventHandler(NodeEventHandler(table), kind="nodes", backoff=backoff)
    pods = IsolatedEventHandler(AssignedPodEventHandler(table), kind="assigned pods", backoff=backoff)
    spec = {"nodeName": "n1", "containers": [{"resources": {"requests": {"cpu": "2"}}}]}
    pod = msgspec.convert({"metadata": {"name": "p", "uid": "p"}, "spec": spec}, ScoredPod)
    assert nodes.upsert(msgspec.convert({"metadata": {"name": "n1"}}, Node))
    assert pods.upsert(pod)
    assert table.view().used[table.view().select(["n1"]), 0].tolist() == [2000]
    pods.remove(pod)
    assert table.view().used[table.view().select(["n1"]), 0].tolist() == [0]
