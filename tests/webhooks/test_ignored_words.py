"""What Volcano reads and we do not (`queues.admission.ignored_words`): who is told, and nothing fails."""

from __future__ import annotations

import pytest

from queues.admission.ignored_words import hierarchy_warnings
from queues.messages import WARNING_LIMIT
from tests.support.http.asking import Server
from tests.support.http.wire_objects import NAMED, Wire, podgroup, queue, workload
from tests.support.webhooks.naming_queues import ask, in_queue

PATH, WEIGHTS = "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"
ROOT_PATH = "annotation volcano.sh/hierarchy has no effect: name the parent of the queue in spec.parent"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({}, {"a": "b"}, []),
        ({}, {PATH: "root/a"}, [PATH]),
        ({}, {PATH: "root/a", WEIGHTS: "1/2"}, [PATH, WEIGHTS]),
        ({PATH: "root/a"}, {PATH: "root/b"}, [PATH]),
        ({PATH: "root/a"}, {PATH: "root/a", "a": "b"}, []),
        ({PATH: "root/a"}, {}, []),
    ],
    ids=str,
)
def test_who_sets_or_changes_a_hierarchy_is_told(
    before: dict[str, str], after: dict[str, str], told: list[str]
) -> None:
    warnings = hierarchy_warnings(before, after)
    assert [warning.split()[1] for warning in warnings] == told
    assert all(len(warning) <= WARNING_LIMIT for warning in warnings)


def test_a_queue_with_a_hierarchy_is_taken_with_a_warning() -> None:
    """Nobody said a word, and the queue was below root."""
    server, made = Server(), queue("a", annotations={PATH: "root/labs/a"})
    answer = server.ask("/validate/queues", made, operation="CREATE", namespace="")
    assert (answer.allowed, answer.warnings) == (True, [ROOT_PATH])
    later = queue("a", version=2, annotations={PATH: "root/labs/a"}, weight=3)
    assert server.ask("/validate/queues", later, old=made, operation="UPDATE", namespace="").warnings == []


@pytest.mark.parametrize("kind", ["pods", "podgroups", "deployments.apps", "jobs.batch.volcano.sh"])
@pytest.mark.parametrize("name", ["root", "parent"])
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
