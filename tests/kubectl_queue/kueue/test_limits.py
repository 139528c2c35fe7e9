"""The queues in place of ClusterQueues hold them to what Kueue lets them use."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubectl_queue.objects.fields import Object
from kubectl_queue.objects.queues import queue_of
from queues.admission.resource_validation import Quota, QuotaFamily, quota_of, violations
from queues.queue import Queue
from queues.quota.usage import Usage
from queues.tree import Tree
from tests.support.cases import each_case
from tests.support.examples import examples
from tests.support.plugin.harness import item
from tests.support.plugin.kueue_objects import (
    Converted,
    cluster_queue,
    cohort,
    converted,
    groups,
    local_queue,
)


def cpu(*amounts: int | None, flavor: str = "any") -> list[Object]:
    """Nominal quota, borrowing limit, lending limit."""
    padded = (*amounts, None, None)[:3]
    return groups(**{flavor: {"cpu": padded}})


def amounts(found: Converted, name: str) -> tuple[Any, ...]:
    """Capability, deserved and guarantee of cpu; None where it is absent."""
    spec = found.specs[name]
    guarantee = (spec.get("guarantee") or {}).get("resource") or {}
    return tuple(
        part.get("cpu") for part in (spec.get("capability", {}), spec.get("deserved", {}), guarantee)
    )


@each_case(
    ("quotas", "expected"),
    [
        (cpu(10), (None, "10", None)),
        (cpu(10, 5), ("15", "10", None)),
        (cpu(10, 0), ("10", "10", None)),
        (cpu(10, 10), (None, "10", None)),
        (cpu(10, 99), (None, "10", None)),
        (cpu(10, None, 4), (None, "10", "6")),
        (cpu(10, None, 0), (None, "10", "10")),
        (cpu(10, None, 12), (None, "10", None)),
        (cpu(0, 5, 0), ("5", "0", None)),
        ([], ("0", None, None)),
        (groups(any={"cpu": "1500m"}), (None, "1500m", None)),
    ],
    ids=[
        *(
            "without limits",
            "a borrowing limit",
            "none may be borrowed",
            "up to all there is",
            "more than that",
        ),
        *("a lending limit", "none is lent", "more is lent than there is", "nothing of its own", "no quota"),
        "parts of a CPU",
    ],
)
def test_of_a_cluster_queue_in_a_cohort(quotas: list[Object], expected: tuple[str | None, ...]) -> None:
    found = converted(cluster_queue("a", "lab", quotas=quotas), cluster_queue("b", "lab", quotas=cpu(10)))
    assert amounts(found, "a") == expected


def test_without_a_cohort_the_nominal_quota_is_the_capability() -> None:
    assert amounts(converted(cluster_queue("a", quotas=cpu(10))), "a") == ("10", None, None)


def test_a_cohort_has_what_it_names_and_what_is_in_it_and_keeps_what_that_does_not_lend() -> None:
    found = converted(
        cohort("lab", quotas=cpu(5)),
        cluster_queue("a", "lab", quotas=cpu(10, None, 4)),
        cluster_queue("b", "lab", quotas=cpu(20, None, 0)),
    )
    assert amounts(found, "lab") == ("35", None, "26")


def test_a_cohort_below_another_has_limits_of_its_own() -> None:
    found = converted(
        cohort("lab"),
        cohort("vision", "lab", quotas=cpu(2, 3, 8)),
        cluster_queue("a", "vision", quotas=cpu(10, None, 6)),
        cluster_queue("b", "lab", quotas=cpu(20)),
    )
    # It lends 8 of the 8 that a lends and the 2 of its own: 2 are kept, beside the 4 that a keeps.
    assert amounts(found, "lab") == ("32", None, "4")
    assert amounts(found, "vision") == ("15", "12", "4")
    assert amounts(found, "a") == (None, "10", "4")


def test_what_a_cohort_keeps_it_keeps_once() -> None:
    """`low` keeps 7 of 10 and lends 3, of which `middle` could lend 5."""
    found = converted(
        cohort("top"),
        cohort("middle", "top", quotas=cpu(0, None, 5)),
        cohort("low", "middle", quotas=cpu(0, None, 3)),
        cluster_queue("a", "low", quotas=cpu(10)),
    )
    assert [amounts(found, name)[2] for name in ("top", "middle", "low")] == ["7", "7", "7"]


def test_a_cohort_without_an_object_is_there_all_the_same() -> None:
    found = converted(cohort("vision", "lab"), cluster_queue("a", "vision"), cluster_queue("b", "speech"))
    assert found.parents == {"lab": "", "speech": "", "vision": "lab", "b": "speech", "a": "vision"}


def test_a_resource_that_a_tree_does_not_name_is_zero_in_it_and_pods_are_not() -> None:
    found = converted(
        cluster_queue("a", quotas=groups(any={"cpu": 4, "pods": 9})),
        cluster_queue("b", "lab", quotas=groups(any={"nvidia.com/gpu": 8})),
        cluster_queue("c", "lab", quotas=cpu(4)),
    )
    assert found.specs["a"]["capability"] == {"cpu": "4", "nvidia.com/gpu": "0", "pods": "9"}
    assert found.specs["lab"]["capability"] == {"cpu": "4", "nvidia.com/gpu": "8"}
    assert found.specs["b"]["capability"] == {"cpu": "0"}
    assert found.specs["c"]["capability"] == {"nvidia.com/gpu": "0"}


def test_flavors_are_added_up_and_one_that_it_does_not_name_is_not_for_it() -> None:
    found = converted(
        cluster_queue("a", "lab", quotas=groups(spot={"cpu": 4}, owned={"cpu": (8, 1, None)})),
        cluster_queue("b", "lab", quotas=groups(owned={"cpu": 10})),
        cluster_queue("c", "lab", quotas=groups(new={"cpu": 1}, owned={"cpu": 0})),
    )
    assert amounts(found, "lab") == ("23", None, None)
    assert amounts(found, "a") == ("13", "12", None)  # 4 of spot, 8 and 1 of owned
    assert amounts(found, "b") == ("18", "10", None)  # all of owned
    assert amounts(found, "c") == ("19", "1", None)
    assert [line for line in found.warnings if "one limit, their sum" in line] == [
        "ClusterQueue spec.resourceGroups: flavors of one resource are one limit, their sum; to limit each, "
        "make a queue for each (a, c)"
    ]


def test_a_sum_beyond_all_quantities_is_the_greatest() -> None:
    found = converted(*(cluster_queue(name, "lab", quotas=cpu(2**63 - 1)) for name in "ab"))
    assert amounts(found, "lab")[0] == str(2**63 - 1)


# Random Cohorts, by Kueue's rule and by the queues'

_limit = st.none() | st.integers(0, 12)
_quota = st.tuples(st.integers(0, 10), _limit, _limit)


@st.composite
def trees(draw: st.DrawFn) -> tuple[dict[str, str], dict[str, tuple[str, Any]], dict[str, Any]]:
    """Cohorts by their parents, ClusterQueues by their Cohort with their quota, quotas of Cohorts."""
    names = [f"cohort-{number}" for number in range(draw(st.integers(1, 4)))]
    parents = {
        name: draw(st.sampled_from(["", *names[:number]])) if number else ""
        for number, name in enumerate(names)
    }
    queues = {
        f"queue-{number}": (draw(st.sampled_from(names)), draw(_quota))
        for number in range(draw(st.integers(1, 5)))
    }
    own = {
        name: (draw(st.integers(0, 5)), *((draw(_limit), draw(_limit)) if parents[name] else (None, None)))
        for name in names
        if draw(st.booleans())
    }
    return parents, queues, own


def most(name: str, parents: dict[str, str], quotas: dict[str, Any]) -> int:
    """What one node may use while the others use nothing, by Kueue's rule for one flavor."""
    nominal, borrowing, lending = quotas.get(name, (0, None, None))
    has = nominal + sum(shared(child, parents, quotas) for child in parents if parents[child] == name)
    if not parents[name]:
        return int(has)
    kept = max(0, has - lending) if lending is not None else 0
    reached = kept + most(parents[name], parents, quotas)
    return int(reached if borrowing is None else min(has + borrowing, reached))


def shared(name: str, parents: dict[str, str], quotas: dict[str, Any]) -> int:
    """What those above may use of what it has."""
    nominal, _, lending = quotas.get(name, (0, None, None))
    has = nominal + sum(shared(child, parents, quotas) for child in parents if parents[child] == name)
    return int(has if lending is None else min(has, lending))


@examples(120)
@given(trees())
def test_the_most_that_each_may_use_is_that_of_kueue(
    drawn: tuple[dict[str, str], dict[str, tuple[str, Any]], dict[str, Any]],
) -> None:
    parents, queues, own = drawn
    found = converted(
        *(
            cohort(name, parent, quotas=cpu(*own[name]) if name in own else None)
            for name, parent in parents.items()
        ),
        *(cluster_queue(name, above, quotas=cpu(*quota)) for name, (above, quota) in queues.items()),
    )
    assert found.faults == []
    usage = Usage(tree_of(found))
    nodes = {**parents, **{name: above for name, (above, _) in queues.items()}}
    quotas = {**own, **{name: quota for name, (_, quota) in queues.items()}}
    for name in queues:
        allowed = usage.deserved.real_capability(name)["cpu"]
        assert allowed == most(name, nodes, quotas), name
    assert [text for name in found.specs for text in refusals(found, name)] == []


def tree_of(found: Converted) -> Tree:
    read = {name: queue_of(item(name, **spec)) for name, spec in found.specs.items()}
    return Tree({"root": Queue(name="root", parent=None), **read})


def refusals(found: Converted, name: str) -> list[str]:
    """What the admission of the queue would say of its amounts."""
    quotas = {each: _quota_of(spec) for each, spec in found.specs.items()}
    parent = found.parents[name]
    family = QuotaFamily(
        name=name,
        own=quotas[name],
        parent=parent or "root",
        parent_quota=quotas[parent] if parent else Quota(),
        sibling_quotas={
            each: quotas[each] for each, above in found.parents.items() if above == parent and each != name
        },
        child_quotas={each: quotas[each] for each, above in found.parents.items() if above == name},
    )
    return [fault.text for _, fault in violations(family)]


def _quota_of(spec: Object) -> Quota:
    return quota_of(
        guarantee=spec.get("guarantee"), deserved=spec.get("deserved"), capability=spec.get("capability")
    )


def test_queues_below_that_of_a_cluster_queue_have_no_amounts_of_their_own() -> None:
    """They share all of it, and ask back by what the queue above deserves."""
    found = converted(cluster_queue("a", "lab"), local_queue("x", "day", "a"), local_queue("x", "night", "a"))
    assert [amounts(found, name) for name in ("day", "night")] == [(None, None, None)] * 2
