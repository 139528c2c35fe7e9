"""What `kubectl queue why` says of work that was made in a wrong queue."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from queues.membership import Source
from queues.queue import Queue
from queues.states import Desired
from queues.tree import Tree
from queues.why.explain import explain
from queues.why.explanation import ExplainedMembership, ObjectRef, ObservedObject, ObservedQueues
from queues.workload_kinds import KINDS
from tests.support.cases import each_case

STOPPED = Queue(name="old", desired=Desired.SUSPENDED)
QUEUES = ObservedQueues(tree=Tree({"old": STOPPED}), records={}, now=datetime(2026, 1, 1, tzinfo=UTC))
OWNERS = (ObjectRef(kind="ReplicaSet", name="web-1", namespace="ns"),)
DEPLOYMENT = ObjectRef(kind="Deployment", name="web", namespace="ns")
ANNOTATION = "scheduling.volcano.sh/queue-name"


def notes(
    *owners: ObjectRef,
    queue: str = "typo",
    origin: str = "namespace",
    namespace_queue: str = "typo",
    kind: str = "Pod",
    group: ObjectRef | None = None,
    rule: str = Source.WRITTEN.value,
) -> tuple[str, ...]:
    ref = ObjectRef(kind=kind, name="x", namespace="" if kind == "Namespace" else "ns")
    subject = ObservedObject(ref=ref, owners=owners, namespace_queue=namespace_queue, group=group)
    membership = ExplainedMembership(queue=queue, rule=rule, origin=origin)
    return explain(subject, membership, queues=QUEUES).notes


def test_after_a_typo_of_the_namespace_was_corrected_the_maker_of_the_pod_is_moved() -> None:
    assert notes(*OWNERS, DEPLOYMENT, namespace_queue="right") == (
        'its namespace names queue "right" now, which moves nothing that was made before',
        f"to move it: kubectl annotate --overwrite deployment web -n ns {ANNOTATION}=right",
    )


def test_a_pod_that_does_not_show_what_named_its_queue_may_have_it_of_its_namespace() -> None:
    """So is a pod whose owner is older than the annotation of the namespace."""
    assert notes(*OWNERS, DEPLOYMENT, origin="", namespace_queue="right") == (
        'its namespace names queue "right" now, which moves nothing that was made before',
        f"to move it: kubectl annotate --overwrite deployment web -n ns {ANNOTATION}=right",
    )
    [note] = notes(*OWNERS, DEPLOYMENT, origin="", namespace_queue="")
    assert note.endswith("=QUEUE")


def test_work_that_names_its_queue_itself_has_it_of_no_namespace() -> None:
    """What was never admitted has no origin."""
    [note] = notes(*OWNERS, DEPLOYMENT, origin="", rule=Source.ANNOTATION.value, namespace_queue="right")
    assert note.endswith("=QUEUE")


def test_a_typo_that_the_namespace_still_has_is_corrected_first() -> None:
    assert notes(*OWNERS, DEPLOYMENT) == (
        "if its namespace names a wrong queue, first: "
        f"kubectl annotate --overwrite namespace ns {ANNOTATION}=QUEUE",
        f"to move it: kubectl annotate --overwrite deployment web -n ns {ANNOTATION}=QUEUE",
    )


def test_a_namespace_itself_says_how_it_is_corrected() -> None:
    [note] = notes(kind="Namespace", origin="")
    command = f"kubectl annotate --overwrite namespace x {ANNOTATION}=QUEUE"
    assert note == f"if it names a wrong queue: {command}; that moves nothing that was made before"


def test_a_typo_of_the_work_itself_is_no_matter_of_its_namespace() -> None:
    [note] = notes(kind="Deployment", origin=ANNOTATION, namespace_queue="")
    assert note == f"to move it: kubectl annotate --overwrite deployment x -n ns {ANNOTATION}=QUEUE"


def test_work_in_the_queue_that_its_namespace_named_before_is_moved_alike() -> None:
    """Though that queue exists, and is stopped."""
    assert notes(*OWNERS, DEPLOYMENT, queue="old", namespace_queue="right")[1].endswith("=right")


@each_case("kind", sorted({row.kind for row in KINDS.values()}))
def test_each_kind_of_workload_says_whether_it_can_be_moved(kind: str) -> None:
    """As the table in docs/concepts/states.md."""
    [note] = notes(ObjectRef(kind=kind, name="x", namespace="ns"), origin=ANNOTATION)
    immutable = any(row.immutable for row in KINDS.values() if row.kind == kind)
    start = f"{kind} ns/x cannot be moved" if immutable else "to move it: kubectl annotate"
    assert note.startswith(start)


@pytest.mark.parametrize(
    ("kind", "end"),
    [
        ("StatefulSet", "; then delete its pods that wait"),
        ("ReplicaSet", "; then delete its pods that wait"),
        ("CronJob", "; then delete its Jobs that wait"),
        ("DaemonSet", "=QUEUE"),
    ],
)
def test_what_a_changed_template_does_not_replace_is_to_be_deleted(kind: str, end: str) -> None:
    [note] = notes(ObjectRef(kind=kind, name="x", namespace="ns"), origin=ANNOTATION)
    assert note.endswith(end)


def test_a_pod_that_nothing_made_is_created_again() -> None:
    assert notes(origin=ANNOTATION) == (
        "Pod ns/x cannot be moved to another queue: delete it, and create it again",
    )


def test_a_maker_of_another_kind_is_named() -> None:
    [note] = notes(ObjectRef(kind="Rollout", name="web", namespace="ns"), origin=ANNOTATION)
    assert note == "to move it to another queue, have Rollout ns/web name that in its pod template"


def test_a_name_that_no_queue_can_have_is_put_into_no_command() -> None:
    assert notes(*OWNERS, DEPLOYMENT, namespace_queue="a; b")[1].endswith("=QUEUE")


def test_the_queue_of_a_podgroup_and_of_a_queue_is_not_moved_so() -> None:
    group = ObjectRef(kind="PodGroup", name="g", namespace="ns")
    assert notes(group=group, namespace_queue="right") == ()
    assert notes(kind="PodGroup") == ()


@pytest.mark.parametrize("named", ["old", ""])
def test_work_in_the_queue_that_its_namespace_names_is_where_it_belongs(named: str) -> None:
    assert notes(*OWNERS, DEPLOYMENT, queue="old", namespace_queue=named) == ()
