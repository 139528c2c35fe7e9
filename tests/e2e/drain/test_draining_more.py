"""Draining: who else goes, in which order and how many at a time; who comes late; who does not leave."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.evictions.pods import LANES_PER_NAMESPACE
from localcluster.nodes import node
from tests.support.drain.draining import (
    DRAIN,
    HOLD,
    NONE,
    SLOW,
    counts,
    drain,
    drained_reason,
    end_pods,
    evicted_so_far,
    leaving,
    priorities,
    remove_finalizers,
    running,
    slow_pods,
    wait_for_drain,
    wait_for_eviction_webhook,
    wait_for_none_running,
    wait_for_running,
)
from tests.support.e2e.api_requests import Object, watched
from tests.support.e2e.objects import condition, why
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import (
    DEPLOYMENT,
    JOB,
    STATEFUL_SET,
    work_body,
)
from tests.support.faults.slow_webhook import SlowWebhook

SUSPENDED = "sluice.dev/suspended"
#: More than the server evicts before it hears of the next change.
MANY = 60
#: Of a node that the test makes and takes away.
NUMBER = 900


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    return sandbox.queue()


def job(sandbox: Sandbox, name: str = "train") -> Object:
    return sandbox.api.get(f"{JOB.path(sandbox.namespace)}/{name}").must().body


# Who goes


def test_a_stateful_set_is_evicted_and_comes_back(sandbox: Sandbox, queue: str) -> None:
    """Pods of the same names wait at the gate, and are not evicted again; given back, they run."""
    body = work_body(STATEFUL_SET, "db", queue, replicas=2, podManagementPolicy="Parallel")
    sandbox.make(STATEFUL_SET, body).must(201)
    names = wait_for_running(sandbox, 2)
    drain(sandbox, queue)
    until(lambda: sandbox.waiting() == names, "its pods to wait")
    assert counts(wait_for_drain(sandbox, queue, "Drained", evicted=2)) == {"evicted": 2}
    sandbox.edit(queue, stopPolicy=NONE)
    assert wait_for_running(sandbox, 2) == names


def test_a_pod_with_another_scheduler_is_drained_too(sandbox: Sandbox, queue: str) -> None:
    """A pod that was made on its node, and one that another scheduler has bound."""
    sandbox.pod("placed", queue, nodeName="node-0").must(201)
    sandbox.pod("foreign", queue, schedulerName="somebody-else").must(201)
    sandbox.bind("foreign").must(201)
    wait_for_running(sandbox, 2)
    drain(sandbox, queue)
    assert counts(wait_for_drain(sandbox, queue, "Drained", evicted=2)) == {"evicted": 2}


def test_the_settings_of_the_topmost_draining_queue_count(sandbox: Sandbox) -> None:
    """A child drains with its own settings, until its parent drains: nothing keeps it out of that."""
    team = sandbox.queue("team")
    below, beside = sandbox.queue("below", parent=team), sandbox.queue("beside", parent=team)
    for queue in (below, beside):
        sandbox.pods(queue.rpartition("-")[2], 2, queue)
    wait_for_running(sandbox, 4)
    sandbox.edit(team, stopPolicy=HOLD)
    drain(sandbox, below, drain={"barePods": "Keep"})
    assert counts(wait_for_drain(sandbox, below, "Drained", kept=2)) == {"kept": 2}
    drain(sandbox, team)
    assert drained_reason(wait_for_drain(sandbox, beside, "Drained", evicted=2)) == ("True", "Drained")
    assert drained_reason(wait_for_drain(sandbox, below, "Drained", evicted=2)) == ("True", "Drained")
    assert running(sandbox) == set()


def test_a_suspended_job_stays_so_while_its_queue_is_only_held(sandbox: Sandbox, queue: str) -> None:
    """From Hold to HoldAndDrain and back: the Job is given back by None, not by Hold."""
    sandbox.make(JOB, work_body(JOB, "train", queue)).must(201)
    wait_for_running(sandbox, 1)
    sandbox.edit(queue, stopPolicy=HOLD)
    assert len(running(sandbox)) == 1
    drain(sandbox, queue)
    assert drained_reason(sandbox.edit(queue, stopPolicy=HOLD)) == ("", "")
    assert job(sandbox)["spec"]["suspend"] is True
    sandbox.edit(queue, stopPolicy=NONE)
    wait_for_running(sandbox, 1)


def test_a_job_that_its_user_resumes_meanwhile_waits_at_the_gate(sandbox: Sandbox, queue: str) -> None:
    """Nothing of it runs before its queue is given back, and no mark of ours is left on it then."""
    sandbox.make(JOB, work_body(JOB, "train", queue)).must(201)
    wait_for_running(sandbox, 1)
    drain(sandbox, queue)
    path = f"{JOB.path(sandbox.namespace)}/train"
    sandbox.api.patch(path, {"spec": {"suspend": False}}).must()
    until(sandbox.waiting, "its pod to wait")
    assert drained_reason(wait_for_drain(sandbox, queue, "Drained", suspended=1)) == ("True", "Drained")
    assert running(sandbox) == set()
    sandbox.edit(queue, stopPolicy=NONE)
    wait_for_running(sandbox, 1)
    until(
        lambda: SUSPENDED not in job(sandbox)["metadata"].get("annotations", {}), "the mark to be taken off"
    )
    assert job(sandbox)["spec"]["suspend"] is False


# In which order, and how many at a time


def test_the_lowest_priority_goes_first_and_then_the_youngest(sandbox: Sandbox, queue: str) -> None:
    """One after the other, no faster than the rate."""
    classes = priorities(sandbox, low=10, middle=20, high=30)
    sandbox.pod("low-old", queue, **slowly(classes["low"])).must(201)
    born = sandbox.read_pod("low-old")["metadata"]["creationTimestamp"]
    for name in ("high", "middle"):
        sandbox.pod(name, queue, **slowly(classes[name])).must(201)
    until(lambda: created_now(sandbox) > born, "the next second")
    sandbox.pod("low-young", queue, **slowly(classes["low"])).must(201)
    wait_for_running(sandbox, 4)
    since = sandbox.api.get(sandbox.pods_path).must().body["metadata"]["resourceVersion"]
    began = time.monotonic()
    sandbox.patch_queue(queue, stopPolicy=DRAIN, drain={"rate": 2, "inFlight": 1}).must()
    assert order_of_leaving(sandbox, since, number=4) == ["low-young", "low-old", "middle", "high"]
    assert time.monotonic() - began >= 1.0
    wait_for_drain(sandbox, queue, "Drained", evicted=4)


def slowly(priority: str) -> Object:
    """A pod of that class whose going is seen: it has a second to end."""
    return {"priorityClassName": priority, "terminationGracePeriodSeconds": 1}


def created_now(sandbox: Sandbox) -> str:
    """The API server's time, as it would be written on a pod."""
    return str(sandbox.pod("would-be", dry=True).must(201).body["metadata"]["creationTimestamp"])


def order_of_leaving(sandbox: Sandbox, since: str, *, number: int) -> list[str]:
    """The names of the first pods that were sent off since then."""
    found: list[str] = []
    states = watched(sandbox.cluster, sandbox.pods_path, since=since)
    while len(found) < number:
        meta = next(states)["metadata"]
        if "deletionTimestamp" in meta and meta["name"] not in found:
            found.append(meta["name"])
    states.close()
    return found


def test_no_more_pods_are_in_flight_than_the_limit(sandbox: Sandbox, queue: str) -> None:
    """Pods that are slow to leave keep the others waiting; one that has left lets one go."""
    pods = slow_pods(sandbox, "member", 5, queue)
    wait_for_running(sandbox, 5)
    sandbox.patch_queue(queue, stopPolicy=DRAIN, drain={"inFlight": 2}).must()
    for gone in range(4):
        wait_for_drain(sandbox, queue, "Draining", left=5 - gone, leaving=2)
        on_their_way = leaving(sandbox)
        assert len(on_their_way) == 2
        end_pods(sandbox, min(on_their_way))
    end_pods(sandbox, *pods)
    wait_for_drain(sandbox, queue, "Drained", evicted=5)


def test_no_eviction_is_sent_once_the_queue_is_only_held(
    sandbox: Sandbox, queue: str, tmp_path: Path
) -> None:
    """Without a limit all are to go at once; but for the requests that are under way, who is there stays."""
    number = 3 * LANES_PER_NAMESPACE
    sandbox.pods("member", number, queue)
    wait_for_running(sandbox, number)
    with SlowWebhook(sandbox, tmp_path, seconds=28.0, resources=["pods/eviction"]) as webhook:
        wait_for_eviction_webhook(sandbox, webhook)
        sandbox.patch_queue(queue, stopPolicy=DRAIN).must()
        until(lambda: webhook.held, "the first evictions to be under way")
        sandbox.edit(queue, stopPolicy=HOLD)
        webhook.let_go()
        until(lambda: len(running(sandbox, "member")) < number, "the first to go")
        sandbox.pods("stranger", 5)
        wait_for_running(sandbox, 5, "stranger")
    assert len(running(sandbox, "member")) >= number - LANES_PER_NAMESPACE


# Who comes late, and who does not leave


def test_a_pod_whose_bind_lands_late_is_drained_too(sandbox: Sandbox, queue: str, tmp_path: Path) -> None:
    """It was let through before the stop: the queue is not told as drained before it has come, and gone."""
    sandbox.pod("early", queue).must(201)
    wait_for_running(sandbox, 1)
    with SlowWebhook(sandbox, tmp_path, seconds=28.0) as webhook:
        until(lambda: webhook.is_known(lambda: sandbox.bind("would-be", dry=True)), "the webhook to be known")
        (late,) = slow_pods(sandbox, "late", 1, queue)
        until(lambda: webhook.asked, "the bind to be held up")
        sandbox.patch_queue(queue, stopPolicy=DRAIN).must()
        wait_for_drain(sandbox, queue, "Draining", evicted=1, left=0)
        webhook.let_go()
        wait_for_drain(sandbox, queue, "Draining", left=1, leaving=1)
        end_pods(sandbox, late)
        wait_for_drain(sandbox, queue, "Drained", evicted=2, left=0)
    sandbox.event(late, "Evicted", f'queue "{queue}" is stopped by stopPolicy HoldAndDrain')


def test_a_queue_that_moves_below_one_that_drains_is_drained_too(sandbox: Sandbox) -> None:
    """The parent had been drained, and is again when the pods of its new child are gone."""
    team, below = sandbox.queue("team"), sandbox.queue("below")
    pods = slow_pods(sandbox, "member", 1, below)
    wait_for_running(sandbox, 1)
    drain(sandbox, team)
    sandbox.patch_queue(below, parent=team).must()
    sandbox.queue_that(
        team, "be drained no more", lambda found: drained_reason(found) == ("False", "Draining")
    )
    until(lambda: leaving(sandbox), "its pod to be evicted")
    end_pods(sandbox, *pods)
    sandbox.queue_that(team, "be drained", lambda found: drained_reason(found) == ("True", "Drained"))
    wait_for_drain(sandbox, below, "Drained", evicted=1)


def test_a_replacement_says_soon_why_it_waits(sandbox: Sandbox, queue: str) -> None:
    """Evictions come first; those that they bring are told as soon as there are none left to be sent."""
    sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", queue, replicas=MANY)).must(201)
    before = wait_for_running(sandbox, MANY)
    drain(sandbox, queue)
    until(lambda: len(sandbox.waiting() - before) == MANY, "the replacements to wait")
    until(
        lambda: all(queue in why(pod) for pod in sandbox.read_pods().values()), "them to say why", seconds=20
    )


def test_a_pod_that_does_not_end_is_named_with_what_delays_it(sandbox: Sandbox, queue: str) -> None:
    """A finalizer, and a node that is gone; each is asked to go once."""
    lost = sandbox.named("node")
    body = node(NUMBER, now=datetime.now(UTC))
    body["metadata"]["name"] = lost  # no former run's: kube-controller-manager remembers nodes that are gone
    body["status"]["conditions"] = []  # kwok sets them; a pod that came before that, it might never start
    sandbox.create("/api/v1/nodes", body)
    until(lambda: _is_node_ready(sandbox, lost), "the node to be ready")
    for name, where in (("held", "node-0"), ("lost", lost)):
        sandbox.pod(name, queue, nodeName=where, finalizers=[SLOW]).must(201)
    wait_for_running(sandbox, 2)
    before = evicted_so_far(sandbox)
    sandbox.api.delete(f"/api/v1/nodes/{lost}").must()
    try:
        drain(sandbox, queue, "Blocked")
        named = {
            f"pod {sandbox.namespace}/held": f"it waits for its finalizers to be removed: {SLOW}",
            f"pod {sandbox.namespace}/lost": f"its node {lost} is gone",
        }
        sandbox.queue_that(queue, f"name {named}", lambda found: blockers(found) == named)
        assert counts(wait_for_drain(sandbox, queue, "Blocked", leaving=2)) == {
            "evicted": 2,
            "left": 2,
            "leaving": 2,
        }
    finally:
        remove_finalizers(sandbox, "held", "lost")
    wait_for_drain(sandbox, queue, "Drained", evicted=2)
    wait_for_none_running(sandbox)
    assert evicted_so_far(sandbox) - before == 2


def _is_node_ready(sandbox: Sandbox, name: str) -> bool:
    found = sandbox.api.get(f"/api/v1/nodes/{name}").must().body
    return condition(found, "Ready").get("status") == "True"


def blockers(queue: Object) -> dict[str, str]:
    """What is said of each, by its name."""
    return {each["name"]: each["message"] for each in queue["status"]["drain"]["blockers"]}
