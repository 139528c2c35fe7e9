"""What a queue deserves it gets back on a control plane, from who borrows, and nobody takes it meanwhile."""

from __future__ import annotations

import time

import pytest

from queues.quota.let_in_again import SAFE_SECONDS
from tests.support.drain.draining import BUDGETS, priorities
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import GROUPED_BY, condition, on_a_node
from tests.support.e2e.policies import Policies, policy
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled, until
from tests.support.e2e.workloads import DEPLOYMENT, work_body

GIVEN_BACK = "pods are being evicted to give it what its queue deserves"


@pytest.fixture
def lab(sandbox: Sandbox, policies: Policies) -> str:
    """A queue of four CPUs, for queues that may ask back what they deserve of it."""
    policies.write(takes=policy("allocate, reclaim"))
    return sandbox.queue("lab", capability={"cpu": "4"}, schedulerPolicy="takes")


def running(sandbox: Sandbox, names: list[str]) -> list[str]:
    pods = sandbox.read_pods()
    return [name for name in names if name in pods and on_a_node(pods[name]) and not leaving(pods[name])]


def leaving(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def told_given_back(sandbox: Sandbox, queue: str) -> int:
    quota = sandbox.read_queue(queue).get("status", {}).get("quota") or {}
    return sum(line["pods"] for line in quota.get("givenBack", []) if line["action"] == "reclaim")


def test_a_queue_gets_back_what_it_deserves_and_no_more(sandbox: Sandbox, lab: str) -> None:
    own = sandbox.queue("own", parent=lab, deserved={"cpu": "2"})
    other = sandbox.queue("other", parent=lab, deserved={"cpu": "2"})
    borrowed = sandbox.pods("borrowed", 4, other, cpu="1")
    until(lambda: len(running(sandbox, borrowed)) == 4, "four pods to run")
    wanted = sandbox.pods("wanted", 4, own, cpu="1")
    until(lambda: len(running(sandbox, wanted)) == 2, "what the queue deserves to run")
    assert settled(lambda: len(running(sandbox, wanted)), "the pods", seconds=1.0) == 2
    assert len(running(sandbox, borrowed)) == 2
    gone = next(name for name in borrowed if name not in running(sandbox, borrowed))
    assert own in sandbox.event(gone, "Reclaimed", "gives back", "cpu 1", "action reclaim")
    left = next(name for name in wanted if name not in running(sandbox, wanted))
    sandbox.reason_on(left, f'the capability of its ancestor "{lab}" is used')
    until(lambda: told_given_back(sandbox, own) == 2, "its history to say that it got two pods")
    until(lambda: told_given_back(sandbox, other) == 2, "that of the other queue to say that it gave two")


def test_what_is_freed_waits_for_who_asked_and_says_so(sandbox: Sandbox, lab: str) -> None:
    """Pods of another queue, which go before it by their share, do not take it."""
    own = sandbox.queue("own", parent=lab, deserved={"cpu": "3"})
    other = sandbox.queue("other", parent=lab, deserved={"cpu": "1"})
    third = sandbox.queue("third", parent=lab)
    names = sandbox.pods("borrowed", 4, other, cpu="1", finalizers=["tests.sluice.dev/stays"])
    until(lambda: len(running(sandbox, names)) == 4, "four pods to run")
    sandbox.pod("wanted", own, cpu="3").must(201)
    sandbox.reason_on("wanted", GIVEN_BACK)
    until(lambda: len(running(sandbox, names)) == 1, "three to be evicted")
    small = sandbox.pods("small", 3, third, cpu="1")
    ended = [name for name in names if name not in running(sandbox, names)]
    assert "Reclaimed" in condition(sandbox.read_pod(ended[0]), "DisruptionTarget")["reason"]
    for name in ended:
        sandbox.patch_pod(name, {"metadata": {"finalizers": None}}).must()
    until(lambda: running(sandbox, ["wanted"]), "the pod that asked to run")
    assert running(sandbox, small) == []
    for name in running(sandbox, names):
        sandbox.patch_pod(name, {"metadata": {"finalizers": None}}).must()


def test_a_gang_gets_back_what_all_of_it_needs(sandbox: Sandbox, lab: str) -> None:
    own = sandbox.queue("own", parent=lab, deserved={"cpu": "2"})
    other = sandbox.queue("other", parent=lab, deserved={"cpu": "2"})
    borrowed = sandbox.pods("borrowed", 4, other, cpu="1")
    until(lambda: len(running(sandbox, borrowed)) == 4, "four pods to run")
    sandbox.podgroup("gang", own, minMember=2)
    gang = sandbox.pods("gang", 2, annotations={GROUPED_BY: "gang"}, cpu="1")
    until(lambda: len(running(sandbox, gang)) == 2, "both of the gang to run")
    assert len(running(sandbox, borrowed)) == 2


def test_budgets_hold_and_other_pods_go_instead(sandbox: Sandbox, lab: str) -> None:
    own = sandbox.queue("own", parent=lab, deserved={"cpu": "2"})
    other = sandbox.queue("other", parent=lab)
    budget = {
        "metadata": {"name": "kept"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"kept": "yes"}}},
    }
    sandbox.api.create(BUDGETS.format(namespace=sandbox.namespace), budget).must(201)
    free = sandbox.pods("free", 2, other, cpu="1")
    until(lambda: len(running(sandbox, free)) == 2, "the older pods to run")
    kept = sandbox.pods("kept", 2, other, cpu="1", labels={"kept": "yes"})
    until(lambda: len(running(sandbox, kept)) == 2, "the newer pods to run")
    wanted = sandbox.pods("wanted", 2, own, cpu="1")
    until(lambda: len(running(sandbox, wanted)) == 2, "what the queue deserves to run")
    assert (running(sandbox, kept), running(sandbox, free)) == (kept, [])


def test_what_a_workload_makes_again_waits_and_takes_nothing_back(sandbox: Sandbox, lab: str) -> None:
    own = sandbox.queue("own", parent=lab, deserved={"cpu": "2"})
    other = sandbox.queue("other", parent=lab, deserved={"cpu": "2"})
    sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "borrower", other, cpu="1", replicas=4)).must(201)
    until(lambda: len(running(sandbox, list(sandbox.read_pods()))) == 4, "the borrower to run")
    first = set(sandbox.read_pods())
    wanted = sandbox.pods("wanted", 2, own, cpu="1")
    until(lambda: len(running(sandbox, wanted)) == 2, "what the queue deserves to run")

    def made_again() -> list[str]:
        return [name for name in sandbox.read_pods() if name not in first and name not in wanted]

    until(lambda: len(made_again()) == 2, "the pods to be made again")
    assert settled(lambda: len(running(sandbox, list(sandbox.read_pods()))), "the pods", seconds=2.0) == 4
    assert running(sandbox, made_again()) == []


@pytest.mark.long
def test_what_was_let_in_again_is_left_alone_for_a_minute(sandbox: Sandbox, lab: str) -> None:
    """Else two queues that ask in turns would have the same work begin anew for ever."""
    own = sandbox.queue("own", parent=lab, deserved={"cpu": "4"})
    other = sandbox.queue("other", parent=lab)
    sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "borrower", other, cpu="1", replicas=4)).must(201)

    def of_the_borrower() -> list[str]:
        names = [name for name in sandbox.read_pods() if name.startswith("borrower")]
        return running(sandbox, names)

    until(lambda: len(of_the_borrower()) == 4, "the borrower to run")
    first = set(of_the_borrower())
    wanted = sandbox.pods("wanted", 4, own, cpu="1")
    until(lambda: len(running(sandbox, wanted)) == 4, "what the queue deserves to run")
    for name in wanted:
        sandbox.api.delete(f"{sandbox.pods_path}/{name}?gracePeriodSeconds=0").must()
    until(lambda: len(of_the_borrower()) == 4, "the borrower to be let in again")
    let_in = time.monotonic()
    assert first.isdisjoint(of_the_borrower())
    sandbox.pod("again", own, cpu="1").must(201)
    sandbox.reason_on("again", f'the capability of its ancestor "{lab}" is used')
    until(lambda: running(sandbox, ["again"]), "the pod to get back what its queue deserves")
    assert time.monotonic() - let_in > SAFE_SECONDS - 10
    assert len(of_the_borrower()) == 3


def test_a_pod_of_higher_priority_goes_before_those_of_its_own_queue(
    sandbox: Sandbox, policies: Policies
) -> None:
    policies.write(takes=policy("allocate, preempt"))
    queue = sandbox.queue("own", capability={"cpu": "2"}, schedulerPolicy="takes")
    low = sandbox.pods("low", 2, queue, cpu="1")
    until(lambda: len(running(sandbox, low)) == 2, "two pods to run")
    high = priorities(sandbox, high=30)["high"]
    sandbox.pod("urgent", queue, cpu="1", priorityClassName=high).must(201)
    until(lambda: running(sandbox, ["urgent"]), "the pod of higher priority to run")
    assert len(running(sandbox, low)) == 1
    gone = next(name for name in low if name not in running(sandbox, low))
    sandbox.event(gone, "Preempted", "a pod of higher priority of its queue")
