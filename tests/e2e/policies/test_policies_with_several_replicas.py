"""Three replicas, each with its own view of the ConfigMap: pods that a policy held back go at once.

kube-scheduler asks for scores over a connection of its own, so that another replica answers than the one that
answered the filter call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count

import pytest

from localcluster import apiserver
from tests.support.e2e.api_requests import metric
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.objects import on_a_node, queue_body
from tests.support.e2e.policies import PATH as POLICIES
from tests.support.e2e.policies import Policies, patient, policy
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import PATIENCE, until
from tests.support.faults.intercepting import Asked, Kept

pytestmark = pytest.mark.long

#: kube-scheduler tries a pod that was refused or lacks room again only after five minutes by itself.
AT_ONCE = PATIENCE
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PREEMPT = "/extender/preempt"
#: So much of a node's 64 CPUs that no two fit.
MOST = 60
LATE = "server-late"
#: More watches than the late replica begins while the test lasts.
WATCHES = 1000
#: How often a replica has read of policies, and has listed what it scores with.
READINGS = r'sluice_reflector_(?:lists|events)_total\{kind="policies"\}'
LISTS_FOR_SCORES = r'sluice_reflector_lists_total\{kind="(?:nodes|assigned-pods)"\}'
#: How many changes of assigned pods a replica has been shown.
ASSIGNED_EVENTS = r'sluice_reflector_events_total\{kind="assigned-pods"\}'
#: A pod that is bound and then runs.
EVENTS_OF_A_POD = 2
#: So often kube-scheduler asks for victims before the late replica sees the policy.
IN_VAIN = 2


@pytest.fixture
def policies(fleet: Fleet, own_sandbox: Sandbox) -> Policies:
    return Policies(own_sandbox)


def counted(sandbox: Sandbox, fleet: Fleet, pattern: str) -> dict[int, float]:
    """The sum of these samples, by the port of each replica."""
    context = apiserver.caller_context(sandbox.cluster.layout)
    return {port: metric(port, context, pattern) for port in fleet.server_ports}


def write_to_all(sandbox: Sandbox, policies: Policies, fleet: Fleet, **texts: str) -> None:
    """Returns once every replica has read the policies; `Policies.write` waits for one of them."""
    before = counted(sandbox, fleet, READINGS)
    policies.write(**texts)
    until(
        lambda: all(now > before[port] for port, now in counted(sandbox, fleet, READINGS).items()),
        "every replica to read the policies",
    )


def goes(sandbox: Sandbox, name: str) -> None:
    until(lambda: on_a_node(sandbox.read_pod(name)), f"{name} to be bound", seconds=AT_ONCE)


def test_pods_that_filter_refused_go_once_the_policy_lets_them(
    own_sandbox: Sandbox, policies: Policies, fleet: Fleet
) -> None:
    write_to_all(own_sandbox, policies, fleet, tried=policy("backfill"))
    queue = own_sandbox.queue(schedulerPolicy="tried")
    names = own_sandbox.pods("large", 10, queue, cpu="1")
    for name in names:
        own_sandbox.reason_on(name, "has no action allocate")
    policies.write(tried=policy("allocate"))
    for name in names:
        goes(own_sandbox, name)
    own_sandbox.delete_pods()


def is_denied_victims(sandbox: Sandbox, policies: Policies, fleet: Fleet) -> list[str]:
    """The pod `important` waits: its policy gives it none of the pods that fill the nodes. Returns those.

    After half a second kube-scheduler would take those that nobody has denied.
    """
    sandbox.cluster.configure_scheduler(patient)
    write_to_all(sandbox, policies, fleet, tried=policy("allocate"))
    nodes = len(sandbox.api.get("/api/v1/nodes").must().body["items"])
    high = sandbox.named("high")
    sandbox.create(CLASSES, {"metadata": {"name": high}, "value": 1000})
    until(
        lambda: sandbox.pod("probe", dry=True, priorityClassName=high).status == 201,
        "the priority class to be known",
    )
    own = sandbox.queue("own", schedulerPolicy="tried", deserved={"cpu": str(MOST)})
    team = sandbox.queue("team")
    victims = sandbox.pods("victim", nodes, team, cpu=str(MOST))
    sandbox.all_bound(victims)
    assert sandbox.pod("important", own, cpu=str(MOST), priorityClassName=high).status == 201
    sandbox.reason_on("important", "Insufficient cpu")
    return victims


def test_a_pod_that_was_denied_victims_gets_them_once_the_policy_lets_it(
    own_sandbox: Sandbox, policies: Policies, fleet: Fleet
) -> None:
    victims = is_denied_victims(own_sandbox, policies, fleet)
    policies.write(tried=policy("allocate, reclaim"))
    goes(own_sandbox, "important")
    assert len(own_sandbox.bound(victims)) == len(victims) - 1
    own_sandbox.delete_pods()


def test_a_pod_gets_victims_however_late_a_replica_sees_the_policy(
    own_sandbox: Sandbox, policies: Policies, fleet: Fleet
) -> None:
    """kube-scheduler asks a replica that does not see the new policy until the test lets it."""
    victims = is_denied_victims(own_sandbox, policies, fleet)
    with late_replica(fleet) as see:
        before = own_sandbox.calls(PREEMPT)
        policies.send(tried=policy("allocate, reclaim"))
        until(lambda: own_sandbox.calls(PREEMPT) >= before + IN_VAIN, "retries in vain", seconds=60)
        assert len(own_sandbox.bound(victims)) == len(victims)
        see()
        until(lambda: on_a_node(own_sandbox.read_pod("important")), "the pod to be bound", seconds=60)
        own_sandbox.delete_pods()


def test_a_queue_is_not_warned_of_a_policy_that_was_admitted_and_is_not_seen(
    own_sandbox: Sandbox, policies: Policies, fleet: Fleet
) -> None:
    """As in one manifest that holds both, on a machine that is busy."""
    with late_replica(fleet):
        policies.send(coming=policy("allocate"))
        told = own_sandbox.api.create(QUEUES, queue_body(own_sandbox.named("own"), schedulerPolicy="coming"))
        assert told.must(201).warnings == ()
        told = own_sandbox.api.create(
            QUEUES, queue_body(own_sandbox.named("typo"), schedulerPolicy="comming")
        )
        [warning] = told.must(201).warnings
        assert 'no policy "comming" is known yet' in warning


@contextmanager
def late_replica(fleet: Fleet) -> Iterator[Callable[[], None]]:
    """All ask one that sees no change of the policies until the function is called."""
    fleet.join(LATE, intercepted=True)
    way, blind = fleet.interceptors[LATE], Kept(answered=False)
    way.order(blind, when=watches_policies, times=WATCHES)
    way.cut(when=watches_policies)
    until(blind.reached.is_set, "the late replica to lose its watch of the policies")
    fleet.only(LATE)
    try:
        yield partial(way.free, blind)
    finally:
        way.relent()  # the next one of that name has this way, too
        way.free(blind)
        fleet.leave(LATE)


def watches_policies(asked: Asked) -> bool:
    return asked.watch and asked.path == POLICIES


def test_pods_of_a_queue_that_packs_go_to_one_node_whoever_answers(
    own_sandbox: Sandbox, policies: Policies, fleet: Fleet
) -> None:
    own_sandbox.cluster.configure_scheduler(patient)
    write_to_all(own_sandbox, policies, fleet, packed=policy("allocate", "binpack"))
    until(
        lambda: all(lists >= 2 for lists in counted(own_sandbox, fleet, LISTS_FOR_SCORES).values()),
        "every replica to read nodes and pods",
    )
    queue = own_sandbox.queue("packed", schedulerPolicy="packed")
    before, numbers = counted(own_sandbox, fleet, ASSIGNED_EVENTS), count()

    def have_seen(pods: int) -> bool:
        """Whether every replica has been shown all that has happened to so many pods."""
        now = counted(own_sandbox, fleet, ASSIGNED_EVENTS)
        shown = {now[port] - before[port] for port in now}
        return len(shown) == 1 and min(shown) >= EVENTS_OF_A_POD * pods

    def go_to_one_node() -> bool:
        names = own_sandbox.pods(f"batch-{next(numbers)}", 6, queue, cpu="100m")
        own_sandbox.all_bound(names)
        pods = own_sandbox.read_pods()
        until(lambda: have_seen(len(pods)), "every replica to see where the batch went")
        return len({pods[name]["spec"]["nodeName"] for name in names}) == 1

    # The first batch makes one node the fullest, or several: replicas do not see at once what others chose.
    until(go_to_one_node, "six pods to go to one node")
    assert [go_to_one_node() for _ in range(3)] == [True] * 3
