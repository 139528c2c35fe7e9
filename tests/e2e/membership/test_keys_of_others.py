"""Labels and annotations of Volcano and Kueue on a real control plane: who writes one that does nothing here
is told, and who writes one that does is not."""

from __future__ import annotations

import pytest

from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import NAMED_BY, pod_body, podgroup_body
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.workloads import CRON_JOB, DEPLOYMENT, JOB, WorkloadKind, work_body

pytestmark = pytest.mark.cluster

SLA = {"volcano.sh/sla-waiting-time": "1h"}
TOLD = "annotation volcano.sh/sla-waiting-time has no effect here: use a PriorityClass"


def with_metadata(body: Object, **more: dict[str, str]) -> Object:
    """Labels and annotations beside those that the object has."""
    meta = body["metadata"]
    return {**body, "metadata": {**meta, **{key: {**meta.get(key, {}), **more[key]} for key in more}}}


@pytest.mark.parametrize("made", [DEPLOYMENT, JOB, CRON_JOB], ids=lambda made: made.kind)
def test_a_workload_of_a_queue_and_one_of_none_are_told(sandbox: Sandbox, made: WorkloadKind) -> None:
    queue = sandbox.queue()
    member = with_metadata(work_body(made, "member", queue), annotations=SLA)
    assert sandbox.make(made, member, dry=True).must(201).warnings == (TOLD,)
    other = with_metadata(work_body(made, "other"), labels={NAMED_BY: queue})
    [line] = sandbox.make(made, other, dry=True).must(201).warnings
    assert line == f"label {NAMED_BY} names no queue: write annotation {NAMED_BY}"
    right = with_metadata(work_body(made, "right"), annotations={NAMED_BY: queue})
    assert sandbox.make(made, right, dry=True).must(201).warnings == ()


def test_a_pod_is_told_and_what_a_controller_makes_is_not(sandbox: Sandbox) -> None:
    queue = sandbox.queue()
    wrong = with_metadata(pod_body("wrong"), labels={NAMED_BY: queue})
    [line] = sandbox.api.create(sandbox.pods_path, wrong).must(201).warnings
    assert line.startswith(f"label {NAMED_BY} names no queue")
    kueue = with_metadata(pod_body("kueue"), labels={"kueue.x-k8s.io/queue-name": queue})
    assert any("kueue_label is off" in line for line in sandbox.api.create(sandbox.pods_path, kueue).warnings)
    [told] = sandbox.pod("member", queue, annotations=SLA).must(201).warnings
    assert told == TOLD
    assert sandbox.pod("right", queue).must(201).warnings == ()


def test_a_namespace_that_names_its_queue_in_a_wrong_way_is_told(sandbox: Sandbox) -> None:
    for held in ({"labels": {NAMED_BY: "x"}}, {"annotations": {"scheduling.volcano.sh/queue": "x"}}):
        [line] = sandbox.api.patch(sandbox.home, {"metadata": held}).must().warnings
        assert line.endswith(f"names no queue: write annotation {NAMED_BY}")
    unrelated = {"metadata": {"labels": {"example.com/owner": "x"}}}
    assert sandbox.api.patch(sandbox.home, unrelated).must().warnings == ()


def test_a_podgroup_is_told(sandbox: Sandbox) -> None:
    body = with_metadata(podgroup_body("gang", sandbox.queue()), annotations=SLA)
    assert sandbox.api.create(sandbox.podgroups_path, body).must(201).warnings == (TOLD,)
