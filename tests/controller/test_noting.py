"""Nothing that was heard is lost, and what is due comes when it is."""

from __future__ import annotations

import threading
import time

import pytest

from cluster.store import STATUS, WHOLE
from controller.noting import Noted, Notes

#: As good as never, for what must not be waited for.
LATE = 60.0


@pytest.fixture
def notes() -> Notes:
    return Notes(time.monotonic)


def late() -> list[float]:
    return [time.monotonic() + LATE]


def test_what_was_heard_is_taken_once(notes: Notes) -> None:
    notes.heard("a", "1")
    notes.heard("a", "2")
    notes.heard("b", WHOLE)
    assert notes.take(late()) == {"a": {"1", "2"}, "b": {WHOLE}}
    assert notes.take([0.0]) == {}


def test_what_was_put_back_is_taken_again_with_what_came_since(notes: Notes) -> None:
    notes.heard("a", "1")
    taken = notes.take(late())
    notes.heard("a", "2")
    notes.again(taken)
    assert notes.take(late()) == {"a": {"1", "2"}}


def test_the_sooner_of_two_times_counts_and_members_are_not_forgotten(notes: Notes) -> None:
    notes.soon("a", LATE, members=True)
    notes.soon("a", 0.0, members=False)
    notes.soon("b", 0.0, members=False)
    notes.soon("c", LATE, members=True)
    assert notes.take(late()) == {"a": {WHOLE}, "b": {STATUS}}


def test_what_is_due_is_waited_for(notes: Notes) -> None:
    notes.soon("a", 0.05, members=False)
    began = time.monotonic()
    assert notes.take(late()) == {"a": {STATUS}}
    assert 0.05 <= time.monotonic() - began < LATE


def test_whoever_wakes_names_whose_status_is_looked_at(notes: Notes) -> None:
    notes.wake(["a"])
    assert notes.take(late()) == {"a": {STATUS}}


@pytest.mark.parametrize("word", ["heard", "wake", "stop"])
def test_a_word_from_another_thread_ends_the_waiting(notes: Notes, word: str) -> None:
    taken: list[Noted] = []
    thread = threading.Thread(target=lambda: taken.append(notes.take(late())))
    thread.start()
    {
        "heard": lambda: notes.heard("a", STATUS),
        "wake": lambda: notes.wake(["a"]),
        "stop": notes.stop,
    }[word]()
    thread.join(timeout=LATE / 2)
    assert taken == [{} if word == "stop" else {"a": {STATUS}}]


def test_nobody_rests_after_the_end(notes: Notes) -> None:
    notes.stop()
    began = time.monotonic()
    notes.rest(LATE)
    assert notes.take(late()) == {}
    assert time.monotonic() - began < LATE
    assert notes.stopped
