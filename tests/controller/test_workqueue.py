"""The work queue: no change and no result is lost, and what is due comes when it is."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.cache.changes import ClusterChange, PodChange, PodGroupChange, QueueChange, StoreChange
from cluster.cache.podgroups import PodGroupKey
from cluster.key_backoff import KeyBackoff
from controller.workqueue import (
    MIN_OUTDATED,
    PACE_SECONDS,
    ChangesByPart,
    WorkQueue,
)
from tests.support.cases import each_case

SPEC, STATUS, COMMANDS = QueueChange.SPEC, QueueChange.STATUS, QueueChange.COMMANDS
MEMBERS, RESYNC = QueueChange.MEMBERS, QueueChange.RESYNC
POD_1, POD_2 = PodChange("1"), PodChange("2")
#: As good as never, for what must not be waited for.
LATE = 60.0


@pytest.fixture
def queue() -> WorkQueue:
    return WorkQueue(time.monotonic)


class Hands:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def taken_at(queue: WorkQueue, hands: Hands, times: list[float]) -> list[ChangesByPart]:
    """What `get` returns at each of these times, in seconds from now."""
    began, taken = hands.now, list[ChangesByPart]()
    for seconds in times:
        hands.now = began + seconds
        taken.append(queue.get([0.0]))
    return taken


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


def test_each_kind_of_change_is_due_at_its_own_time() -> None:
    hands = Hands()
    queue = WorkQueue(hands)
    queue.add_after("a", MEMBERS, seconds=2.0)
    queue.add_after("a", STATUS, seconds=0.005)
    queue.add_after("b", STATUS, seconds=0.005)
    status = {"a": {STATUS}, "b": {STATUS}}
    assert taken_at(queue, hands, [0.0, 0.01, 1.9, 2.0]) == [{}, status, {}, {"a": {MEMBERS}}]


def test_of_two_times_for_one_kind_the_sooner_counts() -> None:
    hands = Hands()
    queue = WorkQueue(hands)
    for seconds in (2.0, 1.0, 3.0):
        queue.add_after("a", MEMBERS, seconds=seconds)
    assert taken_at(queue, hands, [0.9, 1.0, 3.0]) == [{}, {"a": {MEMBERS}}, {}]


added = st.tuples(st.sampled_from("abc"), st.sampled_from([STATUS, MEMBERS]), st.integers(0, 9))


@given(st.lists(added | st.integers(0, 5)))
def test_what_is_due_is_returned_at_the_first_get_after_its_time_and_only_then(steps: list[Any]) -> None:
    """Adds with a delay, and the time that passes before a `get`; a model keeps one time for each kind."""
    hands, model = Hands(), dict[tuple[str, QueueChange], float]()
    queue = WorkQueue(hands)
    for step in steps:
        if isinstance(step, tuple):
            name, change, seconds = step
            queue.add_after(name, change, seconds=seconds)
            model[name, change] = min(hands.now + seconds, model.get((name, change), LATE + hands.now))
            continue
        hands.now += step
        due = {key for key, when in model.items() if when <= hands.now}
        assert {(name, each) for name, changes in queue.get([0.0]).items() for each in changes} == due
        model = {key: when for key, when in model.items() if key not in due}
    assert len(queue._due._heap) <= 2 * len(queue._due._due) + MIN_OUTDATED


def test_times_that_are_outdated_are_dropped() -> None:
    """A status that is due in a minute, and again and again sooner."""
    hands = Hands()
    queue = WorkQueue(hands)
    for _ in range(10 * MIN_OUTDATED):
        queue.add_after("a", STATUS, seconds=LATE)
        queue.add_after("a", STATUS, seconds=0.0)
        assert queue.get([0.0]) == {"a": {STATUS}}
    assert len(queue._due._heap) <= MIN_OUTDATED


def test_get_waits_for_a_queue_that_is_due(queue: WorkQueue) -> None:
    began = time.monotonic()
    queue.add_after("a", STATUS, seconds=0.05)
    assert queue.get(late()) == {"a": {STATUS}}
    assert 0.05 <= time.monotonic() - began < LATE


def test_wake_adds_the_status_of_the_queues_it_names(queue: WorkQueue) -> None:
    queue.wake(["a"])
    assert queue.get(late()) == {"a": {STATUS}}


@pytest.mark.parametrize("word", ["add", "deliver", "wake", "stop"])
def test_a_call_of_another_thread_ends_the_wait(queue: WorkQueue, word: str) -> None:
    taken: list[ChangesByPart] = []
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


def test_batched_changes_are_returned_together_after_the_pace(queue: WorkQueue) -> None:
    began = time.monotonic()
    for number in range(100):
        queue.add_batched("a", PodChange(str(number)))
    assert queue.get(late()) == {"a": {PodChange(str(number)) for number in range(100)}}
    assert PACE_SECONDS <= time.monotonic() - began < LATE


def test_a_batched_change_is_returned_at_once_where_little_happens() -> None:
    """The look before ended long ago, by a clock that the test moves."""
    hands = Hands()
    taken: list[ChangesByPart] = []
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
    taken: list[ChangesByPart] = []
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


@each_case("urgent", [SPEC, RESYNC, MEMBERS, COMMANDS, ClusterChange.NAMESPACES])
@each_case("what", [STATUS, PodGroupChange(PodGroupKey("team", "pair")), PodChange("uid-of-a-pod")])
def test_of_the_changes_that_the_store_reports_those_of_a_single_object_are_not_urgent(
    what: StoreChange, urgent: StoreChange
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
    queue.add_after("b", STATUS, seconds=0.0)
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
