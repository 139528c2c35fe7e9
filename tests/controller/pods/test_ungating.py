"""Which pods are ungated or retried once their queue schedules, how often, and what is written."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from cluster.api.client import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Client
from cluster.waiting_writes import WriteKey
from cluster.write_queue import WriteQueue
from controller.pods.retry_event import RetryEvents
from controller.pods.ungating import (
    FIRST_GATES,
    MOST_PER_WRITER,
    RETRY,
    TIMES,
    PodAction,
    Resume,
    Ungating,
    assignment,
    gate_removal,
    next_retry_at,
    pod_action,
    record_retry,
)
from controller.requests import RequestState, RequestTable
from queues.causes import MissingAction
from queues.namespace_selectors import compile_selector
from queues.snapshot import QueueDecision, QueueSnapshot, decision_for_namespace
from queues.start_decision import MAY_START, start_decision
from tests.support.controller.contexts import context_with
from tests.support.controller.members import parked
from tests.support.http.asking import Server
from tests.support.http.wire_objects import GROUP, Wire, member, pod, podgroup
from tests.support.http.wire_objects import queue as queue_object
from tests.support.rules.cases import NOW, OPEN, SUSPENDED, queue, tree

NOTHING, UNGATE, RETRIED = PodAction.NOTHING, PodAction.UNGATE, PodAction.RETRY
GATE, QUOTA_GATE = "sluice.dev/queue", "sluice.dev/quota"
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
        namespace_selector=compile_selector({"matchLabels": {"team": "a"}}) if selective else None,
    )
    return QueueSnapshot(tree(queue("root"), research), now=NOW).decision("research")


NO_ALLOCATE = MissingAction(
    action="allocate", has_requests=True, queue="research", policy="small", by="research"
)
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
    assert (parked(obj, message=message).refusal is not None) is expected


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
    assert pod_action(waiting, MAY_START, SCHEDULES) is expected
    assert pod_action(waiting, start_decision(STOPPED), STOPPED) is NOTHING
    not_selected = decision_for_namespace(SELECTIVE, namespace="team", labels=None)
    assert pod_action(waiting, start_decision(not_selected), SELECTIVE) is NOTHING
    lacks = start_decision(SCHEDULES, missing=NO_ALLOCATE)
    assert pod_action(waiting, lacks, SCHEDULES) is (UNGATE if expected is UNGATE else NOTHING)


@pytest.mark.parametrize("obj", [member(gates=[GATE]), member()], ids=["gated", "refused"])
def test_a_pod_that_is_deleted_is_left_alone(obj: Wire) -> None:
    obj["metadata"] |= {"deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    assert pod_action(parked(obj, message=REFUSED), MAY_START, SCHEDULES) is NOTHING


def test_of_a_queue_with_a_selector_a_pod_is_retried_though_it_was_before() -> None:
    """Another replica may have refused it again: its text stands, so it counts how often (`record_retry`)."""
    retried = parked(member(annotations={"sluice.dev/woken": SELECTIVE.revision}), message=REFUSED)
    assert pod_action(retried, MAY_START, SELECTIVE) is RETRIED


RESUME: Resume = ("revision", 1)


def retries(resume: Resume, times: int, *, until: float) -> RequestState:
    return RequestState(version=resume, failures=times, not_before=until)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (None, -math.inf),
        (retries(("revision", 0), TIMES, until=9.0), -math.inf),
        (retries(("earlier", 1), TIMES, until=9.0), -math.inf),
        (retries(RESUME, 1, until=9.0), 9.0),
        (retries(RESUME, TIMES, until=9.0), math.inf),
    ],
    ids=[
        "never retried",
        "the selection changed since",
        "another resume",
        "retried once",
        "often enough",
    ],
)
def test_a_pod_is_retried_several_times_with_growing_pauses(
    before: RequestState | None, expected: float
) -> None:
    assert next_retry_at(before, RESUME) == expected


def test_retries_are_counted_for_one_resume() -> None:
    table, seen = RequestTable(RequestState, backoff=RETRY), []
    for resume in (RESUME, RESUME, RESUME, ("revision", 2)):
        record_retry(table, "a", resume, now=5.0)
        seen.append((table.failures("a"), next_retry_at(table.get("a"), resume)))
    assert seen == [(1, 6.0), (2, 7.0), (3, 9.0), (1, 6.0)]


@pytest.mark.parametrize("schedules", [True, False])
def test_a_pod_whose_podgroup_exists_now_gets_its_queue(schedules: bool) -> None:
    """Its gate is removed by the same write if the queue schedules."""
    waiting = parked(pod(annotations={GROUP: "gang"}, gates=[GATE]), message="")
    body = assignment(waiting, "research", keeps_gate=not schedules)
    assert body["metadata"] == {
        "uid": "uid-work",
        "annotations": {"sluice.dev/queue": "research"},
        "labels": {"sluice.dev/queue": "research"},
    }
    gates = [{"name": GATE, "$patch": "delete"}]
    assert body.get("spec") == ({"schedulingGates": gates} if schedules else None)


def test_a_merge_patch_removes_our_gate_unless_the_pod_has_another() -> None:
    alone, one_of_two = member(gates=[GATE]), member(gates=[GATE, "example.com/other"])
    assert gate_removal(parked(alone, message="")) == ({"schedulingGates": None}, MERGE_PATCH)
    spec = {"schedulingGates": [{"name": GATE, "$patch": "delete"}]}
    assert gate_removal(parked(one_of_two, message="")) == (spec, STRATEGIC_MERGE_PATCH)


class HeldWrites:
    """A write queue of one thread that sends the first write when the test says so."""

    width = 1

    def __init__(self) -> None:
        self.waiting: list[tuple[WriteKey, Callable[[], object]]] = []

    def submit(self, key: WriteKey, write: Callable[[], object], **_: object) -> bool:
        self.waiting.append((key, write))
        return True

    def __len__(self) -> int:
        return len(self.waiting)

    def send_all(self) -> None:
        waiting, self.waiting = self.waiting, []
        for _, write in waiting:
            write()


class Resumed:
    """A queue `vision` that was resumed; as many of its pods are gated, the last one created first."""

    def __init__(self, count: int) -> None:
        self.server = Server().has(queue_object("root", parent=""), queue_object("vision"))
        self.names = [f"p-{number:04}" for number in range(count)]
        for age, name in enumerate(self.names):
            obj = member(name, "vision", gates=[GATE])
            created = (NOW - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
            self.server.has({**obj, "metadata": {**obj["metadata"], "creationTimestamp": created}})
        self.writes, self.patched = HeldWrites(), list[str]()
        self.leads = True
        client = SimpleNamespace(patch=lambda path, _body, **_: self.patched.append(path.rpartition("/")[2]))
        self.context = context_with(
            store=self.server.store,
            client=cast(Client, client),
            writers=cast(WriteQueue, self.writes),
            leading=lambda: self.leads,
        )
        self.ungating = Ungating(self.context, events=RetryEvents(self.context))
        self.ungating.ungate("vision", [], may_retry=lambda: True)

    def pass_results_on(self) -> None:
        self.context.work_queue.get([0.0], at_once=True)


def test_a_resume_submits_the_first_gates_at_once_and_the_others_as_they_are_sent() -> None:
    setup = Resumed(100)
    assert len(setup.writes) == FIRST_GATES
    setup.pass_results_on()
    assert len(setup.writes) == MOST_PER_WRITER
    setup.pass_results_on()
    assert len(setup.writes) == MOST_PER_WRITER
    most = 0
    while setup.writes.waiting:
        most = max(most, len(setup.writes))
        setup.writes.send_all()
        setup.pass_results_on()
    assert setup.patched == setup.names[::-1]
    assert most == MOST_PER_WRITER


def test_pods_of_one_second_go_together_by_their_owner() -> None:
    """A controller that hears of several pods at once writes one status for them."""
    setup = Resumed(0)
    owners = {"a-1": "uid-a", "b-1": "uid-b", "a-2": "uid-a", "b-2": "uid-b"}
    for name, uid in owners.items():
        owner = {"kind": "ReplicaSet", "name": uid, "uid": uid, "apiVersion": "apps/v1", "controller": True}
        setup.server.has(member(name, "vision", gates=[GATE], owner=owner))
    setup.server.has(queue_object("vision", state="Suspended", generation=2, version=50))
    setup.server.has(queue_object("vision", generation=3, version=60))
    setup.ungating.ungate("vision", [], may_retry=lambda: True)
    setup.writes.send_all()
    assert setup.patched == ["a-1", "a-2", "b-1", "b-2"]


def test_queues_that_are_resumed_together_are_ungated_in_one_order() -> None:
    """However many pods each of them has."""
    setup = Resumed(0)
    names = []
    for number in range(2 * MOST_PER_WRITER):
        queue_name = ("vision", "speech")[number % 2]
        names.append(f"{queue_name}-{number:04}")
        setup.server.has(member(names[-1], queue_name, gates=[GATE], priority=1_000 - number))
    setup.server.has(queue_object("vision", state="Suspended", generation=2, version=50))
    setup.server.has(queue_object("vision", generation=3, version=60), queue_object("speech"))
    with setup.ungating.resume_together():
        for queue_name in ("speech", "vision"):
            setup.ungating.ungate(queue_name, [], may_retry=lambda: True)
        assert len(setup.writes) == 0
    assert len(setup.writes) == FIRST_GATES
    while setup.writes.waiting:
        setup.writes.send_all()
        setup.pass_results_on()
    assert setup.patched == names


def test_a_change_of_a_pod_that_waits_to_be_submitted_does_not_bring_it_forward() -> None:
    setup = Resumed(100)
    members = setup.server.store.members.waiting_in("vision")
    setup.ungating.ungate("vision", members, may_retry=lambda: True)
    assert len(setup.writes) == FIRST_GATES


def test_other_writes_that_wait_delay_no_gate() -> None:
    setup = Resumed(FIRST_GATES + 3)
    setup.writes.waiting += [(("event", str(number)), lambda: None) for number in range(10_000)]
    setup.pass_results_on()
    assert sum(key[0] == "ungate" for key, _ in setup.writes.waiting) == FIRST_GATES + 3


def test_a_gate_that_waits_to_be_submitted_stays_where_the_queue_stops_again() -> None:
    setup = Resumed(FIRST_GATES + 1)
    setup.server.has(queue_object("vision", state="Suspended", generation=2, version=50))
    setup.pass_results_on()
    assert len(setup.writes) == FIRST_GATES
    setup.writes.send_all()
    assert setup.patched == []


def test_a_pod_that_is_gone_before_its_gate_is_submitted_is_left_out() -> None:
    setup = Resumed(FIRST_GATES + 2)
    setup.server.store.members.replace([])
    setup.pass_results_on()
    assert len(setup.writes) == FIRST_GATES


def test_a_replica_that_no_longer_leads_submits_no_more_gates() -> None:
    setup = Resumed(100)
    setup.leads = False
    setup.pass_results_on()
    assert len(setup.writes) == FIRST_GATES


@pytest.mark.parametrize("gate", [GATE, QUOTA_GATE])
def test_a_pod_of_a_podgroup_that_the_cache_heard_of_first_gets_its_node_groups_too(gate: str) -> None:
    """Its gate does not go before that, nor is its queue written without them."""
    affinity = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["big"]}}
    server = Server().has(queue_object("root", parent=""), queue_object("vision", affinity=affinity))
    stored = pod("late", annotations={GROUP: "gang"}, labels={"sluice.dev/queue": ""}, gates=[gate])
    server.has(podgroup("gang", queue="vision"), stored)
    found = server.store.members.get("team", "late")
    assert found is not None
    assert (found.queue, found.written) == ("vision", False)
    writes, bodies = HeldWrites(), list[Wire]()
    client = SimpleNamespace(
        get=lambda _path: msgspec.json.encode(stored), patch=lambda _path, body, **_: bodies.append(body)
    )
    context = context_with(
        store=server.store,
        client=cast(Client, client),
        writers=cast(WriteQueue, writes),
        leading=lambda: True,
    )
    ungating = Ungating(context, events=RetryEvents(context))
    ungating.ungate("vision", [found], may_retry=lambda: True)
    ungating.assign_queues([found], queue="vision")
    assert [key[0] for key, _ in writes.waiting] == ["assign_queue"]
    writes.send_all()
    [body] = bodies
    assert body["metadata"]["labels"] == {"sluice.dev/queue": "vision"}
    assert "nodeAffinity" in body["spec"]["affinity"]


def test_a_pod_that_has_its_queue_on_it_is_not_assigned_again() -> None:
    setup = Resumed(3)
    setup.writes.waiting.clear()
    setup.ungating.assign_queues(setup.server.store.members.in_queue("vision"), queue="vision")
    assert setup.writes.waiting == []
