"""PodDisruptionBudgets as they are read, whom they count, and how many may ever go."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from queues.apimachinery.label_selectors import (
    BadSelector,
    Operator,
    Requirement,
    Selector,
)
from queues.drain.disruption_budgets import (
    MAX_SELECTORS,
    MAX_TERMS,
    Budget,
    BudgetIndex,
    BudgetObject,
    parse_budget,
)
from tests.support.cases import each_case
from tests.support.drain.drain_cases import (
    LAB,
    WEB,
    budget,
)
from tests.support.rules.cases import MODEST

STATUS = {
    "observedGeneration": 2,
    "disruptionsAllowed": 1,
    "currentHealthy": 3,
    "desiredHealthy": 2,
    "expectedPods": 3,
    "conditions": [{"type": "DisruptionAllowed", "status": "True"}],
}


def read(*, status: dict[str, Any] | None = None, generation: int = 2, **spec: Any) -> Budget:
    """A budget as the API server sends it."""
    obj: dict[str, Any] = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": LAB, "generation": generation, "uid": "u"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": dict(WEB)}} | spec,
    }
    if status is not None:
        obj["status"] = status
    return parse_budget(msgspec.json.decode(msgspec.json.encode(obj), type=BudgetObject))


def test_a_budget_is_read_as_it_stands() -> None:
    """What it allows, what it counts and what it wants; nobody has looked outside."""
    assert read(status=STATUS) == Budget(
        namespace=LAB,
        name="web",
        selector=Selector(match_labels=dict(WEB)),
        allowed=1,
        healthy=3,
        desired=2,
    )


def test_a_budget_is_named_with_its_kind_and_namespace() -> None:
    assert str(read(status=STATUS)) == "PodDisruptionBudget lab/web"


@pytest.mark.parametrize(
    ("status", "generation"), [(None, 1), ({}, 1), (STATUS, 3)], ids=["no status", "empty", "former"]
)
def test_a_status_of_the_past_allows_nothing(status: dict[str, Any] | None, generation: int) -> None:
    """The eviction API refuses as long as the disruption controller has not seen the last edit."""
    found = read(status=status, generation=generation)
    assert not found.current
    assert found.allowed == 0
    assert replace(found, outside=9).eventually_allowed(1) is None
    assert not found.allows_unready_eviction(0)


@pytest.mark.parametrize(
    ("policy", "spares"), [(None, False), ("IfHealthyBudget", False), ("AlwaysAllow", True)]
)
def test_pods_that_are_not_ready_are_spared_where_the_budget_says_so(
    policy: str | None, spares: bool
) -> None:
    assert read(status=STATUS, unhealthyPodEvictionPolicy=policy).always_allow_unready is spares


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
    ],
)
def test_a_budget_selects_in_its_own_namespace(selector: dict[str, Any] | None, selects: bool) -> None:
    """Without a selector nothing, with an empty one everything, elsewhere never."""
    found = read(status=STATUS, selector=selector)
    assert found.selects(LAB, WEB) is selects
    assert not found.selects("other", WEB)


def test_a_selector_that_cannot_be_read_is_reported() -> None:
    with pytest.raises(BadSelector):
        read(status=STATUS, selector={"matchExpressions": [{"key": "app", "operator": "Like"}]})


@each_case(
    ("going", "outside", "desired", "ever"),
    [
        (3, 0, 0, 3),  # it wants nobody
        (3, 0, 2, 1),  # a Deployment of 3 of which 2 have to run, and replacements wait
        (3, 0, 3, 0),
        (3, 0, 5, 0),  # more than there are
        (3, 2, 2, 3),  # those outside are enough
        (3, 1, 2, 2),
        (3, 9, 2, 3),  # never more than there are
        (0, 0, 2, 0),
    ],
)
def test_how_many_may_ever_go(going: int, outside: int, desired: int, ever: int) -> None:
    """As many as the budget can spare once all others are ready that can be."""
    assert budget(outside=outside, desired=desired).eventually_allowed(going) == ever


def test_the_final_number_of_evictions_is_unknown_without_the_pods_outside_the_drain() -> None:
    assert budget(desired=2).eventually_allowed(3) is None


@each_case(
    ("healthy", "desired", "pending", "spares", "goes"),
    [
        (2, 2, 0, False, True),
        (3, 2, 1, False, True),
        (2, 2, 1, False, False),  # one more is on its way than its status knows
        (1, 2, 0, False, False),  # it is short of healthy pods already
        (1, 2, 0, True, True),
        (0, 0, 0, False, False),  # the API asks for `allowed` all the same
    ],
)
def test_unready_pods_go_where_the_budget_is_whole(
    healthy: int, desired: int, pending: int, spares: bool, goes: bool
) -> None:
    """Each row is one branch of the eviction API."""
    found = budget(healthy=healthy, desired=desired, always_allow_unready=spares)
    assert found.allows_unready_eviction(pending) is goes


def test_the_index_finds_all_that_select_a_pod() -> None:
    """Those of its own namespace, in the order in which they were given, and the same ones again."""
    web, every = budget("web"), budget("every", labels={})
    elsewhere = Budget(namespace="other", name="every", selector=Selector())
    index = BudgetIndex([web, elsewhere, every, budget("none", labels={"app": "db"})])
    for _ in range(2):
        assert index.selecting(LAB, {"app": "web", "x": "y"}) == (web, every)
        assert index.selecting(LAB, {}) == (every,)
        assert index.selecting("other", WEB) == (elsewhere,)
        assert index.selecting("third", WEB) == ()


few = st.sampled_from(("", "x", "y"))


@MODEST
@given(
    st.lists(st.dictionaries(st.sampled_from("ab"), few, max_size=2), max_size=4),
    st.lists(st.dictionaries(st.sampled_from("ab"), few, max_size=2), max_size=8),
)
def test_the_index_answers_as_each_budget_would(
    wanted: list[dict[str, str]], asked: list[dict[str, str]]
) -> None:
    """Whatever was asked before."""
    budgets = [budget(f"b{number}", labels=labels) for number, labels in enumerate(wanted)]
    index = BudgetIndex(budgets)
    for labels in asked:
        assert index.selecting(LAB, labels) == tuple(one for one in budgets if one.selects(LAB, labels))


def test_a_budget_whose_status_cannot_be_worked_out_says_so() -> None:
    """As the disruption controller does; a condition that only allows nobody is none."""
    failed = {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "no scale"}
    enough = failed | {"reason": "InsufficientPods"}
    assert read(status=STATUS | {"conditions": [failed]}).broken == "no scale"
    assert read(status=STATUS | {"conditions": [failed | {"message": ""}]}).broken == "SyncFailed"
    assert read(status=STATUS | {"conditions": [enough]}).broken == ""


# The cost of hostile budgets


class Counted(dict[str, str]):
    """The labels of a pod: how often they were looked at."""

    looks = 0

    def get(self, key: str, default: object = None) -> Any:
        self.looks += 1
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.looks += 1
        return super().__contains__(key)


def expressed(number: int, key: str = "app", *, labels: dict[str, str] | None = None) -> Budget:
    """A budget that selects pods by an expression, each another one."""
    requirement = Requirement(key, Operator.NOT_IN, [f"v{number}"])
    selector = Selector(match_labels=labels, match_expressions=[requirement])
    return replace(budget(f"b{number}"), selector=selector)


@each_case(
    "hostile",
    [
        [budget(f"b{number}") for number in range(2000)],
        [budget(f"b{number}", labels={"app": "web", "x": str(number)}) for number in range(2000)],
        [budget(f"b{number}", labels={f"k{number}": "v"}) for number in range(2000)],
        [expressed(number) for number in range(2000)],
        [expressed(number, f"k{number}") for number in range(2000)],
        [expressed(number, "x", labels=dict(WEB)) for number in range(2000)],
    ],
    ids=["the same", "common label", "other labels", "expressions", "other keys", "label and expression"],
)
def test_a_pod_costs_little_whatever_budgets_its_namespace_has(hostile: list[Budget]) -> None:
    """Its labels are compared with a few selectors; where that does not do, it is said."""
    index, labels = BudgetIndex(hostile), Counted(WEB)
    found = index.selecting(LAB, labels)
    assert labels.looks <= 2 * MAX_SELECTORS
    right = tuple(one for one in hostile if one.selects(LAB, WEB))
    if index.excess(LAB, labels):
        assert found == ()
    else:
        assert found == right


def test_an_honest_namespace_of_many_budgets_is_known() -> None:
    """A budget for each of a thousand applications, which have a label in common."""
    many = [budget(f"b{number}", labels={"team": "a", "app": f"app-{number}"}) for number in range(1000)]
    index = BudgetIndex(many)
    assert index.selecting(LAB, {"team": "a", "app": "app-7", "hash": "x"}) == (many[7],)
    assert not index.excess(LAB, {"team": "a", "app": "app-7", "hash": "x"})


def test_a_selector_of_very_many_values_is_not_tried() -> None:
    """And that is said of the pods that it might select, not of others."""
    values = [str(number) for number in range(MAX_TERMS + 1)]
    vast = Selector(match_labels={"tier": "a"}, match_expressions=[Requirement("x", Operator.IN, values)])
    index = BudgetIndex([replace(budget("vast"), selector=vast), budget("web")])
    assert index.excess(LAB, {"tier": "a"})
    assert index.selecting(LAB, WEB)[0].name == "web"
    assert not index.excess(LAB, WEB)


def test_namespaces_with_too_many_budgets_are_known_by_their_excess() -> None:
    """None of theirs counts, though some were read; other namespaces are as ever."""
    index = BudgetIndex([budget("a"), replace(budget("b"), namespace="other")], excess={LAB: "too many"})
    assert (index.selecting(LAB, WEB), index.excess(LAB, WEB)) == ((), "too many")
    assert index.excess("other", WEB) == ""
    assert len(index.selecting("other", WEB)) == 1


def test_an_index_after_another_has_the_budgets_of_today() -> None:
    """What their selectors were found to select is kept, what they allow is not."""
    before = BudgetIndex([budget("a", allowed=1), budget("b", labels={"app": "db"})])
    assert before.selecting(LAB, WEB)[0].allowed == 1
    after = BudgetIndex([budget("a", allowed=2), budget("b", labels={"app": "db"})], after=before)
    assert after.selecting(LAB, WEB)[0].allowed == 2
    assert [one.name for one in BudgetIndex([budget("b")], after=after).selecting(LAB, WEB)] == ["b"]
