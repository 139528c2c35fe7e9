"""Three replicas, each with its own view of the ConfigMap: pods that a policy held back go at once."""

from __future__ import annotations

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
