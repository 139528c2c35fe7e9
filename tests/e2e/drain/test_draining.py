"""HoldAndDrain: what runs is evicted in order, within the budgets, and given back."""

from __future__ import annotations

import pytest

from tests.support.drain.draining import (
    DRAIN,
    HOLD,
    NONE,
    budget,
    counts,
    drain,
    drained_reason,
    running,
    wait_for_allowed,
    wait_for_drain,
    wait_for_none_running,
    wait_for_running,
)
from tests.support.e2e.calling import Object
from tests.support.e2e.stage import Stage
from tests.support.e2e.waiting_for import until
from tests.support.e2e.work import (
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    STATEFUL_SET,
    work_body,
)


@pytest.fixture
def queue(stage: Stage) -> str:
    return stage.queue()


def job(stage: Stage, name: str) -> Object:
    return stage.api.get(f"{JOB.path(stage.namespace)}/{name}").must().body


def test_bare_pods_are_evicted_and_the_queue_says_so(stage: Stage, queue: str) -> None:
    """Nothing of them is left; the condition and the counts tell."""
    stage.pods("member", 5, queue)
    wait_for_running(stage, 5)
    found = drain(stage, queue)
    assert running(stage) == set()
    assert drained_reason(found) == ("True", "Drained")
    assert counts(wait_for_drain(stage, queue, "Drained", evicted=5)) == {"evicted": 5}


def test_pods_of_no_queue_and_of_others_stay(stage: Stage, queue: str) -> None:
    other = stage.queue("other")
    stage.pods("member", 2, queue)
    stage.pods("stranger", 2)
    stage.pods("neighbour", 2, other)
    wait_for_running(stage, 6)
    drain(stage, queue)
    assert running(stage) == {"stranger-0", "stranger-1", "neighbour-0", "neighbour-1"}


def test_a_deployment_is_evicted_and_comes_back(stage: Stage, queue: str) -> None:
    """Its replacements wait at the gate until the queue is given back."""
    stage.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", queue, replicas=3)).must(201)
    before = wait_for_running(stage, 3)
    drain(stage, queue)
    wait_for_none_running(stage)
    until(lambda: len(stage.waiting() - before) == 3, "the replacements to wait")
    stage.edit(queue, stopPolicy=NONE)
    wait_for_running(stage, 3)
    assert drained_reason(stage.read_queue(queue)) == ("", "")


def test_a_job_is_suspended_and_resumed_as_it_was(stage: Stage, queue: str) -> None:
    """The same object, nothing of its spec lost, no pod of it counted as failed."""
    body = work_body(JOB, "train", queue, parallelism=3, completions=3, backoffLimit=0)
    stage.make(JOB, body).must(201)
    wait_for_running(stage, 3)
    before = job(stage, "train")
    drain(stage, queue)
    during = job(stage, "train")
    assert during["spec"]["suspend"] is True
    assert not during["status"].get("failed")
    assert running(stage) == set()
    stage.edit(queue, stopPolicy=NONE)
    wait_for_running(stage, 3)
    after = job(stage, "train")
    assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], before["spec"])
    assert after["metadata"].get("annotations") == before["metadata"].get("annotations")
    assert not after["status"].get("failed")


def test_a_job_that_its_user_had_suspended_stays_so(stage: Stage, queue: str) -> None:
    stage.make(JOB, work_body(JOB, "later", queue, suspend=True)).must(201)
    stage.make(JOB, work_body(JOB, "now", queue)).must(201)
    wait_for_running(stage, 1)
    drain(stage, queue)
    stage.edit(queue, stopPolicy=NONE)
    wait_for_running(stage, 1, "now")
    assert job(stage, "later")["spec"]["suspend"] is True


def test_a_budget_that_allows_is_used_up_and_no_further(stage: Stage, queue: str) -> None:
    """One of three may go; the other two stay, and who keeps them is named at once, with the way out."""
    stage.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", queue, replicas=3)).must(201)
    wait_for_running(stage, 3)
    wait_for_allowed(stage, budget(stage, "web", {"app": "web"}, minAvailable=2), 1)
    found = drain(stage, queue, "Blocked")
    assert len(running(stage)) == 2
    found = wait_for_drain(stage, queue, "Blocked", evicted=1, left=2, blocked=2)
    (blocker,) = found["status"]["drain"]["blockers"]
    assert (blocker["name"], blocker["pods"], blocker["never"]) == (
        f"PodDisruptionBudget {stage.namespace}/web",
        2,
        True,
    )
    assert "afterDeadline" in blocker["message"]


def test_a_drain_stops_at_once_when_the_policy_is_none(stage: Stage, queue: str) -> None:
    """At one eviction a second, most are still there when the queue is only held."""
    stage.pods("member", 20, queue)
    wait_for_running(stage, 20)
    stage.patch_queue(queue, stopPolicy=DRAIN, drain={"rate": 2}).must()
    until(lambda: len(running(stage)) < 20, "the first to go", share=0)
    stage.edit(queue, stopPolicy=HOLD)
    left = running(stage)
    assert left
    stage.pods("stranger", 5)
    stage.all_bound([f"stranger-{number}" for number in range(5)])
    assert running(stage, "member") == left
    stage.edit(queue, stopPolicy=NONE)


def test_pods_that_stay_by_rule_are_counted(stage: Stage, queue: str) -> None:
    """DaemonSet, system-critical and kept pods; bare ones where they are to be."""
    stage.make(DAEMON_SET, work_body(DAEMON_SET, "agent", queue)).must(201)
    stage.pod("kept", queue, labels={"tier": "gold"}).must(201)
    stage.pod("bare", queue).must(201)
    stage.make(STATEFUL_SET, work_body(STATEFUL_SET, "db", queue, replicas=1)).must(201)
    nodes = len(stage.api.get("/api/v1/nodes").must().body["items"])
    wait_for_running(stage, nodes + 3)
    keep = {"matchLabels": {"tier": "gold"}}
    drain(stage, queue, drain={"barePods": "Keep", "keep": keep})
    found = wait_for_drain(stage, queue, "Drained", kept=nodes + 2)
    assert counts(found) == {"kept": nodes + 2, "evicted": 1}
    assert running(stage) >= {"kept", "bare"}
    assert not any(name.startswith("db") for name in running(stage))


def test_a_budget_whose_status_cannot_be_computed_is_named_with_the_reason(stage: Stage, queue: str) -> None:
    """`maxUnavailable` over the pods of a Job: nothing ever comes of it."""
    stage.make(JOB, work_body(JOB, "train", queue)).must(201)
    wait_for_running(stage, 1)
    budget(stage, "train", {"app": "train"}, maxUnavailable=1)
    found = drain(stage, queue, "Blocked")
    found = stage.queue_that(queue, "tell why", lambda found: "scale" in str(found["status"]["drain"]))
    (blocker,) = found["status"]["drain"]["blockers"]
    assert blocker["never"]
    assert not job(stage, "train")["spec"].get("suspend")
