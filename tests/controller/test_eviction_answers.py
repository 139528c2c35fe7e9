"""What the API server answers to an eviction, and whom it concerns; the lanes of requests."""

from __future__ import annotations

import pytest

from cluster.exceptions import ClusterError, Conflict, NotFound, Overloaded, Refused, Unreachable
from controller.drain.eviction import (
    LANES_PER_NAMESPACE,
    Outcome,
    _failed,
    lane_of,
)

BUDGET = frozenset({"DisruptionBudget"})
DENIED = 'admission webhook "evictions.example.com" denied the request: not before Monday'
UNREACHED = 'Internal error occurred: failed calling webhook "evictions.example.com": no endpoints'


def overloaded(code: int, message: str, *, causes: frozenset[str] = frozenset()) -> Overloaded:
    return Overloaded(code, "", message, retry_after=30.0, causes=causes)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (overloaded(429, "Cannot evict pod", causes=BUDGET), Outcome.BUDGET),
        (overloaded(500, "This pod has more than one PodDisruptionBudget"), Outcome.SEVERAL_BUDGETS),
        (overloaded(429, "too many requests"), Outcome.BUSY),
        (overloaded(503, "etcdserver: leader changed"), Outcome.BUSY),
        (overloaded(429, DENIED), Outcome.REFUSED),
        (overloaded(500, DENIED), Outcome.REFUSED),
        (overloaded(503, DENIED), Outcome.REFUSED),
        (overloaded(500, UNREACHED), Outcome.REFUSED),
        (Refused(403, "Forbidden", DENIED), Outcome.REFUSED),
        (NotFound(404, "NotFound", "gone"), Outcome.AWAY),
        (Conflict(409, "Conflict", "another one"), Outcome.AWAY),
        (Unreachable("cut"), Outcome.BUSY),
    ],
)
def test_a_webhook_s_answer_concerns_its_pod_alone(answer: ClusterError, outcome: Outcome) -> None:
    """Whatever status code it chose: the API server is not busy for that."""
    assert _failed(answer)["outcome"] is outcome


def test_one_namespace_takes_a_few_of_the_writers_however_many_budgets_it_has() -> None:
    """And all evictions of one budget go in one lane."""
    alone = {lane_of("lab", uid=f"uid-{number}", budget=None) for number in range(100)}
    budgeted = {lane_of("lab", uid="uid", budget=("lab", f"budget-{number}")) for number in range(100)}
    assert len(alone | budgeted) == LANES_PER_NAMESPACE
    assert len({lane_of("lab", uid=f"uid-{number}", budget=("lab", "web")) for number in range(100)}) == 1
    assert lane_of("lab", uid="uid", budget=None) != lane_of("other", uid="uid", budget=None)
