"""Parts of the cluster end and come back: nobody else notices, and nothing is forgotten."""

from __future__ import annotations

import signal
from functools import partial

import pytest

from cluster.coordination.replica_lease import EXPIRED_ANNOTATION, LABEL
from localcluster.cluster import LocalCluster
from tests.support.drain.draining import wait_for_running
from tests.support.e2e.api_requests import Object
from tests.support.e2e.handing_on import LEASES
from tests.support.e2e.objects import (
    GATE,
    gates,
    is_active,
    is_stopped,
    on_a_node,
    suspended_text,
    why,
)
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import DEPLOYMENT, work_body
from tests.support.plugin.harness import plugin_in_process

pytestmark = pytest.mark.long


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    return sandbox.queue()


def test_pods_of_no_queue_are_bound_while_the_server_is_down(
    sandbox: Sandbox, queue: str, restored_cluster: LocalCluster
) -> None:
    """Even in a namespace whose binds are guarded, because a queue with a pending pod is stopped."""
    sandbox.ungate(suspended_with_pending(sandbox, queue))
    restored_cluster.stop_components("server")
    sandbox.all_bound(sandbox.pods("other", 5))


def test_marked_members_wait_for_the_server_and_are_bound_when_it_is_back(
    sandbox: Sandbox, queue: str, restored_cluster: LocalCluster
) -> None:
    """kube-scheduler does not guess: it says whom it cannot reach, and comes back. `why` names the outage to
    whoever has rights in the namespace alone, also of a Deployment whose pod is not replaced.
    """
    names = sandbox.pods("member", 3, queue, gated=True)
    sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", queue, replicas=1)).must(201)
    (replaced,) = wait_for_running(sandbox, 1, "web-")
    restored_cluster.kubectl(
        *("create", "rolebinding", "ann", "--clusterrole=view", "--user=ann", "-n", sandbox.namespace)
    )
    restored_cluster.stop_components("server")
    sandbox.ungate(names)
    for name in names:
        assert not on_a_node(sandbox.reason_on(name, "/extender/filter"))
    sandbox.api.delete(f"{sandbox.home}/pods/{replaced}").must()
    asks = partial(asked, sandbox, restored_cluster)
    none = "waits: no replica of Sluice answers"
    until(lambda: f"{none} kube-scheduler, " in asks(f"pod/{names[0]}"), "why to name the outage")
    until(lambda: f"{none} the API server, " in asks("deployment/web"), "why to name it of a Deployment")
    until(lambda: "no replica of Sluice answers" in problems(restored_cluster), "status to name it")
    restored_cluster.start_components("server")
    sandbox.all_bound(names)
    until(lambda: problems(restored_cluster) == "none", "status to say that the server is well")


def problems(cluster: LocalCluster) -> str:
    """What `kubectl queue status` says is wrong. Its exit code says whether something is."""
    said = plugin_in_process("status", kubeconfig=cluster.client_kubeconfig)
    found = said.stdout.partition("Problems:")[2].strip()
    assert (said.returncode, said.stderr) == (0 if found == "none" else 1, "")
    return found


def asked(sandbox: Sandbox, cluster: LocalCluster, thing: str) -> str:
    words = ("why", thing, "-n", sandbox.namespace, "--as=ann")
    return plugin_in_process(*words, kubeconfig=cluster.client_kubeconfig).stdout


def test_members_of_a_suspended_queue_stay_parked_over_an_outage(
    sandbox: Sandbox, queue: str, restored_cluster: LocalCluster
) -> None:
    """Down, up, and still suspended: neither those that filter refused nor those with the gate moved."""
    names = [*suspended_with_pending(sandbox, queue), *sandbox.pods("late", 2, queue)]
    restored_cluster.stop_components("server")
    sandbox.ungate(name for name in names if name.startswith("early"))
    for name in names[:2]:
        sandbox.reason_on(name, "/extender/filter")
    restored_cluster.start_components("server")
    for name in names:
        sandbox.reason_on(name, suspended_text(queue))
    assert sandbox.bound(names) == set()


def test_a_resume_after_a_restart_of_the_server_lets_all_go(
    sandbox: Sandbox, queue: str, restored_cluster: LocalCluster
) -> None:
    """What is parked is read off the pods, so a crash leaves nobody behind."""
    names = [*suspended_with_pending(sandbox, queue), *sandbox.pods("late", 2, queue)]
    sandbox.ungate(name for name in names if name.startswith("early"))
    for name in names:
        sandbox.reason_on(name, suspended_text(queue))
    restored_cluster.signal_component("server", signal.SIGKILL)
    restored_cluster.start_components("server")
    sandbox.edit(queue, state="Open")
    sandbox.all_bound(names)


def test_a_stop_asked_for_while_the_server_starts_is_acknowledged(
    sandbox: Sandbox, queue: str, restored_cluster: LocalCluster
) -> None:
    """A member is pending when the server dies; the first edit after its return is acted on."""
    names = sandbox.pods("early", 2, queue, gated=True)
    restored_cluster.signal_component("server", signal.SIGKILL)
    restored_cluster.start_components("server")
    sandbox.suspend(queue)
    sandbox.ungate(names)
    sandbox.reason_on(names[0], suspended_text(queue))


def test_creating_a_member_fails_while_the_server_is_down_and_names_us(
    sandbox: Sandbox, queue: str, restored_cluster: LocalCluster
) -> None:
    """Better no pod than one that nobody stops."""
    restored_cluster.stop_components("server")
    answer = sandbox.pod("member", queue)
    assert answer.status == 500
    assert 'failed calling webhook "members.pods.sluice.dev"' in answer.message


def test_editing_a_queue_fails_while_the_server_is_down_and_names_us(
    sandbox: Sandbox, queue: str, restored_cluster: LocalCluster
) -> None:
    """An edit that nobody judges would be one that nobody records."""
    restored_cluster.stop_components("server")
    answer = sandbox.patch_queue(queue, state="Suspended")
    assert answer.status == 500
    assert 'failed calling webhook "queues.sluice.dev"' in answer.message


@pytest.mark.parametrize("component", ["kube-apiserver", "kube-scheduler", "etcd"])
def test_stops_and_resumes_work_after_a_restart_of(
    sandbox: Sandbox, queue: str, restored_cluster: LocalCluster, component: str
) -> None:
    """The server finds its way back by itself, and so do its guarantees."""
    early = suspended_with_pending(sandbox, queue)
    restored_cluster.restart_components(component)
    sandbox.api.close()
    until(lambda: sandbox.api.get("/readyz").status == 200, "the API server")
    until(lambda: sandbox.pod("late", queue).status in (201, 409), "a pod to be taken")
    assert gates(sandbox.read_pod("late")) == [GATE]
    sandbox.ungate(early)
    for name in early:
        sandbox.reason_on(name, suspended_text(queue))
    assert is_active(sandbox.edit(queue, state="Open"))
    sandbox.all_bound([*early, "late"])
    sandbox.suspend(queue)


def test_nothing_is_written_twice_over_restarts(
    sandbox: Sandbox, queue: str, restored_cluster: LocalCluster
) -> None:
    """A server that starts finds all as it should be: no write of a queue that needs none."""
    sandbox.suspend(queue)
    before = sandbox.read_queue(queue)["metadata"]["resourceVersion"]
    restored_cluster.restart_components("server")
    other = sandbox.queue("other")
    assert sandbox.api.get(f"{QUEUES}/{other}").status == 200
    assert sandbox.read_queue(queue)["metadata"]["resourceVersion"] == before


def test_a_killed_server_takes_no_acknowledgement_back(
    sandbox: Sandbox, queue: str, restored_cluster: LocalCluster
) -> None:
    """Once its Lease has expired, whoever starts next knows that: the stop is written no more."""
    killed = {lease["metadata"]["name"] for lease in replica_leases(sandbox)} - marked_leases(sandbox)
    restored_cluster.signal_component("server", signal.SIGKILL)
    restored_cluster.start_components("server")
    sandbox.suspend(queue)
    until(lambda: marked_leases(sandbox) >= killed, "the Lease to be marked as expired")
    before = sandbox.read_queue(queue)["metadata"]["resourceVersion"]
    restored_cluster.restart_components("server")
    other = sandbox.suspend(sandbox.queue("other"))
    assert is_stopped(other)
    assert killed <= marked_leases(sandbox), "the Lease is gone, so nothing was shown"
    assert sandbox.read_queue(queue)["metadata"]["resourceVersion"] == before


def replica_leases(sandbox: Sandbox) -> list[Object]:
    listed = sandbox.api.get(f"{LEASES}?labelSelector={LABEL}%3Dtrue").must().body
    return list(listed["items"])


def marked_leases(sandbox: Sandbox) -> set[str]:
    return {
        lease["metadata"]["name"]
        for lease in replica_leases(sandbox)
        if EXPIRED_ANNOTATION in lease["metadata"]["annotations"]
    }


def suspended_with_pending(sandbox: Sandbox, queue: str) -> list[str]:
    """Two pods that were pending when the queue was suspended, kept back by the test's own gate."""
    names = sandbox.pods("early", 2, queue, gated=True)
    sandbox.suspend(queue)
    assert all(suspended_text(queue) not in why(pod) for pod in sandbox.read_pods().values())
    return names
