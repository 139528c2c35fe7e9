"""Which pods kube-scheduler is made to retry: those that lack room after a resume, and old passes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cluster.inflight.binds import BindPass
from controller.pods.retry import any_lacks_room, lacks_room, may_be_retried, passes_to_retry
from queues.namespace_selectors import NamespaceSelector
from queues.snapshot import QueueDecision, QueueSnapshot
from tests.support.controller.members import parked
from tests.support.http.wire_objects import Wire, member
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
SELECTIVE = SNAPSHOT.decision("selective")


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


def everywhere(_: str) -> bool:
    return True


def nowhere(_: str) -> bool:
    return False


@pytest.mark.parametrize(
    ("decision", "selects", "messages", "expected"),
    [
        (SCHEDULES, nowhere, [NO_ROOM], True),
        (SCHEDULES, nowhere, [REFUSED, NO_ROOM], True),
        (SCHEDULES, everywhere, [REFUSED], False),
        (SCHEDULES, everywhere, [], False),
        (STOPPED, everywhere, [NO_ROOM], False),
        (SELECTIVE, everywhere, [NO_ROOM], True),
        (SELECTIVE, nowhere, [NO_ROOM], False),
    ],
    ids=[
        "a pod lacks room",
        "one of two lacks room",
        "refused by filter",
        "no pods",
        "the queue is stopped",
        "the queue selects the namespace",
        "the queue does not select the namespace",
    ],
)
def test_a_retry_is_triggered_if_a_pod_that_may_go_lacks_room(
    decision: QueueDecision, selects: Callable[[str], bool], messages: list[str], expected: bool
) -> None:
    """A queue without a selector is not asked which namespaces it selects."""
    members = [parked(member(), message=message) for message in messages]
    assert any_lacks_room(members, decision=decision, selects=selects) is expected


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
