"""No pod is bound after an acknowledgement, in whatever order things happen: random histories of a small
cluster.

Each fault that was mended is turned back on, and a bind after an acknowledgement is found. Where that takes
many steps, the history has an opening: its first steps are given, and what comes after is random as ever.
"""

from __future__ import annotations

import pytest

from tests.support.examples import scaled
from tests.support.rules.acknowledgement_model import (
    Rules,
    Violation,
    run,
)

STEPS = 60
#: Histories without a fault, of which none may end in a violation; and how many are tried until one is found.
SOUND, TRIED = scaled(300), 6_000

KNOWN = ("create", "pods-reach a", "pods-reach b")
STOPPED = ("stop or resume child", "queues-reach a", "queues-reach b", "publish b")
GUARDED = ("guard", "labels-reach server-0", "labels-reach server-1", "probe")
#: A stop that is acknowledged where the leader takes b for gone.
SEEN_BY_A = (
    *("observe", "mark", "pods-reach a", "observe"),
    *(*KNOWN, "stop or resume child", "queues-reach a", *GUARDED),
    *("look at child", "mark", "pods-reach a", "look at child", "land acknowledge child"),
)
REQUEST_GONE = ("time", "time", "time")

OPENINGS = {
    "blind": (),
    "by_generation": (
        *KNOWN,
        *("stop or resume parent", "queues-reach a", "queues-reach b", "publish b"),
        *(*GUARDED, "look at parent", "mark", "pods-reach a", "pods-reach b", "publish b", "look at parent"),
        *("land acknowledge parent", "stop or resume parent", "queues-reach b", "filter p0 at b"),
        "stop or resume parent",
    ),
    "unfenced": (
        *(*KNOWN, "observe", "filter p0 at a", *STOPPED, *GUARDED),
        *("stop or resume child", "queues-reach a", "guard"),
        *(*STOPPED, "probe", *REQUEST_GONE),
        *("look at child", "mark", "pods-reach a", "pods-reach b", "publish b", "look at child"),
    ),
    "one_server": (
        *(*KNOWN, "filter p0 at a", *STOPPED),
        *("guard", "labels-reach server-0", "probe", *REQUEST_GONE),
        *("look at child", "mark", "pods-reach a", "pods-reach b", "publish b", "look at child"),
    ),
    "silence_is_none": (*KNOWN, "filter p0 at b", "send p0 by server 0", *STOPPED, *GUARDED),
    "assume_briefly": (
        *(*KNOWN, "filter p0 at b", "lose b", "time", "time", "observe", *REQUEST_GONE),
        *("stop or resume child", "queues-reach a", "send p0 by server 0", *GUARDED),
    ),
    "retry_asked": (
        *(*KNOWN, "filter p0 at b", "send p0 by server 0", "lose b", "time", "time", "observe"),
        *("stop or resume child", "queues-reach a", *GUARDED, "retry p0"),
    ),
    "forget_binds": (
        *("create other", "pods-reach a", "pods-reach b", *STOPPED, *GUARDED, "time"),
        *("stop or resume child", "queues-reach b", "send u0 by server 0, guard of b", "lose b"),
        *("time", "time", "stop or resume child", "queues-reach a", "observe"),
    ),
    "place_alone": (
        *KNOWN,
        *("stop or resume parent", "queues-reach a", "queues-reach b", "publish b"),
        *(*GUARDED, "look at parent", "mark", "pods-reach a", "pods-reach b", "publish b", "look at parent"),
        *("land acknowledge parent", "move", "queues-reach b", "filter p0 at b", "move", "queues-reach a"),
    ),
    "absence_is_end": ("delete the Lease of b", *SEEN_BY_A, "filter p0 at b"),
    "no_gap": (
        *("delete the Lease of b", "time", "time", "time"),
        *(*SEEN_BY_A, "renew b", "filter p0 at b"),
    ),
    "uncertain": (
        *("lose a", "time", "time", "delete the Lease of b", "a comes back"),
        *(*SEEN_BY_A, "filter p0 at b"),
    ),
}
#: A history that finds each; where that has changed, it is looked for in others, which takes seconds.
FINDS = {
    "blind": 530,
    "by_generation": 98,
    "unfenced": 3,
    "one_server": 1858,
    "silence_is_none": 326,
    "assume_briefly": 3,
    "retry_asked": 29,
    "forget_binds": 260,
    "place_alone": 23,
    "absence_is_end": 2,
    "no_gap": 2,
    "uncertain": 12,
}
#: b is of an older version, that says less, in these alone.
OLD = {"silence_is_none"}


@pytest.mark.parametrize("fault", OPENINGS)
def test_each_corrected_fault_is_refused_while_it_is_there(fault: str) -> None:
    with pytest.raises(Violation):
        for seed in (FINDS[fault], *range(TRIED)):
            run(Rules(**{fault: True}), seed=seed, steps=STEPS, opening=OPENINGS[fault], old=fault in OLD)


@pytest.mark.parametrize("fault", ["", *OPENINGS])
def test_no_history_has_a_bind_after_an_acknowledgement(fault: str) -> None:
    """With the openings that lead to a violation where the fault is there, too."""
    for seed in range(SOUND):
        run(Rules(), seed=seed, steps=STEPS, opening=OPENINGS.get(fault, ()), old=seed % 7 == 0)


def test_stops_are_acknowledged_in_these_histories() -> None:
    """Else they would show nothing."""
    acknowledged = sum(run(Rules(), seed=seed, steps=2 * STEPS) for seed in range(SOUND))
    assert acknowledged > SOUND / 10
