"""Who is told why it waits, and when."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.api.client import Client
from cluster.metrics import Metrics
from cluster.recorder import EventRecorder
from cluster.write_queue import Key, WriteQueue
from controller.pods.pod_conditions import LATER, PodConditions
from tests.support.controller.contexts import context_with
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    Wire,
    member,
    queue,
)
from tests.support.rules.cases import NOW

QUEUE = "research"


class Waiting:
    """Writers who have not come to any write yet."""

    def __init__(self) -> None:
        self.writes: dict[Key, Callable[[], object]] = {}

    def submit(self, key: Key, write: Callable[[], object], **_: Any) -> bool:
        return key not in self.writes and self.writes.setdefault(key, write) is write

    def __len__(self) -> int:
        return len(self.writes)


class Told:
    """What is told of the members of a queue that drains."""

    def __init__(self) -> None:
        self.server = Server().has(queue("root"), queue(QUEUE, stopPolicy="HoldAndDrain"))
        self.writers, self.evictions = Waiting(), Waiting()
        self.patched: list[str] = []
        client = cast(Client, SimpleNamespace(patch=lambda path, *_, **__: self.patched.append(path)))
        writers = cast(WriteQueue, self.writers)
        parts = context_with(
            store=self.server.store,
            client=client,
            writers=writers,
            status_writers=writers,
            drain_writers=self.evictions,
            recorder=EventRecorder(client=client, writers=writers, metrics=Metrics()),
        )
        self._pod_conditions = PodConditions(parts)

    def gated(self, name: str, *, age: timedelta) -> Wire:
        made = member(name, queue=QUEUE, gates=["sluice.dev/queue"])
        made["metadata"]["creationTimestamp"] = f"{NOW - age:%Y-%m-%dT%H:%M:%SZ}"
        self.server.has(made)
        return made

    def tell(self, *names: str) -> tuple[bool, set[object]]:
        """After a change of these: whether some are left for later, and whose condition is to be written."""
        found = (self.server.store.members.get("team", name) for name in names)
        later = self._pod_conditions.explain(QUEUE, [each for each in found if each is not None])
        return later, {uid for what, uid in self.writers.writes if what == "pod_condition"}


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def _evictions_wait(told: Told) -> None:
    told.evictions.submit(("drain", "uid-old"), lambda: None)


def test_a_gated_pod_is_told_at_once(told: Told) -> None:
    told.gated("new", age=timedelta())
    assert told.tell("new") == (False, {"uid-new"})


@pytest.mark.usefixtures("_evictions_wait")
def test_while_evictions_wait_it_is_told_when_it_is_no_longer_new(told: Told) -> None:
    told.gated("older", age=LATER)
    told.gated("new", age=LATER - timedelta(seconds=1))
    assert told.tell("older", "new") == (True, {"uid-older"})
    told.server.clock.at += timedelta(seconds=1)
    assert told.tell() == (False, {"uid-older", "uid-new"})


@pytest.mark.usefixtures("_evictions_wait")
def test_once_they_are_sent_whoever_was_left_is_told(told: Told) -> None:
    told.gated("new", age=timedelta())
    assert told.tell("new") == (True, set())
    told.evictions.writes.clear()
    assert told.tell() == (False, {"uid-new"})


@pytest.mark.usefixtures("_evictions_wait")
def test_whoever_has_gone_meanwhile_is_told_nothing(told: Told) -> None:
    made = told.gated("new", age=timedelta())
    assert told.tell("new") == (True, set())
    told.server.lacks(made).clock.at += LATER
    assert told.tell() == (False, set())


@pytest.mark.usefixtures("_evictions_wait")
def test_a_queue_that_does_not_drain_waits_for_nobody(told: Told) -> None:
    told.server.has(queue(QUEUE, version=2, generation=2, stopPolicy="Hold"))
    told.gated("new", age=timedelta())
    assert told.tell("new") == (False, {"uid-new"})


@pytest.mark.parametrize("gone", ["nothing", "the gate", "the stop", "the pod"])
def test_what_was_to_be_written_is_not_once_it_is_no_longer_so(told: Told, gone: str) -> None:
    """A resume overtakes it: it would be written over what the scheduler says."""
    made = told.gated("new", age=timedelta())
    told.tell("new")
    match gone:
        case "the gate":
            told.server.has({**made, "spec": {**made["spec"], "schedulingGates": []}})
        case "the stop":
            told.server.has(queue(QUEUE, version=2, generation=2))
        case "the pod":
            told.server.lacks(made)
    told.writers.writes["pod_condition", "uid-new"]()
    assert told.patched == (["/api/v1/namespaces/team/pods/new/status"] if gone == "nothing" else [])
