"""Mode `gate`: nothing of ours in the scheduling path; gates at creation, and the guard on binds."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from queues.mode import Mode
from tests.e2e.acknowledgement.test_stop_in_mid_flow import run_rounds
from tests.e2e.stops.test_recreating_parked_pods import all_gated, pending_before
from tests.support.e2e.modes import (
    alive,
    fill_nodes,
    make_room,
    mode_of,
    pending_before_a_stop,
    wait_for_room,
)
from tests.support.e2e.objects import GATE, condition, gates, suspended_text
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled, until
from tests.support.e2e.workloads import DEPLOYMENT
from tests.support.faults.slow_webhook import SlowWebhook

pytestmark = pytest.mark.long

#: Of `configured_cluster`.
CLUSTER = {"mode": Mode.GATE}


def test_a_member_is_as_its_user_wrote_it_and_gated_while_its_queue_is_stopped(sandbox: Sandbox) -> None:
    queue = sandbox.queue()
    sandbox.pod("before", queue).must(201)
    sandbox.all_bound(["before"])
    sandbox.suspend(queue)
    sandbox.pod("after", queue).must(201)
    assert [mode_of(sandbox.read_pod(name)) for name in ("before", "after")] == [Mode.GATE] * 2
    assert gates(sandbox.read_pod("after")) == [GATE]
    sandbox.edit(queue, state="Open")
    sandbox.all_bound(["after"])
    assert sandbox.calls("/extender/filter") == 0


def test_stops_in_mid_flow_let_no_pod_through(sandbox: Sandbox) -> None:
    assert run_rounds(sandbox, sandbox.queue(), 2) == [[]] * 2


def test_a_release_that_lands_after_a_stop_lets_no_pod_through(sandbox: Sandbox, tmp_path: Path) -> None:
    """Nothing but the guard would keep the pod from its node, once it has no gate. It is on before the stop
    is acknowledged, so that need not wait for the release; and the pod says why it waits: that voids it."""
    queue = sandbox.queue(capability={"pods": "1"})
    sandbox.pods("work", 2, queue)
    until(lambda: len(sandbox.bound(["work-0", "work-1"])) == 1, "the first to run")
    [first] = sandbox.bound(["work-0", "work-1"])
    [second] = {"work-0", "work-1"} - {first}
    note = {"metadata": {"labels": {"tests.sluice.dev/note": "x"}}}
    with SlowWebhook(sandbox, tmp_path, seconds=60, resources=["pods"], operations=["UPDATE"]) as slow:
        path = f"{sandbox.pods_path}/{second}?dryRun=All"
        until(lambda: slow.is_known(lambda: sandbox.api.patch(path, note)), "the webhook to be known")
        sandbox.api.delete(f"{sandbox.pods_path}/{first}").must(200)
        until(lambda: slow.held, "the release to be under way")
        sandbox.suspend(queue)
        assert slow.held
        assert is_guarded(sandbox)
        slow.let_go()
        until(lambda: not slow.held, "the release to be over")
    sandbox.reason_on(second, suspended_text(queue))
    assert settled(lambda: sandbox.bound([second]), "the pod", seconds=1.0) == set()
    sandbox.edit(queue, state="Open")
    sandbox.all_bound([second])


def test_binds_of_pods_that_were_pending_before_a_stop_are_refused(sandbox: Sandbox) -> None:
    """kube-scheduler tries each again and again; the pods say why, and go once the queue is resumed."""
    queue = sandbox.queue()
    pending = wait_for_room(sandbox, "pending", 5, queue)
    sandbox.suspend(queue)
    make_room(sandbox)
    for name in pending:
        sandbox.reason_on(name, suspended_text(queue))
    assert refused_binds(sandbox) == set(pending)
    assert sandbox.bound(pending) == set()
    sandbox.edit(queue, state="Open")
    sandbox.all_bound(pending)


def test_a_replica_that_does_not_answer_lets_no_bind_past_a_stop(sandbox: Sandbox) -> None:
    """It is called, and hangs: binds are refused in the guarded namespace, those of no queue too, and nowhere
    else. Once it answers, pods of no queue are bound, and those of the stopped queue are not."""
    queue = sandbox.queue()
    pending = wait_for_room(sandbox, "pending", 2, queue)
    sandbox.suspend(queue)
    elsewhere = Sandbox(sandbox.cluster)
    sandbox.cluster.signal_component("server", signal.SIGSTOP)
    try:
        others = sandbox.pods("other", 1)
        make_room(sandbox)
        until(lambda: unanswered_binds(sandbox) >= {*pending, *others}, "binds that nobody answers for")
        elsewhere.all_bound(elsewhere.pods("other", 1))
        assert sandbox.bound([*pending, *others]) == set()
    finally:
        sandbox.cluster.signal_component("server", signal.SIGCONT)
    sandbox.all_bound(others)
    for name in pending:
        sandbox.reason_on(name, suspended_text(queue))
    assert sandbox.bound(pending) == set()
    sandbox.edit(queue, state="Open")
    sandbox.all_bound(pending)
    elsewhere.leave()
    elsewhere.close()


def is_guarded(sandbox: Sandbox) -> bool:
    namespace = sandbox.api.get(f"/api/v1/namespaces/{sandbox.namespace}").must(200).body
    return "sluice.dev/guard" in namespace["metadata"]["labels"]


def refused_binds(sandbox: Sandbox) -> set[str]:
    """The pods whose bind the guard refused."""
    return {bind.pod for bind in sandbox.binds() if not bind.dry_run and bind.code == 403}


def unanswered_binds(sandbox: Sandbox) -> set[str]:
    """The pods whose bind was refused because the guard could not be called."""
    return {bind.pod for bind in sandbox.binds() if not bind.dry_run and bind.code == 500}


def test_with_parked_recreate_pods_whose_bind_was_refused_come_back_gated(sandbox: Sandbox) -> None:
    queue = sandbox.queue(parked="Recreate")
    before = pending_before(sandbox, DEPLOYMENT, queue)
    after = {pod["metadata"]["uid"] for pod in all_gated(sandbox).values()}
    assert not before & after
    sandbox.edit(queue, state="Open")
    sandbox.ungate(sandbox.read_pods())
    sandbox.all_bound(sandbox.read_pods())


def test_a_pod_that_was_pending_before_a_stop_may_evict_others(sandbox: Sandbox) -> None:
    """What docs/concepts/modes.md says is weaker in this mode: nobody asks us about victims."""
    important = pending_before_a_stop(sandbox, sandbox.queue())
    victims = fill_nodes(sandbox)
    sandbox.ungate([important])
    until(lambda: alive(sandbox, victims) != victims, "a victim")
    assert sandbox.bound([important]) == set()


def test_pods_that_pend_since_before_a_capability_are_bound_as_it_has_room(sandbox: Sandbox) -> None:
    """The guard alone refuses the others, again and again."""
    queue = sandbox.queue()
    pending = wait_for_room(sandbox, "pending", 4, queue)
    sandbox.edit(queue, capability={"pods": "1"})
    # Before that, binds may be under way that the guard was not asked about.
    sandbox.queue_that(
        queue, "hold its capability", lambda read: condition(read, "QuotaEnforced").get("status") == "True"
    )
    make_room(sandbox)
    until(lambda: len(sandbox.bound(pending)) == 1, "one pod to be bound")
    left = {*pending} - sandbox.bound(pending)
    for name in left:
        sandbox.reason_on(name, f'queue "{queue}" has no room for this pod now')
    assert len(sandbox.bound(pending)) == 1
    sandbox.edit(queue, capability={"pods": "4"})
    sandbox.all_bound(pending)
