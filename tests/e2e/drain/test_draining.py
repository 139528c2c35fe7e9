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
    end_pods,
    leaving,
    running,
    slow_pods,
    wait_for_allowed,
    wait_for_drain,
    wait_for_none_running,
    wait_for_running,
)
from tests.support.e2e.api_requests import Object
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import (
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    STATEFUL_SET,
    work_body,
)


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    return sandbox.queue()


def job(sandbox: Sandbox, name: str) -> Object:
    return sandbox.api.get(f"{JOB.path(sandbox.namespace)}/{name}").must().body


def test_bare_pods_are_evicted_and_the_queue_says_so(sandbox: Sandbox, queue: str) -> None:
    """Nothing of them is left; the condition and the counts tell."""
    sandbox.pods("member", 5, queue)
    wait_for_running(sandbox, 5)
    found = drain(sandbox, queue)
    assert running(sandbox) == set()
    assert drained_reason(found) == ("True", "Drained")
    assert counts(wait_for_drain(sandbox, queue, "Drained", evicted=5)) == {"evicted": 5}


def test_pods_of_no_queue_and_of_others_stay(sandbox: Sandbox, queue: str) -> None:
    other = sandbox.queue("other")
    sandbox.pods("member", 2, queue)
    sandbox.pods("stranger", 2)
    sandbox.pods("neighbour", 2, other)
    wait_for_running(sandbox, 6)
    drain(sandbox, queue)
    assert running(sandbox) == {"stranger-0", "stranger-1", "neighbour-0", "neighbour-1"}


def test_a_deployment_is_evicted_and_comes_back(sandbox: Sandbox, queue: str) -> None:
    """Its replacements wait at the gate until the queue is given back."""
    sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", queue, replicas=3)).must(201)
    before = wait_for_running(sandbox, 3)
    drain(sandbox, queue)
    wait_for_none_running(sandbox)
    until(lambda: len(sandbox.waiting() - before) == 3, "the replacements to wait")
    sandbox.edit(queue, stopPolicy=NONE)
    wait_for_running(sandbox, 3)
    assert drained_reason(sandbox.read_queue(queue)) == ("", "")


def test_a_job_is_suspended_and_resumed_as_it_was(sandbox: Sandbox, queue: str) -> None:
    """The same object, nothing of its spec lost, no pod of it counted as failed."""
    body = work_body(JOB, "train", queue, parallelism=3, completions=3, backoffLimit=0)
    sandbox.make(JOB, body).must(201)
    wait_for_running(sandbox, 3)
    before = job(sandbox, "train")
    drain(sandbox, queue)
    during = job(sandbox, "train")
    assert during["spec"]["suspend"] is True
    assert not during["status"].get("failed")
    assert running(sandbox) == set()
    sandbox.edit(queue, stopPolicy=NONE)
    wait_for_running(sandbox, 3)
    after = job(sandbox, "train")
    assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], before["spec"])
    assert after["metadata"].get("annotations") == before["metadata"].get("annotations")
    assert not after["status"].get("failed")


def test_a_job_that_its_user_had_suspended_stays_so(sandbox: Sandbox, queue: str) -> None:
    sandbox.make(JOB, work_body(JOB, "later", queue, suspend=True)).must(201)
    sandbox.make(JOB, work_body(JOB, "now", queue)).must(201)
    wait_for_running(sandbox, 1)
    drain(sandbox, queue)
    sandbox.edit(queue, stopPolicy=NONE)
    wait_for_running(sandbox, 1, "now")
    assert job(sandbox, "later")["spec"]["suspend"] is True


def test_a_budget_that_allows_is_used_up_and_no_further(sandbox: Sandbox, queue: str) -> None:
    """One of three may go; the other two stay, and who keeps them is named at once, with the way out."""
    sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", queue, replicas=3)).must(201)
    wait_for_running(sandbox, 3)
    wait_for_allowed(sandbox, budget(sandbox, "web", {"app": "web"}, minAvailable=2), 1)
    found = drain(sandbox, queue, "Blocked")
    assert len(running(sandbox)) == 2
    found = wait_for_drain(sandbox, queue, "Blocked", evicted=1, left=2, blocked=2)
    (blocker,) = found["status"]["drain"]["blockers"]
    assert (blocker["name"], blocker["pods"], blocker["never"]) == (
        f"PodDisruptionBudget {sandbox.namespace}/web",
        2,
        True,
    )
    assert "afterDeadline" in blocker["message"]


def test_a_drain_stops_at_once_when_the_policy_is_none(sandbox: Sandbox, queue: str) -> None:
    """One pod goes at a time. Once the queue is only held, the end of the first brings on no second."""
    slow_pods(sandbox, "member", 5, queue)
    wait_for_running(sandbox, 5)
    sandbox.patch_queue(queue, stopPolicy=DRAIN, drain={"inFlight": 1}).must()
    first = until(lambda: leaving(sandbox), "the first to go")
    sandbox.edit(queue, stopPolicy=HOLD)
    end_pods(sandbox, *first)
    left = running(sandbox)
    assert len(left) == 4
    sandbox.pods("stranger", 5)
    sandbox.all_bound([f"stranger-{number}" for number in range(5)])
    assert running(sandbox, "member") == left
    sandbox.edit(queue, stopPolicy=NONE)


def test_pods_that_stay_by_rule_are_counted(sandbox: Sandbox, queue: str) -> None:
    """DaemonSet, system-critical and kept pods; bare ones where they are to be."""
    sandbox.make(DAEMON_SET, work_body(DAEMON_SET, "agent", queue)).must(201)
    sandbox.pod("kept", queue, labels={"tier": "gold"}).must(201)
    sandbox.pod("bare", queue).must(201)
    sandbox.make(STATEFUL_SET, work_body(STATEFUL_SET, "db", queue, replicas=1)).must(201)
    nodes = len(sandbox.api.get("/api/v1/nodes").must().body["items"])
    wait_for_running(sandbox, nodes + 3)
    keep = {"matchLabels": {"tier": "gold"}}
    drain(sandbox, queue, drain={"barePods": "Keep", "keep": keep})
    found = wait_for_drain(sandbox, queue, "Drained", kept=nodes + 2, evicted=1)
    assert counts(found) == {"kept": nodes + 2, "evicted": 1}
    assert running(sandbox) >= {"kept", "bare"}
    assert not any(name.startswith("db") for name in running(sandbox))


def test_a_budget_whose_status_cannot_be_computed_is_named_with_the_reason(
    sandbox: Sandbox, queue: str
) -> None:
    """`maxUnavailable` over the pods of a Job: nothing ever comes of it."""
    sandbox.make(JOB, work_body(JOB, "train", queue)).must(201)
    wait_for_running(sandbox, 1)
    budget(sandbox, "train", {"app": "train"}, maxUnavailable=1)
    found = drain(sandbox, queue, "Blocked")
    found = sandbox.queue_that(queue, "tell why", lambda found: "scale" in str(found["status"]["drain"]))
    (blocker,) = found["status"]["drain"]["blockers"]
    assert blocker["never"]
    assert not job(sandbox, "train")["spec"].get("suspend")
