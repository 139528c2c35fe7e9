"""The kinds of workload: the table in the words of the module is the table in its code."""

from __future__ import annotations

import re

import pytest

from queues import workload_kinds as kinds
from queues.workload_kinds import KINDS, SUSPENDABLE, Life, WorkloadKind, find_kind, find_kind_of_owner
from tests.support.cases import each_case

ROWS = [(key, row) for key, row in KINDS.items()]
#: Those whose Job or template is a new thing each time, and those that are not part of Kubernetes.
FIXED = {("batch", "Job"), ("batch.volcano.sh", "Job"), ("jobset.x-k8s.io", "JobSet")}
OPTIONAL = {("batch.volcano.sh", "Job"), ("jobset.x-k8s.io", "JobSet")}


def documented_kinds() -> list[tuple[str, str]]:
    """Kind and group of each row of the docstring's table."""
    text = kinds.__doc__ or ""
    table = re.split(r"^=[= ]+$", text, flags=re.MULTILINE)[2]
    return [(line.split()[0], line.split()[1]) for line in table.strip().splitlines()]


def test_the_docstring_and_the_code_have_the_same_rows() -> None:
    assert documented_kinds() == [(row.kind, row.group) for row in KINDS.values()]


@each_case(("key", "row"), ROWS, ids=list(KINDS))
def test_each_kind_is_found_by_its_key_and_by_its_resource(key: str, row: WorkloadKind) -> None:
    assert row.key == key
    assert find_kind(row.group, row.resource) is row
    assert row.api_version == f"{row.group}/{row.version}"
    assert row.path == f"/apis/{row.group}/{row.version}/{row.resource}"
    assert row.resource == row.kind.lower() + "s"


@each_case(("key", "row"), ROWS, ids=list(KINDS))
def test_which_kinds_are_immutable_optional_or_create_new_work(key: str, row: WorkloadKind) -> None:
    assert row.immutable is ((row.group, row.kind) in FIXED)
    assert row.optional is ((row.group, row.kind) in OPTIONAL)
    assert row.answers_for_children is (row.kind != "CronJob"), "a Job that a CronJob makes is new work"


def test_keys_and_paths_are_unique() -> None:
    assert len({row.path for row in KINDS.values()}) == len(KINDS)
    assert len({(row.group, row.kind) for row in KINDS.values()}) == len(KINDS)


@each_case(
    ("group", "resource"),
    [
        ("", "pods"),
        ("", "jobs"),
        ("apps", "jobs"),
        ("batch", "deployments"),
        ("batch", "Job"),
        ("batch", "jobs/status"),
        ("", ""),
        ("batch.volcano.sh", "jobsets"),
    ],
)
def test_a_resource_that_creates_no_members_has_no_row(group: str, resource: str) -> None:
    assert find_kind(group, resource) is None


@each_case(("key", "row"), ROWS, ids=list(KINDS))
def test_an_owner_reference_finds_the_kind_in_any_version(key: str, row: WorkloadKind) -> None:
    assert find_kind_of_owner(f"{row.group}/v9", row.kind) is KINDS[key]
    assert find_kind_of_owner(f"example.com/{row.version}", row.kind) is None


@each_case(("key", "row"), ROWS, ids=list(KINDS))
def test_a_row_says_when_a_workload_ends_and_how_a_drain_finds_its_pods(key: str, row: WorkloadKind) -> None:
    assert bool(row.end_conditions or row.end_phases) is (row.life is Life.UNTIL_FINISHED)
    assert bool(row.pod_label) is (row.suspension is not None) is (key in SUSPENDABLE)


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        KINDS["jobs"] = KINDS["cronjobs"]  # type: ignore[index]
    with pytest.raises(AttributeError):
        KINDS["jobs"].immutable = False  # type: ignore[misc]


@each_case(
    ("key", "managed_by", "delegated"),
    [
        ("jobs", None, False),
        ("jobs", "", False),
        ("jobs", "kubernetes.io/job-controller", False),
        ("jobs", "example.com/nobody", True),
        ("jobsets", "jobset.sigs.k8s.io/jobset-controller", False),
        ("jobsets", "kubernetes.io/job-controller", True),
        ("deployments", "example.com/nobody", False),
    ],
)
def test_managed_by_names_another_controller_than_the_kinds_own(
    key: str, managed_by: str | None, delegated: bool
) -> None:
    """Kinds without the field are their own controller's, whatever a user writes there."""
    assert KINDS[key].is_delegated(managed_by) is delegated
