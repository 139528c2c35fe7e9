"""Where the pods of a queue with node groups may run, and where they run rather: the tables of the module."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from queues.node_groups import (
    LABEL,
    PREFERRED,
    REQUIRED,
    NodeGroups,
    nowhere_warning,
    read_node_groups,
    with_node_groups,
)
from queues.queue import Queue
from queues.snapshot import decision_of
from queues.tree import Tree
from queues.verdict import verdict
from tests.support.cases import each_case
from tests.support.rules.cases import NOW

Json = dict[str, Any]
#: The groups of the nodes; one node is of none.
NODES = ("a", "b", "c", "d", None)


def spec(
    required: tuple[str, ...] = (),
    preferred: tuple[str, ...] = (),
    excluded: tuple[str, ...] = (),
    avoided: tuple[str, ...] = (),
) -> Json:
    return {
        "nodeGroupAffinity": {REQUIRED: list(required), PREFERRED: list(preferred)},
        "nodeGroupAntiAffinity": {REQUIRED: list(excluded), PREFERRED: list(avoided)},
    }


def groups(value: Json) -> NodeGroups:
    read = read_node_groups(value)
    assert read is not None
    return read


def holds(expression: Json, group: str | None, labels: Json) -> bool:
    """As kube-scheduler decides for a node with these labels, of this group."""
    value = group if expression["key"] == LABEL else labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    raise AssertionError(expression)


def term_holds(term: Json, group: str | None, labels: Json) -> bool:
    """An empty term holds for no node."""
    expressions = term.get("matchExpressions") or []
    return bool(expressions) and all(holds(each, group, labels) for each in expressions)


def places(affinity: Json, **labels: str) -> list[list[str | None]]:
    """The groups of the nodes where the pod may run, the preferred ones first; each list is of equals."""
    node_affinity = affinity.get("nodeAffinity") or {}
    terms = (node_affinity.get(REQUIRED) or {}).get("nodeSelectorTerms")
    preferred = node_affinity.get(PREFERRED) or []
    ranks: dict[int, list[str | None]] = {}
    for group in NODES:
        if terms is None or any(term_holds(term, group, labels) for term in terms):
            weights = (each["weight"] for each in preferred if term_holds(each["preference"], group, labels))
            ranks.setdefault(-sum(weights), []).append(group)
    return [ranks[rank] for rank in sorted(ranks)]


@each_case(
    ("of_the_queue", "expected"),
    [
        ({}, [["a", "b", "c", "d", None]]),
        (spec(), [["a", "b", "c", "d", None]]),
        (spec(required=("a", "b")), [["a", "b"]]),
        (spec(preferred=("a",)), [["a"], ["b", "c", "d", None]]),
        (spec(required=("a", "b"), preferred=("a",)), [["a"], ["b"]]),
        (spec(required=("b",), preferred=("a",)), [["b"], ["a"]]),
        (spec(excluded=("a",)), [["b", "c", "d", None]]),
        (spec(avoided=("a",)), [["b", "c", "d", None], ["a"]]),
        (spec(preferred=("b",), avoided=("a",)), [["b"], ["c", "d", None], ["a"]]),
        (spec(excluded=("a", "b"), avoided=("a",)), [["c", "d", None], ["a"]]),
        (spec(required=("a", "b"), avoided=("b",)), [["a"], ["b"]]),
        (spec(required=("a",), avoided=("b",)), [["a"], ["b"]]),
        # The three examples of Volcano's user guide.
        (spec(("a", "b"), ("a",), ("c", "d"), ("c",)), [["a"], ["b"], ["c"]]),
        (spec(("b",), ("a",), ("d",), ("c",)), [["b"], ["a"], ["c"]]),
        (spec(("a", "b"), ("a",), ("a",), ("b",)), [["b"]]),
        # What contradicts itself runs nowhere.
        (spec(required=("a",), excluded=("a",)), []),
        (spec(required=("no label!",)), []),
        (spec(required=("a", "no label!")), [["a"]]),
    ],
    ids=str,
)
def test_where_pods_run(of_the_queue: Json, expected: list[list[str | None]]) -> None:
    assert places(with_node_groups(None, groups(of_the_queue))) == expected


def test_groups_that_exclude_each_other_are_warned_of_once() -> None:
    nowhere, somewhere = groups(spec(required=("a",), excluded=("a",))), groups(spec(required=("a",)))
    assert "run nowhere" in nowhere_warning(None, nowhere)
    assert [nowhere_warning(nowhere, nowhere), nowhere_warning(nowhere, somewhere)] == ["", ""]
    assert nowhere_warning(somewhere, None) == ""


SSD, FAST = ({"key": key, "operator": "In", "values": ["yes"]} for key in ("ssd", "fast"))
BIG = {"key": LABEL, "operator": "In", "values": ["a"]}
NAMED = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}


def required(*terms: Json) -> Json:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


@each_case(
    ("before", "after"),
    [
        (None, required({"matchExpressions": [BIG]})),
        ({"nodeAffinity": None}, required({"matchExpressions": [BIG]})),
        (required(), required({"matchExpressions": [BIG]})),
        (
            required({"matchExpressions": [SSD]}, {"matchExpressions": [FAST]}),
            required({"matchExpressions": [SSD, BIG]}, {"matchExpressions": [FAST, BIG]}),
        ),
        (
            required({"matchFields": [NAMED]}),
            required({"matchFields": [NAMED], "matchExpressions": [BIG]}),
        ),
        (required({}, {"matchExpressions": [SSD]}), required({}, {"matchExpressions": [SSD, BIG]})),
        (required({}), required({})),
        ({"podAffinity": {"x": 1}}, {"podAffinity": {"x": 1}, **required({"matchExpressions": [BIG]})}),
    ],
    ids=[
        "none",
        "no node affinity",
        "an empty list of terms",
        "two terms",
        "a node by its name",
        "an empty term and another",
        "an empty term alone",
        "that of pods stays",
    ],
)
def test_the_groups_are_added_to_each_term_of_the_pod(before: Json | None, after: Json) -> None:
    """Terms are alternatives, so one without the groups would be a way around them."""
    given = copy.deepcopy(before)
    once = with_node_groups(given, groups(spec(required=("a",))))
    assert once == after
    assert given == before
    assert with_node_groups(once, groups(spec(required=("a",)))) == after


def test_what_the_pod_prefers_itself_stays() -> None:
    own = {"weight": 1, "preference": {"matchExpressions": [SSD]}}
    before = {"nodeAffinity": {PREFERRED: [own]}}
    after = with_node_groups(before, groups(spec(preferred=("a",))))
    assert after["nodeAffinity"][PREFERRED][0] == own
    assert places(after, ssd="yes") == [["a"], ["b", "c", "d", None]]
    assert with_node_groups(after, groups(spec(preferred=("a",)))) == after


@each_case("hostile", ["text", 7, ["a"], {"nodeAffinity": "text"}, required(), {"a": "b"}])
def test_what_no_api_server_would_send_breaks_nothing(hostile: Any) -> None:
    assert places(with_node_groups(hostile, groups(spec(required=("a",))))) == [["a"]]


@pytest.mark.parametrize(
    "stored",
    [{}, {"nodeGroupAffinity": 7}, {"nodeGroupAffinity": {PREFERRED: "a"}}, {"nodeGroupAntiAffinity": [1]}],
    ids=str,
)
def test_what_cannot_be_read_says_nothing(stored: Json) -> None:
    assert with_node_groups({"podAffinity": {}}, groups(stored)) == {"podAffinity": {}}


def test_what_is_no_object_is_none() -> None:
    values: tuple[Any, ...] = (None, "a", 7, [])
    assert [read_node_groups(value) for value in values] == [None] * 4


def test_the_nearest_queue_that_has_the_field_counts_alone() -> None:
    """An empty one gives its pods all nodes again."""
    lab, all_nodes = groups(spec(required=("a",))), groups({})
    tree = Tree(
        {
            each.name: each
            for each in (
                Queue(name="lab", node_groups=lab),
                Queue(name="team", parent="lab"),
                Queue(name="free", parent="lab", node_groups=all_nodes),
                Queue(name="below", parent="free"),
                Queue(name="other"),
            )
        }
    )
    found = {
        name: decision_of(verdict(name, tree=tree, live=True, now=NOW), chain=tree.chain(name)).node_groups
        for name in ("lab", "team", "free", "below", "other")
    }
    assert found == {"lab": lab, "team": lab, "free": all_nodes, "below": all_nodes, "other": None}
