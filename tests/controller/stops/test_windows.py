"""What the leader writes at the edges of change windows, and what it says."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from cluster.cache.changes import QueueChange
from cluster.cache.store import Store
from cluster.objects import QueueObject
from controller.context import ControllerContext
from controller.requests import RequestTables
from controller.stops.edge_hold import EdgeHold
from controller.stops.windows import RETRY_SECONDS, ChangeWindows
from queues.apimachinery.timestamps import rfc3339
from queues.status.changes import HISTORY_LIMIT, HistoryLine, history_text
from tests.support.http.asking import SetClock
from tests.support.http.wire_objects import queue as wire_queue
from tests.support.rules.cases import NOW

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
SPEC_CHANGED = {QueueChange.SPEC}


def freeze(name: str, start: datetime, end: datetime, **more: Any) -> dict[str, Any]:
    return {"name": name, "from": rfc3339(start), "until": rfc3339(end), "stopPolicy": "Hold", **more}


NEXT = freeze("next", NOW + HOUR, NOW + 2 * HOUR, reason="backups")
AFTER = freeze("after", NOW + 2 * HOUR, NOW + 3 * HOUR)
ON = freeze("on", NOW - HOUR, NOW + HOUR)


def entry(window: dict[str, Any]) -> dict[str, str]:
    return {"name": window["name"], "start": window["from"], "until": window["until"]}


def history(body: dict[str, Any]) -> list[dict[str, str]]:
    lines: list[dict[str, str]] = json.loads(body["metadata"]["annotations"]["sluice.dev/changes"])
    return lines


class Cluster:
    """One queue with windows, the writes that were submitted, and the events."""

    def __init__(
        self,
        *windows: dict[str, Any],
        on: Any = None,
        overrides: Any = None,
        soon: timedelta = timedelta(),
    ) -> None:
        self.clock = SetClock()
        self.requests = RequestTables()
        self.events: list[tuple[str, str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.managers: list[str] = []
        self._receive: Callable[[bool | None], object] = lambda _: None
        self.queues: dict[str, QueueObject] = {}
        store = SimpleNamespace(
            clock=self.clock,
            queues=self.queues,
            backoff=SimpleNamespace(attempt=lambda _step, _key, work, **_: work()),
        )
        context = SimpleNamespace(
            store=store,
            writers=None,
            client=SimpleNamespace(patch=self._patch),
            submit=self._submit,
            requests=self.requests,
            window_soon=soon,
            recorder=SimpleNamespace(record=self._record),
        )
        hold = EdgeHold(cast(Store, store), statuses_wait=lambda: 0)
        self.windows = ChangeWindows(cast(ControllerContext, context), hold=hold)
        self.generation = 0
        self.store(windows=list(windows), inWindow=on, windowOverrides=overrides)

    def _submit(self, _writers: Any, _key: Any, send: Any, receive: Any, **_: Any) -> bool:
        send()
        self._receive = receive
        return True

    def _patch(self, _path: str, body: Any, *, fieldManager: str) -> None:  # noqa: N803 - as the API has it
        self.bodies.append(body)
        self.managers = [fieldManager]

    def _record(self, _subject: Any, *, reason: str, message: str, **_: Any) -> None:
        self.events.append((reason, message))

    def store(self, *, history: Sequence[HistoryLine] = (), **spec: Any) -> None:
        """A new version of the queue, which the watch shows."""
        self.generation += 1
        self.spec = {**getattr(self, "spec", {}), **spec}
        body = wire_queue("q", generation=self.generation, **{k: v for k, v in self.spec.items() if v})
        body["metadata"]["resourceVersion"] = str(100 + self.generation)
        body["metadata"]["annotations"] = {"sluice.dev/changes": history_text(history) or ""}
        self.queues["q"] = msgspec.convert(body, QueueObject)
        self.windows.record({"q": SPEC_CHANGED})

    def step(self, *, after: timedelta = timedelta(), leads: bool = True) -> list[Any]:
        """Time goes by, and a sync; returns what was asked to be written."""
        self.clock.at += after
        self.clock.seconds += after.total_seconds()
        self.bodies.clear()
        if leads:
            self.windows.step()
        else:
            self.windows.stand_by({})
        return [body["spec"]["inWindow"] for body in self.bodies]

    def stored(self, *, written: bool = True) -> None:
        """The write that is under way has ended."""
        if written:
            self.store(inWindow=self.bodies[-1]["spec"]["inWindow"])
        self._receive(True if written else None)

    def seconds_left(self) -> float:
        return self.windows.due - self.clock.monotonic()

    @property
    def reasons(self) -> list[str]:
        return [reason for reason, _ in self.events]


def test_both_edges_are_written_at_their_moments_and_nothing_in_between() -> None:
    cluster = Cluster(NEXT)
    assert cluster.step() == []
    assert cluster.seconds_left() == 3600
    assert cluster.step(after=HOUR) == [[entry(NEXT)]]
    cluster.stored()
    assert cluster.step() == []
    assert cluster.seconds_left() == 3600
    assert cluster.step(after=HOUR) == [None]
    cluster.stored()
    assert cluster.step() == []
    assert cluster.seconds_left() == float("inf")
    assert cluster.events == [
        ("WindowStarted", "window next is on until 2030-01-01T14:00:00Z: Hold (backups)"),
        ("WindowEnded", "window next has ended"),
    ]


def test_an_edge_is_for_one_resource_version_and_names_the_window_in_the_history() -> None:
    cluster = Cluster(ON)
    cluster.step()
    [body] = cluster.bodies
    assert body["metadata"]["resourceVersion"] == "101"
    assert [(line["by"], line["field"]) for line in history(body)] == [("sluice: window on", "inWindow")]
    assert cluster.managers == ["sluice-windows"]


def test_one_that_ends_where_another_begins_is_one_write() -> None:
    cluster = Cluster(NEXT, AFTER, on=[entry(NEXT)])
    assert cluster.step(after=2 * HOUR) == [[entry(AFTER)]]
    assert [line["by"] for line in history(cluster.bodies[0])] == ["sluice: window next, after"]


def test_the_history_before_an_edge_is_kept_and_the_edge_is_its_last_line() -> None:
    cluster = Cluster(ON)
    before = HistoryLine(by="alice", field="state", from_="Open", to="Suspended", at="2029-12-31T00:00:00Z")
    cluster.store(history=[before] * HISTORY_LIMIT)
    cluster.step()
    lines = history(cluster.bodies[0])
    assert [line["by"] for line in lines] == ["alice"] * (HISTORY_LIMIT - 1) + ["sluice: window on"]
    assert lines[-1]["at"] == rfc3339(NOW)


def test_a_write_that_met_a_conflict_is_made_again_soon() -> None:
    cluster = Cluster(ON)
    assert len(cluster.step()) == 1
    cluster.stored(written=False)
    assert cluster.step() == []
    assert cluster.seconds_left() == pytest.approx(RETRY_SECONDS)
    assert len(cluster.step(after=timedelta(seconds=RETRY_SECONDS))) == 1


def test_no_second_write_is_begun_while_one_is_under_way() -> None:
    cluster = Cluster(ON)
    assert len(cluster.step()) == 1
    cluster.store(reason="disks")
    assert cluster.step() == []


def test_a_term_waits_for_no_write_of_a_former_one_and_says_nothing_that_came_before_it() -> None:
    """Another leader may have written the edge, and said which occurrence is left out."""
    skip = {"window": "next", "start": rfc3339(NOW + HOUR), "skip": True}
    cluster = Cluster(ON, NEXT, overrides=[skip])
    assert len(cluster.step()) == 1
    cluster.requests.begin_term()
    cluster.windows.begin_term()
    cluster.clock.at += HOUR - 2 * MINUTE
    assert cluster.step() == [[entry(ON)]]
    cluster.stored()
    cluster.step()
    cluster.windows.begin_term()
    cluster.clock.at += 2 * MINUTE
    assert cluster.step() == [None]
    assert "WindowSkipped" not in cluster.reasons


def test_a_leader_that_comes_late_begins_late_and_one_that_comes_too_late_says_so_once() -> None:
    late = Cluster(ON)
    assert late.step(after=HOUR - MINUTE) == [[entry(ON)]]
    missed = Cluster(ON)
    for _ in range(2):
        assert missed.step(after=HOUR - MINUTE + timedelta(seconds=1)) == []
        missed.windows.begin_term()
        missed.clock.at = NOW + HOUR - timedelta(seconds=30)
    assert missed.reasons == ["WindowMissed"]
    assert "stops nothing any more" in missed.events[0][1]


def test_a_replica_that_does_not_lead_writes_nothing_and_counts_what_is_overdue() -> None:
    cluster = Cluster(ON, NEXT, on=[entry(freeze("on", NOW - HOUR, NOW + HOUR))])
    assert cluster.step(leads=False) == []
    assert cluster.windows.overdue() == 0
    assert cluster.step(after=HOUR, leads=False) == []
    assert cluster.windows.overdue() == 2  # one should have ended, and one have begun
    cluster.windows.begin_term()
    assert cluster.step() == [[entry(NEXT)]]
    assert cluster.events == []


def test_what_others_began_and_ended_is_said_as_well() -> None:
    """Admission writes edges with the edits of windows."""
    cluster = Cluster(NEXT)
    cluster.step()
    cluster.store(windows=[NEXT, ON], inWindow=[entry(ON)])
    cluster.step()
    cluster.store(windows=[NEXT], inWindow=None)
    cluster.step()
    cluster.store(windows=None)
    cluster.step()
    assert cluster.events == [
        ("WindowStarted", "window on is on until 2030-01-01T13:00:00Z: Hold"),
        ("WindowEnded", "window on has ended before its time, which was 2030-01-01T13:00:00Z"),
    ]


def test_a_calendar_is_read_again_only_where_its_windows_have_changed() -> None:
    """Edges and other edits keep what was worked out of it."""
    cluster = Cluster(NEXT)
    cluster.step()
    calendars = [cluster.windows._queues["q"].calendar]
    for spec in ({"reason": "disks"}, {"inWindow": [entry(NEXT)]}, {"windows": [NEXT, AFTER]}):
        cluster.store(**spec)
        cluster.step()
        calendars.append(cluster.windows._queues["q"].calendar)
    assert calendars[0] is calendars[1] is calendars[2] is not calendars[3]


def test_a_queue_that_is_deleted_is_forgotten() -> None:
    cluster = Cluster(NEXT)
    cluster.step()
    cluster.queues.clear()
    cluster.windows.record({"q": SPEC_CHANGED})
    assert cluster.step(after=HOUR) == []
    assert cluster.seconds_left() == float("inf")


def test_an_occurrence_that_is_left_out_is_said_when_it_would_begin() -> None:
    skip = {"window": "next", "start": rfc3339(NOW + HOUR), "skip": True, "reason": "the release"}
    cluster = Cluster(NEXT, overrides=[skip])
    cluster.step()
    assert cluster.seconds_left() == 3600
    assert cluster.step(after=HOUR) == []
    assert cluster.events == [
        (
            "WindowSkipped",
            "window next does not begin at 2030-01-01T13:00:00Z, as spec.windowOverrides says (the release)",
        )
    ]


def test_a_window_that_cannot_be_read_any_more_stays_until_its_end() -> None:
    """A time zone that is no more, say: to let go would undo a stop that somebody wants."""
    renamed = {**ON, "timeZone": "Europe/Bonn"}
    cluster = Cluster(renamed, on=[entry(ON)])
    assert cluster.step() == []
    assert cluster.step(after=HOUR) == [None]


@pytest.mark.parametrize("minutes", [-4, 4])
def test_a_clock_that_jumps_ends_nothing(minutes: int) -> None:
    start = freeze("start", NOW, NOW + HOUR)
    cluster = Cluster(start)
    cluster.step()
    cluster.stored()
    cluster.step()
    assert cluster.step(after=minutes * MINUTE) == []
    cluster.windows.begin_term()
    assert cluster.step() == []


def test_that_a_window_begins_soon_is_said_once_before_it() -> None:
    """Again where it is moved, and by each new leader."""
    cluster = Cluster(NEXT, soon=15 * MINUTE)
    cluster.step()
    assert cluster.seconds_left() == 45 * 60
    cluster.step(after=45 * MINUTE)
    assert cluster.events == [
        (
            "WindowSoon",
            "window next begins at 2030-01-01T13:00:00Z, in 15m, until 2030-01-01T14:00:00Z: Hold (backups)",
        )
    ]
    assert cluster.seconds_left() == 15 * 60
    cluster.store(reason="disks")
    cluster.step(after=MINUTE)
    assert cluster.reasons == ["WindowSoon"]
    early = {"window": "next", "start": rfc3339(NOW + HOUR), "from": rfc3339(NOW + 50 * MINUTE)}
    cluster.store(windowOverrides=[early])
    cluster.step()
    assert cluster.reasons == ["WindowSoon"] * 2
    assert "in 4m" in cluster.events[1][1]


def test_what_is_left_out_or_on_does_not_begin_soon() -> None:
    skip = {"window": "next", "start": rfc3339(NOW + HOUR), "skip": True}
    cluster = Cluster(NEXT, ON, on=[entry(ON)], overrides=[skip], soon=2 * HOUR)
    cluster.step()
    assert cluster.events == []
