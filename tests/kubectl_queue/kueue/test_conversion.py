"""The queues in place of Kueue's objects, field by field, and what is said of the rest."""

from __future__ import annotations

from typing import Any

from kubectl_queue.kueue.conversion import DEPTH_LIMIT
from queues.namespace_selectors import VALUES_LIMIT, compile_selector
from tests.support.cases import each_case
from tests.support.plugin.kueue_objects import (
    V1BETA1,
    Converted,
    cluster_queue,
    cohort,
    converted,
    kueue_object,
    local_queue,
)

NAME = "kubernetes.io/metadata.name"


def selects(found: Converted, queue: str, namespace: str, **labels: str) -> bool:
    selector = compile_selector(found.specs[queue].get("namespaceSelector"))
    return selector is None or selector.selects({NAME: namespace, **labels})


def fields(found: Converted, queue: str, *names: str) -> tuple[Any, ...]:
    return tuple(found.specs[queue].get(name) for name in names)


@each_case(
    ("spec", "field", "expected"),
    [
        ({"queueingStrategy": "StrictFIFO"}, "dequeueStrategy", "fifo"),
        ({"queueingStrategy": "BestEffortFIFO"}, "dequeueStrategy", None),
        ({"stopPolicy": "Hold"}, "stopPolicy", "Hold"),
        ({"stopPolicy": "HoldAndDrain"}, "stopPolicy", "HoldAndDrain"),
        ({"stopPolicy": "None"}, "stopPolicy", None),
        ({"preemption": {"reclaimWithinCohort": "Any"}}, "schedulerPolicy", "kueue-reclaim"),
        ({"fairSharing": {"weight": "3"}}, "weight", 3),
    ],
)
def test_a_field_of_a_cluster_queue(spec: dict[str, Any], field: str, expected: str | int | None) -> None:
    found = converted(
        cluster_queue("a", "lab", **spec), cluster_queue("b", "lab"), local_queue("x", "a", "a")
    )
    assert found.specs["a"].get(field) == expected


def test_fields_of_the_older_version_mean_the_same() -> None:
    spec = {"cohort": "lab", "namespaceSelector": {}, "resourceGroups": []}
    found = converted(
        kueue_object("ClusterQueue", "a", spec, version=V1BETA1),
        kueue_object("Cohort", "lab", {"parent": "top"}, version="kueue.x-k8s.io/v1alpha1"),
        local_queue("x", "a", "a"),
    )
    assert (found.parents, found.warnings) == ({"top": "", "lab": "top", "a": "lab"}, [])


def test_the_strictest_stop_of_a_cluster_queue_and_its_local_queues_counts() -> None:
    found = converted(
        cluster_queue("a", stopPolicy="Hold"),
        local_queue("x", "a", "a", stopPolicy="HoldAndDrain"),
        cluster_queue("b", stopPolicy="HoldAndDrain"),
        local_queue("x", "b", "b", stopPolicy="Hold"),
    )
    assert [fields(found, name, "stopPolicy") for name in "ab"] == [("HoldAndDrain",)] * 2


def test_strict_order_holds_in_each_queue_below_and_that_it_does_not_between_them_is_said() -> None:
    found = converted(
        cluster_queue("a", queueingStrategy="StrictFIFO"),
        local_queue("x", "day", "a"),
        local_queue("x", "night", "a"),
    )
    assert {fields(found, name, "dequeueStrategy") for name in found.specs} == {("fifo",)}
    text = "StrictFIFO holds in each queue below it, and not between them (a)"
    assert found.warnings == [f"ClusterQueue spec.queueingStrategy: {text}"]


# Namespaces


def test_only_namespaces_with_a_local_queue_may_use_a_queue_and_those_above_it() -> None:
    found = converted(
        cluster_queue("a", "lab", namespaceSelector={"matchLabels": {"kind": "research"}}),
        local_queue("x", "day", "a"),
        local_queue("y", "night", "a"),
        cluster_queue("b", "lab"),
        local_queue("z", "b", "b"),
    )
    chosen = {
        (queue, namespace): selects(found, queue, namespace, kind="research")
        for queue in found.specs
        for namespace in "xyz"
    }
    assert {pair for pair, selected in chosen.items() if not selected} == {
        *(("a", "z"), ("b", "x"), ("b", "y"), ("day", "y"), ("day", "z"), ("night", "x"), ("night", "z"))
    }
    assert not selects(found, "lab", "another")
    assert not selects(found, "a", "x", kind="other")


def test_an_absent_selector_selects_nothing_as_in_kueue() -> None:
    found = converted(kueue_object("ClusterQueue", "a", {"cohortName": "lab"}), local_queue("x", "a", "a"))
    assert not selects(found, "a", "x")
    assert found.warnings == [
        "ClusterQueue spec.namespaceSelector: selects no namespace, as an absent one does in Kueue (a)"
    ]


def test_without_a_local_queue_no_namespace_is_selected_and_that_is_said() -> None:
    found = converted(cluster_queue("a"))
    assert not selects(found, "a", "x")
    assert [line for line in found.warnings if "has no LocalQueue" in line]


def test_more_namespaces_than_a_selector_names_are_said() -> None:
    many = [local_queue(f"n{number:04}", "a", "a") for number in range(VALUES_LIMIT + 1)]
    selected = {"matchLabels": {"kind": "research"}}
    found = converted(cluster_queue("a", namespaceSelector=selected), *many)
    assert found.specs["a"]["namespaceSelector"] == selected
    assert [line for line in found.warnings if line.startswith("ClusterQueue: its LocalQueues are in 257")]


def test_a_selector_larger_than_a_queue_s_selects_nothing_and_that_is_said() -> None:
    labels = {f"label-{number}": "x" for number in range(17)}
    found = converted(
        cluster_queue("a", namespaceSelector={"matchLabels": labels}), local_queue("x", "a", "a")
    )
    assert not selects(found, "a", "x", **labels)
    assert [line for line in found.warnings if "is larger than that of a queue may be" in line]


# Weights


@each_case(
    ("weights", "expected", "said"),
    [
        ((None, None), (None, None), ""),
        (("2", "2"), (None, None), ""),
        (("1", "3"), (1, 3), ""),
        (("4", "2"), (2, 1), ""),
        (("0.5", "1"), (1, 2), ""),
        (("500m", None), (1, 2), ""),
        (("1500m", "400m"), (15, 4), ""),
        (("0", "1"), (1, 1), "0 is last of all"),
        (("1n", "1"), (1, 1000), "is rounded"),
        (("9E", "1"), (2**31 - 1, 1), "is rounded"),
    ],
)
def test_weights_are_whole_numbers_of_the_same_proportion(
    weights: tuple[str | None, ...], expected: tuple[int | None, ...], said: str
) -> None:
    a, b = (_weight(each) for each in weights)
    found = converted(
        cluster_queue("a", "lab", **a),
        cluster_queue("b", "lab", **b),
        *(local_queue("x", n, n) for n in "ab"),
    )
    assert (fields(found, "a", "weight") + fields(found, "b", "weight")) == expected
    assert [said in line for line in found.warnings] == ([True] if said else [])


def _weight(text: str | None) -> dict[str, Any]:
    return {"fairSharing": {"weight": text}} if text else {}


def test_weights_of_queues_that_share_nothing_are_left_out() -> None:
    found = converted(cluster_queue("a", fairSharing={"weight": "3"}), cluster_queue("b"))
    assert fields(found, "a", "weight") == (None,)


def test_local_queues_below_one_cluster_queue_have_theirs() -> None:
    found = converted(
        cluster_queue("a"),
        local_queue("x", "day", "a", fairSharing={"weight": "3"}),
        local_queue("x", "night", "a"),
    )
    assert fields(found, "day", "weight") + fields(found, "night", "weight") == (3, 1)


# Cohorts


def test_cohorts_in_a_cycle_and_what_is_below_them_are_said_and_the_rest_is_converted() -> None:
    found = converted(
        cohort("one", "two"),
        cohort("two", "one"),
        cohort("below", "one"),
        cluster_queue("a", "below"),
        local_queue("x", "a", "a"),
        cluster_queue("b"),
        local_queue("x", "b", "b"),
    )
    assert (list(found.specs), found.warnings) == (["b"], [])
    text = "is in a cycle of Cohorts, or below one; it is not converted"
    assert found.faults == [f"Cohort: {text} (below, one, two)", f"ClusterQueue: {text} (a)"]


def test_a_cohort_that_is_its_own_parent_is_a_cycle() -> None:
    assert converted(cohort("one", "one")).faults != []


def test_more_levels_than_the_server_takes_are_said() -> None:
    names = [f"c{number}" for number in range(DEPTH_LIMIT)]
    chain = [cohort(name, above) for name, above in zip(names, ["", *names], strict=False)]
    found = converted(*chain, cluster_queue("a", names[-1]), local_queue("x", "a", "a"))
    assert [line.rpartition("(")[2] for line in found.warnings if "levels below root" in line] == ["a)"]


def test_ten_thousand_cohorts_one_below_the_other_are_converted() -> None:
    names = [f"c{number}" for number in range(10_000)]
    found = converted(*(cohort(name, above) for name, above in zip(names, ["", *names], strict=False)))
    assert len(found.specs) == 10_000


def test_of_a_hundred_cluster_queues_one_line_says_what_is_lost() -> None:
    queues = [
        cluster_queue(f"q{number:02}", admissionChecksStrategy={"admissionChecks": [{"name": "check"}]})
        for number in range(100)
    ]
    names = [local_queue("x", f"q{number:02}", f"q{number:02}") for number in range(100)]
    [line] = converted(*queues, *names).warnings
    assert line.startswith(
        "ClusterQueue spec.admissionChecksStrategy: has no counterpart: work starts without"
    )
    assert line.endswith("(q00, q01, q02 and 97 more)")
