"""Pods of a suspended queue wait, and their conditions, events and warnings say why."""

from __future__ import annotations

import json

import pytest

from tests.support.e2e.objects import (
    GATE,
    gates,
    on_a_node,
    pod_body,
    suspended_text,
)
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled, until

EARLY = 5


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    return sandbox.queue()


def test_a_pod_of_a_suspended_queue_is_taken_with_a_warning_and_gated(sandbox: Sandbox, queue: str) -> None:
    """It exists, it waits, and its author was told so at once."""
    sandbox.suspend(queue)
    taken = sandbox.pod("late", queue).must(201)
    assert taken.warnings == (f'queue "{queue}" is Suspended: this waits; an admin of queues can resume it',)
    assert gates(taken.body) == [GATE]


def test_kubectl_prints_the_warning(sandbox: Sandbox, queue: str) -> None:
    """A user who applies a manifest reads it in the terminal."""
    sandbox.suspend(queue)
    done = sandbox.kubectl("create", "-f", "-", given=json.dumps(pod_body("late", queue)))
    assert done.returncode == 0
    assert (
        f'Warning: queue "{queue}" is Suspended: this waits; an admin of queues can resume it' in done.stderr
    )


def test_kubectl_describe_says_why_a_gated_pod_waits(sandbox: Sandbox, queue: str) -> None:
    """The queue, the cause, the reason that its user gave, and the way out."""
    sandbox.suspend(queue, reason="quotas change")
    sandbox.pod("late", queue).must(201)
    text = suspended_text(queue, reason="quotas change")
    until(lambda: text in sandbox.kubectl("describe", "pod", "late").stdout, "kubectl describe to say why")


def test_the_condition_of_a_gated_pod_says_why_it_waits(sandbox: Sandbox, queue: str) -> None:
    """Where the API server itself would say only that there are gates."""
    sandbox.suspend(queue)
    sandbox.pod("late", queue).must(201)
    sandbox.reason_on("late", suspended_text(queue))


def test_pods_that_were_pending_before_are_refused_by_filter_and_say_why(
    sandbox: Sandbox, queue: str
) -> None:
    """They bear no gate of ours; condition and event of kube-scheduler have the queue's text."""
    names = pending_before(sandbox, queue)
    sandbox.ungate(names)
    for name in names:
        assert gates(sandbox.reason_on(name, suspended_text(queue))) == []
        sandbox.event(name, "FailedScheduling", suspended_text(queue))


def test_a_refused_pod_is_tried_no_more_than_three_times(sandbox: Sandbox, queue: str) -> None:
    """In a quiet cluster it then rests: the text is constant, so its own condition does not wake it."""
    names = pending_before(sandbox, queue)
    before = sandbox.calls("/extender/filter")
    sandbox.ungate(names)
    for name in names:
        sandbox.reason_on(name, suspended_text(queue))
    tries = settled(lambda: sandbox.calls("/extender/filter"), "the calls of filter") - before
    assert EARLY <= tries <= 3 * EARLY


def pending_before(sandbox: Sandbox, queue: str) -> list[str]:
    """Pods that were there, kept back by the test's own gate, when their queue was suspended."""
    names = sandbox.pods("early", EARLY, queue, gated=True)
    sandbox.suspend(queue)
    return names


def test_pods_that_run_go_on_while_their_queue_is_suspended(sandbox: Sandbox, queue: str) -> None:
    """A suspension stops scheduling, nothing else."""
    names = sandbox.pods("running", 2, queue)
    sandbox.all_bound(names)
    sandbox.suspend(queue)
    assert {name for name, pod in sandbox.read_pods().items() if on_a_node(pod)} == set(names)


def test_the_queue_counts_its_parked_pods(sandbox: Sandbox, queue: str) -> None:
    """`status.pods` tells those that the stop keeps from those that run."""
    sandbox.all_bound(sandbox.pods("running", 1, queue))
    sandbox.suspend(queue)
    sandbox.pods("late", 2, queue)
    counts = sandbox.queue_that(
        queue, "count two parked pods", lambda found: found["status"].get("pods", {}).get("parked") == 2
    )["status"]["pods"]
    assert counts["running"] == 1
