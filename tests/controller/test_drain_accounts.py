"""What is told of pods on their way, and of suspended work that nobody ends."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.store import Clock, Store
from controller import drain_accounts
from controller.drain import Drain
from controller.drain_accounts import Accounts
from controller.parts import Parts
from queues.draining import Plan
from queues.membership import Rules
from queues.terminating import GRACE_LIMIT, Delay
from tests.queues.drain_cases import job


@pytest.fixture
def accounts() -> Accounts:
    """They read the store, which holds nothing, and the clock."""
    store = Store(rules=Rules(), clock=Clock())
    others: dict[str, Any] = dict.fromkeys(set(Parts.__struct_fields__) - {"store", "drain_grace_limit"})
    return Accounts(Parts(store=store, drain_grace_limit=GRACE_LIMIT, **others))


def suspended(accounts: Accounts, drain: Drain) -> list[Delay]:
    """A look at two pods of a suspended Job that nothing deletes: what is said to delay them."""
    return [one.delay for one in accounts.delayed(drain, Plan(leaving=tuple(job(2, paused=True)))).values()]


@pytest.mark.parametrize(
    ("answered", "abandoned", "delays", "unanswered"),
    [(60.0, 60.0, 0, False), (-1.0, 60.0, 2, False), (-1.0, -1.0, 2, True)],
    ids=["at first", "after a while", "after a long while"],
)
def test_suspended_work_that_nobody_ends_is_named_and_then_goes_by_its_pods(
    accounts: Accounts,
    monkeypatch: pytest.MonkeyPatch,
    answered: float,
    abandoned: float,
    delays: int,
    unanswered: bool,
) -> None:
    """What does not answer is not suspended any more: its pods are evicted by themselves."""
    monkeypatch.setattr(drain_accounts, "ANSWER_SECONDS", answered)
    monkeypatch.setattr(drain_accounts, "ABANDONED_SECONDS", abandoned)
    drain = Drain("research", now=0.0, rate=1.0)
    for _ in range(2):
        said = suspended(accounts, drain)
    assert said == [Delay.NOT_TERMINATED] * delays
    assert drain.unanswered == ({"uid-j"} if unanswered else set())
