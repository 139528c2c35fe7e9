"""A pod that keeps changing while it is released is tried less and less often."""

from __future__ import annotations

import math

from controller.quota import voided
from controller.quota.voided import VoidedReleases


def test_the_first_change_costs_no_time_and_each_further_one_twice_as_much() -> None:
    releases = VoidedReleases()
    now, pauses = 100.0, []
    for _ in range(10):
        releases.record("uid", queue="team", now=now)
        pauses.append(0.0 if releases.due == math.inf else releases.due - now)
        assert releases.is_postponed("uid", now=now) == (pauses[-1] > 0)
        now += pauses[-1]
        assert not releases.is_postponed("uid", now=now)
        assert releases.take_due(now) == ([("team", "uid")] if pauses[-1] else [])
    assert pauses == [0, 0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_after_a_release_it_begins_anew() -> None:
    releases = VoidedReleases()
    for _ in range(5):
        releases.record("uid", queue="team", now=0.0)
    releases.forget("uid")
    assert not releases.is_postponed("uid", now=0.0)
    releases.record("uid", queue="team", now=0.0)
    assert not releases.is_postponed("uid", now=0.0)


def test_one_that_was_refused_is_not_tried_before_it_may_be_sent() -> None:
    releases = VoidedReleases()
    releases.record("uid", queue="team", now=0.0, seconds=7.0)
    assert releases.is_postponed("uid", now=6.0)
    assert not releases.is_postponed("uid", now=7.0)


def test_it_remembers_a_bounded_number() -> None:
    releases = VoidedReleases()
    for number in range(2 * voided.MAX_REMEMBERED):
        releases.record(f"uid-{number}", queue="team", now=0.0)
    assert len(releases._releases) <= voided.MAX_REMEMBERED
