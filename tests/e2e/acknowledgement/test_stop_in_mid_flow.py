"""Once a stop is acknowledged, not one more pod of the queue is bound; everybody else goes on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import Answer, Api, Object
from tests.support.e2e.objects import binding_body, pod_body, suspended_text
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.stop import Stop
from tests.support.e2e.wait import until
from tests.support.faults.slow_webhook import SlowWebhook

PODS = 150
ROUNDS = 8
SLOW_ROUNDS = 2
#: Members that wait when a round begins, and pods of no queue that are made while it is stopped.
BACKLOG, OTHERS = 30, 4
FOREIGN = 50


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    return sandbox.queue()


@contextmanager
def flowing(sandbox: Sandbox, queue: str) -> Iterator[tuple[list[str], list[str]]]:
    """Members and others are being made, in turn; all are made at the end."""
    members, others = ([f"{kind}-{number}" for number in range(PODS)] for kind in ("member", "other"))
    pairs = zip(members, others, strict=True)
    bodies = [body for member, other in pairs for body in (pod_body(member, queue), pod_body(other))]
    with ThreadPoolExecutor(1) as pool:
        making = pool.submit(sandbox.flood, bodies)
        yield members, others
        making.result()


def test_a_stop_in_mid_flow_lets_not_one_more_pod_through(sandbox: Sandbox, queue: str) -> None:
    """150 pods of the queue and 150 of none are under way; the first stand still, the others all arrive."""
    with flowing(sandbox, queue) as (members, others):
        until(lambda: len(sandbox.bound(members)) >= 30, "the flow to be under way", share=0)
        stop = Stop(sandbox, queue)
    sandbox.all_bound(others)
    assert sandbox.bound(members) != set(members), "the stop came after the flow"
    stop.lets_no_pod_through()


def test_each_of_many_stops_in_mid_flow_lets_no_pod_through(sandbox: Sandbox, queue: str) -> None:
    """Stopped and resumed again and again while its pods flow: zero in each round."""
    through = run_rounds(sandbox, queue, ROUNDS)
    assert through == [[]] * ROUNDS


def test_a_slow_webhook_beside_ours_makes_a_stop_wait_not_leak(
    sandbox: Sandbox, queue: str, tmp_path: Path
) -> None:
    """Binds that passed us and are kept for a second elsewhere land before the acknowledgement, or never."""
    with SlowWebhook(sandbox, tmp_path, seconds=1.0) as slow:
        through = run_rounds(sandbox, queue, SLOW_ROUNDS, slow=slow)
    assert through == [[]] * SLOW_ROUNDS


def test_a_stopped_ancestor_stops_the_flow_below(sandbox: Sandbox, queue: str) -> None:
    """Its acknowledgement holds for every queue below."""
    below = sandbox.queue("below", parent=queue)
    assert run_rounds(sandbox, below, SLOW_ROUNDS, stopping=queue) == [[]] * SLOW_ROUNDS


def test_binds_of_another_scheduler_are_stopped_in_mid_flow(sandbox: Sandbox, queue: str) -> None:
    """Pods that kube-scheduler never sees, bound one after the other by another client."""
    members = sandbox.pods("member", FOREIGN, queue, schedulerName="somebody-elses")
    with ThreadPoolExecutor(1) as pool:
        binding = pool.submit(bind_all, sandbox, members)
        until(lambda: sandbox.bound(members), "the flow to be under way", share=0)
        stop = Stop(sandbox, queue)
        binding.result()
    assert sandbox.bound(members) != set(members), "the stop came after the flow"
    stop.lets_no_pod_through()


def bind_all(sandbox: Sandbox, names: list[str]) -> None:
    """Several times over, so that the flow is there before and after the stop."""
    with Api(sandbox.cluster) as api:
        for name in names * 3:
            api.create(f"{sandbox.pods_path}/{name}/binding", binding_body(name, sandbox.namespace))


def test_a_refused_bind_by_hand_does_not_hide_one_under_way(
    sandbox: Sandbox, queue: str, tmp_path: Path
) -> None:
    """The scheduler's bind has passed us and is kept elsewhere; another bind of the same pod is refused
    meanwhile. The stop still waits for the first."""
    with SlowWebhook(sandbox, tmp_path, seconds=4.0) as slow:
        sandbox.pod("member-0", queue).must(201)
        until(lambda: slow.asked, "the bind to be under way", share=0)
        sandbox.patch_queue(queue, state="Suspended").must()
        until(lambda: sandbox.bind("member-0", dry=True).status == 403, "the guard to refuse")
        sandbox.answered(queue)
        assert bound_later(sandbox) == set()


def test_a_restarted_server_waits_for_binds_that_the_one_before_let_through(
    sandbox: Sandbox, queue: str, tmp_path: Path, restored_cluster: LocalCluster
) -> None:
    """What it let through is not in the memory of the next one."""
    with SlowWebhook(sandbox, tmp_path, seconds=15.0) as slow:
        sandbox.pod("member-0", queue).must(201)
        until(lambda: slow.asked, "the bind to be under way", share=0)
        restored_cluster.restart_components("server")
        sandbox.suspend(queue)
        assert bound_later(sandbox) == set()


def bound_later(sandbox: Sandbox) -> set[str]:
    """The pods that are not bound now, and are when kube-scheduler's own bind has been answered."""
    before = sandbox.bound(["member-0"])
    until(lambda: any(not bind.dry_run for bind in sandbox.binds()), "the first bind to end", share=0)
    return sandbox.bound(["member-0"]) - before


def run_rounds(
    sandbox: Sandbox, queue: str, rounds: int, *, stopping: str = "", slow: SlowWebhook | None = None
) -> list[list[str]]:
    """The queue's pods that were bound while it, or one above that is `stopping`, was stopped; by round.

    With `slow` each stop is asked for while that webhook keeps a bind.
    """
    stopped = stopping or queue
    stops, made = [], 0
    through: list[list[str]] = []
    for number in range(rounds):
        waiting = sorted(sandbox.waiting())
        fresh = [f"member-{made + each}" for each in range(BACKLOG - len(waiting))]
        made += len(fresh)
        sandbox.flood(pod_body(name, queue) for name in fresh)
        waiting += fresh
        if number:
            sandbox.patch_queue(stopped, state="Open").must()
        if slow is None:
            until(partial(sandbox.bound, waiting), "the flow to be under way", share=0)
        else:
            until(lambda: slow.held, "a bind to be kept", share=0)
        stop = Stop(sandbox, stopped)
        sandbox.all_bound(sandbox.pods(f"other-{number}", OTHERS))
        by_version, by_audit = stop.bound_since(), stop.binds_behind_the_mark()
        through.append(
            [*(f"{pod} by version" for pod in by_version), *(f"{pod} by audit" for pod in by_audit)]
        )
        stops.append(stop)
    if slow is not None:
        assert all(stop.was_in_mid_flow() for stop in stops)
    return through


def test_a_pod_that_names_its_node_and_is_on_its_way_makes_no_stop_wait(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """A webhook behind ours holds it up meanwhile; it comes to its node by the scheduler, which asks us."""
    queue = sandbox.queue()
    node = sandbox.api.get("/api/v1/nodes?limit=1").must().body["items"][0]["metadata"]["name"]
    with (
        SlowWebhook(sandbox, tmp_path, seconds=25.0, resources=["pods"]) as webhook,
        ThreadPoolExecutor(1) as pool,
    ):
        until(lambda: sandbox.pod("would-be", dry=True).must() and webhook.seen, "the webhook to be known")
        before = webhook.asked
        coming = pool.submit(_created, sandbox, pod_body("placed", queue, nodeName=node))
        until(lambda: webhook.asked > before, "the pod to be held up")
        sandbox.patch_queue(queue, state="Suspended").must()
        sandbox.answered(queue)
        assert not coming.done()
        webhook.let_go()
        coming.result().must(201)
    sandbox.reason_on("placed", suspended_text(queue))
    sandbox.pod("later", queue, nodeName=node).must_refuse("would run at once")
    sandbox.edit(queue, state="Open")
    sandbox.all_bound(["placed"])
    assert sandbox.read_pod("placed")["spec"]["nodeName"] == node


def _created(sandbox: Sandbox, body: Object) -> Answer:
    with Api(sandbox.cluster) as api:
        return api.create(sandbox.pods_path, body)
