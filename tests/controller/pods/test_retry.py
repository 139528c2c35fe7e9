"""Which pods kube-scheduler is made to retry: those that lack room after a resume, and old passes."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from cluster.api.client import Client
from cluster.inflight.binds import BindPass
from cluster.write_queue import WriteQueue
from controller.pods.retry import (
    AGAIN_SECONDS,
    MARKED_SECONDS,
    BindPassRetry,
    any_lacks_room,
    lacks_room,
    may_be_retried,
    needs_event,
    passes_to_retry,
)
from controller.pods.retry_event import RetryEvents
from queues.messages import with_retry_mark
from queues.namespace_selectors import NamespaceSelector
from queues.snapshot import QueueDecision, QueueSnapshot
from tests.support.controller.contexts import ImmediateWrites, context_with
from tests.support.controller.leases import ByHand
from tests.support.controller.members import parked
from tests.support.http.asking import Server
from tests.support.http.wire_objects import Wire, member
from tests.support.http.wire_objects import queue as queue_object
from tests.support.rules.cases import HOLD, NOW, SUSPENDED, queue, tree

GATE = "sluice.dev/queue"
NO_ROOM = "0/3 nodes are available: 3 Insufficient cpu."
REFUSED = '0/3 nodes are available: 3 queue "research" is stopped by stopPolicy Hold; resume it.'
SNAPSHOT = QueueSnapshot(
    tree(
        queue("root"),
        queue("research"),
        queue("suspended", desired=SUSPENDED),
        queue("held", stop_policy=HOLD),
        queue("selective", namespace_selector=NamespaceSelector(text="team=a")),
    ),
    now=NOW,
)
SCHEDULES, STOPPED = SNAPSHOT.decision("research"), SNAPSHOT.decision("suspended")


@pytest.mark.parametrize(
    ("obj", "message", "expected"),
    [
        (member(), NO_ROOM, True),
        (member(), REFUSED, False),
        (member(), "", False),
        (member(gates=[GATE]), NO_ROOM, False),
        (member(gates=["example.com/other"]), NO_ROOM, False),
        (member(nodeName="node-1"), NO_ROOM, False),
    ],
    ids=["no room", "refused by filter", "not tried yet", "gated", "another's gate", "bound"],
)
def test_a_pod_lacks_room_if_it_waits_for_a_reason_that_is_not_ours(
    obj: Wire, message: str, expected: bool
) -> None:
    assert lacks_room(parked(obj, message=message)) is expected


@pytest.mark.parametrize(
    ("obj", "message", "expected"),
    [
        (member(), NO_ROOM, True),
        (member(), with_retry_mark(REFUSED), True),
        (member(nodeName="node-1"), with_retry_mark(REFUSED), False),
        (member(), REFUSED, False),
        (member(), "", False),
    ],
    ids=["no room", "changed before", "bound", "refused by filter", "not tried yet"],
)
def test_an_event_retries_what_a_change_of_the_pod_may_not(obj: Wire, message: str, expected: bool) -> None:
    assert needs_event(parked(obj, message=message), requested_for=AGAIN_SECONDS) is expected


def test_no_more_events_are_made_for_a_pod_that_no_event_retries() -> None:
    """After each of them kube-scheduler looks at every pod of the cluster that waits for room."""
    for message, expected in ((with_retry_mark(REFUSED), False), (NO_ROOM, True)):
        assert needs_event(parked(member(), message=message), requested_for=MARKED_SECONDS) is expected


@pytest.mark.parametrize(
    ("messages", "is_kept", "expected"),
    [
        ([NO_ROOM], [False], True),
        ([REFUSED, NO_ROOM], [False, False], True),
        ([NO_ROOM, NO_ROOM], [True, False], True),
        ([NO_ROOM, NO_ROOM], [True, True], False),
        ([REFUSED], [False], False),
        ([], [], False),
    ],
    ids=[
        "a pod lacks room",
        "one of two lacks room",
        "one of two is kept",
        "both are kept",
        "refused by filter",
        "no pods",
    ],
)
def test_a_retry_is_triggered_if_a_pod_that_is_not_kept_lacks_room(
    messages: list[str], is_kept: list[bool], expected: bool
) -> None:
    members = [parked(member(f"pod-{index}"), message=message) for index, message in enumerate(messages)]
    kept = {one.name: it for one, it in zip(members, is_kept, strict=True)}
    assert any_lacks_room(members, is_kept=lambda one: kept[one.name]) is expected


@pytest.mark.parametrize(
    ("name", "expected"), [("research", False), ("suspended", True), ("held", True), ("absent", True)]
)
def test_a_pass_is_retried_if_its_queue_does_not_schedule(name: str, expected: bool) -> None:
    bind_pass = BindPass(namespace="team", name="work", queue=name, at=0.0)
    assert passes_to_retry([bind_pass], SNAPSHOT) == ({("team", "work")} if expected else set())


@pytest.mark.parametrize(
    ("obj", "decision", "expected"),
    [
        (member(), STOPPED, True),
        (member(), SCHEDULES, False),
        (member(gates=[GATE]), STOPPED, False),
        (member(nodeName="node-1"), STOPPED, False),
        (None, STOPPED, False),
    ],
    ids=["bindable, stopped", "resumed meanwhile", "gated", "bound meanwhile", "gone"],
)
def test_a_pod_is_retried_only_while_it_could_be_bound_and_its_queue_is_stopped(
    obj: Wire | None, decision: QueueDecision, expected: bool
) -> None:
    its_member = None if obj is None else parked(obj, message="")
    assert may_be_retried(its_member, decision) is expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (NO_ROOM, ["status", "pod", "event"]),
        (REFUSED, ["status", "pod"]),
        (with_retry_mark(REFUSED), ["status", "pod", "event"]),
    ],
    ids=["no room", "refused by filter", "changed before"],
)
def test_the_event_is_made_after_the_pod_is_changed(message: str, expected: list[str]) -> None:
    """An attempt that ended before the condition was changed would not show."""
    requests, retry = retry_with({"work": message})
    retry()
    assert requests == expected


def test_one_event_serves_many_pods_that_are_changed_together() -> None:
    """After each of them kube-scheduler looks at every pod that waits."""
    requests, retry = retry_with({f"work-{number}": NO_ROOM for number in range(100)})
    retry()
    assert requests.count("pod") == 100
    assert requests.count("event") <= 2
    assert requests[-1] == "event"


def retry_with(messages: dict[str, str]) -> tuple[list[str], Callable[[], None]]:
    """The requests that are made, and a retry of all these pods; `messages`: of their conditions, by name."""
    server = Server().has(queue_object("root", parent=""), queue_object("research", stopPolicy="Hold"))
    for name, message in messages.items():
        condition = {"type": "PodScheduled", "status": "False", "message": message}
        server.has({**member(name), "status": {"conditions": [condition]}})
    requests: list[str] = []
    client = SimpleNamespace(
        patch=lambda path, _body, **_: requests.append("status" if path.endswith("/status") else "pod"),
        create=lambda *_: requests.append("event"),
        delete=lambda *_: None,
    )
    status_writers = ByHand()
    context = context_with(
        store=server.store,
        client=cast(Client, client),
        writers=cast(WriteQueue, ImmediateWrites()),
        status_writers=status_writers,
        namespace="sluice-system",
    )
    bind_pass_retry = BindPassRetry(context, events=RetryEvents(context))

    def retry() -> None:
        bind_pass_retry.retry_pods(("team", name) for name in messages)
        while len(status_writers):
            status_writers.answer()
            for _ in range(2):  # results of the change, and of the event
                context.work_queue.get([0.0], at_once=True)

    return requests, retry
