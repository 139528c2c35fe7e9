"""`why` and `history`, as far as they need no server: whose queue it is, the lines."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubectl_queue.access.object_reader import ObjectReader
from kubectl_queue.commands.why import lines
from kubectl_queue.objects.explained import said_by_server, subject
from kubectl_queue.objects.fields import Object
from kubectl_queue.objects.queues import changes_of
from kubectl_queue.objects.types import NAMESPACE, POD, PODGROUP, QUEUE, TYPES, type_of
from kubectl_queue.why.membership import membership_of
from queues import well_known
from queues.causes import CauseKind
from queues.membership import GROUP_ANNOTATION, KUEUE_LABEL, VOLCANO_ANNOTATION, VOLCANO_LABEL
from queues.states import Desired, State, StopPolicy
from queues.status.changes import HistoryLine
from queues.why.explanation import (
    ChainMember,
    ExplainedMembership,
    Explanation,
    Fate,
    ObjectRef,
    StopCause,
)
from tests.support.cases import each_case
from tests.support.plugin.harness import NOW, item

#: For objects that name their queue themselves: nothing is read.
NOTHING_READ = ObjectReader(None)  # type: ignore[arg-type]


def held(
    *,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> Object:
    metadata = {"name": "x", "namespace": "ns", "annotations": annotations or {}, "labels": labels or {}}
    return {"metadata": metadata, "spec": spec, "status": status or {}}


def whose(kind: str, **of: Any) -> tuple[str | None, str, str] | None:
    found_type = type_of(kind)
    assert found_type is not None
    found = membership_of(found_type, held(**of), owners=(), objects=NOTHING_READ)
    return (found.queue, found.rule, found.origin) if found else None


def test_what_admission_wrote_is_the_queue_and_its_origin_is_given() -> None:
    """The annotation counts; the label or annotation of the user is told where it names the same queue."""
    written = {well_known.QUEUE: "b"}
    assert whose("pod", annotations={**written, VOLCANO_ANNOTATION: "b"}) == (
        "b",
        "annotation sluice.dev/queue",
        "annotation scheduling.volcano.sh/queue-name",
    )
    kueue = whose("pod", annotations=written, labels={KUEUE_LABEL: "b"})
    assert kueue is not None
    assert kueue[2] == "label kueue.x-k8s.io/queue-name"


@pytest.mark.parametrize(
    ("word", "origin"),
    [("namespace", "namespace"), ("scheduler", "schedulerName"), ("workload", "the workload that made it")],
)
def test_a_queue_that_admission_wrote_into_the_template_is_not_called_the_user_s(
    word: str, origin: str
) -> None:
    """A pod has the annotation from its template, which did not name the queue itself."""
    annotations = {well_known.QUEUE: "b", VOLCANO_ANNOTATION: "b", well_known.QUEUE_FROM: word}
    found = whose("pod", annotations=annotations)
    assert found == ("b", "annotation sluice.dev/queue", origin)


def test_the_origin_of_a_queue_may_be_the_owner() -> None:
    """The pod says only that the workload named it; the Job is where it stands."""
    annotations = {well_known.QUEUE: "b", VOLCANO_ANNOTATION: "b", well_known.QUEUE_FROM: "workload"}
    job_type = type_of("job")
    assert job_type is not None
    job = held(labels={VOLCANO_LABEL: "b"}, template={"metadata": {"annotations": annotations}})
    found = membership_of(POD, held(annotations=annotations), owners=((job_type, job),), objects=NOTHING_READ)
    assert found is not None
    assert found.origin == "volcano.sh/queue-name of Job ns/x"


TEMPLATE = {"metadata": {"annotations": {well_known.QUEUE: "b", VOLCANO_ANNOTATION: "b"}}}


@each_case(
    ("kind", "spec"),
    [
        ("job", {"template": TEMPLATE}),
        ("cronjob", {"jobTemplate": {"spec": {"template": TEMPLATE}}}),
        ("deployment", {"template": TEMPLATE}),
        ("statefulset", {"template": TEMPLATE}),
        ("replicaset", {"template": TEMPLATE}),
        ("daemonset", {"template": TEMPLATE}),
        ("vcjob", {"tasks": [{"name": "t"}, {"template": TEMPLATE}]}),
        ("jobset", {"replicatedJobs": [{"template": {"spec": {"template": TEMPLATE}}}]}),
    ],
)
def test_the_template_of_each_kind_is_found(kind: str, spec: dict[str, Any]) -> None:
    """Admission writes the queue into the template, wherever that is."""
    found = whose(kind, **spec)
    assert found == ("b", "annotation sluice.dev/queue", "annotation scheduling.volcano.sh/queue-name")


def test_a_workload_older_than_the_installation_is_judged_by_the_rules() -> None:
    """Nothing is written on it; its own names count."""
    template = {"metadata": {"labels": {VOLCANO_LABEL: "b"}}}
    assert whose("job", template=template) == ("b", "volcano.sh/queue-name", "")
    assert whose("vcjob", queue="b", tasks=[]) == ("b", "spec.queue", "")


def test_a_podgroup_is_in_the_queue_of_its_spec() -> None:
    """Without one it is in `default`, as in Volcano."""
    assert whose("podgroup", queue="b") == ("b", "spec.queue", "")
    assert whose("podgroup") == ("default", "no queue being named", "")


def test_a_queue_is_its_own() -> None:
    """Asked about, it needs no rule."""
    assert membership_of(QUEUE, item("b"), owners=(), objects=NOTHING_READ) == ExplainedMembership(queue="b")


def test_a_namespace_is_in_the_queue_that_its_annotation_names() -> None:
    """kube-system never is; without the annotation it is in none."""

    def of(name: str, **annotations: str) -> ExplainedMembership | None:
        namespace = {"metadata": {"name": name, "annotations": annotations}}
        return membership_of(NAMESPACE, namespace, owners=(), objects=NOTHING_READ)

    named = {VOLCANO_ANNOTATION: "b"}
    assert of("team", **named) == ExplainedMembership(queue="b", rule=f"annotation {VOLCANO_ANNOTATION}")
    assert of("team") is None
    assert of("kube-system", **named) is None


def test_nothing_of_kube_system_is_a_member() -> None:
    """Whatever it says of itself."""
    stored = held(annotations={well_known.QUEUE: "b"})
    stored["metadata"]["namespace"] = "kube-system"
    assert membership_of(POD, stored, owners=(), objects=NOTHING_READ) is None


MARKED = [{"name": "c", "resources": {"requests": {well_known.MARKER: "1"}}}]


def test_a_pod_says_itself_why_it_waits() -> None:
    """Its PodScheduled condition while that is False, its gates, its PodGroup."""
    conditions = [
        {"type": "Ready", "status": "False", "message": "no"},
        {"type": "PodScheduled", "status": "False", "message": "no room"},
    ]
    found = subject(
        POD,
        held(
            annotations={GROUP_ANNOTATION: "gang"},
            status={"conditions": conditions},
            schedulingGates=[{"name": well_known.GATE}],
            containers=MARKED,
        ),
    )
    assert (found.message, found.gates, found.calls_extender) == ("no room", (well_known.GATE,), True)
    assert found.group == ObjectRef(kind="PodGroup", name="gang", namespace="ns")


@pytest.mark.parametrize(
    ("spec", "asked"),
    [
        ({"containers": MARKED}, True),
        ({"containers": [{"name": "c"}], "schedulerName": "volcano"}, True),
        ({"containers": [{"name": "c"}], "schedulerName": "default-scheduler"}, False),
    ],
)
def test_kube_scheduler_asks_about_marked_pods_and_those_of_a_scheduler_of_ours(
    spec: dict[str, Any], *, asked: bool
) -> None:
    """A scheduler of its own asks about every pod, so its pods carry no marker."""
    assert subject(POD, held(**spec)).calls_extender is asked


@each_case(
    ("kind", "status", "phase"),
    [
        ("pod", {"phase": "Failed"}, "Failed"),
        ("pod", {"phase": "Running"}, ""),
        ("job", {"conditions": [{"type": "Complete", "status": "True"}]}, "Complete"),
        ("job", {"conditions": [{"type": "Complete", "status": "False"}]}, ""),
        ("vcjob", {"state": {"phase": "Terminated"}}, "Terminated"),
        ("jobset", {"conditions": [{"type": "Completed", "status": "True"}]}, "Completed"),
        ("podgroup", {"phase": "Completed"}, "Completed"),
        ("podgroup", {"phase": "Inqueue"}, ""),
        ("queue", {"state": "Closed"}, ""),
    ],
)
def test_what_has_ended_is_known_for_each_kind(kind: str, status: dict[str, Any], phase: str) -> None:
    """Each kind says it in its own place."""
    found_type = type_of(kind)
    assert found_type is not None
    found = subject(found_type, held(status=status))
    assert (found.finished, found.phase) == (bool(phase), phase)


def test_a_workload_that_makes_no_pods_is_idle() -> None:
    """By its own wish."""
    assert "spec.suspend" in subject(TYPES[1], held(suspend=True)).idle_reason
    assert "spec.replicas" in subject(TYPES[1], held(replicas=0)).idle_reason
    assert subject(PODGROUP, held()).idle_reason == ""


def test_a_workload_that_its_queue_suspended_says_that_it_is_resumed_with_the_queue() -> None:
    """By a drain, or where parked pods are created again; the annotation outlives no resume."""
    mark = {well_known.SUSPENDED: "b"}
    found = subject(TYPES[1], held(annotations=mark, suspend=True))
    assert found.idle_reason.startswith("its queue suspended it (spec.suspend is true)")
    assert "resumes it once the queue schedules again" in found.idle_reason
    assert subject(TYPES[1], held(annotations=mark, suspend=False)).idle_reason == ""


@pytest.mark.parametrize(("annotation", "bound"), [("true", True), ("false", False), ("", False)])
def test_a_namespace_is_bound_by_its_annotation(annotation: str, bound: bool) -> None:
    """Whether the setting binds it is not known here."""
    found_type = type_of("namespace")
    assert found_type is not None
    assert subject(found_type, held(annotations={well_known.BINDING: annotation})).bound is bound


def test_a_workload_that_a_drain_brought_to_zero_says_so_and_when_it_comes_back() -> None:
    mark = {well_known.SUSPENDED: "b/3"}
    found = subject(TYPES[3], held(annotations=mark, replicas=0))
    assert found.idle_reason == (
        'the drain of queue "b" brought it to zero replicas, from 3; '
        "they come back once its queue schedules again"
    )
    assert subject(TYPES[3], held(annotations=mark, replicas=2)).idle_reason == ""


CHANGE = HistoryLine(
    by="ann", field="state", from_="Open", to="Suspended", reason="quota", at="2030-01-01T11:55:00Z"
)


def test_each_part_of_an_explanation_has_its_heading() -> None:
    """Every part of the explanation has its heading, in the order of the causes."""
    resume_at = NOW + timedelta(minutes=25)
    told = Explanation(
        object=ObjectRef(kind="Pod", name="p", namespace="ns"),
        outcome=Fate.STOPPED,
        summary="Pod ns/p waits",
        owners=(ObjectRef(kind="Job", name="j", namespace="ns"),),
        group=ObjectRef(kind="PodGroup", name="g", namespace="ns"),
        membership=ExplainedMembership(queue="b", rule="annotation sluice.dev/queue", origin="namespace"),
        chain=(
            ChainMember(
                queue="b", state=State.SUSPENDED, desired=Desired.CLOSED, stop_policy=StopPolicy.HOLD
            ),
            ChainMember(
                queue="a",
                state=State.SUSPENDED,
                desired=Desired.SUSPENDED,
                stop_policy=StopPolicy.NONE,
                resume_at=resume_at,
            ),
        ),
        stops=(
            StopCause(
                queue="a",
                kind=CauseKind.SUSPENDED,
                text="",
                way_out="kubectl queue resume a",
                change=CHANGE,
                resume_at=resume_at,
            ),
        ),
        refusal=StopCause(
            queue="b",
            kind=CauseKind.CLOSED,
            text="",
            way_out="kubectl queue open b",
            created="2030-01-01T11:00:00Z",
        ),
        closing="kept from Closed by pod ns/p",
        notes=("one", "two"),
    )
    assert lines(told, now=NOW) == [
        "Pod ns/p waits",
        "Owned by:    Job ns/j",
        "PodGroup:    ns/g",
        "Queue:       b, by annotation sluice.dev/queue (from namespace)",
        "Chain:       b     Suspended   is to be Closed, stopPolicy Hold",
        "             a     Suspended   stops it, until 2030-01-01T12:25:00Z (in 25m)",
        'Stopped by:  ann, 2030-01-01T11:55:00Z (5m ago): state of queue "a" from Open to Suspended',
        "             because: quota",
        "Let go by:   kubectl queue resume a",
        "             itself at 2030-01-01T12:25:00Z (in 25m)",
        'Closed by:   who created queue "b", 2030-01-01T11:00:00Z (60m ago)',
        "Reopened by: kubectl queue open b",
        "Closing:     kept from Closed by pod ns/p",
        "Note:        one",
        "             two",
    ]


def test_a_missing_podgroup_is_said_to_decide_the_queue() -> None:
    """There is no queue yet, and no chain."""
    told = Explanation(
        object=ObjectRef(kind="Pod", name="p", namespace="ns"),
        outcome=Fate.STOPPED,
        summary="waits",
        membership=ExplainedMembership(queue=None, rule="PodGroup gang", group="gang"),
    )
    assert (
        lines(told, now=NOW)[1] == "Queue:       not known yet: PodGroup gang decides it, and does not exist"
    )


LINE = {"by": "ann", "field": "state", "from": "Open", "to": "Closed", "at": "2030-01-01T11:00:00Z"}


def test_the_history_comes_from_the_status() -> None:
    """While that speaks of the present spec."""
    found = changes_of(item("b", status={"changes": [LINE], "observedGeneration": 1}))
    assert [(change.by, change.from_, change.to) for change in found] == [("ann", "Open", "Closed")]


@pytest.mark.parametrize("status", [{}, {"changes": [LINE], "observedGeneration": 1}])
def test_the_annotation_is_the_history_while_the_status_lags(status: dict[str, Any]) -> None:
    """The annotation is written with the edit itself."""
    queue = item("b", status=status, generation=2)
    queue["metadata"]["annotations"] = {well_known.CHANGES: json.dumps([{**LINE, "by": "eve"}])}
    assert [change.by for change in changes_of(queue)] == ["eve"]


@each_case("text", ["", "nonsense", "{}", "[1]", '[{"by": 1}]', "null"])
def test_an_unreadable_history_is_empty(text: str) -> None:
    """Whatever somebody managed to store."""
    queue = item("b", status={"changes": "x"})
    queue["metadata"]["annotations"] = {well_known.CHANGES: text}
    assert changes_of(queue) == ()


def test_times_are_shown_with_their_distance() -> None:
    """Past it is due: the controller has yet to do it."""
    told = Explanation(
        object=ObjectRef(kind="Queue", name="a"),
        outcome=Fate.FREE,
        summary="",
        chain=(
            ChainMember(
                queue="a",
                state=State.OPEN,
                desired=Desired.SUSPENDED,
                stop_policy=StopPolicy.NONE,
                resume_at=datetime(2030, 1, 1, 11, tzinfo=UTC),
            ),
        ),
    )
    assert lines(told, now=NOW)[1].endswith("until 2030-01-01T11:00:00Z (expired)")


def test_what_the_server_wrote_is_told_from_what_others_did_by_who_owns_the_message() -> None:
    """Of a pod with our gate, and of a PodGroup; a text of the API server's own has no owner."""
    for kind, condition in ((POD, "PodScheduled"), (PODGROUP, "Scheduled")):
        owned: Object = {"f:status": {"f:conditions": {f'k:{{"type":"{condition}"}}': {"f:message": {}}}}}
        status = {"conditions": [{"type": condition, "status": "False", "message": "queue b is Suspended"}]}
        item = held(status=status, schedulingGates=[{"name": well_known.GATE}])
        assert said_by_server(kind, item) == ""
        item["metadata"]["managedFields"] = [{"manager": "sluice", "fieldsV1": owned}]
        assert said_by_server(kind, item) == "queue b is Suspended"
    ungated = {**item, "spec": {}}
    assert said_by_server(POD, ungated) == ""
