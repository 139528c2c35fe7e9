"""An event on each queue of a cycle of parents: once, and only when both edits are in the history."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from cluster.cache.store import Clock, Store
from cluster.object_reference import ObjectReference
from cluster.objects import QueueObject
from controller.context import ControllerContext
from controller.events import ParentCycleEvents
from queues import well_known
from queues.membership import MembershipSettings


def queue(name: str, parent: str = "root", *, version: int = 1, by: str = "") -> QueueObject:
    """A queue; `by`: the user who set its parent."""
    line = [{"by": by, "field": "parent", "from": "root", "to": parent, "at": "2030-01-01T12:00:00Z"}]
    notes = {well_known.CHANGES: msgspec.json.encode(line).decode()} if by else {}
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version), "generation": version}
    return msgspec.convert(
        {"metadata": {**meta, "annotations": notes}, "spec": {"parent": parent}}, QueueObject
    )


class RecordedEvents:
    """Remembers the events that are recorded."""

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
def recorder() -> RecordedEvents:
    return RecordedEvents()


@pytest.fixture
def cycle_events(store: Store, recorder: RecordedEvents) -> ParentCycleEvents:
    """It uses the store and the recorder, and no other part of the context."""
    others: dict[str, Any] = dict.fromkeys(set(ControllerContext.__struct_fields__) - {"store", "recorder"})
    return ParentCycleEvents(ControllerContext(store=store, recorder=cast(Any, recorder), **others))


def closed(store: Store, version: int = 2) -> None:
    store.queue_cache.set_all(
        [queue("a", "b", version=version, by="alice"), queue("b", "a", version=version, by="bob")]
    )


def test_a_cycle_has_one_event_on_each_of_its_queues(
    store: Store, recorder: RecordedEvents, cycle_events: ParentCycleEvents
) -> None:
    """However often it is called, and whatever else changes; queues below are not part of the cycle."""
    closed(store)
    store.queue_cache.set(queue("below", "a"))
    cycle_events.step()
    lines = recorder.take()
    assert sorted(name for name, _ in lines) == ["a", "b"]
    assert all('"alice" put' in text and '"bob" put' in text for _, text in lines)
    store.queue_cache.set(queue("elsewhere"))
    cycle_events.step()
    assert recorder.take() == []


def test_a_cycle_that_is_made_again_has_another_event(
    store: Store, recorder: RecordedEvents, cycle_events: ParentCycleEvents
) -> None:
    """In between the cycle was removed."""
    closed(store)
    cycle_events.step()
    store.queue_cache.set(queue("a", version=3))
    cycle_events.step()
    recorder.take()
    closed(store, version=4)
    cycle_events.step()
    assert len(recorder.take()) == 2


def test_no_event_is_recorded_before_both_edits_are_known(
    store: Store, recorder: RecordedEvents, cycle_events: ParentCycleEvents
) -> None:
    """The snapshot is published before the objects: in between the history is the one of before."""
    closed(store)
    before = store.queues.pop("b")
    cycle_events.step()
    assert recorder.take() == []
    store.queues["b"] = before
    cycle_events.step()
    assert len(recorder.take()) == 2


def test_a_history_that_cannot_be_read_suppresses_no_event(
    store: Store, recorder: RecordedEvents, cycle_events: ParentCycleEvents
) -> None:
    """The event still says the way out."""
    for name, parent in (("a", "b"), ("b", "a")):
        obj = queue(name, parent)
        bad = msgspec.structs.replace(obj.metadata, annotations={well_known.CHANGES: "{"})
        store.queue_cache.set(msgspec.structs.replace(obj, metadata=bad))
    cycle_events.step()
    assert [("kubectl patch queue" in text) for _, text in recorder.take()] == [True, True]
