"""What the soak is made of, as far as it needs no control plane."""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from itertools import pairwise

import pytest

from benchmarks import results_page
from benchmarks.charts import render
from benchmarks.figures import RowResult, at_most
from benchmarks.memory import resident
from benchmarks.objects import NAMED_BY
from benchmarks.soak import quarters
from benchmarks.soak.pod_churn import (
    LIFE,
    QUEUES,
    bodies,
    home,
    writes,
)
from benchmarks.soak.quarters import Reading
from benchmarks.soak.repeated import Repeated
from benchmarks.soak.samples import open_files, threads

GONE = 2**22 + 1


def readings(*values: float, every: float = 10.0) -> list[Reading]:
    return [Reading(number * every, value) for number, value in enumerate(values)]


EIGHT = readings(9, 9, 1, 2, 9, 9, 2, 6)


def test_the_last_quarter_stands_beside_the_second() -> None:
    line = quarters.line("memory", "MiB", EIGHT, whole=80, goal=at_most(1.1))
    assert (line.ours, line.theirs) == ((2, 6), (1, 2))
    assert line.reached is False


def test_a_quarter_with_one_reading_more_is_compared_by_those_that_both_have() -> None:
    assert quarters.line("memory", "MiB", EIGHT[:-1], whole=80).ratios == (2.0,)


def test_what_is_read_too_late_is_of_the_last_quarter() -> None:
    """Whatever was under way when the time was up is waited for."""
    assert quarters.quarter([*EIGHT, Reading(95, 7)], 4, whole=80) == (2, 6, 7)


def test_without_readings_there_is_nothing_to_compare() -> None:
    with pytest.raises(ValueError, match="memory: not read"):
        quarters.line("memory", "MiB", EIGHT[:4], whole=80)


def test_a_point_of_a_curve_is_all_that_was_read_in_its_time() -> None:
    curve = quarters.curve("m", "Memory", "MiB", {"resident": EIGHT}, whole=400)
    (points,) = curve.series.values()
    assert [point.x for point in points] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert [(point.y.least, point.y.greatest) for point in points] == [(9, 9), (1, 2), (9, 9), (2, 6)]


def test_minutes_are_drawn_evenly() -> None:
    """From the first one, which is no logarithm's."""
    minutes = quarters.curve("m", "Memory", "MiB", {"resident": readings(*[5.0] * 20, every=60)}, whole=1_200)
    places = [float(x) for x in re.findall(r'<circle cx="([\d.]+)"', render(minutes))]
    steps = [after - before for before, after in pairwise(places)]
    assert len(places) == 20
    assert steps == pytest.approx([steps[0]] * 19, abs=0.11)


def test_whoever_is_created_is_deleted_once_its_life_is_over() -> None:
    """And as many come as go, from then on."""
    written = Counter[tuple[str, str]]()
    for request in (each for second in range(3 * LIFE) for each in writes(second, rate=10)):
        body = request.body or {"metadata": {"name": ""}}
        path = request.path.removesuffix("?gracePeriodSeconds=0")
        name = body["metadata"]["name"]
        written[request.method, f"{path}/{name}" if name else path] += 1
    made = {path for method, path in written if method == "POST"}
    gone = {path for method, path in written if method == "DELETE"}
    assert set(written.values()) == {1}
    assert (len(made), len(gone)) == (3 * LIFE * 10, 2 * LIFE * 10)
    assert gone < made


def test_every_other_pod_is_a_member_and_all_queues_have_as_many() -> None:
    made = [each for second in range(8) for each in bodies(second, rate=10)]
    named = Counter(body["metadata"]["annotations"].get(NAMED_BY) for _, body in made)
    assert named.pop(None) == 40
    assert named == dict.fromkeys(QUEUES, 5)


def test_the_members_of_a_queue_are_in_one_namespace() -> None:
    for namespace, body in bodies(0, rate=100):
        queue = body["metadata"]["annotations"].get(NAMED_BY)
        assert queue is None or namespace == home(queue)


def test_something_repeated_has_ended_with_its_block() -> None:
    twice = threading.Event()
    each = Repeated(
        "twice", lambda n: twice.set() if n else None, every=0.001, ended=threading.Event(), say=print
    )
    with each:
        assert twice.wait(10)
    assert each.name not in {thread.name for thread in threading.enumerate()}
    assert each.calls >= 2
    assert each.troubles == []


def test_trouble_ends_one_call_and_is_told() -> None:
    again, told = threading.Event(), list[str]()

    def do(number: int) -> None:
        if number == 0:
            raise RuntimeError("too busy")
        again.set()

    with Repeated("pods", do, every=0.001, ended=threading.Event(), say=told.append) as each:
        assert again.wait(10)
    assert told == each.troubles == ["pods 0: too busy"]


def test_a_mistake_ends_all_and_is_raised() -> None:
    ended = threading.Event()
    one = Repeated("wrong", lambda _: next(iter(())), every=1.0, ended=ended, say=lambda _: None)
    other = Repeated("other", lambda _: None, every=1.0, ended=ended, say=lambda _: None)
    with pytest.raises(StopIteration), one, other:
        assert ended.wait(10)


def test_a_call_that_takes_long_makes_the_next_late() -> None:
    """And it is seen how late, and how long."""
    third = threading.Event()
    block = threading.Event()

    def do(number: int) -> None:
        if number == 0:
            block.wait(0.05)
        elif number == 2:
            third.set()

    with Repeated("slow", do, every=0.001, ended=threading.Event(), say=print) as each:
        assert third.wait(10)
    assert each.latest >= 0.04
    assert each.longest >= 0.05


def test_a_process_has_files_threads_and_memory() -> None:
    """One that is gone has none."""
    assert resident([os.getpid()]) > 1
    assert open_files([os.getpid()]) >= 3
    assert threads([os.getpid()]) >= 1
    assert resident([GONE]) == open_files([GONE]) == threads([GONE]) == 0


def test_the_page_says_how_to_make_it_again() -> None:
    nothing = RowResult(title="Under churn", about="Churn.", lines=())
    assert results_page.section("soak", nothing).endswith("Again: `make soak`.\n")
    assert results_page.section("members", nothing).endswith("Again: `make bench ROW=members`.\n")
