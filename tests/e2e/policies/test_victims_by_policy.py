"""Full nodes and a pod of high priority: whom its scheduling policy lets it evict, by kube-scheduler's own
preemption. Each rule is shown beside the case where, without the policy, it evicts one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.objects import on_a_node, pod_body
from tests.support.e2e.policies import Policies, patient, policy
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import PATIENCE, settled, until

#: So much of a node's 64 CPUs that no two fit.
MOST = 60
#: More than there is: who asks uses less than it deserves.
ALL = "100000"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
SYSTEM_PODS = "/api/v1/namespaces/kube-system/pods"
#: kube-scheduler tries a pod that lacks room again only after five minutes, where nothing else changes.
AT_ONCE = PATIENCE

Spec = dict[str, Any]


class Rule(msgspec.Struct, frozen=True):
    """`policy`: that of the pod's queue. `team`: the spec of the victims' queue, for so many nodes; None: the
    victims are in the pod's own queue. `deserves`: CPUs that the pod's queue deserves.
    """

    policy: str
    team: Callable[[int], Spec] | None
    deserves: str = ALL


RECLAIM = policy("allocate, reclaim")
RULES = {
    "no action preempt": Rule(RECLAIM, None),
    "no action reclaim": Rule(policy("allocate, preempt"), lambda _nodes: {}),
    "not above its deserved share": Rule(RECLAIM, lambda nodes: {"deserved": {"cpu": str(MOST * nodes)}}),
    "not below its guarantee": Rule(
        RECLAIM, lambda nodes: {"guarantee": {"resource": {"cpu": str(MOST * nodes - 1)}}}
    ),
    "a queue that outranks it": Rule(RECLAIM, lambda _nodes: {"priority": 10}),
    "a queue that is not reclaimable": Rule(RECLAIM, lambda _nodes: {"reclaimable": False}),
    "more than its queue deserves": Rule(RECLAIM, lambda _nodes: {}, deserves=str(MOST - 1)),
}


@pytest.fixture(scope="module", autouse=True)
def patient_scheduler(cluster: LocalCluster) -> Iterator[None]:
    """After half a second it would take the victims that nobody has denied."""
    cluster.configure_scheduler(patient)
    yield
    cluster.configure_scheduler()


@pytest.fixture
def nodes(sandbox: Sandbox) -> int:
    return len(sandbox.api.get("/api/v1/nodes").must().body["items"])


@pytest.fixture
def high(sandbox: Sandbox) -> str:
    """A priority class."""
    name = sandbox.named("high")
    sandbox.create(CLASSES, {"metadata": {"name": name}, "value": 1000})
    until(
        lambda: sandbox.pod("probe", dry=True, priorityClassName=name).status == 201,
        "the priority class to be known",
    )
    return name


def alive(sandbox: Sandbox, path: str = "", prefix: str = "victim") -> set[str]:
    """The victims that nobody evicted."""
    items = sandbox.api.get(path or sandbox.pods_path).must().body["items"]
    return {
        each["metadata"]["name"]
        for each in items
        if each["metadata"]["name"].startswith(prefix) and "deletionTimestamp" not in each["metadata"]
    }


def fill(sandbox: Sandbox, nodes: int, queue: str, **more: Any) -> set[str]:
    """A pod on each node that leaves no room for another."""
    names = sandbox.pods("victim", nodes, queue, cpu=str(MOST), **more)
    sandbox.all_bound(names)
    return set(names)


def gets_no_victims(sandbox: Sandbox, name: str, queue: str, high: str) -> None:
    """Create a pod of high priority; returns once kube-scheduler has asked for victims and given up."""
    asked = sandbox.calls("/extender/preempt")
    assert sandbox.pod(name, queue, cpu=str(MOST), priorityClassName=high).status == 201
    sandbox.reason_on(name, "Insufficient cpu")
    settled(lambda: sandbox.calls("/extender/preempt"), "the calls of preempt")
    assert sandbox.calls("/extender/preempt") > asked


def goes(sandbox: Sandbox, name: str) -> None:
    until(lambda: on_a_node(sandbox.read_pod(name)), f"{name} to be bound", seconds=AT_ONCE)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_a_policy_denies_victims_that_the_pod_gets_without_it(
    sandbox: Sandbox, policies: Policies, nodes: int, high: str, rule: Rule
) -> None:
    policies.write(tried=rule.policy)
    own = sandbox.queue("own", schedulerPolicy="tried", deserved={"cpu": rule.deserves})
    team = own if rule.team is None else sandbox.queue("team", **rule.team(nodes))
    victims = fill(sandbox, nodes, team)
    gets_no_victims(sandbox, "important", own, high)
    assert alive(sandbox) == victims
    policies.remove()
    goes(sandbox, "important")
    assert len(alive(sandbox)) == nodes - 1


def test_a_queue_lends_down_to_its_guarantee_and_no_further(
    sandbox: Sandbox, policies: Policies, nodes: int, high: str
) -> None:
    """Of several pods that come at once, one gets room for each pod that is above it."""
    policies.write(tried=RECLAIM)
    own = sandbox.queue("own", schedulerPolicy="tried", deserved={"cpu": ALL})
    team = sandbox.queue("team", guarantee={"resource": {"cpu": str(MOST * (nodes - 1))}})
    victims = fill(sandbox, nodes, team)
    names = sandbox.pods("important", nodes, own, cpu=str(MOST), priorityClassName=high)
    until(lambda: len(sandbox.bound(names)) == 1, "one of them to be bound", seconds=AT_ONCE)
    settled(lambda: sandbox.calls("/extender/preempt"), "the calls of preempt")
    assert len(sandbox.bound(names)) == 1
    assert len(alive(sandbox)) == len(victims) - 1


def test_a_pod_gets_the_victims_that_their_queue_comes_to_lend(
    sandbox: Sandbox, policies: Policies, nodes: int, high: str
) -> None:
    policies.write(tried=RECLAIM)
    own, team = (
        sandbox.queue("own", schedulerPolicy="tried", deserved={"cpu": ALL}),
        sandbox.queue("team", reclaimable=False),
    )
    fill(sandbox, nodes, team)
    gets_no_victims(sandbox, "important", own, high)
    sandbox.edit(team, reclaimable=True)
    goes(sandbox, "important")
    assert len(alive(sandbox)) == nodes - 1


@pytest.fixture
def system_pods(sandbox: Sandbox, nodes: int) -> Iterator[str]:
    """A pod of kube-system on each node that leaves no room; the prefix of their names."""
    prefix = sandbox.named("victim")
    names = [f"{prefix}-{number}" for number in range(nodes)]
    with ExitStack() as afterwards:  # else no room is left for the tests that follow
        for name in names:
            afterwards.callback(delete, sandbox, f"{SYSTEM_PODS}/{name}?gracePeriodSeconds=0")
            sandbox.api.create(SYSTEM_PODS, pod_body(name, cpu=str(MOST))).must(201)
        until(
            lambda: len(alive(sandbox, f"{SYSTEM_PODS}?fieldSelector=spec.nodeName!=", prefix)) == nodes,
            "them to be bound",
        )
        yield prefix


def delete(sandbox: Sandbox, path: str) -> None:
    sandbox.api.delete(path).must(200, 404)


def test_conformance_protects_system_pods(
    sandbox: Sandbox, policies: Policies, nodes: int, high: str, system_pods: str
) -> None:
    """They are in no queue, and kube-scheduler names victims by UID alone."""
    policies.write(tried=policy("allocate, preempt, reclaim", "conformance"))
    own = sandbox.queue("own", schedulerPolicy="tried", deserved={"cpu": ALL})
    gets_no_victims(sandbox, "important", own, high)
    assert len(alive(sandbox, SYSTEM_PODS, system_pods)) == nodes
    policies.write(tried=policy("allocate, preempt, reclaim"))
    goes(sandbox, "important")
    assert len(alive(sandbox, SYSTEM_PODS, system_pods)) == nodes - 1


def test_conformance_leaves_other_pods_of_no_queue_to_kube_scheduler(
    sandbox: Sandbox, policies: Policies, nodes: int, high: str
) -> None:
    policies.write(tried=policy("allocate, preempt, reclaim", "conformance"))
    own = sandbox.queue("own", schedulerPolicy="tried", deserved={"cpu": ALL})
    fill(sandbox, nodes, "")
    assert sandbox.pod("important", own, cpu=str(MOST), priorityClassName=high).status == 201
    goes(sandbox, "important")
    assert len(alive(sandbox)) == nodes - 1


def test_plugin_priority_lets_only_pods_of_lower_priority_go(
    sandbox: Sandbox, policies: Policies, nodes: int, high: str
) -> None:
    """kube-scheduler chooses no others itself, so that this holds without a policy too."""
    policies.write(tried=policy("allocate, preempt", "priority"))
    own = sandbox.queue("own", schedulerPolicy="tried", deserved={"cpu": ALL})
    victims = fill(sandbox, nodes, own, priorityClassName=high)
    assert sandbox.pod("equal", own, cpu=str(MOST), priorityClassName=high).status == 201
    sandbox.reason_on("equal", "Insufficient cpu")
    assert alive(sandbox) == victims
    higher = sandbox.named("higher")
    sandbox.create(CLASSES, {"metadata": {"name": higher}, "value": 2000})
    until(
        lambda: sandbox.pod("probe", dry=True, priorityClassName=higher).status == 201,
        "the priority class to be known",
    )
    assert sandbox.pod("important", own, cpu=str(MOST), priorityClassName=higher).status == 201
    goes(sandbox, "important")
    assert len(alive(sandbox)) == nodes - 1
