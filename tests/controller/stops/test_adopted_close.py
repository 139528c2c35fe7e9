"""What the controller writes for a queue that Volcano had closed, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from cluster.cache.queues import queue_from_object
from cluster.objects import QueueObject
from controller.context import ControllerContext
from controller.stops.adopted_close import AUTHOR, REASON, RETRY_SECONDS, adopt_close, adopting_patch
from controller.workqueue import WorkQueue
from queues.states import Desired
from tests.support.http.asking import SetClock
from tests.support.http.wire_objects import queue as wire_queue

CLOSED = {"state": "Closed"}
OURS = {"conditions": [{"type": "Accepting", "status": "False"}], "observedGeneration": 1}


def older_queue(status: Mapping[str, object], **spec: object) -> QueueObject:
    """A queue of before Sluice: without `spec.state`, unless it is given."""
    body = wire_queue("q", version=7, status=status)
    return msgspec.convert({**body, "spec": {"parent": "root", **spec}}, QueueObject)


class Context:
    """Records the submitted write, events, and the queues that are to be synced again."""

    def __init__(self) -> None:
        self.clock = SetClock()
        self.writers = None
        self.work_queue = WorkQueue(self.clock.monotonic)
        self.written: list[tuple[str, Any]] = []
        self.client = SimpleNamespace(patch=lambda path, body: self.written.append((path, body)))
        self.events: list[str] = []
        self.recorder = SimpleNamespace(record=self._record)
        self.receive: Callable[[bool | None], object] = lambda _: None

    def _record(self, _subject: object, *, reason: str, message: str) -> None:
        self.events.append(f"{reason}: {message}")

    def submit(self, _writers: Any, _key: Any, send: Any, receive: Any, **_: Any) -> None:
        send()
        self.receive = receive


def adopted(obj: QueueObject) -> tuple[Context, bool]:
    context = Context()
    return context, adopt_close(obj, context=cast(ControllerContext, context))


@pytest.mark.parametrize("state", ["Closed", "Closing"])
def test_such_a_queue_is_closed_from_the_start_and_its_spec_says_so_soon(state: str) -> None:
    obj = older_queue({"state": state})
    assert queue_from_object(obj).desired is Desired.CLOSED
    context, holds_back_status = adopted(obj)
    [(path, body)] = context.written
    assert holds_back_status
    assert path.endswith("/queues/q")
    assert body["spec"] == {"state": "Closed", "reason": REASON}
    assert body["metadata"] == {"resourceVersion": "7", "annotations": {"sluice.dev/on-behalf-of": AUTHOR}}


@pytest.mark.parametrize(
    "obj",
    [
        older_queue({}),
        older_queue({"state": "Open"}),
        older_queue({**CLOSED, **OURS}),
        older_queue(CLOSED, state="Open"),
    ],
    ids=["new", "Open", "a status of ours", "opened since"],
)
def test_no_other_queue_is_closed_or_written(obj: QueueObject) -> None:
    assert queue_from_object(obj).desired is Desired.OPEN
    context, holds_back_status = adopted(obj)
    assert (context.written, holds_back_status) == ([], False)


def test_once_the_spec_says_so_nothing_more_is_written() -> None:
    """A crash after the write, or another leader, does not write it again."""
    context, holds_back_status = adopted(older_queue(CLOSED, state="Closed"))
    assert (context.written, holds_back_status) == ([], False)


def test_a_reason_that_is_there_stays() -> None:
    body = adopting_patch(older_queue(CLOSED, reason="year's end"))
    assert body["spec"]["reason"] == "year's end"


def test_the_event_says_who_closed_it_and_the_way_out() -> None:
    context, _ = adopted(older_queue(CLOSED))
    context.receive(True)
    [event] = context.events
    assert event.startswith("CloseAdopted: Volcano had closed this queue (Closed)")
    assert event.endswith("kubectl queue open q")


def test_a_write_that_met_a_conflict_is_made_again_soon_and_says_nothing() -> None:
    context, _ = adopted(older_queue(CLOSED))
    context.receive(None)
    context.clock.seconds += RETRY_SECONDS
    assert (context.events, set(context.work_queue.get([0.0], at_once=True))) == ([], {"q"})
