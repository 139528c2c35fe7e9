"""The work queue: no change and no result is lost, and what is due comes when it is."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest

from cluster.cache.changes import Change, PodChange, PodGroupChange, QueueChange
from cluster.cache.podgroups import PodGroupKey
from cluster.key_backoff import KeyBackoff
from controller.workqueue import (
    PACE_SECONDS,
    Changes,
    WorkQueue,
)

SPEC, STATUS, COMMANDS = QueueChange.SPEC, QueueChange.STATUS, QueueChange.COMMANDS
POD_1, POD_2 = PodChange("1"), PodChange("2")
#: As good as never, for what must not be waited for.
LATE = 60.0


@pytest.fixture
def queue() -> WorkQueue:
    return WorkQueue(time.monotonic)


def late() -> list[float]:
    return [time.monotonic() + LATE]


def test_each_change_is_returned_once(queue: WorkQueue) -> None:
    queue.add("a", POD_1)
    queue.add("a", POD_2)
    queue.add("b", SPEC)
    assert queue.get(late()) == {"a": {POD_1, POD_2}, "b": {SPEC}}
    assert queue.get([0.0]) == {}


def test_changes_that_were_put_back_are_returned_with_later_ones(queue: WorkQueue) -> None:
    queue.add("a", POD_1)
    taken = queue.get(late())
    queue.add("a", POD_2)
    queue.requeue(taken)
    assert queue.get(late()) == {"a": {POD_1, POD_2}}


def test_the_sooner_of_two_delays_counts_and_members_are_not_forgotten(queue: WorkQueue) -> None:
    queue.add_after("a", LATE, members=True)
    queue.add_after("a", 0.0, members=False)
    queue.add_after("b", 0.0, members=False)
    queue.add_after("c", LATE, members=True)
    assert queue.get(late()) == {"a": {SPEC}, "b": {STATUS}}


def test_get_waits_for_a_queue_that_is_due(queue: WorkQueue) -> None:
    began = time.monotonic()
    queue.add_after("a", 0.05, members=False)
    assert queue.get(late()) == {"a": {STATUS}}
    assert 0.05 <= time.monotonic() - began < LATE


def test_wake_adds_the_status_of_the_queues_it_names(queue: WorkQueue) -> None:
    queue.wake(["a"])
    assert queue.get(late()) == {"a": {STATUS}}


@pytest.mark.parametrize("word", ["add", "deliver", "wake", "stop"])
def test_a_call_of_another_thread_ends_the_wait(queue: WorkQueue, word: str) -> None:
    taken: list[Changes] = []
    thread = threading.Thread(target=lambda: taken.append(queue.get(late())))
    thread.start()
    {
        "add": lambda: queue.add("a", STATUS),
        "deliver": lambda: queue.deliver(lambda: queue.add("a", STATUS)),
        "wake": lambda: queue.wake(["a"]),
        "stop": queue.stop,
    }[word]()
    thread.join(timeout=LATE / 2)
    assert taken == [{} if word == "stop" else {"a": {STATUS}}]


def test_nothing_waits_after_stop(queue: WorkQueue) -> None:
    queue.stop()
    began = time.monotonic()
    queue.pause(LATE)
    assert queue.get(late()) == {}
    assert time.monotonic() - began < LATE
    assert queue.stopped


# Changes that nobody waits for


class Hands:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_batched_changes_are_returned_together_after_the_pace(queue: WorkQueue) -> None:
    began = time.monotonic()
    for number in range(100):
        queue.add_batched("a", PodChange(str(number)))
    assert queue.get(late()) == {"a": {PodChange(str(number)) for number in range(100)}}
    assert PACE_SECONDS <= time.monotonic() - began < LATE


def test_a_batched_change_is_returned_at_once_where_little_happens() -> None:
    """The look before ended long ago, by a clock that the test moves."""
    hands = Hands()
    taken: list[Changes] = []
    waiting = threading.Event()

    def clock() -> float:
        now = hands.now
        waiting.set()
        return now

    queue = WorkQueue(clock)
    end = hands.now + LATE
    thread = threading.Thread(target=lambda: taken.append(queue.get([end])), daemon=True)
    thread.start()
    assert waiting.wait(LATE)
    hands.now += PACE_SECONDS
    queue.add_batched("a", POD_1)
    thread.join(timeout=LATE / 2)
    assert taken == [{"a": {POD_1}}]


@pytest.mark.parametrize("hurry", ["add", "wake", "add_change"])
def test_an_urgent_change_ends_the_wait_for_the_pace(hurry: str) -> None:
    """By a clock that stands still it would last for ever."""
    queue = WorkQueue(Hands())
    taken: list[Changes] = []
    queue.add_batched("a", POD_1)
    thread = threading.Thread(target=lambda: taken.append(queue.get([100.0 + LATE])), daemon=True)
    thread.start()
    thread.join(timeout=3 * PACE_SECONDS)
    assert thread.is_alive()
    {
        "add": lambda: queue.add("b", STATUS),
        "wake": lambda: queue.wake(["b"]),
        "add_change": lambda: queue.add_change("b", SPEC),
    }[hurry]()
    thread.join(timeout=LATE / 2)
    assert taken == [{"a": {POD_1}, "b": {SPEC if hurry == "add_change" else STATUS}}]


@pytest.mark.parametrize("urgent", [SPEC, COMMANDS])
@pytest.mark.parametrize(
    "what", [STATUS, PodGroupChange(PodGroupKey("team", "pair")), PodChange("uid-of-a-pod")]
)
def test_of_the_changes_that_the_store_tells_specs_and_commands_are_urgent(
    what: Change, urgent: Change
) -> None:
    queue = WorkQueue(Hands())
    queue.add_change("a", what)
    assert queue.get([100.0]) == {"a": {what}}, "at the latest when its time has come"
    queue.add_change("a", what)
    queue.add_change("b", urgent)
    assert queue.get([100.0 + LATE]) == {"a": {what}, "b": {urgent}}


@pytest.mark.parametrize("hurry", ["add", "wake"])
def test_an_urgent_change_takes_batched_ones_along(hurry: str) -> None:
    """By a clock that stands still nothing that is paced would ever be taken."""
    queue = WorkQueue(Hands())
    queue.add_batched("a", POD_1)
    {"add": lambda: queue.add("b", SPEC), "wake": lambda: queue.wake(["b"])}[hurry]()
    assert queue.get([100.0 + LATE]) == {"a": {POD_1}, "b": {SPEC if hurry == "add" else STATUS}}


def test_batched_changes_are_returned_at_once_on_request() -> None:
    queue = WorkQueue(Hands())
    queue.add_batched("a", POD_1)
    assert queue.get([100.0 + LATE], at_once=True) == {"a": {POD_1}}


def test_a_queue_that_is_due_does_not_wait_for_the_pace() -> None:
    queue = WorkQueue(Hands())
    queue.add_batched("a", POD_1)
    queue.add_after("b", 0.0, members=False)
    assert queue.get([100.0 + LATE]) == {"a": {POD_1}, "b": {STATUS}}


# Results


def test_results_are_passed_on_once_in_their_order_on_the_thread_that_gets(queue: WorkQueue) -> None:
    received: list[tuple[int, str]] = []

    def receive(number: int) -> None:
        received.append((number, threading.current_thread().name))

    def deliver() -> None:
        for number in range(3):
            queue.deliver(partial(receive, number))

    thread = threading.Thread(target=deliver)
    thread.start()
    thread.join()
    assert received == []
    queue.get(late())
    queue.get([0.0])
    assert received == [(number, threading.current_thread().name) for number in range(3)]


def test_changes_that_a_result_leads_to_are_returned_with_it(queue: WorkQueue) -> None:
    queue.deliver(lambda: queue.add("a", STATUS))
    assert queue.get(late()) == {"a": {STATUS}}


def test_a_result_that_raises_is_counted_and_keeps_no_other_back() -> None:
    counted: list[str] = []
    received: list[int] = []
    queue = WorkQueue(Hands(), backoff=KeyBackoff(counted=counted.append))
    queue.deliver(lambda: 1 // 0)
    queue.deliver(lambda: received.append(1))
    queue.get([100.0])
    assert (counted, received) == (["result"], [1])


def test_batched_results_wait_for_the_pace() -> None:
    """By a clock that stands still it never ends; a change that is waited for ends it."""
    queue = WorkQueue(Hands())
    received: list[int] = []
    queue.deliver(lambda: received.append(1), batched=True)
    thread = threading.Thread(target=lambda: queue.get([100.0 + LATE]), daemon=True)
    thread.start()
    thread.join(timeout=3 * PACE_SECONDS)
    assert (thread.is_alive(), received) == (True, [])
    queue.add("a", STATUS)
    thread.join(timeout=LATE / 2)
    assert received == [1]
