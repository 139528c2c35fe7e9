"""Counts of all queues together are a bounded load, and each queue has its turn."""

from __future__ import annotations

from itertools import pairwise

from controller.status.count_slots import CountSlots

RATE, BURST = 10.0, 3


def slots() -> CountSlots:
    return CountSlots(rate=RATE, burst=BURST)


def times(made: CountSlots, count: int, *, now: float) -> list[float]:
    """How many seconds from now each of so many may be written."""
    return [round(made.reserve(now) - now, 3) for _ in range(count)]


def test_few_queues_do_not_wait_for_each_other() -> None:
    made = slots()
    for now in range(100, 110):
        assert times(made, BURST, now=float(now)) == [0.0] * BURST


def test_of_many_queues_each_has_its_turn_at_the_rate() -> None:
    assert times(slots(), 7, now=100.0) == [0.0, 0.0, 0.0, 0.1, 0.2, 0.3, 0.4]


def test_the_interval_grows_with_the_number_of_queues_that_change_all_the_time() -> None:
    """Each asks for its next turn when it has had one."""
    made, count = slots(), 50
    turns = {queue: [made.reserve(100.0)] for queue in range(count)}
    for _ in range(3):
        for queue in sorted(turns, key=lambda queue: turns[queue][-1]):
            turns[queue].append(made.reserve(turns[queue][-1]))
    between = [after - before for each in turns.values() for before, after in pairwise(each[1:])]
    assert max(between) <= count / RATE + 0.001
    assert min(between) >= count / RATE - 0.001


def test_a_rest_gives_no_more_than_one_burst() -> None:
    made = slots()
    times(made, 20, now=100.0)
    assert times(made, 5, now=1_000.0) == [0.0, 0.0, 0.0, 0.1, 0.2]
