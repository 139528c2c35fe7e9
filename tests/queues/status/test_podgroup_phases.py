"""A PodGroup's phase follows from its pods and its queue alone: the table, row by row and whole."""

from __future__ import annotations

from itertools import product
from typing import Any

from queues.status.podgroup_phases import (
    Phase,
    PodTally,
    derive_phase,
)
from tests.support.cases import each_case

FEW = range(4)


def expected(
    states: list[str], *, least: int, schedules: bool, before: Phase, has_room: bool = True
) -> Phase:
    """The table said anew, over the pods themselves: the first row whose every sentence is true."""
    on_nodes_or_done = [one for one in states if one != "waiting"]
    rows: list[tuple[Phase, list[bool]]] = [
        (
            Phase.COMPLETED,
            [
                {"waiting", "running"}.isdisjoint(states),
                (bool(states) and len(states) >= least) or before == "Completed",
            ],
        ),
        (Phase.RUNNING, [bool(on_nodes_or_done), len(on_nodes_or_done) >= least]),
        (Phase.UNKNOWN, ["running" in states]),
        (Phase.INQUEUE, [schedules, has_room]),
        (Phase.PENDING, []),
    ]
    return next(found for found, sentences in rows if all(sentences))


@each_case("before", Phase)
@each_case(("schedules", "has_room"), [(True, True), (True, False), (False, True)])
@each_case("least", range(-1, 6))
def test_for_all_small_numbers_the_phase_is_that_of_the_table(
    least: int, schedules: bool, has_room: bool, before: Phase
) -> None:
    """`minMember` is 1 where it is less."""
    for waiting, running, succeeded, failed in product(FEW, repeat=4):
        pods = PodTally(waiting=waiting, running=running, succeeded=succeeded, failed=failed)
        states = ["waiting"] * waiting + ["running"] * running
        states += ["succeeded"] * succeeded + ["failed"] * failed
        given: dict[str, Any] = {
            "least": least,
            "schedules": schedules,
            "before": before,
            "has_room": has_room,
        }
        assert derive_phase(pods=pods, **given) is expected(states, **given), pods
        assert pods.total == len(states)
        assert pods.done == succeeded + failed


ROWS = [
    ("done, as many as are needed", PodTally(succeeded=2, failed=1), True, Phase.RUNNING, Phase.COMPLETED),
    ("done, but too few of them", PodTally(succeeded=2), True, Phase.RUNNING, Phase.INQUEUE),
    ("enough run", PodTally(running=3, waiting=5), True, Phase.INQUEUE, Phase.RUNNING),
    ("enough run or are done", PodTally(running=1, succeeded=2), True, Phase.RUNNING, Phase.RUNNING),
    ("too few run", PodTally(running=2, waiting=1), True, Phase.RUNNING, Phase.UNKNOWN),
    ("too few run in a stopped queue", PodTally(running=2, waiting=1), False, Phase.RUNNING, Phase.UNKNOWN),
    ("none runs", PodTally(waiting=3), True, Phase.PENDING, Phase.INQUEUE),
    ("none runs in a stopped queue", PodTally(waiting=3), False, Phase.INQUEUE, Phase.PENDING),
    ("no pods yet", PodTally(), True, Phase.PENDING, Phase.INQUEUE),
    ("no pods yet in a stopped queue", PodTally(), False, Phase.PENDING, Phase.PENDING),
    ("completed, its pods taken away", PodTally(), True, Phase.COMPLETED, Phase.COMPLETED),
    ("completed, some taken away", PodTally(succeeded=1), False, Phase.COMPLETED, Phase.COMPLETED),
    ("completed, and a pod comes", PodTally(waiting=1, succeeded=1), True, Phase.COMPLETED, Phase.INQUEUE),
]


@each_case(("pods", "schedules", "before", "found"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_each_row_of_a_group_of_three(pods: PodTally, schedules: bool, before: Phase, found: Phase) -> None:
    assert derive_phase(pods=pods, least=3, schedules=schedules, before=before) is found


@each_case("before", Phase)
def test_a_phase_is_the_same_once_it_was_written(before: Phase) -> None:
    """What is derived from the result of a derivation is the same: nothing is written twice."""
    for counts, least, schedules in product(product(FEW, repeat=4), FEW, [True, False]):
        pods = PodTally(**dict(zip(["waiting", "running", "succeeded", "failed"], counts, strict=True)))
        once = derive_phase(pods=pods, least=least, schedules=schedules, before=before)
        assert derive_phase(pods=pods, least=least, schedules=schedules, before=once) is once
