"""Which pods are ungated or retried once their queue schedules, how often, and what is written."""

from __future__ import annotations

import math

import pytest

from controller.pods.ungating import (
    RETRY,
    TIMES,
    PodAction,
    Resume,
    Retries,
    after_retry,
    assignment,
    next_retry_at,
    pod_action,
    refused_by_us,
)
from queues.namespace_selectors import NamespaceSelector
from queues.snapshot import QueueDecision, QueueSnapshot
from tests.support.controller.members import parked
from tests.support.http.wire_objects import GROUP, Wire, member, pod
from tests.support.rules.cases import NOW, OPEN, SUSPENDED, queue, tree

NOTHING, UNGATE, RETRIED = PodAction.NOTHING, PodAction.UNGATE, PodAction.RETRY
GATE = "sluice.dev/queue"
REFUSED = (
    '0/3 nodes are available: 3 queue "research" is stopped by stopPolicy Hold; resume it with: '
    "kubectl queue resume research. no new claims to deallocate, preemption: 0/3 nodes are available."
)
NO_ROOM = "0/3 nodes are available: 3 Insufficient cpu."
NO_PODGROUP = '3 PodGroup "gang" does not exist; create it with: kubectl create -f PODGROUP'


def decision(*, suspended: bool = False, selective: bool = False) -> QueueDecision:
    research = queue(
        "research",
        desired=SUSPENDED if suspended else OPEN,
        namespace_selector=NamespaceSelector(text="team=a") if selective else None,
    )
    return QueueSnapshot(tree(queue("root"), research), now=NOW).decision("research")


SCHEDULES, STOPPED, SELECTIVE = decision(), decision(suspended=True), decision(selective=True)


@pytest.mark.parametrize(
    ("obj", "message", "expected"),
    [
        (member(), REFUSED, True),
        (pod(annotations={GROUP: "gang"}), NO_PODGROUP, True),
        (member(), "", False),
        (member(), NO_ROOM, False),
        (member(queue="other"), REFUSED, False),
        (member(gates=[GATE]), REFUSED, False),
        (member(nodeName="node-1"), REFUSED, False),
    ],
    ids=[
        "the text of its queue",
        "the text of its PodGroup",
        "no condition",
        "another cause",
        "the text of another queue",
        "gated",
        "bound",
    ],
)
def test_a_pod_whose_condition_has_the_text_of_its_queue_was_refused_by_filter(
    obj: Wire, message: str, expected: bool
) -> None:
    assert refused_by_us(parked(obj, message=message)) is expected


@pytest.mark.parametrize(
    ("obj", "message", "expected"),
    [
        (member(gates=[GATE]), "", UNGATE),
        (member(gates=[GATE, "example.com/other"]), "", UNGATE),
        (member(gates=[GATE]), REFUSED, UNGATE),
        (member(), REFUSED, RETRIED),
        (member(), NO_ROOM, NOTHING),
        (member(), "", NOTHING),
        (member(gates=["example.com/other"]), REFUSED, NOTHING),
        (member(nodeName="node-1"), REFUSED, NOTHING),
        (member(gates=[GATE], nodeName="node-1"), "", NOTHING),
        (member(annotations={"sluice.dev/woken": SCHEDULES.revision}), REFUSED, NOTHING),
        (member(annotations={"sluice.dev/woken": "earlier"}), REFUSED, RETRIED),
    ],
    ids=[
        "gated",
        "gated twice",
        "gated, its condition says why",
        "refused by filter",
        "refused for another cause",
        "not refused",
        "another's gate",
        "bound",
        "gated and bound",
        "retried for this resume",
        "retried for an earlier resume",
    ],
)
def test_a_gated_pod_is_ungated_and_a_refused_one_is_retried(
    obj: Wire, message: str, expected: PodAction
) -> None:
    waiting = parked(obj, message=message)
    assert pod_action(waiting, SCHEDULES, selected=True) is expected
    assert pod_action(waiting, STOPPED, selected=True) is NOTHING
    assert pod_action(waiting, SCHEDULES, selected=False) is NOTHING


@pytest.mark.parametrize("obj", [member(gates=[GATE]), member()], ids=["gated", "refused"])
def test_a_pod_that_is_deleted_is_left_alone(obj: Wire) -> None:
    obj["metadata"] |= {"deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    assert pod_action(parked(obj, message=REFUSED), SCHEDULES, selected=True) is NOTHING


def test_of_a_queue_with_a_selector_a_pod_is_retried_though_it_was_before() -> None:
    """Another replica may have refused it again: its text stands, so it counts how often (`Retries`)."""
    retried = parked(member(annotations={"sluice.dev/woken": SELECTIVE.revision}), message=REFUSED)
    assert pod_action(retried, SELECTIVE, selected=True) is RETRIED


RESUME: Resume = ("revision", 1)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (None, -math.inf),
        (Retries(("revision", 0), TIMES, last=5.0), -math.inf),
        (Retries(("earlier", 1), TIMES, last=5.0), -math.inf),
        (Retries(RESUME, 1, last=5.0), 5.0 + RETRY.first),
        (Retries(RESUME, 3, last=5.0), 5.0 + 4 * RETRY.first),
        (Retries(RESUME, TIMES, last=5.0), math.inf),
    ],
    ids=[
        "never retried",
        "the selection changed since",
        "another resume",
        "retried once",
        "retried three times",
        "often enough",
    ],
)
def test_a_pod_is_retried_several_times_with_growing_pauses(before: Retries | None, expected: float) -> None:
    assert next_retry_at(before, RESUME) == expected


def test_retries_are_counted_for_one_resume() -> None:
    first = after_retry(None, RESUME, now=5.0)
    assert first == Retries(RESUME, 1, last=5.0)
    assert after_retry(first, RESUME, now=6.0) == Retries(RESUME, 2, last=6.0)
    assert after_retry(first, ("revision", 2), now=6.0) == Retries(("revision", 2), 1, last=6.0)


@pytest.mark.parametrize("schedules", [True, False])
def test_a_pod_whose_podgroup_exists_now_gets_its_queue(schedules: bool) -> None:
    """Its gate is removed by the same write if the queue schedules."""
    waiting = parked(pod(annotations={GROUP: "gang"}, gates=[GATE]), message="")
    body = assignment(waiting, "research", schedules=schedules)
    assert body["metadata"] == {
        "uid": "uid-work",
        "annotations": {"sluice.dev/queue": "research"},
        "labels": {"sluice.dev/queue": "research"},
    }
    gates = [{"name": GATE, "$patch": "delete"}]
    assert body.get("spec") == ({"schedulingGates": gates} if schedules else None)
