"""Workloads are watched by our label. One of a queue that lacks it, however that came to be, is drained,
resumed and waited for as every other.

The tests take our webhooks on workloads away for a time, so they have a cluster of their own.
"""

from __future__ import annotations

import pytest

from tests.support.drain.draining import NONE, drain, running, wait_for_running
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import GATE, NAMED_BY, condition
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.unregistered import without_workload_webhooks
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import DEPLOYMENT, JOB, STATEFUL_SET, WorkloadKind, work_body

#: More changes than the controllers make of a member.
OTHERS = 40
UNLABELLED = {"metadata": {"labels": {GATE: None}}}


@pytest.fixture
def sandbox(own_restored_sandbox: Sandbox) -> Sandbox:
    return own_restored_sandbox


def read(sandbox: Sandbox, kind: WorkloadKind, name: str) -> Object:
    return sandbox.api.get(f"{kind.path(sandbox.namespace)}/{name}").must().body


def patch(sandbox: Sandbox, kind: WorkloadKind, name: str, body: Object) -> None:
    sandbox.api.patch(f"{kind.path(sandbox.namespace)}/{name}", body).must()


def is_labelled(obj: Object) -> bool:
    return GATE in (obj["metadata"].get("labels") or {})


def is_suspended_and_resumed(sandbox: Sandbox, queue: str) -> None:
    """A drain suspends the Job in place of evicting its pods; none of them counts as failed."""
    drain(sandbox, queue)
    during = read(sandbox, JOB, "train")
    assert during["spec"]["suspend"] is True
    assert not during["status"].get("failed")
    assert running(sandbox) == set()
    sandbox.edit(queue, stopPolicy=NONE)
    wait_for_running(sandbox, 2)
    assert not read(sandbox, JOB, "train")["status"].get("failed")


def training(queue: str) -> Object:
    return work_body(JOB, "train", queue, parallelism=2, completions=2, backoffLimit=0)


def test_a_job_that_lost_its_label_is_suspended_by_a_drain(sandbox: Sandbox) -> None:
    queue = sandbox.queue()
    sandbox.make(JOB, training(queue)).must(201)
    wait_for_running(sandbox, 2)
    with without_workload_webhooks(sandbox, queue):
        patch(sandbox, JOB, "train", UNLABELLED)
        is_suspended_and_resumed(sandbox, queue)
        assert not is_labelled(read(sandbox, JOB, "train"))


def test_a_job_created_while_no_webhook_was_registered_is_suspended_by_a_drain(sandbox: Sandbox) -> None:
    queue = sandbox.queue()
    with without_workload_webhooks(sandbox, queue):
        sandbox.make(JOB, training(queue)).must(201)
        assert not is_labelled(read(sandbox, JOB, "train"))
        wait_for_running(sandbox, 2)
        is_suspended_and_resumed(sandbox, queue)


def test_a_job_created_while_the_server_was_away_is_suspended_by_a_drain(sandbox: Sandbox) -> None:
    """As one that is older than the installation."""
    queue = sandbox.queue()
    with without_workload_webhooks(sandbox, queue):
        sandbox.cluster.stop_components("server")
        sandbox.make(JOB, {**training(queue), "metadata": {"name": "train"}}).must(201)
        sandbox.cluster.start_components("server")
        wait_for_running(sandbox, 2)
        is_suspended_and_resumed(sandbox, queue)


def keeps_from_closed(sandbox: Sandbox, queue: str, kind: WorkloadKind, name: str) -> None:
    """The queue is Closing until this workload, which has no pods, is deleted."""
    sandbox.patch_queue(queue, state="Closed").must()
    sandbox.queue_that(
        queue, "say that it closes", lambda found: condition(found, "Accepting").get("status") == "False"
    )
    closed_after_it = sandbox.queue("witness")
    sandbox.edit(closed_after_it, state="Closed")
    sandbox.in_state(closed_after_it, "Closed")
    assert sandbox.read_queue(queue)["status"]["state"] == "Closing"
    sandbox.api.delete(f"{kind.path(sandbox.namespace)}/{name}?propagationPolicy=Background").must()
    sandbox.in_state(queue, "Closed")


def test_a_job_without_pods_created_while_no_webhook_was_registered_keeps_its_queue_from_closed(
    sandbox: Sandbox,
) -> None:
    queue = sandbox.queue()
    with without_workload_webhooks(sandbox, queue):
        sandbox.make(JOB, work_body(JOB, "later", queue, suspend=True)).must(201)
    assert not is_labelled(read(sandbox, JOB, "later"))
    keeps_from_closed(sandbox, queue, JOB, "later")


def test_a_deployment_that_lost_its_label_keeps_its_queue_from_closed(sandbox: Sandbox) -> None:
    queue = sandbox.queue()
    sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", queue, replicas=1)).must(201)
    sandbox.suspend(queue)
    sandbox.edit(queue, state="Open")
    with without_workload_webhooks(sandbox, queue):
        patch(sandbox, DEPLOYMENT, "web", UNLABELLED)
    keeps_from_closed(sandbox, queue, DEPLOYMENT, "web")


def test_workloads_of_a_namespace_that_names_a_queue_only_now(sandbox: Sandbox) -> None:
    queue = sandbox.queue()
    sandbox.make(JOB, training("")).must(201)
    wait_for_running(sandbox, 2)
    assert not is_labelled(read(sandbox, JOB, "train"))
    sandbox.api.patch(sandbox.home, {"metadata": {"annotations": {NAMED_BY: queue}}}).must()
    until(
        lambda: all(
            pod["metadata"].get("labels", {}).get(GATE) == queue for pod in sandbox.read_pods().values()
        ),
        "its pods to get their label",
    )
    is_suspended_and_resumed(sandbox, queue)


def test_events_of_workloads_of_no_queue_are_not_sent_to_the_server(sandbox: Sandbox) -> None:
    """Those of members are."""
    queue = sandbox.queue()

    def events() -> float:
        return sandbox.counted(r'sluice_reflector_events_total{kind="statefulsets"}')

    before = events()
    sandbox.make(STATEFUL_SET, work_body(STATEFUL_SET, "other", replicas=0)).must(201)
    for number in range(OTHERS):
        patch(sandbox, STATEFUL_SET, "other", {"metadata": {"annotations": {"number": str(number)}}})
    sandbox.make(STATEFUL_SET, work_body(STATEFUL_SET, "ours", queue, replicas=0)).must(201)
    until(lambda: events() > before, "the member to be seen")
    seen = events()
    patch(sandbox, STATEFUL_SET, "ours", {"spec": {"replicas": 1}})
    until(lambda: events() > seen, "the member's change to be seen")
    assert events() - before < OTHERS, "these are of the member alone"
