"""Pods of a queue that name a scheduler which nobody runs, on a control plane: it is said when they are made
and while they wait, and they do not keep others from the room of the queue."""

from __future__ import annotations

from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import STRATEGIC, Object
from tests.support.e2e.objects import condition, on_a_node
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled, until
from tests.support.e2e.workloads import DEPLOYMENT, work_body
from tests.support.plugin.harness import plugin_in_process

#: The least time that a pod can be given to be taken.
SOON = {"sluice.dev/place-within": "10s"}


def deployment(queue: str, scheduler: str) -> Object:
    body = work_body(DEPLOYMENT, "web", queue, annotations=SOON, cpu="1", replicas=1)
    body["spec"]["template"]["spec"]["schedulerName"] = scheduler
    return body


def guards(sandbox: Sandbox, name: str) -> Object | None:
    """The pod, if the bind guard refuses it."""
    return sandbox.read_pod(name) if sandbox.bind(name, dry=True).status == 403 else None


def plugin(cluster: LocalCluster, *words: str) -> str:
    done = plugin_in_process(*words, kubeconfig=cluster.client_kubeconfig)
    assert not done.stderr
    return done.stdout


def test_a_pod_that_nobody_takes_says_so_and_leaves_its_room(cluster: LocalCluster, sandbox: Sandbox) -> None:
    scheduler, queue = f"absent-{sandbox.namespace}", sandbox.queue(capability={"cpu": "1"})
    text = f'no scheduler named "{scheduler}"'
    [line] = sandbox.make(DEPLOYMENT, deployment(queue, scheduler)).must(201).warnings
    assert line == f"{text} was seen here: if it does not run, the pods never start"
    [name] = until(lambda: list(sandbox.read_pods()), "its pod")
    until(lambda: "sluice.dev/released" in sandbox.read_pod(name)["metadata"]["labels"], "its release")
    sandbox.pod("other", queue, cpu="1").must(201)
    sandbox.reason_on("other", f'queue "{queue}" has no room for this pod now: its capability is used')

    def said() -> bool:
        found = condition(sandbox.read_pod(name), "PodScheduled")
        return found.get("reason") == "SchedulerNotSeen" and text in found["message"]

    until(said, "its condition")
    assert text in sandbox.event("web", "SchedulerNotSeen")
    until(lambda: "sluice.dev/untaken" in sandbox.read_pod(name)["metadata"]["annotations"], "its mark")
    guarded = until(lambda: guards(sandbox, name), "the bind guard to refuse it")
    assert "sluice.dev/released" in guarded["metadata"]["labels"], "it counts"
    assert not on_a_node(sandbox.read_pod("other"))
    until(lambda: on_a_node(sandbox.read_pod("other")), "the other pod to have its room")
    held = sandbox.read_pod(name)["metadata"]
    assert held["annotations"]["sluice.dev/untaken"] == scheduler
    assert "sluice.dev/released" not in held["labels"]
    refused = sandbox.bind(name)
    assert (refused.status, queue in refused.message) == (403, True)
    where = ("-n", sandbox.namespace)
    assert text in plugin(cluster, "why", "deploy/web", *where)
    why = plugin(cluster, "why", f"pod/{name}", *where)
    assert text in why
    assert "waits for room" not in why
    problems = plugin(cluster, "status")
    assert f'1 pod of queues waits for scheduler "{scheduler}", which takes none' in problems


def test_a_scheduler_that_comes_back_as_it_is_given_up_takes_the_queue_over_no_capability(
    sandbox: Sandbox,
) -> None:
    """The test is that scheduler. Its bind is stored before the guard is on, or refused."""
    scheduler, queue = f"late-{sandbox.namespace}", sandbox.queue(capability={"cpu": "1"})
    sandbox.pod("mine", queue, annotations=SOON, cpu="1", schedulerName=scheduler).must(201)
    until(lambda: "sluice.dev/released" in sandbox.read_pod("mine")["metadata"]["labels"], "its release")
    sandbox.pod("other", queue, cpu="1").must(201)
    marked = "sluice.dev/untaken"
    until(lambda: marked in sandbox.read_pod("mine")["metadata"]["annotations"], "its mark", share=0)
    is_bound = sandbox.bind("mine").status == 201

    def is_decided() -> bool:
        return is_bound or on_a_node(sandbox.read_pod("other"))

    until(is_decided, "one of them to have the room")
    settled(lambda: on_a_node(sandbox.read_pod("other")), "the other pod")
    assert on_a_node(sandbox.read_pod("mine")) is not on_a_node(sandbox.read_pod("other"))


def test_a_pod_whose_scheduler_gives_a_sign_keeps_its_room(sandbox: Sandbox) -> None:
    """The test is that scheduler: it writes what one writes that finds no node."""
    scheduler, queue = f"there-{sandbox.namespace}", sandbox.queue(capability={"cpu": "1"})
    sandbox.pod("mine", queue, annotations=SOON, cpu="1", schedulerName=scheduler).must(201)
    until(lambda: "sluice.dev/released" in sandbox.read_pod("mine")["metadata"]["labels"], "its release")
    tried = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}
    body = {"status": {"conditions": [{**tried, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
    sandbox.api.patch(f"{sandbox.pods_path}/mine/status", body, kind=STRATEGIC).must()
    sandbox.pod("other", queue, cpu="1").must(201)
    sandbox.pod("later", queue, annotations=SOON, schedulerName=f"absent-{sandbox.namespace}").must(201)

    def is_given_up() -> bool:
        return "sluice.dev/untaken" in sandbox.read_pod("later")["metadata"]["annotations"]

    until(is_given_up, "a later pod of another scheduler to be given up")
    mine = sandbox.read_pod("mine")
    assert condition(mine, "PodScheduled")["reason"] == "Unschedulable"
    assert "sluice.dev/released" in mine["metadata"]["labels"]
    assert not on_a_node(sandbox.read_pod("other"))
