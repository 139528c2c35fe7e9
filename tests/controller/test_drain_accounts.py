"""What is told of pods on their way, and of suspended work that nobody ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from cluster.cache.store import Clock, Store
from cluster.object_reference import ObjectReference
from controller.context import ControllerContext
from controller.drain import accounts as drain_accounts
from controller.drain.accounts import DrainProgressTracker
from controller.drain.executor import Drain
from queues.drain.model import Plan, Termination
from queues.drain.terminating_pods import GRACE_LIMIT, Delay
from queues.membership import MembershipSettings
from tests.support.drain.drain_cases import job, pod
from tests.support.rules.cases import NOW


class Told:
    """Takes down what is recorded."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def record(self, subject: ObjectReference, *, reason: str, **_: object) -> None:
        self.lines.append((subject.name, reason))


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def accounts(told: Told) -> DrainProgressTracker:
    """They read the store, which holds nothing, and the clock."""
    known = {
        "store": Store(rules=MembershipSettings(), clock=Clock()),
        "drain_grace_limit": GRACE_LIMIT,
        "recorder": told,
    }
    others: dict[str, Any] = dict.fromkeys(set(ControllerContext.__struct_fields__) - known.keys())
    return DrainProgressTracker(ControllerContext(**{**others, **known}))


def suspended(accounts: DrainProgressTracker, drain: Drain) -> list[Delay]:
    """A look at two pods of a suspended Job that nothing deletes: what is said to delay them."""
    return [
        one.delay for one in accounts.find_delays(drain, Plan(leaving=tuple(job(2, suspended=True)))).values()
    ]


@pytest.mark.parametrize(
    ("answered", "abandoned", "delays", "unanswered"),
    [(60.0, 60.0, 0, False), (-1.0, 60.0, 2, False), (-1.0, -1.0, 2, True)],
    ids=["at first", "after a while", "after a long while"],
)
def test_suspended_work_that_nobody_ends_is_named_and_then_goes_by_its_pods(
    accounts: DrainProgressTracker,
    monkeypatch: pytest.MonkeyPatch,
    answered: float,
    abandoned: float,
    delays: int,
    unanswered: bool,
) -> None:
    """What does not answer is not suspended any more: its pods are evicted by themselves."""
    monkeypatch.setattr(drain_accounts, "SUSPEND_SECONDS", answered)
    monkeypatch.setattr(drain_accounts, "ABANDONED_SECONDS", abandoned)
    drain = Drain("research", now=0.0, rate=1.0)
    for _ in range(2):
        said = suspended(accounts, drain)
    assert said == [Delay.NOT_TERMINATED] * delays
    assert drain.unsuspendable == ({"uid-j"} if unanswered else set())


def test_a_pod_that_loses_its_place_says_so_once(accounts: DrainProgressTracker, told: Told) -> None:
    """In an event, as long as it stays delayed."""
    termination = Termination(requested_at=NOW - timedelta(days=9999), grace=30, node="node-0")
    late, drain = (
        pod("late", leaving=True, termination=termination),
        Drain("research", now=0.0, rate=1.0),
    )
    for _ in range(3):
        delays = accounts.find_delays(drain, Plan(leaving=(late,)))
        drain.record_plan(Plan(leaving=(late,)), now=0.0, stuck=frozenset(delays))
    assert told.lines == [("late", "EvictionDelayed")]
