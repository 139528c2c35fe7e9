"""`/validate/metadata`: who is told that labels and annotations of Volcano or Kueue do nothing here."""

from __future__ import annotations

from typing import Any

from queues.membership import KUEUE_LABEL, VOLCANO_ANNOTATION, VOLCANO_LABEL, MembershipSettings
from queues.messages import WARNING_LIMIT
from queues.metadata.keys import GROUP_MIN_MEMBER
from tests.support.cases import each_case
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    NAMED,
    WORKLOADS,
    Wire,
    namespace,
    pod,
    podgroup,
    queue,
    template,
    workload,
)
from webhooks.metadata import LATE_GANG

SLA = {"volcano.sh/sla-waiting-time": "1h"}
TOLD = ["annotation volcano.sh/sla-waiting-time has no effect here: use a PriorityClass"]
LABEL = {VOLCANO_ANNOTATION: "research"}
OWNER = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "r", "uid": "r", "controller": True}
CONTROLLER = "system:serviceaccount:kube-system:deployment-controller"


def told(obj: Wire, resource: str, server: Server | None = None, **request: Any) -> list[str]:
    answer = (server or Server()).ask("/validate/metadata", obj, resource=resource, **request)
    assert (answer.allowed, answer.patch) == (True, [])
    return answer.warnings


@each_case("resource", WORKLOADS)
@each_case("place", ["workload", "template"])
def test_a_workload_is_told_once_for_its_pods(resource: str, place: str) -> None:
    """Not each of its thousand pods."""
    of = {"workload": (None, SLA), "template": (SLA, None)}[place]
    assert told(workload(resource, "train", template(of[0]), annotations=of[1]), resource) == TOLD


def test_a_key_in_several_templates_is_told_once() -> None:
    job = workload("jobs.batch.volcano.sh", "train", template(SLA), template(SLA), annotations=SLA)
    assert told(job, "jobs.batch.volcano.sh") == TOLD


def test_the_labels_of_a_template_count() -> None:
    work = workload("deployments.apps", "train", template(labels=LABEL))
    assert told(work, "deployments.apps") == [
        f"label {VOLCANO_ANNOTATION} names no queue: write annotation {VOLCANO_ANNOTATION}"
    ]


def test_what_is_made_and_who_reads_no_warnings_is_not_told() -> None:
    assert told(pod(annotations=SLA), "pods") == TOLD
    assert told(pod(annotations=SLA, owner=OWNER), "pods") == []
    assert told(podgroup("gang", annotations=SLA), "podgroups.scheduling.volcano.sh") == TOLD
    assert told(podgroup("gang", annotations=SLA, owner=OWNER), "podgroups.scheduling.volcano.sh") == []
    assert told(workload("deployments.apps", annotations=SLA), "deployments.apps", user=CONTROLLER) == []
    assert told(pod(annotations=SLA, namespace="kube-system"), "pods", namespace="kube-system") == []


def test_a_member_pod_is_told_as_it_is_admitted() -> None:
    server = Server().has(namespace("team"), queue("research"))
    asked = pod(annotations={NAMED: "research", **SLA})
    assert server.ask("/mutate/pods", asked).warnings == TOLD
    made = pod(annotations={NAMED: "research", **SLA}, owner=OWNER)
    assert server.ask("/mutate/pods", made).warnings == []


@each_case(
    "held",
    [
        {"labels": LABEL},
        {"annotations": {VOLCANO_LABEL: "research"}},
        {"labels": {VOLCANO_LABEL: "research"}},
        {"annotations": {"scheduling.volcano.sh/queue": "research"}},
        {"labels": {KUEUE_LABEL: "research"}},
    ],
    ids=str,
)
def test_a_namespace_that_names_its_queue_in_a_wrong_way_is_told_the_right_one(held: Wire) -> None:
    obj = namespace("team")
    obj["metadata"] |= held
    [line] = told(obj, "namespaces")
    assert line.endswith(f" names no queue: write annotation {VOLCANO_ANNOTATION}")


def test_an_edit_that_changes_something_else_is_told_nothing() -> None:
    before = workload("deployments.apps", "train", template(SLA))
    after = workload("deployments.apps", "train", template(SLA), replicas=3)
    update: dict[str, Any] = {"old": before, "operation": "UPDATE"}
    assert told(after, "deployments.apps", **update) == []
    again = workload("deployments.apps", "train", template({"volcano.sh/sla-waiting-time": "2h"}))
    assert told(again, "deployments.apps", **update) == TOLD


@each_case(
    ("before", "after", "late"), [("3", "4", True), ("3", "3", False), ("3", "1", True), ("0", "1", False)]
)
def test_who_changes_the_minimum_of_a_gang_that_exists_is_told_where_it_counts(
    before: str, after: str, late: bool
) -> None:
    was, now = (
        workload("deployments.apps", annotations={GROUP_MIN_MEMBER: each}) for each in (before, after)
    )
    lines = told(now, "deployments.apps", old=was, operation="UPDATE")
    assert lines == ([LATE_GANG] if late else [])


def test_the_line_is_as_short_as_clients_show_it() -> None:
    assert len(LATE_GANG) <= WARNING_LIMIT


def test_kueues_label_is_told_of_where_the_setting_is_off() -> None:
    work = workload("jobs.batch", labels={KUEUE_LABEL: "research"})
    assert told(work, "jobs.batch") == [f"label {KUEUE_LABEL} names no queue: setting kueue_label is off"]
    assert told(work, "jobs.batch", Server(rules=MembershipSettings(kueue=True))) == []


def test_an_object_of_a_wrong_shape_is_no_business_of_a_webhook_that_warns() -> None:
    assert told({"metadata": {"name": []}}, "deployments.apps") == []
