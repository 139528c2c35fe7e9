"""Cycles of parents are told once each, on each of their queues, when all that is to be told is known."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from cluster.cache.store import Clock, Store
from cluster.object_reference import ObjectReference
from cluster.objects import QueueObject
from controller.context import ControllerContext
from controller.events import ParentCycleEvents
from queues import labels as names
from queues.membership import MembershipSettings


def queue(name: str, parent: str = "root", *, version: int = 1, by: str = "") -> QueueObject:
    """A queue; `by`: who put it there."""
    line = [{"by": by, "field": "parent", "from": "root", "to": parent, "at": "2030-01-01T12:00:00Z"}]
    notes = {names.CHANGES: msgspec.json.encode(line).decode()} if by else {}
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version), "generation": version}
    return msgspec.convert(
        {"metadata": {**meta, "annotations": notes}, "spec": {"parent": parent}}, QueueObject
    )


class Told:
    """Takes down what is recorded."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def record(self, subject: ObjectReference, *, reason: str, message: str, **_: object) -> None:
        assert reason == "ParentCycle"
        self.lines.append((subject.name, message))

    def take(self) -> list[tuple[str, str]]:
        lines, self.lines = self.lines, []
        return lines


@pytest.fixture
def store() -> Store:
    return Store(membership_settings=MembershipSettings(), clock=Clock())


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def cycling(store: Store, told: Told) -> ParentCycleEvents:
    """It reads the store and tells; no other part of the controller is asked for."""
    others: dict[str, Any] = dict.fromkeys(set(ControllerContext.__struct_fields__) - {"store", "recorder"})
    return ParentCycleEvents(ControllerContext(store=store, recorder=cast(Any, told), **others))


def closed(store: Store, version: int = 2) -> None:
    store.queue_cache.set_all(
        [queue("a", "b", version=version, by="alice"), queue("b", "a", version=version, by="bob")]
    )


def test_a_cycle_is_told_once_on_each_of_its_queues(
    store: Store, told: Told, cycling: ParentCycleEvents
) -> None:
    """However often it is looked at, and whatever else changes; those below are not of it."""
    closed(store)
    store.queue_cache.set(queue("below", "a"))
    cycling.record_events()
    lines = told.take()
    assert sorted(name for name, _ in lines) == ["a", "b"]
    assert all('"alice" put' in text and '"bob" put' in text for _, text in lines)
    store.queue_cache.set(queue("elsewhere"))
    cycling.record_events()
    assert told.take() == []


def test_a_cycle_that_is_made_again_is_told_again(
    store: Store, told: Told, cycling: ParentCycleEvents
) -> None:
    """In between somebody mended it."""
    closed(store)
    cycling.record_events()
    store.queue_cache.set(queue("a", version=3))
    cycling.record_events()
    told.take()
    closed(store, version=4)
    cycling.record_events()
    assert len(told.take()) == 2


def test_nothing_is_told_before_both_edits_are_known(
    store: Store, told: Told, cycling: ParentCycleEvents
) -> None:
    """The snapshot is published before the objects: in between the history is the one of before."""
    closed(store)
    before = store.queues.pop("b")
    cycling.record_events()
    assert told.take() == []
    store.queues["b"] = before
    cycling.record_events()
    assert len(told.take()) == 2


def test_a_history_that_nobody_can_read_keeps_no_cycle_from_being_told(
    store: Store, told: Told, cycling: ParentCycleEvents
) -> None:
    """The way out is said all the same."""
    for name, parent in (("a", "b"), ("b", "a")):
        obj = queue(name, parent)
        bad = msgspec.structs.replace(obj.metadata, annotations={names.CHANGES: "{"})
        store.queue_cache.set(msgspec.structs.replace(obj, metadata=bad))
    cycling.record_events()
    assert [("kubectl patch queue" in text) for _, text in told.take()] == [True, True]
