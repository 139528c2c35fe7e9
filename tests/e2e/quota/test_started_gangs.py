"""Gangs that have started, with a real StatefulSet controller, and pods that somebody else gates."""

from __future__ import annotations

from typing import Any

from tests.e2e.quota.test_workload_gangs import asking, running
from tests.support.e2e.objects import GROUPED_BY, OWN_GATE, on_a_node
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled, until
from tests.support.e2e.workloads import JOB, STATEFUL_SET, work_body
from tests.support.plugin.harness import plugin_in_process


def test_the_pod_in_the_place_of_a_lost_one_has_its_room(sandbox: Sandbox) -> None:
    """A StatefulSet makes it once the lost one is gone: until then the room is kept."""
    queue = sandbox.queue(capability={"cpu": "3"})
    body = asking(STATEFUL_SET, queue, replicas=3, podManagementPolicy="Parallel")
    sandbox.make(STATEFUL_SET, body).must(201)
    until(lambda: running(sandbox) == 3, "the gang to run")
    sandbox.pod("stranger", queue, cpu="1").must(201)
    sandbox.reason_on("stranger", f'queue "{queue}" has no room for this pod now')
    lost = sandbox.read_pod("web-0")["metadata"]["uid"]
    sandbox.api.delete(f"{sandbox.pods_path}/web-0").must(200)

    def is_replaced() -> bool:
        found = sandbox.read_pods().get("web-0")
        return found is not None and found["metadata"]["uid"] != lost and on_a_node(found)

    until(is_replaced, "the pod in its place to run")
    assert not on_a_node(sandbox.read_pod("stranger"))


def test_what_has_succeeded_counts_when_it_is_gone_and_the_rest_goes_on_after_a_drain(
    sandbox: Sandbox,
) -> None:
    """An Indexed Job makes no other pod for an index that has succeeded."""
    queue = sandbox.queue(capability={"cpu": "3"})
    sandbox.podgroup("train", queue, minMember=3)
    counts: dict[str, Any] = {"parallelism": 3, "completions": 3, "completionMode": "Indexed"}
    body = work_body(JOB, "train", queue, annotations={GROUPED_BY: "train"}, cpu="1", **counts)
    job = f"{JOB.path(sandbox.namespace)}/train"
    sandbox.make(JOB, body).must(201)
    until(lambda: running(sandbox) == 3, "all three to run")
    done = min(sandbox.read_pods())
    succeeded = {"status": {"phase": "Succeeded"}}
    sandbox.api.patch(f"{sandbox.pods_path}/{done}/status", succeeded).must()
    until(lambda: sandbox.api.get(job).must().body["status"].get("succeeded") == 1, "one to have succeeded")
    sandbox.api.delete(f"{sandbox.pods_path}/{done}").must(200)
    sandbox.edit(queue, stopPolicy="HoldAndDrain")
    until(lambda: not sandbox.read_pods(), "the drain")
    sandbox.edit(queue, stopPolicy="None")
    until(lambda: running(sandbox) == 2, "the other two to run again")


def test_room_that_is_kept_is_said_with_whom_it_is_kept_for(sandbox: Sandbox) -> None:
    queue = sandbox.queue(capability={"cpu": "3"})
    sandbox.podgroup("app", queue, minMember=1, minResources={"cpu": "3"})
    sandbox.pod("driver", annotations={GROUPED_BY: "app"}, cpu="1").must(201)
    until(lambda: on_a_node(sandbox.read_pod("driver")), "the driver to run")
    sandbox.pod("stranger", queue, cpu="1").must(201)
    sandbox.reason_on("stranger", f'queue "{queue}" has no room for this pod now: its capability is used')
    name = f"{sandbox.namespace}/app"
    quota = until(
        lambda: (found := sandbox.read_queue(queue)["status"]["quota"]).get("keptFor") and found, "it"
    )
    assert (quota["used"]["cpu"], quota["keptForGangs"], quota["keptFor"]) == ("3", {"cpu": "2"}, [name])
    kubeconfig = sandbox.cluster.client_kubeconfig
    said = plugin_in_process("why", "pod/stranger", "-n", sandbox.namespace, kubeconfig=kubeconfig).stdout
    assert f"2 of the cpu that is used is kept for gangs: podgroup {name}" in said
    usage = plugin_in_process("usage", queue, kubeconfig=kubeconfig).stdout
    assert "KEPT" in usage


def test_a_podgroup_without_pods_is_named_where_its_room_lacks(sandbox: Sandbox) -> None:
    """Also in a queue beside its own."""
    lab = sandbox.queue("lab", capability={"cpu": "2"})
    queue, beside = sandbox.queue("own", parent=lab), sandbox.queue("beside", parent=lab)
    sandbox.podgroup("later", queue, minMember=2, minResources={"cpu": "2"})
    name = f"{sandbox.namespace}/later"
    until(lambda: sandbox.read_queue(lab)["status"]["quota"].get("keptFor") == [name], "its room to be kept")
    sandbox.pod("stranger", beside, cpu="1").must(201)
    sandbox.reason_on("stranger", f'the capability of its ancestor "{lab}" is used')
    kubeconfig = sandbox.cluster.client_kubeconfig
    said = plugin_in_process("why", "pod/stranger", "-n", sandbox.namespace, kubeconfig=kubeconfig).stdout
    assert f"2 of the cpu that is used is kept for gangs: podgroup {name}" in said
    sandbox.api.delete(f"{sandbox.podgroups_path}/later").must(200)
    until(lambda: on_a_node(sandbox.read_pod("stranger")), "the stranger to run")


def test_a_pod_that_others_gate_holds_no_room(sandbox: Sandbox) -> None:
    queue = sandbox.queue(capability={"cpu": "1"})
    sandbox.pod("checked", queue, cpu="1", gated=True).must(201)
    sandbox.reason_on(
        "checked",
        f'queue "{queue}" does not release this pod yet: scheduling gate "{OWN_GATE}" keeps it from nodes; '
        "it is asked for once that gate is gone",
    )
    sandbox.pod("other", queue, cpu="1").must(201)
    until(lambda: on_a_node(sandbox.read_pod("other")), "the other one to run")
    sandbox.ungate(["checked"])
    sandbox.reason_on("checked", f'queue "{queue}" has no room for this pod now: its capability is used')
    assert settled(lambda: on_a_node(sandbox.read_pod("checked")), "the pod") is False
    sandbox.api.delete(f"{sandbox.pods_path}/other").must(200)
    until(lambda: on_a_node(sandbox.read_pod("checked")), "the pod to run")
