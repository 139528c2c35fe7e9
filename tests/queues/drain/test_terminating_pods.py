"""Terminating pods: how long each has its place in flight, what delays it, when its grace period is cut."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from queues.apimachinery.label_selectors import Selector
from queues.drain import terminating_pods as terminating
from queues.drain.model import (
    DrainSpec,
    RunningPod,
    Termination,
)
from queues.drain.terminating_pods import (
    GRACE_LIMIT,
    MIN_GRACE,
    SPARE_SECONDS,
    Delay,
    counts_as_in_flight,
    cut_grace,
    delay_of,
    long_grace_warning,
    longest_grace,
    requested_at,
    requested_grace,
    undeleted,
)
from tests.support.cases import each_case
from tests.support.docs.pages import ruled
from tests.support.drain.drain_cases import job, pod
from tests.support.rules.cases import (
    MODEST,
    NOW,
    SECOND,
)

#: Thirty years; more than any calendar has.
YEARS, FOREVER = 1_000_000_000, 9_000_000_000_000_000_000
DELETE = DrainSpec(deadline=NOW - SECOND, delete_after_deadline=True)
GRACES = st.sampled_from((0, 1, 30, 300, 301, 3600, YEARS, FOREVER))


def terminated(*, grace: int, ago: float = 0.0, finalizers: tuple[str, ...] = ()) -> RunningPod:
    """A pod whose deletion was asked for so many seconds ago."""
    termination = Termination(
        requested_at=NOW - timedelta(seconds=ago), grace=grace, node="node-0", finalizers=finalizers
    )
    return pod(leaving=True, grace_period=grace, termination=termination)


def delay_kind(runner: RunningPod, *, longest: int = GRACE_LIMIT, gone: tuple[str, ...] = ()) -> Delay | None:
    found = delay_of(runner, now=NOW, longest=longest, gone_nodes=gone)
    return found.delay if found is not None else None


def cut(runner: RunningPod, spec: DrainSpec) -> int | None:
    return cut_grace(runner, spec, now=NOW, limit=GRACE_LIMIT)


# Places


@each_case(
    ("grace", "longest", "kept_for"),
    [(30, 300, 40), (0, 300, 10), (300, 300, 310), (YEARS, 300, 310), (FOREVER, 300, 310), (YEARS, 2, 12)],
)
def test_a_pod_counts_as_in_flight_for_its_grace_period_up_to_the_longest(
    grace: int, longest: int, kept_for: float
) -> None:
    runner = terminated(grace=grace)
    assert runner.termination is not None
    for seconds, keeps in ((kept_for, True), (kept_for + 0.1, False)):
        now = NOW + timedelta(seconds=seconds)
        assert counts_as_in_flight(runner.termination, now=now, longest=longest) is keeps
        found = delay_of(runner, now=now, longest=longest, gone_nodes=())
        assert (found is None) is keeps


@MODEST
@given(GRACES, GRACES, st.integers(0, 10**6))
def test_no_pod_counts_as_in_flight_for_longer_than_the_longest_grace_period(
    grace: int, more: int, ago: int
) -> None:
    """Whatever a user writes: asking for more never keeps it for longer than that."""
    longest = 300
    for each in (grace, more):
        runner = terminated(grace=each, ago=ago)
        assert runner.termination is not None
        keeps = counts_as_in_flight(runner.termination, now=NOW, longest=longest)
        assert not (keeps and ago > longest + SPARE_SECONDS)


@pytest.mark.parametrize(
    ("spec", "longest"),
    [
        (DrainSpec(), GRACE_LIMIT),
        (DrainSpec(grace_seconds=5), 5),
        (DrainSpec(grace_seconds=86_400), 86_400),
        (DrainSpec(grace_seconds=0), 1),
    ],
)
def test_the_longest_grace_period_is_the_drains_or_the_servers(spec: DrainSpec, longest: int) -> None:
    assert longest_grace(spec, limit=GRACE_LIMIT) == longest


# Delays

DELAYS: dict[Delay, RunningPod] = {
    Delay.NODE_GONE: terminated(grace=30, ago=100, finalizers=("example.com/wait",)),
    Delay.GRACE: terminated(grace=YEARS, ago=1000, finalizers=("example.com/wait",)),
    Delay.FINALIZERS: terminated(grace=30, ago=100, finalizers=("example.com/wait",)),
    Delay.NOT_ENDED: terminated(grace=30, ago=100),
    Delay.NOT_TERMINATED: job(1, suspended=True)[0],
}


@each_case("delay", Delay)
def test_each_delay_is_named(delay: Delay) -> None:
    """On one line, as the table of the module has it."""
    runner = DELAYS[delay]
    if delay is Delay.NOT_TERMINATED:
        assert delay_kind(runner) is None
        assert undeleted(runner).delay is delay
        return
    gone = ("node-0",) if delay is Delay.NODE_GONE else ()
    assert delay_kind(runner, gone=gone) is delay
    assert [row[0] for row in ruled(terminating.__doc__)[0]] == list(Delay)


def test_a_long_grace_period_is_named_with_its_end_and_the_way_out() -> None:
    found = delay_of(DELAYS[Delay.GRACE], now=NOW, longest=300, gone_nodes=())
    assert found is not None
    assert f"for its grace period is {YEARS} s" in found.message
    assert "gracePeriodSeconds" in found.message


def test_a_grace_period_beyond_the_calendar_is_named_too() -> None:
    found = delay_of(terminated(grace=FOREVER, ago=1000), now=NOW, longest=300, gone_nodes=())
    assert found is not None
    assert found.delay is Delay.GRACE


def test_a_few_finalizers_are_named() -> None:
    """A user writes as many as he likes, of any length."""
    many = tuple(f"example.com/{'x' * 200}-{number}" for number in range(50))
    found = delay_of(terminated(grace=0, ago=100, finalizers=many), now=NOW, longest=300, gone_nodes=())
    assert found is not None
    assert found.message.endswith("and 47 more")
    assert len(found.message) < 800


def test_the_time_of_a_deletion_follows_from_its_end() -> None:
    """That of a grace period that no calendar has was so long ago that its place is gone."""
    assert requested_at(NOW, grace=30) == NOW - timedelta(seconds=30)
    assert requested_at(NOW, grace=FOREVER) == datetime.min.replace(tzinfo=UTC)


def test_a_pod_that_may_take_long_is_known_before() -> None:
    assert long_grace_warning(pod(grace_period=301), DrainSpec(), limit=300)
    assert not long_grace_warning(pod(grace_period=300), DrainSpec(), limit=300)
    assert not long_grace_warning(pod(grace_period=YEARS), DrainSpec(grace_seconds=YEARS), limit=300)


# Grace periods that are given and cut


@each_case(
    ("own", "spec", "delete", "given"),
    [
        (30, None, False, None),
        (YEARS, None, False, None),
        (30, None, True, None),
        (YEARS, None, True, 300),
        (30, 60, False, 60),
        (30, 60, True, 60),
        (YEARS, 0, False, MIN_GRACE),
    ],
)
def test_the_grace_period_that_is_requested(
    own: int, spec: int | None, delete: bool, given: int | None
) -> None:
    """Its own, unless the drain says so; past the deadline no more than the longest. Never nothing."""
    assert (
        requested_grace(pod(grace_period=own), DrainSpec(grace_seconds=spec), delete=delete, limit=300)
        == given
    )


@each_case(
    ("spec", "grace", "ago", "cut_to"),
    [
        (DrainSpec(), YEARS, 0, None),
        (DrainSpec(deadline=NOW + SECOND, delete_after_deadline=True), YEARS, 0, None),
        (DrainSpec(deadline=NOW - SECOND), YEARS, 0, None),
        (DrainSpec(deadline=NOW - SECOND, grace_seconds=5), YEARS, 0, None),
        (DrainSpec(grace_seconds=5, unreadable="so it is"), YEARS, 0, None),
        (DELETE, YEARS, 0, 300),
        (DELETE, YEARS, 100, 200),
        (DELETE, YEARS, 10_000, 1),
        (DELETE, 300, 100, None),
        (DELETE, 30, 100, None),
        (replace(DELETE, grace_seconds=3600), YEARS, 0, 3600),
        (DrainSpec(grace_seconds=5), YEARS, 0, 5),
        (DrainSpec(grace_seconds=0), YEARS, 0, 1),
        (DrainSpec(grace_seconds=5), YEARS, 60, 1),
        (DrainSpec(grace_seconds=5), 5, 0, None),
    ],
)
def test_the_grace_period_of_a_terminating_pod_is_cut(
    spec: DrainSpec, grace: int, ago: int, cut_to: int | None
) -> None:
    """Where an administrator has said so; the time that has gone by counts."""
    assert cut(terminated(grace=grace, ago=ago), spec) == cut_to


def test_a_pod_that_stays_by_rule_keeps_its_grace_period() -> None:
    kept = replace(terminated(grace=YEARS), labels={"stay": "yes"})
    assert cut(kept, replace(DELETE, keep=Selector(match_labels={"stay": "yes"}))) is None
    assert cut(replace(kept, daemon=True), DELETE) is None


def test_a_pod_that_is_not_terminating_has_no_grace_period_to_cut() -> None:
    assert cut(pod(grace_period=YEARS), DELETE) is None


@MODEST
@given(GRACES, st.integers(0, 10**6), st.sampled_from((None, 0, 1, 30, 3600)))
def test_a_cut_is_shorter_than_before_and_never_zero_and_happens_once(
    grace: int, ago: int, grace_seconds: int | None
) -> None:
    """What it is cut to is not cut again."""
    spec = replace(DELETE, grace_seconds=grace_seconds)
    runner = terminated(grace=grace, ago=ago)
    to = cut(runner, spec)
    if to is None:
        assert grace <= longest_grace(spec, limit=GRACE_LIMIT)
        return
    assert MIN_GRACE <= to < grace
    assert cut(terminated(grace=to, ago=ago), spec) is None
