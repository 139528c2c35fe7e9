"""The outcome of each answer of the API server to an eviction; the lanes of requests."""

from __future__ import annotations

from cluster.exceptions import ClusterError, Conflict, NotFound, Overloaded, Refused, Unreachable
from controller.evictions.answers import EvictionOutcome, answer_of
from controller.evictions.pods import LANES_PER_NAMESPACE, lane_of
from tests.support.cases import each_case

BUDGET = frozenset({"DisruptionBudget"})
DENIED = 'admission webhook "evictions.example.com" denied the request: not before Monday'
UNREACHED = 'Internal error occurred: failed calling webhook "evictions.example.com": no endpoints'


def overloaded(code: int, message: str, *, causes: frozenset[str] = frozenset()) -> Overloaded:
    return Overloaded(code, "", message, retry_after=30.0, causes=causes)


@each_case(
    ("answer", "outcome"),
    [
        (overloaded(429, "Cannot evict pod", causes=BUDGET), EvictionOutcome.BUDGET),
        (overloaded(500, "This pod has more than one PodDisruptionBudget"), EvictionOutcome.SEVERAL_BUDGETS),
        (overloaded(429, "too many requests"), EvictionOutcome.OVERLOADED),
        (overloaded(503, "etcdserver: leader changed"), EvictionOutcome.OVERLOADED),
        (overloaded(429, DENIED), EvictionOutcome.REFUSED),
        (overloaded(500, DENIED), EvictionOutcome.REFUSED),
        (overloaded(503, DENIED), EvictionOutcome.REFUSED),
        (overloaded(500, UNREACHED), EvictionOutcome.REFUSED),
        (Refused(403, "Forbidden", DENIED), EvictionOutcome.REFUSED),
        (NotFound(404, "NotFound", "gone"), EvictionOutcome.ABSENT),
        (Conflict(409, "Conflict", "another one"), EvictionOutcome.ABSENT),
        (Unreachable("cut"), EvictionOutcome.OVERLOADED),
    ],
)
def test_each_answer_has_its_outcome(answer: ClusterError, outcome: EvictionOutcome) -> None:
    """What a webhook answers concerns its pod alone, whatever the status code."""
    assert answer_of(answer).outcome is outcome


def test_a_namespace_takes_a_few_of_the_writers_however_many_budgets_it_has() -> None:
    """All evictions of one budget share a lane."""
    alone = {lane_of("lab", uid=f"uid-{number}", budget=None) for number in range(100)}
    budgeted = {lane_of("lab", uid="uid", budget=("lab", f"budget-{number}")) for number in range(100)}
    assert len(alone | budgeted) == LANES_PER_NAMESPACE
    assert len({lane_of("lab", uid=f"uid-{number}", budget=("lab", "web")) for number in range(100)}) == 1
    assert lane_of("lab", uid="uid", budget=None) != lane_of("other", uid="uid", budget=None)
