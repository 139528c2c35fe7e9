"""`/validate/rollouts`: who replaces or adds pods in a stopped queue is told that they wait."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cases import each_case
from tests.support.http.wire_objects import NAMED, Wire, template, workload
from tests.support.webhooks.workload_requests import QUEUE, queues
from webhooks.workloads.rollouts import RECREATED

ROLLED = pytest.mark.parametrize("resource", ["deployments.apps", "statefulsets.apps", "daemonsets.apps"])


def stored(resource: str, name: str, **spec: Any) -> Wire:
    return workload(resource, "train", template({NAMED: name, QUEUE: name}), labels={QUEUE: name}, **spec)


def warnings(before: Wire, resource: str, *, again: bool = True, **spec: Any) -> list[str]:
    """Of an edit; `again`: the template changes, as `kubectl rollout restart` changes it."""
    server = queues().has(before)
    changed = {**before["spec"], **spec}
    if again:
        meta = changed["template"]["metadata"]
        annotations = {**meta["annotations"], "kubectl.kubernetes.io/restartedAt": "2030-01-01T00:00:00Z"}
        changed["template"] = {**changed["template"], "metadata": {**meta, "annotations": annotations}}
    answer = server.ask(
        "/validate/rollouts",
        {**before, "spec": changed},
        old=before,
        operation="UPDATE",
        resource=resource,
        name="train",
    )
    assert (answer.allowed, answer.patch) == (True, [])
    return answer.warnings


@ROLLED
@pytest.mark.parametrize("name", ["stopped", "held"])
def test_a_roll_out_in_a_queue_that_does_not_schedule_says_that_its_pods_wait(
    resource: str, name: str
) -> None:
    [told] = warnings(stored(resource, name), resource)
    assert f'"{name}"' in told
    assert told.endswith("its new pods wait; an admin of queues can resume it")


def test_a_recreated_deployment_loses_all_its_pods_first() -> None:
    before = stored("deployments.apps", "stopped", strategy={"type": "Recreate"})
    assert warnings(before, "deployments.apps")[1:] == [RECREATED]


@ROLLED
def test_where_the_queue_schedules_nothing_is_said(resource: str) -> None:
    assert warnings(stored(resource, "research"), resource) == []


@each_case(
    ("resource", "spec", "again"),
    [
        ("deployments.apps", {}, False),
        ("deployments.apps", {"paused": True}, True),
        ("deployments.apps", {"replicas": 0}, True),
        ("statefulsets.apps", {"updateStrategy": {"type": "OnDelete"}}, True),
        ("jobs.batch", {"parallelism": 1}, False),
        ("cronjobs.batch", {}, False),
    ],
    ids=["same-template", "paused", "none-wanted", "on-delete", "same-parallelism", "no-pods-of-its-own"],
)
def test_what_replaces_and_adds_no_pods_says_nothing(resource: str, spec: Wire, again: bool) -> None:
    assert warnings(stored(resource, "stopped", **spec), resource, again=again) == []


@pytest.mark.parametrize(("was", "now", "told"), [(None, 5, 1), (2, 5, 1), (5, 2, 0), (5, None, 0)])
def test_a_job_that_wants_more_pods_at_a_time_is_told_that_they_wait(
    was: int | None, now: int | None, told: int
) -> None:
    before = stored("jobs.batch", "stopped", parallelism=was)
    texts = warnings(before, "jobs.batch", again=False, parallelism=now)
    assert len(texts) == told
    assert all("new pods wait; an admin of queues can resume it" in text for text in texts)


def test_a_workload_of_no_queue_says_nothing() -> None:
    before = workload("deployments.apps", "train", template())
    server = queues().has(before)
    after = {**before, "spec": {**before["spec"], "template": template({"x": "y"})}}
    answer = server.ask(
        "/validate/rollouts", after, old=before, operation="UPDATE", resource="deployments.apps", name="train"
    )
    assert answer.warnings == []
