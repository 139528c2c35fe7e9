"""A resume puts every parked pod back into the scheduler's hands."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.support.drain.draining import priorities
from tests.support.e2e.objects import suspended_text
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.ungating_order import assert_ungated_in_order, pods_version
from tests.support.e2e.wait import until

PODS = 20


def test_a_resume_lets_gated_and_refused_pods_go(sandbox: Sandbox) -> None:
    """Pods from before the stop, which filter refused, and pods from after it, which bear the gate."""
    queue = sandbox.queue()
    refused = sandbox.pods("refused", PODS, queue, gated=True)
    sandbox.suspend(queue)
    sandbox.ungate(refused)
    gated = sandbox.pods("gated", PODS, queue)
    for name in refused:
        sandbox.reason_on(name, suspended_text(queue))
    resumed = datetime.now(UTC)
    sandbox.patch_queue(queue, state="Open").must()
    sandbox.all_bound([*gated, *refused])
    for kind in ("gated", "refused"):
        waits = sorted(
            (bind.answered - resumed).total_seconds()
            for bind in sandbox.binds()
            if bind.bound and bind.pod.startswith(kind)
        )
        print(f"{PODS} {kind} pods after a resume: first {waits[0]:.3f} s, last {waits[-1]:.3f} s")


def test_a_gated_pod_is_let_go_by_one_write(sandbox: Sandbox) -> None:
    """That its condition still says why it waited does not make it one that filter refused."""
    queue = sandbox.queue()
    sandbox.suspend(queue)
    sandbox.pods("gated", PODS, queue)
    for number in range(PODS):
        sandbox.reason_on(f"gated-{number}", suspended_text(queue))
    retried, ungated = (sandbox.counted(written(what)) for what in ("retry", "ungate"))
    sandbox.edit(queue, state="Open")
    sandbox.all_bound([f"gated-{number}" for number in range(PODS)])
    # A write is counted after it, and so perhaps after the bind.
    until(lambda: sandbox.counted(written("ungate")) - ungated >= PODS, "each write to be counted")
    assert sandbox.counted(written("ungate")) - ungated == PODS
    assert sandbox.counted(written("retry")) == retried


def test_refused_pods_are_let_go_by_one_event(sandbox: Sandbox) -> None:
    """None of them is written to: kube-scheduler retries all that an extender refused."""
    queue = sandbox.queue()
    refused = sandbox.pods("refused", PODS, queue, gated=True)
    sandbox.suspend(queue)
    sandbox.ungate(refused)
    for name in refused:
        sandbox.reason_on(name, suspended_text(queue))
    sandbox.pods("last", 1, queue)
    sandbox.reason_on("last-0", suspended_text(queue))  # the server knows all that was written before it
    retried, events = (sandbox.counted(written(what)) for what in ("retry", "retry_all"))
    sandbox.edit(queue, state="Open")
    sandbox.all_bound(refused)
    until(lambda: sandbox.counted(written("retry_all")) > events, "the event to be counted")
    assert sandbox.counted(written("retry")) == retried
    assert sandbox.counted(written("retry_all")) == events + 1


def written(what: str) -> str:
    return rf'sluice_writes_total{{outcome="done",what="{what}"}}'


def test_the_pods_of_highest_priority_go_first(sandbox: Sandbox) -> None:
    """Parked pods are let go by priority, then age."""
    queue = sandbox.queue()
    classes = priorities(sandbox, high=1000)
    sandbox.suspend(queue)
    low = sandbox.pods("low", PODS, queue)
    high = sandbox.pods("high", PODS // 5, queue, priorityClassName=classes["high"])
    for name in high:
        sandbox.reason_on(name, "Suspended")  # the server knows of it
    since = pods_version(sandbox)
    sandbox.edit(queue, state="Open")
    assert_ungated_in_order(sandbox, since, high, low)
