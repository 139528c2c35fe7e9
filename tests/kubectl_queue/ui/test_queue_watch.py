"""The threads that read queues: frames follow changes, and faults are said and end."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from kubectl_queue.access.client import Queues, WatchEvent
from kubectl_queue.errors import ExpiredError, ForbiddenError, UnreachableError
from kubectl_queue.objects.fields import Object
from kubectl_queue.ui.board import Board, Shown
from kubectl_queue.ui.queue_watch import SILENT, QueueWatch
from kubectl_queue.ui.stream import lines
from tests.support.plugin.harness import NOW, item
from tests.support.ui.pages import Clock, WatchedQueues

#: Seconds that nothing takes.
LONG = 20.0


class Watching:
    """A watch of queues that a test holds, and what its board shows."""

    def __init__(self, *items: Object) -> None:
        self.api = WatchedQueues(*items)
        self.clock = Clock()
        self.board = Board(clock=self.clock)
        #: Read by the probe.
        self.outage = ""
        self.watch = QueueWatch(
            lambda: cast(Queues, self.api),
            self.board,
            clock=self.clock,
            utc=lambda: NOW,
            probe_seconds=0.02,
            outage=lambda: self.outage,
        )

    def until(self, holds: Callable[[Shown], Any]) -> Shown:
        shown, seen = self.board.shown(), threading.Event()
        for _ in range(int(LONG / 0.05)):
            if holds(shown):
                return shown
            shown = self.board.wait(shown.version, seconds=0.05)
        seen.set()
        raise AssertionError(f"last seen: {shown}")

    def names(self) -> list[str]:
        frame = self.board.shown().frame
        return list(frame.rows) if frame is not None else []

    def send(self, kind: str, object: Object) -> None:
        self.api.events.put(WatchEvent(kind, object))


@pytest.fixture
def started() -> Iterator[Callable[..., Watching]]:
    made: list[Watching] = []

    def start(*items: Object, prepare: Callable[[WatchedQueues], object] = lambda _: None) -> Watching:
        watching = Watching(*items)
        made.append(watching)
        prepare(watching.api)
        watching.watch.start()
        return watching

    yield start
    for each in made:
        each.api.close()
        each.watch.stop()


Start = Callable[..., Watching]


def test_what_is_listed_and_what_changes_is_shown(started: Start) -> None:
    watching = started(item("root"), item("a"))
    watching.until(lambda shown: shown.frame)
    assert watching.names() == ["root", "a"]
    watching.send("ADDED", item("b"))
    watching.until(lambda _: watching.names() == ["root", "a", "b"])
    watching.send("DELETED", item("a"))
    watching.until(lambda _: watching.names() == ["root", "b"])
    assert watching.api.listed == 1


def test_changes_that_come_together_are_one_frame(started: Start) -> None:
    watching = started(item("root"))
    first = watching.until(lambda shown: shown.frame).frame
    for number in range(200):
        watching.send("ADDED", item(f"q{number}"))
    last = watching.until(lambda _: len(watching.names()) == 201).frame
    assert first is not None
    assert last is not None
    assert last.number - first.number < 20


def test_an_older_object_than_the_one_held_is_dropped(started: Start) -> None:
    watching = started(item("root"))
    watching.until(lambda shown: shown.frame)
    for version, state in (("9", "Suspended"), ("8", "Open"), ("10", "Suspended")):
        each = item("a", state=state)
        each["metadata"]["resourceVersion"] = version
        watching.send("MODIFIED", each)
    shown = watching.until(lambda _: "a" in watching.names())
    assert shown.frame is not None
    assert shown.frame.rows["a"].state == "Suspended"


def test_who_may_not_list_queues_reads_why_and_sees_them_once_allowed(started: Start) -> None:
    refused = ForbiddenError("Error from server (Forbidden): queues is forbidden", code=403)
    watching = started(item("root"), prepare=lambda api: api.lists.append(refused))
    shown = watching.until(lambda shown: shown.fault)
    assert shown.fault == "Error from server (Forbidden): queues is forbidden"
    watching.until(lambda shown: shown.frame and not shown.fault)


def test_an_api_server_that_is_away_is_said_and_what_was_read_stays(started: Start) -> None:
    watching = started(item("root"))
    watching.until(lambda shown: shown.frame)
    watching.api.lists += [UnreachableError("it is away"), None]
    watching.api.events.put(UnreachableError("it is away"))
    assert watching.until(lambda shown: shown.fault).frame is not None
    watching.until(lambda shown: not shown.fault)
    assert watching.api.listed >= 3


def test_a_resource_version_that_is_too_old_leads_to_a_new_list_without_a_fault(started: Start) -> None:
    watching = started(item("root"))
    watching.until(lambda shown: shown.frame)
    watching.api.events.put(ExpiredError("too old", code=410))
    watching.api._items["new"] = item("new")
    shown = watching.until(lambda _: "new" in watching.names())
    assert shown.fault == ""


def test_a_right_that_is_taken_away_is_said_by_the_probe(started: Start) -> None:
    watching = started(item("root"))
    watching.until(lambda shown: shown.frame)
    watching.api.probed = ForbiddenError("no longer", code=403)
    assert watching.until(lambda shown: shown.fault).fault == "no longer"
    watching.api.probed = None
    watching.until(lambda shown: not shown.fault)


def test_the_age_grows_while_the_probe_fails_and_while_the_watch_is_silent(started: Start) -> None:
    watching = started(item("root"))
    watching.until(lambda shown: shown.frame)
    watching.clock.now += SILENT - 1
    watching.until(lambda shown: shown.age == 0)
    watching.clock.now += 2
    asked = watching.api.probes
    watching.until(lambda shown: watching.api.probes > asked + 2)
    assert watching.board.shown().age == 2
    watching.send("BOOKMARK", item("root"))
    watching.until(lambda shown: shown.age == 0)


def test_a_server_that_is_away_is_said_until_it_is_back(started: Start) -> None:
    """Each window is told: the API server answers, and what it has is of before."""
    watching = started(item("root"))
    watching.outage = "no replica of Sluice answers"
    assert watching.until(lambda shown: shown.outage).outage == "no replica of Sluice answers"
    line = json.loads(next(iter(lines(watching.board))))
    assert (line["outage"], line["fault"]) == ("no replica of Sluice answers", "")
    watching.outage = ""
    watching.until(lambda shown: not shown.outage)


def test_its_threads_end(started: Start) -> None:
    watching = started(item("root"))
    watching.until(lambda shown: shown.frame)
    watching.api.close()
    watching.watch.stop()
    assert not [each for each in threading.enumerate() if each.name.startswith("page-")]


def test_a_stream_begins_with_all_rows_goes_on_with_what_differs_and_ends_with_the_page() -> None:
    watching = Watching(item("root"), item("a"))
    stream = lines(watching.board, heartbeat=0.01)
    assert json.loads(next(stream)) == {
        **{"age": None, "fault": "", "outage": "", "frame": 0},
        "change": None,
    }
    watching.watch.start()
    watching.until(lambda shown: shown.age is not None)
    first = next(line for line in map(json.loads, stream) if line["change"])
    assert [row["name"] for row in first["change"]["rows"]] == ["root", "a"]
    watching.send("ADDED", item("b"))
    then = next(line for line in map(json.loads, stream) if line["change"])
    assert [row["name"] for row in then["change"]["rows"]] == ["b"]
    assert then["change"]["order"] == ["root", "a", "b"]
    watching.board.close()
    assert list(stream) == []
    watching.api.close()
    watching.watch.stop()
