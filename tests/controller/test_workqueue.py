"""Nothing that was heard is lost, and what is due comes when it is."""

from __future__ import annotations

import threading
import time

import pytest

from cluster.cache.podgroups import GroupKey
from cluster.cache.store import (
    STATUS,
    WHOLE,
    What,
)
from controller.workqueue import (
    PACE_SECONDS,
    Changes,
    WorkQueue,
)

#: As good as never, for what must not be waited for.
LATE = 60.0


@pytest.fixture
def notes() -> WorkQueue:
    return WorkQueue(time.monotonic)


def late() -> list[float]:
    return [time.monotonic() + LATE]


def test_what_was_heard_is_taken_once(notes: WorkQueue) -> None:
    notes.add("a", "1")
    notes.add("a", "2")
    notes.add("b", WHOLE)
    assert notes.get(late()) == {"a": {"1", "2"}, "b": {WHOLE}}
    assert notes.get([0.0]) == {}


def test_what_was_put_back_is_taken_again_with_what_came_since(notes: WorkQueue) -> None:
    notes.add("a", "1")
    taken = notes.get(late())
    notes.add("a", "2")
    notes.requeue(taken)
    assert notes.get(late()) == {"a": {"1", "2"}}


def test_the_sooner_of_two_times_counts_and_members_are_not_forgotten(notes: WorkQueue) -> None:
    notes.add_after("a", LATE, members=True)
    notes.add_after("a", 0.0, members=False)
    notes.add_after("b", 0.0, members=False)
    notes.add_after("c", LATE, members=True)
    assert notes.get(late()) == {"a": {WHOLE}, "b": {STATUS}}


def test_what_is_due_is_waited_for(notes: WorkQueue) -> None:
    notes.add_after("a", 0.05, members=False)
    began = time.monotonic()
    assert notes.get(late()) == {"a": {STATUS}}
    assert 0.05 <= time.monotonic() - began < LATE


def test_whoever_wakes_names_whose_status_is_looked_at(notes: WorkQueue) -> None:
    notes.wake(["a"])
    assert notes.get(late()) == {"a": {STATUS}}


@pytest.mark.parametrize("word", ["heard", "wake", "stop"])
def test_a_word_from_another_thread_ends_the_waiting(notes: WorkQueue, word: str) -> None:
    taken: list[Changes] = []
    thread = threading.Thread(target=lambda: taken.append(notes.get(late())))
    thread.start()
    {
        "heard": lambda: notes.add("a", STATUS),
        "wake": lambda: notes.wake(["a"]),
        "stop": notes.stop,
    }[word]()
    thread.join(timeout=LATE / 2)
    assert taken == [{} if word == "stop" else {"a": {STATUS}}]


def test_nobody_rests_after_the_end(notes: WorkQueue) -> None:
    notes.stop()
    began = time.monotonic()
    notes.pause(LATE)
    assert notes.get(late()) == {}
    assert time.monotonic() - began < LATE
    assert notes.stopped


# What nobody waits for


class Hands:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_nobody_waits_for_is_taken_together_once_its_time_has_come(notes: WorkQueue) -> None:
    began = time.monotonic()
    for number in range(100):
        notes.add_batched("a", str(number))
    assert notes.get(late()) == {"a": set(map(str, range(100)))}
    assert PACE_SECONDS <= time.monotonic() - began < LATE


def test_where_little_happens_it_is_taken_at_once() -> None:
    """The look before ended long ago, by a clock that the test moves."""
    hands = Hands()
    taken: list[Changes] = []
    waiting = threading.Event()

    def clock() -> float:
        now = hands.now
        waiting.set()
        return now

    notes = WorkQueue(clock)
    end = hands.now + LATE
    thread = threading.Thread(target=lambda: taken.append(notes.get([end])), daemon=True)
    thread.start()
    assert waiting.wait(LATE)
    hands.now += PACE_SECONDS
    notes.add_batched("a", "1")
    thread.join(timeout=LATE / 2)
    assert taken == [{"a": {"1"}}]


@pytest.mark.parametrize("hurry", ["heard", "wake", "told"])
def test_what_is_waited_for_ends_a_wait_for_the_pace(hurry: str) -> None:
    """By a clock that stands still it would last for ever."""
    notes = WorkQueue(Hands())
    taken: list[Changes] = []
    notes.add_batched("a", "1")
    thread = threading.Thread(target=lambda: taken.append(notes.get([100.0 + LATE])), daemon=True)
    thread.start()
    thread.join(timeout=3 * PACE_SECONDS)
    assert thread.is_alive()
    {
        "heard": lambda: notes.add("b", STATUS),
        "wake": lambda: notes.wake(["b"]),
        "told": lambda: notes.add_change("b", WHOLE),
    }[hurry]()
    thread.join(timeout=LATE / 2)
    assert taken == [{"a": {"1"}, "b": {WHOLE if hurry == "told" else STATUS}}]


@pytest.mark.parametrize("what", [STATUS, GroupKey("team", "pair"), "uid-of-a-pod"])
def test_of_what_the_store_tells_only_wishes_are_waited_for(what: What) -> None:
    notes = WorkQueue(Hands())
    notes.add_change("a", what)
    assert notes.get([100.0]) == {"a": {what}}, "at the latest when its time has come"
    notes.add_change("a", what)
    notes.add_change("b", WHOLE)
    assert notes.get([100.0 + LATE]) == {"a": {what}, "b": {WHOLE}}


@pytest.mark.parametrize("hurry", ["heard", "wake"])
def test_whoever_is_waited_for_takes_along_what_is_not(hurry: str) -> None:
    """By a clock that stands still nothing that is paced would ever be taken."""
    notes = WorkQueue(Hands())
    notes.add_batched("a", "1")
    {"heard": lambda: notes.add("b", WHOLE), "wake": lambda: notes.wake(["b"])}[hurry]()
    assert notes.get([100.0 + LATE]) == {"a": {"1"}, "b": {WHOLE if hurry == "heard" else STATUS}}


def test_everything_is_taken_at_once_where_somebody_waits_for_it() -> None:
    notes = WorkQueue(Hands())
    notes.add_batched("a", "1")
    assert notes.get([100.0 + LATE], at_once=True) == {"a": {"1"}}


def test_what_is_due_does_not_wait_for_its_pace() -> None:
    notes = WorkQueue(Hands())
    notes.add_batched("a", "1")
    notes.add_after("b", 0.0, members=False)
    assert notes.get([100.0 + LATE]) == {"a": {"1"}, "b": {STATUS}}
