"""What is said of a loop that fails and is tried again."""

from __future__ import annotations

import logging

import pytest
from prometheus_client import CollectorRegistry

from cluster.retries import LOG_AGAIN_SECONDS, SAID_SECONDS, Retries


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def retries(clock: Clock) -> Retries:
    return Retries(clock=clock, wall=lambda: 1_000_000.0 + clock.now)


def series(retries: Retries) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(retries)
    [metric] = registry.collect()
    return {sample.labels["loop"]: sample.value for sample in metric.samples}


def said(retries: Retries) -> list[tuple[str, float, int, str]]:
    return [(each.loop, each.since, each.times, each.why) for each in retries.lasting()]


def test_a_loop_is_said_after_a_minute_with_its_last_reason_and_until_all_of_a_try_succeeds(
    clock: Clock, retries: Retries, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    retries.failed("things", ValueError("first"))
    clock.now += SAID_SECONDS - 1
    retries.failed("things", ValueError("second"))
    assert (said(retries), caplog.messages) == ([], [])
    assert series(retries) == {"things": 1_000_100.0}
    clock.now += 1
    assert said(retries) == [("things", 100.0, 2, "second")]
    retries.failed("things", ValueError())
    assert said(retries) == [("things", 100.0, 3, "ValueError")]
    retries.succeeded("things")
    assert (said(retries), series(retries)) == ([], {})
    assert caplog.messages == [
        "things has failed for 60 s (2 times), and is tried again: second",
        "things succeeds again, after 60 s",
    ]


def test_it_is_logged_again_after_a_while_and_no_sooner(
    clock: Clock, retries: Retries, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(int(LOG_AGAIN_SECONDS + SAID_SECONDS) + 1):
        retries.failed("things", "no")
        clock.now += 1
    assert len(caplog.messages) == 2


def test_what_may_still_fail_has_succeeded_only_if_it_does_not(clock: Clock, retries: Retries) -> None:
    """As a watch that is open, and may end at once."""
    retries.failed("things", "no")
    clock.now += 30
    retries.succeeded("things", unless_within=1.0)
    clock.now += 0.5
    retries.failed("things", "no")
    clock.now += SAID_SECONDS
    assert said(retries) == [("things", 100.0, 2, "no")]
    retries.succeeded("things", unless_within=1.0)
    assert series(retries)
    clock.now += 1
    assert series(retries) == {}
    retries.failed("things", "no")
    assert series(retries) == {"things": 1_000_000.0 + clock.now}


def test_what_is_urgent_is_said_at_once(
    clock: Clock, retries: Retries, caplog: pytest.LogCaptureFixture
) -> None:
    retries.failed("late", "no")
    clock.now += 1
    retries.failed("book", "refused", urgent=True)
    assert said(retries) == [("book", 101.0, 1, "refused")]
    assert len(caplog.messages) == 1
    clock.now += SAID_SECONDS
    assert [loop for loop, *_ in said(retries)] == ["late", "book"], "who fails for longest is first"


def test_a_loop_that_never_failed_has_nothing_to_say_of_its_success(retries: Retries) -> None:
    retries.succeeded("things")
    assert (said(retries), series(retries)) == ([], {})


def test_a_long_reason_of_several_lines_is_one_short_line(retries: Retries) -> None:
    retries.failed("things", "a\nb" + "x" * 1_000, urgent=True)
    [(*_, why)] = said(retries)
    assert why.startswith("a b")
    assert len(why) <= 300
