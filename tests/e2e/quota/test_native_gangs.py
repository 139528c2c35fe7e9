"""The native gang API of Kubernetes 1.36 (alpha), switched on: what holds of it in a queue with a quota."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from localcluster.cluster import LocalCluster
from localcluster.versions import chosen
from tests.support.e2e.api_requests import Object
from tests.support.e2e.kubernetes_version import needs
from tests.support.e2e.objects import GROUPED_BY, condition, gates, on_a_node
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled, until

pytestmark = [
    pytest.mark.long,
    needs(held=chosen() == "1.36", reason="scheduling.k8s.io/v1alpha2 has the native gang API in 1.36"),
]
#: Of `configured_cluster`.
CLUSTER = {
    "apiserver_flags": [
        "--feature-gates=GenericWorkload=true",
        "--runtime-config=scheduling.k8s.io/v1alpha2=true",
    ],
    "scheduler_flags": ["--feature-gates=GenericWorkload=true,GangScheduling=true"],
}
QUOTA_GATE = "sluice.dev/quota"
#: What kube-scheduler says of a pod that it could place, and whose gang is not complete. It tries none before
#: minCount pods exist, and says nothing of them.
WAITS = "waiting for minCount pods from a gang to be scheduled"
NO_ROOM = "has no room for this pod now"


@pytest.fixture
def sandbox(configured_cluster: LocalCluster) -> Iterator[Sandbox]:
    made = Sandbox(configured_cluster)
    yield made
    made.clear()
    made.close()


def native(sandbox: Sandbox) -> str:
    return f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{sandbox.namespace}/podgroups"


def gangs(sandbox: Sandbox, names: list[str], queue: str, *, grouped: bool = False) -> list[list[str]]:
    """Native gangs of three, whose pods are made in turns; `grouped`: and name a PodGroup of Volcano's.

    Without one, the first two of each are released one after the other, in the order they are made in.
    """
    for name in names:
        body: Object = {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
        sandbox.api.create(native(sandbox), body).must(201)
        if grouped:
            sandbox.podgroup(name, queue, minMember=3)
    for at in range(3):
        for name in names:
            more = {GROUPED_BY: name} if grouped else {}
            group = {"podGroupName": name}
            made = sandbox.pod(f"{name}-{at}", queue, annotations=more, cpu="1", schedulingGroup=group)
            assert made.must(201).body["spec"]["schedulingGroup"] == group
            if at < 2 and not grouped:
                until(partial(is_released, sandbox, f"{name}-{at}"), f"{name}-{at} to be released")
    return [[f"{name}-{at}" for at in range(3)] for name in names]


def is_released(sandbox: Sandbox, name: str) -> bool:
    return gates(sandbox.read_pod(name)) == []


def placed(sandbox: Sandbox, name: str) -> str:
    """What kube-scheduler says of the native PodGroup."""
    found = sandbox.api.get(f"{native(sandbox)}/{name}").must().body
    return str(condition(found, "PodGroupScheduled").get("status", ""))


def running(sandbox: Sandbox) -> list[str]:
    return sorted(name for name, pod in sandbox.read_pods().items() if on_a_node(pod))


def test_gated_pods_count_for_its_quorum_and_none_is_placed_before_all_are_released(sandbox: Sandbox) -> None:
    queue = sandbox.queue(capability={"cpu": "2"})
    [names] = gangs(sandbox, ["gang"], queue)
    for name in names[:2]:
        assert gates(sandbox.reason_on(name, WAITS)) == []
    assert gates(sandbox.reason_on(names[2], NO_ROOM)) == [QUOTA_GATE]
    assert settled(lambda: running(sandbox), "the pods") == []
    assert placed(sandbox, "gang") == "False"
    sandbox.edit(queue, capability={"cpu": "3"})
    until(lambda: running(sandbox) == names, "all of them to run")
    until(lambda: placed(sandbox, "gang") == "True", "the native PodGroup to say so")


def test_two_that_share_a_quota_wait_for_each_other_unless_podgroups_release_them_whole(
    sandbox: Sandbox,
) -> None:
    """Made in turns, under a capability for one of them and a pod more."""
    first, second = gangs(sandbox, ["one", "two"], sandbox.queue("pods", capability={"cpu": "4"}))
    for name in (*first[:2], *second[:2]):
        sandbox.reason_on(name, WAITS)
    for name in (first[2], second[2]):
        sandbox.reason_on(name, NO_ROOM)
    assert settled(lambda: running(sandbox), "the pods") == []

    whole = sandbox.queue("whole", capability={"cpu": "4"})
    first, second = gangs(sandbox, ["three", "four"], whole, grouped=True)
    until(lambda: running(sandbox) in (first, second), "one of them to run")
    if running(sandbox) == second:  # of one second, the UID decides
        first, second = second, first
    for name in second:
        assert gates(sandbox.reason_on(name, NO_ROOM)) == [QUOTA_GATE]
    for name in first:
        sandbox.api.delete(f"{sandbox.pods_path}/{name}").must()
    until(lambda: running(sandbox) == second, "the other one to run")


def test_nothing_of_it_starts_while_its_queue_is_stopped(sandbox: Sandbox) -> None:
    """The stop comes when a part of it is released and waits for the rest."""
    queue = sandbox.queue(capability={"cpu": "2"})
    [names] = gangs(sandbox, ["gang"], queue)
    for name in names[:2]:
        sandbox.reason_on(name, WAITS)
    sandbox.suspend(queue)
    sandbox.edit(queue, capability={"cpu": "3"})
    assert settled(lambda: running(sandbox), "the pods") == []
    sandbox.edit(queue, state="Open")
    until(lambda: running(sandbox) == names, "all of them to run")
