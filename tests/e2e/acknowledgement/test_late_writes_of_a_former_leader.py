"""Writes of a leader that was paused in mid-write change nothing any more once another one has led.

The leader's request is kept in front of the API server; the leader is paused (SIGSTOP) beyond its Lease;
another one leads and acts; then the request is let through and the former leader goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from queues.well_known import GUARD
from tests.support.e2e.api_requests import Object, watched
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.objects import is_active, is_stopped
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until
from tests.support.faults.intercepting import Asked, Kept

pytestmark = pytest.mark.long

FORMER, NEXT = "server-1", "server-2"
#: No scheduler asks us about such a pod: the guard alone keeps it from being bound.
BY_HAND = "by-hand"


class Pair:
    """Two replicas; the first one leads until it is paused."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        fleet.join(FORMER, intercepted=True)
        self.way = fleet.interceptors[FORMER]
        fleet.join(NEXT)

    @contextmanager
    def leader_paused_at(self, kept: Kept) -> Iterator[None]:
        """Within, the first replica does nothing, and the second one leads."""
        until(kept.reached.is_set, "the leader's write")
        former = self._fleet.leader()
        self._fleet.only(NEXT)
        self._fleet.pause(FORMER)
        try:
            until(lambda: self._fleet.leader() not in {"", former}, "the other replica to lead")
            yield
        finally:
            self._fleet.go_on(FORMER)

    def let_through(self, kept: Kept, when: Callable[[Asked], bool]) -> int:
        """The API server's answer to the request that was kept."""
        before = len(self.way.answered)
        self.way.free(kept)

        def answer() -> int:
            return next((each.status for each in self.way.answered[before:] if when(each.asked)), 0)

        return until(answer, "the answer to the former leader's write")

    def wait_for_former(self) -> None:
        """Returns once the former leader goes on."""
        before = len(self.way.asked)
        until(lambda: len(self.way.asked) > before + 2, "the former leader to go on")


@pytest.fixture
def pair(module_cluster: LocalCluster, tmp_path: Path) -> Iterator[Pair]:
    fleet = Fleet(module_cluster, tmp_path)
    try:
        yield Pair(fleet)
    finally:
        fleet.close()


def test_the_guard_stays_on(pair: Pair, own_sandbox: Sandbox) -> None:
    """The former leader was about to remove a namespace's label; the next one has acknowledged a stop."""
    queue = own_sandbox.queue()
    own_sandbox.pod(BY_HAND, queue, schedulerName=BY_HAND).must(201)
    own_sandbox.pods("member", 3, queue, gated=True)
    own_sandbox.suspend(queue)

    def removes_guard(asked: Asked) -> bool:
        removal = {GUARD: None}
        return (asked.method, asked.path) == ("PATCH", own_sandbox.home) and _labels(asked) == removal

    kept = pair.way.keep(removes_guard, answered=False)
    own_sandbox.patch_queue(queue, state="Open").must()
    with pair.leader_paused_at(kept):
        own_sandbox.suspend(queue)
        status = pair.let_through(kept, removes_guard)
        own_sandbox.bind(BY_HAND).must_refuse(queue)
        assert status == 409
    pair.wait_for_former()
    assert GUARD in own_sandbox.api.get(own_sandbox.home).must().body["metadata"]["labels"]
    own_sandbox.ungate(["member-0", "member-1", "member-2"])
    own_sandbox.reason_on("member-0", "is Suspended")
    own_sandbox.bind(BY_HAND).must_refuse(queue)
    assert own_sandbox.bound(own_sandbox.read_pods()) == set()


@pytest.mark.parametrize("is_inherited", [False, True], ids=["own", "inherited"])
def test_an_acknowledgement_is_not_restored(pair: Pair, own_sandbox: Sandbox, *, is_inherited: bool) -> None:
    """The former leader was about to acknowledge a stop; the queue, or its parent, was resumed since."""
    parent = own_sandbox.queue("parent")
    queue = own_sandbox.queue("child", parent=parent)
    stopped = parent if is_inherited else queue
    own_sandbox.pod(BY_HAND, queue, schedulerName=BY_HAND).must(201)

    def acknowledges(asked: Asked) -> bool:
        return (asked.method, asked.path) == ("PATCH", f"{QUEUES}/{queue}/status") and _stops(asked)

    kept = pair.way.keep(acknowledges, answered=False)
    own_sandbox.patch_queue(stopped, state="Suspended").must()
    with pair.leader_paused_at(kept):
        own_sandbox.edit(stopped, state="Open")
        resumed = own_sandbox.queue_that(queue, "be resumed", _schedules)
        status = pair.let_through(kept, acknowledges)
        own_sandbox.edit(queue, weight=7)
    pair.wait_for_former()
    own_sandbox.edit(queue, weight=8)
    assert not any(map(is_stopped, _states(own_sandbox, since=resumed)))
    assert status == 409


def _labels(asked: Asked) -> Object:
    labels: Object = json.loads(asked.body).get("metadata", {}).get("labels", {})
    return labels


def _stops(asked: Asked) -> bool:
    return is_stopped(json.loads(asked.body))


def _schedules(queue: Object) -> bool:
    return is_active(queue) and not queue["status"].get("stop")


def _states(own_sandbox: Sandbox, *, since: Object) -> list[Object]:
    """Each state of the queue since then, up to its present one."""
    name = since["metadata"]["name"]
    last = own_sandbox.read_queue(name)["metadata"]["resourceVersion"]
    states = []
    for state in watched(
        own_sandbox.cluster,
        QUEUES,
        since=since["metadata"]["resourceVersion"],
        selector=f"metadata.name={name}",
    ):
        states.append(state)
        if state["metadata"]["resourceVersion"] == last:
            break
    return states
