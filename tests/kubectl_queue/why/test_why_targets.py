"""What `why` may be asked about is spelt as for kubectl, and nothing else is taken for it."""

from __future__ import annotations

import pytest

from kubectl_queue.errors import UsageError
from kubectl_queue.objects.types import TYPES, type_of, type_of_owner
from kubectl_queue.why.targets import parse_targets
from queues.workload_kinds import KINDS
from tests.support.cases import each_case


def kinds(*words: str) -> list[tuple[str, str]]:
    return [(target.type.full, target.name) for target in parse_targets(words)]


@each_case(
    ("words", "meant"),
    [
        (["pod/x"], [("pods", "x")]),
        (["po", "x", "y"], [("pods", "x"), ("pods", "y")]),
        (
            ["job/x", "pods/y", "research"],
            [("jobs.batch", "x"), ("pods", "y"), ("queues.scheduling.volcano.sh", "research")],
        ),
        (["Deployments.apps/x"], [("deployments.apps", "x")]),
        (["deployments.v1.apps/x"], [("deployments.apps", "x")]),
        (["jobs.batch.volcano.sh", "x"], [("jobs.batch.volcano.sh", "x")]),
        (["vj/x"], [("jobs.batch.volcano.sh", "x")]),
        (["jobset.jobset.x-k8s.io/x"], [("jobsets.jobset.x-k8s.io", "x")]),
        (["pg/x", "pg/x"], [("podgroups.scheduling.volcano.sh", "x")]),
        (["namespace/team"], [("namespaces", "team")]),
        (["ns", "team"], [("namespaces", "team")]),
        (["rayclusters.ray.io/x"], [("", "x")]),
        (["q", "pod"], [("queues.scheduling.volcano.sh", "pod")]),
        (["a", "b"], [("queues.scheduling.volcano.sh", "a"), ("queues.scheduling.volcano.sh", "b")]),
    ],
)
def test_objects_are_named_as_for_kubectl(words: list[str], meant: list[tuple[str, str]]) -> None:
    """TYPE/NAME, TYPE NAME, a group behind the type; a name alone is a queue's."""
    assert kinds(*words) == meant


@each_case(
    ("words", "said"),
    [
        ([], "name what waits"),
        (["pod"], "which Pod? give its name: kubectl queue why pod/NAME"),
        (["pod", "x/y"], "cannot be mixed"),
        (["pod/x", "job", "y"], "cannot be mixed"),
        (["-x/y"], '"-x" is not a type of object that has a queue; the types are: pod, job'),
        (["pod/"], "resource name may not be empty"),
        (["pod/A_B"], 'invalid resource name "A_B"'),
        (["a\nb"], r'invalid resource name "a\nb"'),
    ],
)
def test_an_unknown_type_or_mixed_spelling_is_refused_with_the_right_ones(
    words: list[str], said: str
) -> None:
    """Nothing is asked of the server for it."""
    with pytest.raises(UsageError) as error:
        parse_targets(words)
    assert said in str(error.value)


def test_every_kind_of_workload_can_be_asked_about() -> None:
    """By its resource, its kind and as an owner; each row of the table of kinds."""
    for row in KINDS.values():
        found = type_of(f"{row.resource}.{row.group}")
        assert found is not None
        assert (found.kind, found.base) == (row.kind, f"/apis/{row.api_version}")
        assert type_of_owner(row.kind, row.api_version) == found
    assert len({each.full for each in TYPES}) == len(TYPES)
