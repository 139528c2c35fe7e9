"""Gangs that a workload asks for by `group-min-member`: which ask, what is written, and what is made."""

from __future__ import annotations

from queues.membership import GROUP_ANNOTATION
from queues.metadata.keys import GROUP_MIN_MEMBER
from queues.workload_gangs import (
    KEYS,
    OWNERS,
    WorkloadGang,
    asked_gang,
    gang_for_template,
    parse_gang,
    podgroup_name,
    podgroup_of_gang,
)
from queues.workload_kinds import KINDS
from tests.support.cases import each_case


@each_case(
    ("key", "value", "least"),
    [
        ("deployments", "3", 3),
        ("jobs", "2", 2),
        ("jobs", "1", None),
        ("cronjobs", "3", None),
        ("jobsets", "3", None),
        ("jobs.batch.volcano.sh", "3", None),
        *(("jobs", text, None) for text in ("", "abc", "-1", "0", str(2**63), "9" * 10**6)),
    ],
    ids=lambda each: str(each)[:20],
)
def test_which_workloads_ask_for_a_gang(key: str, value: str, least: int | None) -> None:
    asked = asked_gang(key, {GROUP_MIN_MEMBER: value})
    assert (asked and asked.least) == least


def test_the_kinds_on_which_it_is_read_are_kinds_of_the_table() -> None:
    assert KINDS.keys() >= KEYS
    assert {
        row.kind: row.api_version for row in KINDS.values() if row.kind in OWNERS and row.key in KEYS
    } == dict(OWNERS)


def test_a_template_that_names_a_podgroup_keeps_that() -> None:
    assert gang_for_template(WorkloadGang(3), {}) == "3"
    assert gang_for_template(WorkloadGang(3), {GROUP_ANNOTATION: "mine"}) is None
    assert gang_for_template(None, {}) is None


@each_case("gang", [WorkloadGang(2), WorkloadGang(3, "research"), WorkloadGang(2**31 - 1, "a.b-c")])
def test_what_is_written_is_read_again(gang: WorkloadGang) -> None:
    assert parse_gang(str(gang)) == gang


@each_case(
    "text",
    ["", "x", "/3", "a/", "a/b/3", "1", "research/1", "research/0", "A/3", f"a/{2**31}", "a/3 ", "9" * 10**6],
    ids=lambda text: text[:20],
)
def test_what_somebody_else_wrote_is_no_gang(text: str) -> None:
    assert parse_gang(text) is None


def test_a_podgroup_is_named_by_the_uid_of_its_owner_as_in_volcano() -> None:
    assert podgroup_name("5e2f") == "podgroup-5e2f"
    assert [podgroup_name(uid) for uid in ("", "A_B", "x" * 250)] == [""] * 3


def test_the_podgroup_goes_with_its_owner() -> None:
    made = podgroup_of_gang(
        WorkloadGang(3, "research"),
        namespace="team",
        kind="Job",
        name="train",
        uid="u",
        priority_class="high",
    )
    assert made["metadata"] == {
        "name": "podgroup-u",
        "namespace": "team",
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "train",
                "uid": "u",
                "controller": True,
                "blockOwnerDeletion": False,
            }
        ],
    }
    assert made["spec"] == {"minMember": 3, "queue": "research", "priorityClassName": "high"}
