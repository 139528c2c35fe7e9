"""Deployments, Jobs and the like: whose queue they are in, and what their user is told at once."""

from __future__ import annotations

import pytest

from tests.support.e2e.objects import (
    GATE,
    GROUPED_BY,
    NAMED_BY,
    condition,
    gates,
    on_a_node,
    suspended_text,
)
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import (
    CRON_JOB,
    DEPLOYMENT,
    JOB,
    KINDS,
    WorkloadKind,
    template_of,
    work_body,
)

EVERY_KIND = pytest.mark.parametrize("made", KINDS, ids=[made.kind for made in KINDS])
#: A CronJob makes no pods by itself.
MAKERS = pytest.mark.parametrize(
    "made", [made for made in KINDS if made is not CRON_JOB], ids=[m.kind for m in KINDS if m is not CRON_JOB]
)


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    return sandbox.queue()


@EVERY_KIND
@pytest.mark.parametrize("on_itself", [False, True], ids=["in its template", "on itself"])
def test_the_queue_is_written_down(sandbox: Sandbox, queue: str, made: WorkloadKind, on_itself: bool) -> None:
    """On the workload, to be listed by, and in its template, wherever it was named."""
    body = sandbox.make(made, work_body(made, "work", queue, on_itself=on_itself)).must().body
    assert body["metadata"]["labels"][GATE] == body["metadata"]["annotations"][GATE] == queue
    assert template_of(body)["metadata"]["annotations"][GATE] == queue


@MAKERS
@pytest.mark.parametrize("on_itself", [False, True], ids=["in its template", "on itself"])
def test_its_pods_are_members(sandbox: Sandbox, queue: str, made: WorkloadKind, on_itself: bool) -> None:
    """And stand still with their queue."""
    sandbox.suspend(queue)
    made_one = sandbox.make(made, work_body(made, "work", queue, on_itself=on_itself)).must()
    assert made_one.warnings, "a warning that it has to wait"
    pods = until(sandbox.read_pods, "its pods")
    assert all(pod["metadata"]["annotations"][GATE] == queue for pod in pods.values())
    assert all(gates(pod) == [GATE] for pod in pods.values())
    sandbox.edit(queue, state="Open")
    until(lambda: all(map(on_a_node, sandbox.read_pods().values())), "its pods to be bound")


def test_a_podgroup_that_a_job_alone_names_is_that_of_its_pods(sandbox: Sandbox, queue: str) -> None:
    """Its template gets the name. The pods wait for the PodGroup, and are in its queue."""
    body = work_body(JOB, "work", parallelism=2, completions=2)
    body["metadata"]["annotations"] = {GROUPED_BY: "pair"}
    assert sandbox.make(JOB, body).must().warnings, "a warning that it has to wait"
    pods = until(sandbox.read_pods, "its pods")
    sandbox.reason_on(next(iter(pods)), 'PodGroup "pair" does not exist')
    sandbox.podgroup("pair", queue)
    until(lambda: all(map(on_a_node, sandbox.read_pods().values())), "its pods to be bound")
    assert {pod["metadata"]["annotations"][GATE] for pod in sandbox.read_pods().values()} == {queue}


@MAKERS
def test_the_user_is_told_on_the_workload(sandbox: Sandbox, queue: str, made: WorkloadKind) -> None:
    """Not only on its pods, which the user did not make."""
    sandbox.suspend(queue)
    sandbox.make(made, work_body(made, "work", queue)).must()
    assert suspended_text(queue) in sandbox.event("work", "QueueSuspended")


@EVERY_KIND
def test_a_closed_queue_refuses_it_where_its_user_is(
    sandbox: Sandbox, queue: str, made: WorkloadKind
) -> None:
    """Not three objects later."""
    sandbox.edit(queue, state="Closed")
    sandbox.in_state(queue, "Closed")
    sandbox.make(made, work_body(made, "work", queue)).must_refuse(
        f'queue "{queue}" is Closed and takes no new {made.resource}; '
        f"reopen it with: kubectl queue open {queue}"
    )


@EVERY_KIND
def test_one_that_names_no_queue_is_none_of_our_business(sandbox: Sandbox, made: WorkloadKind) -> None:
    """Nothing is written on it, and what a user wrote in our name is taken off."""
    wanted = work_body(made, "work", annotations={GATE: "root"})
    until(lambda: sandbox.make(made, wanted, dry=True).status == 201, "the namespace to be known")
    body = sandbox.make(made, wanted).must().body
    assert GATE not in body["metadata"].get("labels", {})
    assert GATE not in template_of(body)["metadata"].get("annotations", {})


@EVERY_KIND
def test_two_names_that_differ_are_refused(sandbox: Sandbox, queue: str, made: WorkloadKind) -> None:
    """Both are named in the refusal."""
    body = work_body(made, "work", queue)
    body["metadata"]["annotations"] = {NAMED_BY: "another"}
    sandbox.make(made, body).must_refuse("it is in two queues", f'"{queue}"', '"another"')


def test_a_queue_that_is_not_there_is_waited_for(sandbox: Sandbox) -> None:
    """One file may hold a queue and its Deployment, in any order."""
    name = sandbox.named("later")
    answer = sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "work", name)).must()
    assert any("does not exist" in warning for warning in answer.warnings)
    until(sandbox.read_pods, "its pod")
    assert sandbox.queue("later") == name
    until(lambda: all(map(on_a_node, sandbox.read_pods().values())), "its pod to be bound")


def test_a_namespace_names_the_queue_of_its_workloads(sandbox: Sandbox, queue: str) -> None:
    """Whatever its annotation says later, a workload stays where it was."""
    sandbox.api.patch(sandbox.home, {"metadata": {"annotations": {NAMED_BY: queue}}}).must()
    until(
        lambda: (
            GATE in sandbox.make(JOB, work_body(JOB, "would-be"), dry=True).body["metadata"].get("labels", {})
        ),
        "the annotation to be known",
    )
    body = sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "work")).must().body
    assert template_of(body)["metadata"]["annotations"][GATE] == queue
    pods = until(sandbox.read_pods, "its pod")
    assert [pod["metadata"]["annotations"][GATE] for pod in pods.values()] == [queue]


def test_a_moved_deployment_moves_its_new_pods(sandbox: Sandbox, queue: str) -> None:
    """The other queue must accept; the pods there are stay where they are until they are replaced."""
    other = sandbox.queue("other")
    sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "work", queue, on_itself=True)).must()
    until(lambda: sandbox.read_pods() and not sandbox.waiting(), "its pod to be bound")
    move = {"metadata": {"annotations": {NAMED_BY: other}}}
    path = f"{DEPLOYMENT.path(sandbox.namespace)}/work"
    sandbox.edit(other, state="Closed")
    sandbox.api.patch(path, move).must_refuse(f'queue "{other}" is Closed and takes no new deployments')
    sandbox.edit(other, state="Open")
    sandbox.api.patch(path, move).must()
    until(
        lambda: {pod["metadata"]["annotations"][GATE] for pod in sandbox.read_pods().values()} == {other},
        "its pods to be of the other queue",
    )


def test_a_job_cannot_be_moved(sandbox: Sandbox, queue: str) -> None:
    """Its template is fixed: its pods would stay behind."""
    sandbox.make(JOB, work_body(JOB, "work", queue, on_itself=True)).must()
    move = {"metadata": {"annotations": {NAMED_BY: "default"}}}
    sandbox.api.patch(f"{JOB.path(sandbox.namespace)}/work", move).must_refuse(
        "the queue of a Job cannot be changed", "delete it and create it"
    )


def test_what_is_allocated_is_what_the_running_pods_ask_for(sandbox: Sandbox, queue: str) -> None:
    """And nothing of it is left when they are gone."""
    sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "work", queue, cpu="250m", replicas=3)).must()
    sandbox.queue_that(
        queue, "have it all", lambda q: q["status"]["allocated"] == {"cpu": "750m", "pods": "3"}
    )
    sandbox.scale("work", 0)
    sandbox.queue_that(queue, "have none", lambda q: q["status"]["allocated"] == {"pods": "0"})


def test_a_closing_queue_names_the_work_that_keeps_it(sandbox: Sandbox, queue: str) -> None:
    """The workload that a user made, rather than one of its pods."""
    sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "work", queue, replicas=2)).must()
    until(lambda: len(sandbox.read_pods()) == 2, "its pods")
    sandbox.edit(queue, state="Closed")
    kept = f"kept from Closed by deployment {sandbox.namespace}/work"
    sandbox.queue_that(
        queue, "name the Deployment", lambda found: kept in condition(found, "Accepting")["message"]
    )


def test_a_roll_out_in_a_stopped_queue_says_that_its_pods_wait(sandbox: Sandbox, queue: str) -> None:
    sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "work", queue)).must()
    sandbox.make(JOB, work_body(JOB, "job", queue)).must()
    sandbox.suspend(queue)
    restarted = sandbox.kubectl("rollout", "restart", "deployment/work")
    assert restarted.returncode == 0
    assert f'queue "{queue}" is Suspended' in restarted.stderr
    [told] = (
        sandbox.api.patch(f"{JOB.path(sandbox.namespace)}/job", {"spec": {"parallelism": 5}}).must().warnings
    )
    assert f'queue "{queue}" is Suspended' in told
