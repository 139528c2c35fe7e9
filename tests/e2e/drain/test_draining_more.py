"""Draining: who else goes, in which order and how many at a time; who comes late; who does not leave."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from localcluster.nodes import node
from tests.support.drain.draining import (
    DRAIN,
    HOLD,
    NONE,
    SLOW,
    counts,
    drain,
    drained_reason,
    evicted_so_far,
    leaving,
    priorities,
    remove_finalizers,
    running,
    wait_for_drain,
    wait_for_none_running,
    wait_for_running,
)
from tests.support.e2e.calling import Object, watched
from tests.support.e2e.shapes import why
from tests.support.e2e.stage import Stage
from tests.support.e2e.waiting_for import until
from tests.support.e2e.work import (
    DEPLOYMENT,
    JOB,
    STATEFUL_SET,
    work_body,
)
from tests.support.faults.slow_webhook import SlowWebhook

SUSPENDED = "sluice.dev/suspended"
#: More than the server evicts before it hears of the next change; and how many it evicts at a time.
MANY, UNDER_WAY = 60, 8
#: Of a node that the test makes and takes away.
NUMBER = 900


@pytest.fixture
def queue(stage: Stage) -> str:
    return stage.queue()


def job(stage: Stage, name: str = "train") -> Object:
    return stage.api.get(f"{JOB.path(stage.namespace)}/{name}").must().body


# Who goes


def test_a_stateful_set_is_evicted_and_comes_back(stage: Stage, queue: str) -> None:
    """Pods of the same names wait at the gate, and are not evicted again; given back, they run."""
    body = work_body(STATEFUL_SET, "db", queue, replicas=2, podManagementPolicy="Parallel")
    stage.make(STATEFUL_SET, body).must(201)
    names = wait_for_running(stage, 2)
    drain(stage, queue)
    until(lambda: stage.waiting() == names, "its pods to wait")
    assert counts(wait_for_drain(stage, queue, "Drained", evicted=2)) == {"evicted": 2}
    stage.edit(queue, stopPolicy=NONE)
    assert wait_for_running(stage, 2) == names


def test_a_pod_with_another_scheduler_is_drained_too(stage: Stage, queue: str) -> None:
    """A pod that was made on its node, and one that another scheduler has bound."""
    stage.pod("placed", queue, nodeName="node-0").must(201)
    stage.pod("foreign", queue, schedulerName="somebody-else").must(201)
    stage.bind("foreign").must(201)
    wait_for_running(stage, 2)
    drain(stage, queue)
    assert counts(wait_for_drain(stage, queue, "Drained", evicted=2)) == {"evicted": 2}


def test_the_settings_of_the_nearest_draining_queue_count(stage: Stage) -> None:
    """A child drains with its own settings; once it is only held, its parent's drain and settings count."""
    team = stage.queue("team")
    below, beside = stage.queue("below", parent=team), stage.queue("beside", parent=team)
    for queue in (below, beside):
        stage.pods(queue.rpartition("-")[2], 2, queue)
    wait_for_running(stage, 4)
    stage.edit(team, stopPolicy=HOLD)
    drain(stage, below, drain={"barePods": "Keep"})
    assert counts(wait_for_drain(stage, below, "Drained", kept=2)) == {"kept": 2}
    drain(stage, team)
    assert running(stage) == {"below-0", "below-1"}
    assert drained_reason(wait_for_drain(stage, beside, "Drained", evicted=2)) == ("True", "Drained")
    stage.edit(below, stopPolicy=HOLD)
    wait_for_drain(stage, below, "Drained", evicted=2)
    assert running(stage) == set()


def test_a_suspended_job_stays_so_while_its_queue_is_only_held(stage: Stage, queue: str) -> None:
    """From Hold to HoldAndDrain and back: the Job is given back by None, not by Hold."""
    stage.make(JOB, work_body(JOB, "train", queue)).must(201)
    wait_for_running(stage, 1)
    stage.edit(queue, stopPolicy=HOLD)
    assert len(running(stage)) == 1
    drain(stage, queue)
    assert drained_reason(stage.edit(queue, stopPolicy=HOLD)) == ("", "")
    assert job(stage)["spec"]["suspend"] is True
    stage.edit(queue, stopPolicy=NONE)
    wait_for_running(stage, 1)


def test_a_job_that_its_user_resumes_meanwhile_waits_at_the_gate(stage: Stage, queue: str) -> None:
    """Nothing of it runs before its queue is given back, and no mark of ours is left on it then."""
    stage.make(JOB, work_body(JOB, "train", queue)).must(201)
    wait_for_running(stage, 1)
    drain(stage, queue)
    path = f"{JOB.path(stage.namespace)}/train"
    stage.api.patch(path, {"spec": {"suspend": False}}).must()
    until(stage.waiting, "its pod to wait")
    assert drained_reason(wait_for_drain(stage, queue, "Drained", suspended=1)) == ("True", "Drained")
    assert running(stage) == set()
    stage.edit(queue, stopPolicy=NONE)
    wait_for_running(stage, 1)
    until(lambda: SUSPENDED not in job(stage)["metadata"].get("annotations", {}), "the mark to be taken off")
    assert job(stage)["spec"]["suspend"] is False


# In which order, and how many at a time


def test_the_lowest_priority_goes_first_and_then_the_youngest(stage: Stage, queue: str) -> None:
    """One after the other, no faster than the rate."""
    classes = priorities(stage, low=10, middle=20, high=30)
    stage.pod("low-old", queue, **slowly(classes["low"])).must(201)
    born = stage.read_pod("low-old")["metadata"]["creationTimestamp"]
    for name in ("high", "middle"):
        stage.pod(name, queue, **slowly(classes[name])).must(201)
    until(lambda: created_now(stage) > born, "the next second")
    stage.pod("low-young", queue, **slowly(classes["low"])).must(201)
    wait_for_running(stage, 4)
    since = stage.api.get(stage.pods_path).must().body["metadata"]["resourceVersion"]
    began = time.monotonic()
    stage.patch_queue(queue, stopPolicy=DRAIN, drain={"rate": 2, "inFlight": 1}).must()
    assert order_of_leaving(stage, since, number=4) == ["low-young", "low-old", "middle", "high"]
    assert time.monotonic() - began >= 1.0
    wait_for_drain(stage, queue, "Drained", evicted=4)


def slowly(priority: str) -> Object:
    """A pod of that class whose going is seen: it has a second to end."""
    return {"priorityClassName": priority, "terminationGracePeriodSeconds": 1}


def created_now(stage: Stage) -> str:
    """The API server's time, as it would be written on a pod."""
    return str(stage.pod("would-be", dry=True).must(201).body["metadata"]["creationTimestamp"])


def order_of_leaving(stage: Stage, since: str, *, number: int) -> list[str]:
    """The names of the first pods that were sent off since then."""
    found: list[str] = []
    states = watched(stage.cluster, stage.pods_path, since=since)
    while len(found) < number:
        meta = next(states)["metadata"]
        if "deletionTimestamp" in meta and meta["name"] not in found:
            found.append(meta["name"])
    states.close()
    return found


def test_no_more_pods_are_in_flight_than_the_limit(stage: Stage, queue: str) -> None:
    """Pods that are slow to leave keep the others waiting; one that has left lets one go."""
    pods = stage.pods("member", 5, queue, finalizers=[SLOW])
    wait_for_running(stage, 5)
    try:
        stage.patch_queue(queue, stopPolicy=DRAIN, drain={"inFlight": 2}).must()
        for gone in range(4):
            wait_for_drain(stage, queue, "Draining", left=5 - gone, leaving=2)
            on_their_way = leaving(stage)
            assert len(on_their_way) == 2
            remove_finalizers(stage, min(on_their_way))
    finally:
        remove_finalizers(stage, *pods)
    wait_for_drain(stage, queue, "Drained", evicted=5)


def test_no_eviction_is_sent_once_the_queue_is_only_held(stage: Stage, queue: str) -> None:
    """Without a limit all are to go at once; but for the requests that are under way, who is there stays."""
    stage.pods("member", MANY, queue)
    wait_for_running(stage, MANY)
    before = evicted_so_far(stage)
    stage.patch_queue(queue, stopPolicy=DRAIN).must()
    until(lambda: evicted_so_far(stage) > before, "the first to go", share=0)
    stage.edit(queue, stopPolicy=HOLD)
    left = running(stage)
    assert len(left) > 2 * UNDER_WAY, "the Hold came too late to show anything"
    stage.pods("stranger", 5)
    wait_for_running(stage, 5, "stranger")
    assert len(left - running(stage, "member")) <= UNDER_WAY


# Who comes late, and who does not leave


def test_a_pod_whose_bind_lands_late_is_drained_too(stage: Stage, queue: str, tmp_path: Path) -> None:
    """It was let through before the stop: the queue is not told as drained before it has come, and gone."""
    stage.pod("early", queue).must(201)
    wait_for_running(stage, 1)
    with SlowWebhook(stage, tmp_path, seconds=15.0) as webhook:
        until(lambda: stage.bind("would-be", dry=True) and webhook.seen, "the webhook to be known")
        stage.pod("late", queue, finalizers=[SLOW]).must(201)
        until(lambda: webhook.asked, "the bind to be held up")
        stage.patch_queue(queue, stopPolicy=DRAIN).must()
        wait_for_drain(stage, queue, "Draining", evicted=1, left=0)
        webhook.let_go()
        wait_for_drain(stage, queue, "Draining", left=1, leaving=1)
        remove_finalizers(stage, "late")
        wait_for_drain(stage, queue, "Drained", evicted=2, left=0)
    stage.event("late", "Evicted", f'queue "{queue}" is stopped by stopPolicy HoldAndDrain')


def test_a_queue_that_moves_below_one_that_drains_is_drained_too(stage: Stage) -> None:
    """The parent had been drained, and is again when the pods of its new child are gone."""
    team, below = stage.queue("team"), stage.queue("below")
    stage.pod("member", below, finalizers=[SLOW]).must(201)
    wait_for_running(stage, 1)
    drain(stage, team)
    stage.patch_queue(below, parent=team).must()
    try:
        stage.queue_that(
            team, "be drained no more", lambda found: drained_reason(found) == ("False", "Draining")
        )
    finally:
        remove_finalizers(stage, "member")
    stage.queue_that(team, "be drained", lambda found: drained_reason(found) == ("True", "Drained"))
    wait_for_drain(stage, below, "Drained", evicted=1)


def test_a_replacement_says_soon_why_it_waits(stage: Stage, queue: str) -> None:
    """Evictions come first; those that they bring are told as soon as there are none left to be sent."""
    stage.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", queue, replicas=MANY)).must(201)
    before = wait_for_running(stage, MANY)
    drain(stage, queue)
    until(lambda: len(stage.waiting() - before) == MANY, "the replacements to wait")
    until(lambda: all(queue in why(pod) for pod in stage.read_pods().values()), "them to say why", seconds=20)


def test_a_pod_that_does_not_end_is_named_with_what_delays_it(stage: Stage, queue: str) -> None:
    """A finalizer, and a node that is gone; each is asked to go once."""
    lost = stage.named("node")
    body = node(NUMBER, now=datetime.now(UTC))
    body["metadata"]["name"] = lost  # no former run's: kube-controller-manager remembers nodes that are gone
    stage.create("/api/v1/nodes", body)
    for name, where in (("held", "node-0"), ("lost", lost)):
        stage.pod(name, queue, nodeName=where, finalizers=[SLOW]).must(201)
    wait_for_running(stage, 2)
    before = evicted_so_far(stage)
    stage.api.delete(f"/api/v1/nodes/{lost}").must()
    try:
        drain(stage, queue, "Blocked")
        named = {
            f"pod {stage.namespace}/held": f"it waits for its finalizers to be removed: {SLOW}",
            f"pod {stage.namespace}/lost": f"its node {lost} is gone",
        }
        stage.queue_that(queue, f"name {named}", lambda found: blockers(found) == named)
        assert counts(wait_for_drain(stage, queue, "Blocked", leaving=2)) == {
            "evicted": 2,
            "left": 2,
            "leaving": 2,
        }
    finally:
        remove_finalizers(stage, "held", "lost")
    wait_for_drain(stage, queue, "Drained", evicted=2)
    wait_for_none_running(stage)
    assert evicted_so_far(stage) - before == 2


def blockers(queue: Object) -> dict[str, str]:
    """What is said of each, by its name."""
    return {each["name"]: each["message"] for each in queue["status"]["drain"]["blockers"]}
