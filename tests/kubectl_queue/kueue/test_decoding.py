"""Objects of Kueue that are wrong, hostile or of other kinds: each is said, and none ends the command."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubectl_queue.kueue.fields import FIELDS, OTHER_KINDS
from kubectl_queue.kueue.report import LINES_LIMIT
from tests.support.cases import each_case
from tests.support.examples import examples
from tests.support.plugin.kueue_objects import (
    FLAVOR,
    cluster_queue,
    cohort,
    converted,
    groups,
    kueue_object,
    local_queue,
)

BAD_QUOTAS: dict[str, Any] = {
    "no list": "all",
    "no mapping": ["all"],
    "flavors that are no list": [{"flavors": "all"}],
    "no name": [{"flavors": [{"resources": []}]}],
    "a name that is no resource's": groups(any={"a b": 1}),
    "no amount": [{"flavors": [{"name": "any", "resources": [{"name": "cpu"}]}]}],
    "an amount that is none": groups(any={"cpu": "much"}),
    "a negative amount": groups(any={"cpu": "-1"}),
    "an amount beyond all": groups(any={"cpu": "1e99"}),
    "infinity": groups(any={"cpu": float("inf")}),
    "a limit that is none": groups(any={"cpu": (1, "much", None)}),
    "a boolean": groups(any={"cpu": True}),
    "twice": [*groups(any={"cpu": 1}), *groups(any={"cpu": 1})],
}


@each_case("quotas", BAD_QUOTAS.values(), ids=BAD_QUOTAS)
def test_no_limit_is_guessed_where_a_quota_cannot_be_read(quotas: Any) -> None:
    found = converted(cluster_queue("a", quotas=quotas), cluster_queue("b"))
    assert list(found.specs) == ["b"]
    [fault] = found.faults
    assert fault.startswith("ClusterQueue spec.resourceGroups")
    assert fault.endswith("it is not converted (a)")


@each_case(
    ("spec", "field"),
    [
        ({"stopPolicy": "Holdd"}, "spec.stopPolicy"),
        ({"stopPolicy": ["Hold"]}, "spec.stopPolicy"),
        ({"queueingStrategy": "LIFO"}, "spec.queueingStrategy"),
        ({"cohortName": "not a name"}, "spec.cohortName"),
        ({"cohortName": 7}, "spec.cohortName"),
        ({"namespaceSelector": {"matchLabels": "all"}}, "spec.namespaceSelector"),
        ({"namespaceSelector": {"matchLabels": {"sluice.dev/x": "y"}}}, "spec.namespaceSelector"),
        ({"fairSharing": {"weight": "-1"}}, "spec.fairSharing.weight"),
        ({"fairSharing": "3"}, "spec.fairSharing"),
        ({"preemption": {"reclaimWithinCohort": "All"}}, "spec.preemption.reclaimWithinCohort"),
    ],
)
def test_a_field_that_cannot_be_read_is_named(spec: dict[str, Any], field: str) -> None:
    [fault] = converted(cluster_queue("a", **spec)).faults
    assert fault.startswith(f"ClusterQueue {field}: ")


@each_case("name", [None, 7, "", "A", "a b", "x" * 254, "a\nb"])
def test_a_name_that_no_queue_can_have_is_said(name: Any) -> None:
    found = converted({**cluster_queue("a"), "metadata": {"name": name}}, cluster_queue("b"))
    assert list(found.specs) == ["b"]
    [fault] = found.faults
    assert "\n" not in fault


def test_the_second_object_of_one_name_is_said() -> None:
    found = converted(cluster_queue("a"), cluster_queue("a", stopPolicy="Hold"), local_queue("x", "a", "a"))
    assert found.faults == ["ClusterQueue: is there twice; the first one counts (a)"]
    assert "stopPolicy" not in found.specs["a"]


def test_a_local_queue_of_a_cluster_queue_that_was_not_read_is_said() -> None:
    found = converted(local_queue("x", "main", "missing"), cluster_queue("b"), local_queue("x", "b", "b"))
    assert found.warnings == [
        'LocalQueue: its ClusterQueue "missing" is not among what was read; left out (x/main)'
    ]


def test_a_local_queue_without_a_namespace_is_in_that_of_the_command() -> None:
    made = local_queue("x", "a", "a")
    del made["metadata"]["namespace"]
    found = converted(cluster_queue("a"), made)
    [expression] = found.specs["a"]["namespaceSelector"]["matchExpressions"]
    assert expression["values"] == ["default"]


def test_what_is_being_deleted_and_of_another_version_is_converted_and_said() -> None:
    leaving = cluster_queue("a")
    leaving["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    newer = {**cluster_queue("b"), "apiVersion": "kueue.x-k8s.io/v2"}
    found = converted(leaving, newer, local_queue("x", "a", "a"), local_queue("x", "b", "b"))
    assert list(found.specs) == ["a", "b"]
    assert found.warnings == [
        "ClusterQueue: is being deleted; it is converted all the same (a)",
        "ClusterQueue: is of a version that is not known; it is read as v1beta2 (b)",
    ]


def test_a_flavor_that_was_not_read_is_said_and_one_that_names_nodes_says_what_is_lost() -> None:
    spot = kueue_object(
        "ResourceFlavor",
        "spot",
        {"nodeLabels": {"kind": "spot"}, "nodeTaints": [{}], "tolerations": [{}], "topologyName": "rack"},
    )
    found = converted(spot, cluster_queue("a", quotas=groups(spot={"cpu": 1}, old={"memory": 1})))
    said = [line.partition(":")[0] for line in found.warnings if line.startswith("ResourceFlavor")]
    fields = ["nodeLabels", "nodeTaints", "tolerations", "topologyName"]
    assert said == [*(f"ResourceFlavor spec.{field}" for field in fields), "ResourceFlavor"]


@each_case("kind", OTHER_KINDS)
def test_other_kinds_of_kueue_say_what_is_lost(kind: str) -> None:
    found = converted(kueue_object(kind, "it", {}))
    assert found.warnings == [f"{kind}: {OTHER_KINDS[kind]} (it)"]


@each_case("thing", [None, 7, "text", [], {}, {"kind": "Pod", "apiVersion": "v1"}, {"kind": ["a"]}])
def test_what_is_not_of_kueue_is_passed_over_and_said(thing: Any) -> None:
    found = converted(thing)
    [line] = found.warnings
    assert "is not of Kueue, and passed over" in line


#: A value that says something, for each field that has no counterpart.
LOST: dict[tuple[str, str], Any] = {
    ("ClusterQueue", "flavorFungibility"): {"whenCanBorrow": "TryNextFlavor"},
    ("ClusterQueue", "admissionChecksStrategy"): {"admissionChecks": [{"name": "check"}]},
    ("ClusterQueue", "admissionChecks"): ["check"],
    ("ClusterQueue", "admissionScope"): {"admissionMode": "UsageBasedAdmissionFairSharing"},
    ("ResourceFlavor", "nodeLabels"): {"kind": "spot"},
    ("ResourceFlavor", "nodeTaints"): [{"key": "spot"}],
    ("ResourceFlavor", "tolerations"): [{"key": "spot"}],
    ("ResourceFlavor", "topologyName"): "rack",
}


def test_each_field_without_a_counterpart_is_said() -> None:
    """All of the table, but the reference by which a LocalQueue is what it is."""
    table = {
        (kind, name)
        for kind, rows in FIELDS.items()
        for row in rows
        if not row.becomes
        for name in row.names
        if name != "clusterQueue"
    }
    assert table == LOST.keys()
    for (kind, field), value in LOST.items():
        item = kueue_object(
            kind, "it", {"namespaceSelector": {}, field: value} if kind != FLAVOR["kind"] else {field: value}
        )
        said = [line for line in converted(item).warnings if line.startswith(f"{kind} spec.{field}: ")]
        assert len(said) == 1, field


@each_case(
    "spec",
    [
        {"flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"}},
        {"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"}},
        {"preemption": {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"}},
        {"preemption": {"borrowWithinCohort": {"policy": "Never"}}},
        {"admissionScope": {"admissionMode": "NoAdmissionFairSharing"}},
        {"admissionChecks": []},
        {"admissionChecksStrategy": {}},
        {"stopPolicy": "None", "queueingStrategy": "BestEffortFIFO"},
        {"fairSharing": {"weight": "1"}},
    ],
)
def test_what_the_api_server_fills_in_is_not_said(spec: dict[str, Any]) -> None:
    found = converted(cluster_queue("a", **spec), local_queue("x", "a", "a"))
    assert (found.warnings, found.faults) == ([], [])


def test_a_field_that_is_not_known_is_said() -> None:
    found = converted(cohort("lab", novelty=True))
    assert "Cohort spec.novelty: is not known; left out (lab)" in found.warnings


def test_however_much_is_wrong_the_report_is_short() -> None:
    unknown: dict[str, Any] = {f"field-{number}": "x" * 10_000 for number in range(10_000)}
    bad = [cluster_queue(f"q{number}", stopPolicy=f"word {number}") for number in range(1000)]
    found = converted(cohort("lab", **unknown), *bad)
    for lines in (found.warnings, found.faults):
        assert len(lines) == LINES_LIMIT + 1
        assert all(len(line) <= 600 for line in lines)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "namespace", "spec", "metadata", "resourceGroups", "flavors", "weight", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@examples(100)
@given(
    kind=st.sampled_from(["ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor", "Topology", "Pod", ""]),
    spec=st.dictionaries(
        st.sampled_from([name for rows in FIELDS.values() for row in rows for name in row.names]), _json
    ),
    metadata=_json,
)
def test_nothing_that_an_object_holds_ends_the_conversion(kind: str, spec: Any, metadata: Any) -> None:
    body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "spec": spec}
    converted({**body, "metadata": metadata}, {**body, "metadata": {"name": "it"}}, cluster_queue("a"))
