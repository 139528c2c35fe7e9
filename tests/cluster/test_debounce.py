"""A burst of requests is one action; the next one waits for it and for its rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from cluster import debounce
from cluster.debounce import MAX_BURST_SECONDS, QUIET_SECONDS, Debouncer, Trigger
from tests.support.cluster.notes import eventually


class Hands:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def taken(trigger: Trigger) -> bool:
    """Whether a burst is over now; takes it if so."""
    looks = iter((False, True))
    return trigger.seconds_until_due() == 0.0 and trigger.take(stopped=lambda: next(looks))


def test_a_burst_is_over_once_nothing_was_requested_for_a_while() -> None:
    hands = Hands()
    trigger = Trigger(clock=hands)
    for _ in range(5):
        trigger.fire()
        assert not taken(trigger)
        hands.now += QUIET_SECONDS / 2
    assert trigger.seconds_until_due() == QUIET_SECONDS / 2
    hands.now += QUIET_SECONDS / 2
    assert taken(trigger)
    assert trigger.seconds_until_due() is None


def test_a_burst_without_end_is_acted_upon_all_the_same() -> None:
    hands = Hands()
    trigger = Trigger(clock=hands)
    began = hands.now
    trigger.fire()
    while not taken(trigger):
        hands.now += QUIET_SECONDS / 4
        trigger.fire()
        assert hands.now <= began + MAX_BURST_SECONDS
    assert hands.now == began + MAX_BURST_SECONDS


def test_it_is_pending_from_the_request_to_the_end_of_the_action() -> None:
    hands = Hands()
    trigger = Trigger(clock=hands)
    assert not trigger.pending
    trigger.fire()
    assert trigger.pending
    hands.now += QUIET_SECONDS
    assert taken(trigger)
    assert trigger.pending
    trigger.finish()
    assert not trigger.pending


def test_requests_for_later_versions_keep_no_earlier_one_pending() -> None:
    hands = Hands()
    trigger = Trigger(clock=hands)
    for version in (7, 5, 9):
        trigger.fire(version)
    assert [trigger.pending_up_to(version) for version in (4, 5, 9)] == [False, True, True]
    hands.now += QUIET_SECONDS
    assert taken(trigger)
    trigger.fire(11)
    assert [trigger.pending_up_to(version) for version in (4, 5, 11)] == [False, True, True]
    trigger.finish()
    assert [trigger.pending_up_to(version) for version in (5, 10, 11)] == [False, False, True]
    assert trigger.pending


def test_a_burst_may_be_ended_by_a_caller_that_waits_for_it() -> None:
    trigger = Trigger(clock=Hands())
    trigger.end_burst()
    trigger.fire()
    assert not taken(trigger)
    trigger.end_burst()
    assert taken(trigger)
    trigger.fire()
    assert not taken(trigger), "the next burst has its own end"


# With its thread


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debounce, "QUIET_SECONDS", 0.02)
    monkeypatch.setattr(debounce, "CHECK_SECONDS", 0.005)


@contextmanager
def debounced(act: Callable[[], Callable[[], bool]]) -> Iterator[tuple[Trigger, Debouncer]]:
    trigger = Trigger(clock=time.monotonic)
    debouncer = Debouncer(trigger, act, name="acting", clock=time.monotonic)
    debouncer.start()
    try:
        yield trigger, debouncer
    finally:
        debouncer.stop()
        assert not debouncer.alive


class Acting:
    """Counts its actions and the looks whether one is done; they are done when the test says so."""

    def __init__(self, *, done: bool = True) -> None:
        self.begun = 0
        self.looks = 0
        self.done = done

    def __call__(self) -> Callable[[], bool]:
        self.begun += 1
        return self._is_done

    def _is_done(self) -> bool:
        self.looks += 1
        return self.done


@pytest.mark.usefixtures("hasty")
def test_what_is_requested_while_an_action_is_under_way_comes_after_it() -> None:
    acting = Acting(done=False)
    with debounced(acting) as (trigger, _):
        trigger.fire()
        eventually(lambda: acting.looks)
        trigger.fire()
        eventually(lambda: trigger.seconds_until_due() == 0.0)
        looks = acting.looks
        eventually(lambda: acting.looks > looks + 2)  # it looks at the first action on and on
        assert acting.begun == 1
        acting.done = True
        eventually(lambda: acting.begun == 2)
        eventually(lambda: not trigger.pending)


@pytest.mark.usefixtures("hasty")
def test_after_an_action_that_fails_the_next_one_comes() -> None:
    begun: list[int] = []

    def fail() -> Callable[[], bool]:
        begun.append(1)
        raise RuntimeError("as ordered")

    with debounced(fail) as (trigger, debouncer):
        trigger.fire()
        eventually(lambda: begun)
        trigger.fire()
        eventually(lambda: len(begun) == 2)
        assert debouncer.alive


@pytest.mark.usefixtures("hasty")
def test_a_stop_ends_the_thread_while_it_waits_for_a_request_or_for_an_action() -> None:
    with debounced(Acting()) as (_, idle):
        assert idle.alive
    acting = Acting(done=False)
    with debounced(acting) as (trigger, _):
        trigger.fire()
        eventually(lambda: acting.looks)
