"""What Volcano reads and we do not (`queues.admission.ignored_words`): who is told, and nothing fails."""

from __future__ import annotations

from queues.admission.ignored_words import field_warnings
from queues.fields.row import FieldEffect
from queues.fields.table import FIELDS
from queues.messages import WARNING_LIMIT
from tests.support.cases import each_case
from tests.support.http.asking import Server
from tests.support.http.wire_objects import NAMED, Wire, podgroup, queue, workload
from tests.support.webhooks.naming_queues import ask, in_queue

PATH, WEIGHTS = "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"
ROOT_PATH = "annotation volcano.sh/hierarchy has no effect here: name the parent of the queue in spec.parent"


@each_case(
    ("before", "after", "told"),
    [
        ({}, {"a": "b"}, ""),
        ({}, {PATH: "root/a"}, PATH),
        ({}, {PATH: "root/a", WEIGHTS: "1/2"}, f"{PATH}, {WEIGHTS}"),
        ({PATH: "root/a"}, {PATH: "root/b"}, PATH),
        ({PATH: "root/a"}, {PATH: "root/a", "a": "b"}, ""),
        ({PATH: "root/a"}, {}, ""),
    ],
    ids=str,
)
def test_who_sets_or_changes_a_hierarchy_is_told(
    before: dict[str, str], after: dict[str, str], told: str
) -> None:
    server, made = Server(), queue("a", annotations=before)
    later = queue("a", version=2, annotations=after)
    warnings = server.ask("/validate/queues", later, old=made, operation="UPDATE", namespace="").warnings
    assert [warning.partition(" ha")[0].removeprefix("annotation ") for warning in warnings] == [
        *filter(None, [told])
    ]


def test_a_queue_with_a_hierarchy_is_taken_with_a_warning() -> None:
    """Nobody said a word, and the queue was below root."""
    server, made = Server(), queue("a", annotations={PATH: "root/labs/a"})
    answer = server.ask("/validate/queues", made, operation="CREATE", namespace="")
    assert (answer.allowed, answer.warnings) == (True, [ROOT_PATH])
    later = queue("a", version=2, annotations={PATH: "root/labs/a"}, reason="x")
    assert server.ask("/validate/queues", later, old=made, operation="UPDATE", namespace="").warnings == []


@each_case(
    ("before", "after", "told"),
    [
        ({}, {"state": "Open", "capability": {"cpu": 1}, "type": "x", "reclaimable": True}, []),
        ({}, {"weight": 1}, []),
        ({"weight": 1}, {"weight": 2}, ["weight"]),
        ({"weight": 2}, {"weight": 2, "reason": "x"}, []),
        ({"weight": 2}, {"weight": 1}, []),
        ({}, {"deserved": {"cpu": 1}}, []),
        ({}, {"deserved": {}, "guarantee": {"resource": {}}, "affinity": {}, "extendClusters": []}, []),
        ({}, {"guarantee": {"resource": {"cpu": "1"}}}, []),
        ({"weight": 2}, {}, []),
        (
            {},
            {"affinity": {"nodeGroupAffinity": {"x": ["g"]}}, "extendClusters": [{"name": "b"}]},
            ["extendClusters"],
        ),
        ({}, {"extendClusters": "no list"}, ["extendClusters"]),
    ],
    ids=str,
)
def test_who_sets_a_field_that_does_not_limit_is_told(before: Wire, after: Wire, told: list[str]) -> None:
    warnings = field_warnings(before, after)
    assert [warning.split()[0] for warning in warnings] == [f"spec.{name}" for name in told]
    assert all(len(warning) <= WARNING_LIMIT for warning in warnings)


def test_each_field_that_nothing_acts_on_says_so_to_who_sets_it() -> None:
    """But for the free text, of which nobody expects anything."""
    silent = [row.name for row in FIELDS if row.effect is FieldEffect.NONE and row.notice is None]
    assert silent == ["type"]


def test_a_queue_with_such_a_field_is_taken_with_a_warning_and_once() -> None:
    server, made = Server(), queue("a", weight=2)
    answer = server.ask("/validate/queues", made, operation="CREATE", namespace="")
    assert answer.allowed
    assert answer.warnings == [
        "spec.weight orders pods that wait; with plugin proportion it is what the queue deserves; "
        "it limits nothing"
    ]
    later = queue("a", version=2, weight=2, reason="x")
    assert server.ask("/validate/queues", later, old=made, operation="UPDATE", namespace="").warnings == []


@each_case("kind", ["pods", "podgroups", "deployments.apps", "jobs.batch.volcano.sh"])
@each_case("name", ["root", "parent"])
def test_work_in_root_or_above_other_queues_is_taken(kind: str, name: str) -> None:
    server = Server().has(queue("parent"), queue("child", parent="parent"))
    for _, obj in in_queue(kind, name):
        assert ask(server, obj).allowed


def with_both_tiers(obj: Wire) -> Wire:
    return {
        **obj,
        "spec": {**obj["spec"], "networkTopology": {"highestTierAllowed": 2, "highestTierName": "rack"}},
    }


def test_two_tiers_and_budgets_of_volcano_are_taken() -> None:
    server = Server().has(queue("research"))
    budget = {"volcano.sh/jdb-min-available": "1", "volcano.sh/jdb-max-unavailable": "1"}
    for obj in (
        with_both_tiers(podgroup("gang", queue="research", annotations=budget)),
        workload("jobs.batch", "x", annotations={**budget, NAMED: "research"}),
    ):
        answer = ask(server, obj)
        assert (answer.allowed, answer.warnings) == (True, [])
