"""Three replicas, each with its own view of the ConfigMap: pods that a policy held back go at once.

kube-scheduler asks for scores over a connection of its own, so that another replica answers than the one that
answered the filter call.
"""

from __future__ import annotations

from itertools import count

import pytest

from tests.support.e2e.fleet import Fleet
from tests.support.e2e.objects import on_a_node
from tests.support.e2e.policies import Policies, policy
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until

AT_ONCE = 15.0
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
#: So much of a node's 64 CPUs that no two fit.
MOST = 60


@pytest.fixture
def policies(fleet: Fleet, own_sandbox: Sandbox) -> Policies:
    return Policies(own_sandbox)


def goes(sandbox: Sandbox, name: str) -> None:
    until(lambda: on_a_node(sandbox.read_pod(name)), f"{name} to be bound", seconds=AT_ONCE)


def test_pods_that_filter_refused_go_once_the_policy_lets_them(
    own_sandbox: Sandbox, policies: Policies
) -> None:
    policies.write(tried=policy("backfill"))
    queue = own_sandbox.queue(schedulerPolicy="tried")
    names = own_sandbox.pods("large", 10, queue, cpu="1")
    for name in names:
        own_sandbox.reason_on(name, "has no action allocate")
    policies.write(tried=policy("allocate"))
    for name in names:
        goes(own_sandbox, name)
    own_sandbox.delete_pods()


def test_a_pod_that_was_denied_victims_gets_them_once_the_policy_lets_it(
    own_sandbox: Sandbox, policies: Policies
) -> None:
    policies.write(tried=policy("allocate"))
    nodes = len(own_sandbox.api.get("/api/v1/nodes").must().body["items"])
    high = own_sandbox.named("high")
    own_sandbox.create(CLASSES, {"metadata": {"name": high}, "value": 1000})
    until(
        lambda: own_sandbox.pod("probe", dry=True, priorityClassName=high).status == 201,
        "the priority class to be known",
    )
    own, team = own_sandbox.queue("own", schedulerPolicy="tried"), own_sandbox.queue("team")
    victims = own_sandbox.pods("victim", nodes, team, cpu=str(MOST))
    own_sandbox.all_bound(victims)
    assert own_sandbox.pod("important", own, cpu=str(MOST), priorityClassName=high).status == 201
    own_sandbox.reason_on("important", "Insufficient cpu")
    policies.write(tried=policy("allocate, reclaim"))
    goes(own_sandbox, "important")
    assert len(own_sandbox.bound(victims)) == nodes - 1


def test_pods_of_a_queue_that_packs_go_to_one_node_whoever_answers(
    own_sandbox: Sandbox, policies: Policies
) -> None:
    policies.write(packed=policy("allocate", "binpack"))
    queue = own_sandbox.queue("packed", schedulerPolicy="packed")
    numbers = count()

    def go_to_one_node() -> bool:
        names = own_sandbox.pods(f"batch-{next(numbers)}", 6, queue, cpu="100m")
        own_sandbox.all_bound(names)
        pods = own_sandbox.read_pods()
        return len({pods[name]["spec"]["nodeName"] for name in names}) == 1

    # all replicas have to read the nodes first
    until(go_to_one_node, "six pods to go to one node", seconds=AT_ONCE)
    assert [go_to_one_node() for _ in range(3)] == [True] * 3
