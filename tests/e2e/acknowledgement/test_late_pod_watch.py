"""The leader hears of pods, or of namespaces, late, and of queues in time: no stop is acknowledged on what it
does not know.

Two replicas; the first leads, and its watch and lists of that kind say nothing for as long as a test wants.
All that the API server and kube-scheduler ask goes to the second, which knows everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.e2e.api_requests import Answer, Object
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.objects import (
    GATE,
    NAMED_BY,
    gates,
    is_decided,
    is_stopped,
    on_a_node,
    version,
    waits_for,
)
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.unregistered import unlabelled_pod
from tests.support.e2e.wait import until
from tests.support.faults.faulty_proxy import Silence
from tests.support.faults.intercepting import Asked
from tests.support.faults.slow_webhook import SlowWebhook

pytestmark = pytest.mark.long

LEADER, OTHER = "server-1", "server-2"
PODS, NAMESPACES = "/api/v1/pods", "/api/v1/namespaces"
#: Bytes of an answer that come: its head, and no object.
HEAD = 300
#: Longer than any test keeps a bind; the API server waits for a webhook no longer than 30 s.
KEPT_SECONDS = 28.0
ELSEWHERE = "somebody-elses"
GUARD = "sluice.dev/guard"


@contextmanager
def leader_late(pair: Fleet, path: str = PODS) -> Iterator[Callable[[], None]]:
    """The leader hears nothing of the kind from here on; what is yielded ends that."""

    def is_of_kind(asked: Asked) -> bool:
        """A list or a watch of all of them."""
        return asked.method == "GET" and asked.path == path

    way = pair.interceptors[LEADER]
    pair.only(OTHER)
    before = len(way.asked)
    way.order(Silence(after=HEAD), when=is_of_kind, times=10_000)
    way.cut(when=is_of_kind)
    until(lambda: any(map(is_of_kind, way.asked[before:])), f"a watch of {path} that is silenced", share=0)

    def catch_up() -> None:
        way.relent()
        way.cut(when=is_of_kind)

    try:
        yield catch_up
    finally:
        catch_up()


def test_a_pod_that_another_replica_let_through_is_waited_for(
    own_sandbox: Sandbox, pair: Fleet, tmp_path: Path
) -> None:
    """Its bind is kept in a webhook. The leader knows of no pod in the queue, and concludes nothing."""
    queue = own_sandbox.queue()
    with SlowWebhook(own_sandbox, tmp_path, seconds=KEPT_SECONDS) as slow, leader_late(pair) as catch_up:
        own_sandbox.pod("member-0", queue).must(201)
        until(lambda: slow.held, "the bind to be under way", share=0)
        own_sandbox.patch_queue(queue, state="Suspended").must()
        acknowledged = acknowledged_after_the_bind(own_sandbox, queue, slow, catch_up)
    assert bound_by(own_sandbox, "member-0", version(acknowledged))
    no_more_pods_are_bound(own_sandbox, queue)


def test_the_guard_is_on_before_a_stop_of_unknown_unmarked_pods_is_acknowledged(
    own_sandbox: Sandbox, pair: Fleet
) -> None:
    """No filter is asked about them: the guard alone stops them, where they are known to be."""
    queue = own_sandbox.queue()
    with leader_late(pair) as catch_up:
        own_sandbox.pod("foreign-0", queue, schedulerName=ELSEWHERE).must(201)
        own_sandbox.patch_queue(queue, state="Suspended").must()
        stop = own_sandbox.queue_that(queue, "be acknowledged, or say what its stop waits for", is_decided)
        labels = own_sandbox.api.get(own_sandbox.home).must().body["metadata"]["labels"]
        assert not is_stopped(stop) or GUARD in labels, "acknowledged, and binds meet no guard"
        catch_up()
        own_sandbox.queue_that(queue, "be acknowledged", is_stopped)
        own_sandbox.bind("foreign-0").must_refuse(queue)
    assert not on_a_node(own_sandbox.read_pod("foreign-0"))


def test_pods_of_a_namespace_that_comes_to_name_the_queue_before_the_stop(
    own_sandbox: Sandbox, pair: Fleet
) -> None:
    """They have no label, since they are older than that; the leader knows of no member."""
    queue = own_sandbox.queue()
    unlabelled_pod(own_sandbox, "early-0", schedulerName=ELSEWHERE)
    with leader_late(pair, NAMESPACES) as catch_up:
        own_sandbox.api.patch(own_sandbox.home, {"metadata": {"annotations": {NAMED_BY: queue}}}).must()
        own_sandbox.patch_queue(queue, state="Suspended").must()
        stop = own_sandbox.queue_that(queue, "be acknowledged, or say what its stop waits for", is_decided)
        assert not is_stopped(stop), "acknowledged, and binds of a member meet no guard"
        assert waits_for(stop) == "Unlabelled: what namespaces name is known as of before the stop"
        catch_up()
        own_sandbox.queue_that(queue, "be acknowledged", is_stopped)
        own_sandbox.bind("early-0").must_refuse(queue)
    assert not on_a_node(own_sandbox.read_pod("early-0"))


def test_pods_of_a_namespace_that_comes_to_name_a_stopped_queue(own_sandbox: Sandbox, pair: Fleet) -> None:
    """The late replica takes none for a pod of no queue: the API server asks about it since their namespace
    names one."""
    queue = own_sandbox.queue()
    own_sandbox.suspend(queue)
    with leader_late(pair, NAMESPACES) as catch_up:
        own_sandbox.api.patch(own_sandbox.home, {"metadata": {"annotations": {NAMED_BY: queue}}}).must()
        until(lambda: is_gated(own_sandbox, "in-time"), "the API server and the other replica to know it")
        pair.only(LEADER)
        late = until(lambda: decided(own_sandbox.pod("late")), "the late replica to answer", share=0)
        assert (late.status, late.message.endswith("try again")) == (503, True), late
        catch_up()
        until(lambda: is_gated(own_sandbox, "late"), "the late replica to know it", share=0)


def decided(answer: Answer) -> Answer | None:
    """None where the API server could not ask: its connection was cut."""
    return None if answer.status == 500 else answer


def is_gated(own_sandbox: Sandbox, pod: str) -> bool:
    """Whether such a pod would be; nothing is stored."""
    answer = own_sandbox.pod(pod, dry=True)
    return answer.status == 201 and gates(answer.body) == [GATE]


def test_what_a_lost_replica_let_through_is_waited_for(
    own_sandbox: Sandbox, pair: Fleet, tmp_path: Path
) -> None:
    """It let a pod through, and is killed; the leader does not know the pod, so it assumes no pass of it."""
    queue = own_sandbox.queue()
    with SlowWebhook(own_sandbox, tmp_path, seconds=KEPT_SECONDS) as slow, leader_late(pair) as catch_up:
        own_sandbox.pod("member-0", queue).must(201)
        until(lambda: slow.held, "the bind to be under way", share=0)
        pair.kill(OTHER)
        until(
            lambda: own_sandbox.patch_queue(queue, state="Suspended").status == 200,
            "the stop to be asked for",
        )
        acknowledged = acknowledged_after_the_bind(own_sandbox, queue, slow, catch_up)
    assert bound_by(own_sandbox, "member-0", version(acknowledged))
    no_more_pods_are_bound(own_sandbox, queue)
    pair.join(OTHER, intercepted=True)


def acknowledged_after_the_bind(
    own_sandbox: Sandbox, queue: str, slow: SlowWebhook, catch_up: Callable[[], None]
) -> Object:
    """The stopped queue. Its stop waits for the late leader, and then for the bind that `slow` holds."""
    waits_while_bound(own_sandbox, queue, slow, "PodsBehind")
    catch_up()
    waits_while_bound(own_sandbox, queue, slow, "PassOpen")
    slow.let_go()
    return own_sandbox.queue_that(queue, "be acknowledged", is_stopped)


def waits_while_bound(own_sandbox: Sandbox, queue: str, slow: SlowWebhook, reason: str) -> None:
    stop = own_sandbox.queue_that(
        queue,
        f"be acknowledged, or wait with {reason}",
        lambda held: is_stopped(held) or waits_for(held).startswith(reason),
    )
    assert slow.held and not is_stopped(stop), "acknowledged while a bind is under way"


def bound_by(own_sandbox: Sandbox, name: str, at: int) -> bool:
    """Whether the pod was on a node at that version of the cluster."""
    path = f"{own_sandbox.pods_path}?resourceVersion={at}&resourceVersionMatch=Exact"
    pods = own_sandbox.api.get(path).must().body["items"]
    return any(on_a_node(pod) for pod in pods if pod["metadata"]["name"] == name)


def no_more_pods_are_bound(own_sandbox: Sandbox, queue: str) -> None:
    """Neither by kube-scheduler, which binds other pods meanwhile, nor by another client."""
    before = own_sandbox.bound(own_sandbox.read_pods())
    late = [
        *own_sandbox.pods("late", 3, queue),
        *own_sandbox.pods("late-foreign", 3, queue, schedulerName=ELSEWHERE),
    ]
    with ThreadPoolExecutor(1) as pool:
        others = pool.submit(own_sandbox.pods, "other", 3)
        for name in late:
            own_sandbox.bind(name).must(403, 409)
        own_sandbox.all_bound(others.result())
    assert own_sandbox.bound(late) == set()
    assert before <= own_sandbox.bound(own_sandbox.read_pods())
