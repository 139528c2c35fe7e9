"""Once a stop is acknowledged, not one more pod of the queue is bound; everybody else goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import Answer, Api, Object
from tests.support.e2e.objects import binding_body, is_stopped, pod_body, suspended_text, waits_for
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.stop import Stop
from tests.support.e2e.wait import until
from tests.support.faults.slow_webhook import SlowWebhook

#: Of the queue, and of none: so many are made at least, by so many clients.
PODS, MAKERS = 150, 4
ELSEWHERE = "somebody-elses"
ROUNDS = 8
SLOW_ROUNDS = 2
#: Members that wait when a round begins, and pods of no queue that are made while it is stopped.
BACKLOG, OTHERS = 30, 4
#: Pods of another scheduler, and how many of them are bound only once the stop is acknowledged.
FOREIGN, LAST = 50, 10
#: Longer than any test keeps a bind, and shorter than a request may last (`REQUEST_SECONDS`).
KEPT_SECONDS = 15.0


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    return sandbox.queue()


@contextmanager
def flowing(sandbox: Sandbox, queue: str) -> Iterator[tuple[list[str], list[str]]]:
    """Members and others are being made, in turn, until it ends, and a few after that: their names so far."""
    members, others = list[str](), list[str]()
    ended = threading.Event()

    def make(maker: int) -> None:
        with Api(sandbox.cluster) as api:
            for number in count():
                is_last = ended.is_set() and len(members) >= PODS
                for names, name, named in (
                    (members, f"member-{maker}-{number}", queue),
                    (others, f"other-{maker}-{number}", ""),
                ):
                    api.create(sandbox.pods_path, pod_body(name, named)).must(201)
                    names.append(name)
                if is_last:
                    return

    with ThreadPoolExecutor(MAKERS) as pool:
        making = [pool.submit(make, maker) for maker in range(MAKERS)]
        try:
            yield members, others
        finally:
            ended.set()
        for each in making:
            each.result()


def test_a_stop_in_mid_flow_lets_not_one_more_pod_through(sandbox: Sandbox, queue: str) -> None:
    """Pods of the queue and of none come before, during and after the stop; the first stand still, the others
    all arrive."""
    with flowing(sandbox, queue) as (members, others):
        until(lambda: len(sandbox.bound(members)) >= 30, "the flow to be under way", share=0)
        stop = Stop(sandbox, queue)
    sandbox.all_bound(others)
    assert sandbox.bound(members) != set(members), "members that came after the stop are bound"
    stop.lets_no_pod_through()


def test_each_of_many_stops_in_mid_flow_lets_no_pod_through(sandbox: Sandbox, queue: str) -> None:
    """Stopped and resumed again and again while its pods flow: zero in each round."""
    through = run_rounds(sandbox, queue, ROUNDS)
    assert through == [[]] * ROUNDS


def test_a_slow_webhook_beside_ours_makes_a_stop_wait_not_leak(
    sandbox: Sandbox, queue: str, tmp_path: Path
) -> None:
    """Binds that passed us and are kept elsewhere until the stop shows land before the acknowledgement, or
    never."""
    with SlowWebhook(sandbox, tmp_path, seconds=KEPT_SECONDS) as slow:
        through = run_rounds(sandbox, queue, SLOW_ROUNDS, slow=slow)
    assert through == [[]] * SLOW_ROUNDS


def test_a_stopped_ancestor_stops_the_flow_below(sandbox: Sandbox, queue: str) -> None:
    """Its acknowledgement holds for every queue below."""
    below = sandbox.queue("below", parent=queue)
    assert run_rounds(sandbox, below, SLOW_ROUNDS, stopping=queue) == [[]] * SLOW_ROUNDS


def test_binds_of_another_scheduler_are_stopped_in_mid_flow(sandbox: Sandbox, queue: str) -> None:
    """Pods that kube-scheduler never sees, bound one after the other by another client."""
    members = sandbox.pods("member", FOREIGN, queue, schedulerName=ELSEWHERE)
    acknowledged = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        binding = pool.submit(bind_all, sandbox, queue, members, acknowledged)
        try:
            until(lambda: sandbox.bound(members), "the flow to be under way", share=0)
            stop = Stop(sandbox, queue)
        finally:
            acknowledged.set()
        binding.result()
    assert sandbox.bound(members[-LAST:]) == set()
    stop.lets_no_pod_through()


def bind_all(sandbox: Sandbox, queue: str, names: list[str], acknowledged: threading.Event) -> None:
    """The flow is there before, during and after the stop: then all are tried, the last ones for the first
    time."""
    with Api(sandbox.cluster) as api:

        def bind(name: str) -> None:
            api.create(f"{sandbox.pods_path}/{name}/binding", binding_body(name, sandbox.namespace))

        for name in names[:-LAST]:
            bind(name)
        for number in count():
            if acknowledged.is_set():
                break
            body = pod_body(f"member-more-{number}", queue, schedulerName=ELSEWHERE)
            bind(api.create(sandbox.pods_path, body).must(201).body["metadata"]["name"])
        for name in names:
            bind(name)


def test_a_refused_bind_by_hand_does_not_hide_one_under_way(
    sandbox: Sandbox, queue: str, tmp_path: Path
) -> None:
    """The scheduler's bind has passed us and is kept elsewhere; another bind of the same pod is refused
    meanwhile. The stop still waits for the first."""
    with SlowWebhook(sandbox, tmp_path, seconds=KEPT_SECONDS) as slow:
        sandbox.pod("member-0", queue).must(201)
        until(lambda: slow.held, "the bind to be under way", share=0)
        sandbox.patch_queue(queue, state="Suspended").must()
        until(
            lambda: sandbox.bind("member-0", dry=True).status == 403 or not slow.held, "the guard to refuse"
        )
        waits_while_kept(sandbox, queue, slow)
        assert bound_later(sandbox) == set()


def test_a_restarted_server_waits_for_binds_that_the_one_before_let_through(
    sandbox: Sandbox, queue: str, tmp_path: Path, restored_cluster: LocalCluster
) -> None:
    """What it let through is not in the memory of the next one."""
    with SlowWebhook(sandbox, tmp_path, seconds=KEPT_SECONDS) as slow:
        sandbox.pod("member-0", queue).must(201)
        until(lambda: slow.held, "the bind to be under way", share=0)
        restored_cluster.restart_components("server")
        sandbox.patch_queue(queue, state="Suspended").must()
        waits_while_kept(sandbox, queue, slow)
        assert bound_later(sandbox) == set()


def waits_while_kept(sandbox: Sandbox, queue: str, slow: SlowWebhook) -> None:
    """The stop that was asked for is not acknowledged while the bind is kept; returns once it is."""
    stop = sandbox.queue_that(
        queue,
        "be acknowledged, or wait for the bind",
        lambda found: is_stopped(found) or waits_for(found).startswith("PassOpen"),
    )
    assert not (is_stopped(stop) and slow.held), "acknowledged while a bind is under way"
    slow.let_go()
    assert is_stopped(sandbox.answered(queue))


def bound_later(sandbox: Sandbox) -> set[str]:
    """The pods that are not bound now, and are when kube-scheduler's own bind has been answered."""
    before = sandbox.bound(["member-0"])
    until(lambda: any(not bind.dry_run for bind in sandbox.binds()), "the first bind to end", share=0)
    return sandbox.bound(["member-0"]) - before


def run_rounds(
    sandbox: Sandbox, queue: str, rounds: int, *, stopping: str = "", slow: SlowWebhook | None = None
) -> list[list[str]]:
    """The queue's pods that were bound while it, or one above that is `stopping`, was stopped; by round.

    With `slow` each stop is asked for while that webhook keeps a bind, until the stop shows.
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
        if slow is not None:
            slow.keep_again()
        if number:
            sandbox.patch_queue(stopped, state="Open").must()
        if slow is None:
            until(partial(sandbox.bound, waiting), "the flow to be under way", share=0)
        else:
            until(lambda: slow.held, "a bind to be kept", share=0)
        stop = Stop(sandbox, stopped, amid=partial(let_go_later, sandbox, stopped, slow))
        sandbox.all_bound(sandbox.pods(f"other-{number}", OTHERS))
        by_version, by_audit = stop.bound_since(), stop.binds_behind_the_mark()
        through.append(
            [*(f"{pod} by version" for pod in by_version), *(f"{pod} by audit" for pod in by_audit)]
        )
        stops.append(stop)
    if slow is not None:
        assert all(stop.was_in_mid_flow() for stop in stops)
    return through


def let_go_later(sandbox: Sandbox, stopped: str, slow: SlowWebhook | None) -> None:
    """The binds go on once the status says that the queue is suspended, acknowledged or not."""
    if slow is not None:
        sandbox.in_state(stopped, "Suspended")
        slow.let_go()


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
