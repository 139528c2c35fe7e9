"""A queue with a window that is on: the strictest of its spec and of its windows, whatever the time is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from queues.causes import Cause, CauseKind
from queues.messages import pod_text, stop_text, waiting_warning
from queues.queue import Queue
from queues.states import Desired, State, StopPolicy
from queues.verdict import own_stops
from queues.windows.entries import CurrentWindow
from queues.windows.stops import WindowStop
from tests.support.cases import each_case
from tests.support.rules.cases import CLOSED, DRAIN, HOLD, NONE, NOW, OPEN, SUSPENDED, asked, line, queue

HOUR = timedelta(hours=1)


def window(name: str, policy: StopPolicy = NONE, state: Desired | None = None, **more: Any) -> WindowStop:
    return WindowStop(name=name, stop_policy=policy, state=state, **more)


def on(*names: str, until: Any = NOW + HOUR) -> tuple[CurrentWindow, ...]:
    return tuple(CurrentWindow(name=name, start=NOW - HOUR, until=until) for name in names)


NIGHTLY = window("nightly", DRAIN, reason="backups")


@each_case(
    ("state", "policy", "windows", "kind", "named"),
    [
        (OPEN, NONE, [], None, ""),
        (OPEN, NONE, [window("w")], None, ""),  # stored all the same, it stops nothing
        (OPEN, NONE, [window("w", HOLD)], CauseKind.STOPPED, "w"),
        (OPEN, HOLD, [window("w", HOLD)], CauseKind.STOPPED, ""),
        (OPEN, HOLD, [window("w", DRAIN)], CauseKind.STOPPED, "w"),
        (OPEN, DRAIN, [window("w", HOLD)], CauseKind.STOPPED, ""),
        (OPEN, HOLD, [window("w", NONE, SUSPENDED)], CauseKind.SUSPENDED, "w"),
        (SUSPENDED, NONE, [window("w", NONE, SUSPENDED)], CauseKind.SUSPENDED, ""),
        (CLOSED, NONE, [window("w", NONE, SUSPENDED)], None, ""),
        (CLOSED, NONE, [window("w", HOLD)], CauseKind.STOPPED, "w"),
    ],
)
def test_the_strictest_counts_and_on_a_tie_the_spec_is_named(
    state: Desired, policy: StopPolicy, windows: list[WindowStop], kind: CauseKind | None, named: str
) -> None:
    names = [each.name for each in windows]
    one = queue("q", desired=state, stop_policy=policy, windows=tuple(windows), in_window=on(*names))
    found = asked(line(one), "q")
    assert (found.stop.kind if found.stop else None) == kind
    assert (found.stop.window if found.stop else "") == named
    assert found.policy == max([policy, *(each.stop_policy for each in windows)], key=lambda p: p.strictness)


@each_case("hours", [-100, -1, 0, 1, 100])
def test_no_clock_begins_or_ends_a_window(hours: int) -> None:
    """Only a write does: else replicas would not agree, and no stop could be acknowledged."""
    is_on = queue("q", windows=(NIGHTLY,), in_window=on("nightly"))
    is_off = queue("q", windows=(NIGHTLY,))
    at = NOW + hours * HOUR
    assert not asked(line(is_on), "q", now=at).schedules
    assert asked(line(is_off), "q", now=at).schedules


def test_an_entry_without_its_window_stops_nothing() -> None:
    assert asked(line(queue("q", in_window=on("nightly"))), "q").schedules


@pytest.mark.parametrize("live", [True, False])
def test_no_window_closes_a_queue_and_none_opens_one(live: bool) -> None:
    suspends: dict[str, Any] = {"windows": (window("w", HOLD, SUSPENDED),), "in_window": on("w")}
    assert asked(line(queue("q", **suspends)), "q", live=live).state is State.SUSPENDED
    assert asked(line(queue("q", **suspends)), "q", live=live).accepts
    closed = asked(line(queue("q", desired=CLOSED, **suspends)), "q", live=live)
    assert closed.state is (State.CLOSING if live else State.CLOSED)
    assert not closed.accepts
    assert not closed.schedules


def test_resume_at_ends_the_stop_of_the_spec_alone() -> None:
    one = queue(
        "q", desired=SUSPENDED, resume_at=NOW, windows=(window("w", HOLD, SUSPENDED),), in_window=on("w")
    )
    before = asked(line(one), "q", now=NOW - HOUR).stop
    after = asked(line(one), "q", now=NOW).stop
    assert before is not None
    assert after is not None
    assert (before.window, after.window) == ("", "w")


def test_a_window_stops_the_queues_below_as_any_stop() -> None:
    """No exemption: what is below has no say."""
    above = queue("a", windows=(NIGHTLY,), in_window=on("nightly"))
    found = asked(line(above, queue("b")), "b")
    assert (found.schedules, found.drains, found.policy_by) == (False, True, "a")
    assert found.stop == Cause(
        kind=CauseKind.STOPPED,
        queue="b",
        by="a",
        policy=DRAIN,
        window="nightly",
        reason="backups",
        until=NOW + HOUR,
    )


def test_the_texts_say_the_window() -> None:
    above = queue("a", windows=(NIGHTLY,), in_window=on("nightly"))
    for name, whose in (("a", "window nightly"), ("b", 'window nightly of its ancestor "a"')):
        stop = asked(line(above, queue("b")), name).stop
        assert stop is not None
        until = "until 2030-01-01 13:00 UTC (backups)"
        said = f'queue "{name}" is stopped by stopPolicy HoldAndDrain of {whose} {until}'
        assert stop_text(stop) == f"{said}; resume it with: kubectl queue resume a"
        assert pod_text(stop).startswith(f"{said}; an admin of queues can resume ")
        assert "until 2030-01-01 13:00 UTC" in waiting_warning(stop)
    suspended = queue("q", windows=(window("w", NONE, SUSPENDED),), in_window=on("w"))
    stop = asked(line(suspended), "q").stop
    assert stop is not None
    assert stop_text(stop).startswith('queue "q" is Suspended by window w until ')


def test_every_stop_of_a_queue_is_a_cause() -> None:
    """What is left when the strictest is over is known as well."""
    one = queue(
        "q", stop_policy=HOLD, windows=(NIGHTLY, window("w", NONE, SUSPENDED)), in_window=on("nightly", "w")
    )
    assert [(cause.kind.value, cause.window) for cause in own_stops("q", one, now=NOW)] == [
        ("Stopped", ""),
        ("Stopped", "nightly"),
        ("Suspended", "w"),
    ]


def test_the_end_of_a_window_is_a_change_of_the_spec() -> None:
    """The generation rises with it, so that it is seen, acknowledged and remembered as any edit."""
    one: Queue = queue("q", windows=(NIGHTLY,), in_window=on("nightly"))
    assert one.window_on("nightly") is not None
    assert one.policy_window(NOW) == one.window_on("nightly")
    assert (
        queue("q", windows=(NIGHTLY,), stop_policy=DRAIN, in_window=on("nightly")).policy_window(NOW) is None
    )
