"""Members as values: what is counted of them is always what there is."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

import pytest
from hypothesis import given

from cluster.cache.members import (
    Member,
    MemberCounts,
    Members,
)
from cluster.objects import Pod
from queues.membership import Membership, MembershipSettings, PodGroupQueueLookup, stored_pod_membership
from tests.support.cases import each_case
from tests.support.cluster.member_events import RecordedMemberEvents
from tests.support.cluster.recounting import (
    GATE,
    MARKED,
    QUEUES,
    Oracle,
    bindable,
    counted,
    histories,
    is_member,
    pods,
    read_pod,
    unreleased,
)
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    GROUP,
    Wire,
    job,
    member,
    owner,
    pod,
)
from tests.support.rules.cases import MODEST

STORE = Server().store


def membership(one: Pod, *, podgroup: PodGroupQueueLookup = lambda *_: None) -> Membership | None:
    return stored_pod_membership(
        STORE.memberships.pod_facts(one), rules=MembershipSettings(), podgroup=podgroup
    )


class Held:
    """Members with an ear, and what it heard."""

    def __init__(self, *, calling_schedulers: Collection[str] = ()) -> None:
        events = RecordedMemberEvents(membership)
        self.heard = events.changes
        self.members = Members(events, calling_schedulers=calling_schedulers)

    def tell(self, what: str, obj: Any) -> None:
        if what == "replace":
            self.members.replace([read_pod(one) for one in obj])
        else:
            getattr(self.members, what)(read_pod(obj))

    def has(self, *objects: Wire) -> Members:
        for obj in objects:
            self.tell("upsert", obj)
        return self.members


@MODEST
@given(history=histories(pods()))
def test_after_every_event_all_counts_equal_a_recount(history: list[tuple[str, Any]]) -> None:
    held, oracle = Held(), Oracle(is_member)
    for what, obj in history:
        held.tell(what, obj)
        oracle.tell(what, obj)
        members = held.members
        every = [one for queue in members.queues() for one in members.in_queue(queue)]
        assert {one.uid: one.version for one in every} == oracle.versions()
        assert len(every) == len(members)
        assert members.quota_gated == sum(one.quota_gated for one in every)
        for queue in (*QUEUES, "", "absent"):
            assert members.counts(queue) == counted(every, queue)
            waiting = {one.uid for one in members.in_queue(queue) if one.waiting}
            assert {one.uid for one in members.waiting_in(queue)} == waiting
            assert set(members.bindable_namespaces(queue)) == bindable(every, queue)
            assert set(members.unreleased_namespaces(queue)) == unreleased(every, queue)
            assert set(members.unfiltered_namespaces(queue)) == bindable(every, queue, unfiltered=True)
        assert members.live(QUEUES) == sum(counted(every, queue).live for queue in QUEUES)


@MODEST
@given(history=histories(pods()))
def test_a_pod_is_found_by_its_name_unless_a_namesake_of_it_has_gone(history: list[tuple[str, Any]]) -> None:
    """Two pods of one name are never held for long: the API server has one at a time."""
    held = Held()
    for what, obj in history:
        held.tell(what, obj)
    every = [one for queue in held.members.queues() for one in held.members.in_queue(queue)]
    for one in every:
        found = held.members.get(one.namespace, one.name)
        namesakes = [other for other in every if other.key == one.key]
        assert found in namesakes or (found is None and len(namesakes) == 1)


@MODEST
@given(history=histories(pods()))
def test_what_is_heard_is_one_unbroken_story_for_each_pod(history: list[tuple[str, Any]]) -> None:
    """Each change begins where the one before ended: whoever adds them up is never wrong."""
    held = Held()
    for what, obj in history:
        held.tell(what, obj)
    now: dict[str, Member] = {}
    for before, after in held.heard:
        member = before or after
        assert member is not None
        uid = member.uid
        assert now.pop(uid, None) == before
        if after is not None:
            now[uid] = after
    assert len(now) == len(held.members)


def test_the_past_is_refused() -> None:
    held = Held()
    members = held.has(member(queue="research", version=5), member(queue="labs", version=4))
    assert [one.version for one in members.in_queue("research")] == [5]
    assert members.in_queue("labs") == []
    assert len(held.heard) == 1


def test_a_list_that_is_of_the_past_for_one_pod_leaves_that_one() -> None:
    held = Held()
    held.has(member(queue="research", version=5))
    held.tell("replace", [member(queue="labs", version=4)])
    assert [one.version for one in held.members.in_queue("research")] == [5]


def test_the_same_version_again_is_judged_again() -> None:
    """A list may be asked for because what membership depends on has changed."""
    queue_of: dict[str, str] = {}
    members = Members(RecordedMemberEvents(partial(membership, podgroup=lambda _, name: queue_of.get(name))))
    waiting = read_pod(pod(annotations={GROUP: "gang"}))
    members.upsert(waiting)
    assert [one.name for one in members.in_podgroup("team", "gang") if not one.queue] == ["work"]
    queue_of["gang"] = "research"
    members.replace([waiting])
    assert [one.name for one in members.in_queue("research")] == ["work"]
    assert [one for one in members.in_podgroup("team", "gang") if not one.queue] == []


def test_a_group_had_pods_while_it_is_the_very_group_that_they_left() -> None:
    """Made again under its name it has had none yet."""
    uids = {"gang": "first"}
    grouped = partial(membership, podgroup=lambda *_: "research")
    members = Members(RecordedMemberEvents(grouped, podgroup_uid=lambda name: uids.get(name, "")))
    came = read_pod(pod(annotations={GROUP: "gang"}))
    assert not members.had_podgroup("team", "gang", "first")
    members.upsert(came)
    assert members.had_podgroup("team", "gang", "first")
    members.remove(came)
    assert members.had_podgroup("team", "gang", "first")
    assert not members.had_podgroup("team", "gang", "second")
    uids.clear()
    members.upsert(came)
    members.remove(came)
    assert not members.had_podgroup("team", "gang", "")


def test_of_groups_that_were_left_only_those_that_are_there_are_kept_in_mind() -> None:
    present, gone = {f"g-{number}" for number in range(8000)}, set[str]()
    grouped = partial(membership, podgroup=lambda *_: "research")
    members = Members(RecordedMemberEvents(grouped, podgroup_uid=lambda name: "" if name in gone else name))
    for number in range(5000):
        came = read_pod(pod(annotations={GROUP: f"g-{number}"}))
        members.upsert(came)
        members.remove(came)
    gone |= {f"g-{number}" for number in range(1, 5000, 2)}
    for number in range(5000, 8000):
        came = read_pod(pod(annotations={GROUP: f"g-{number}"}))
        members.upsert(came)
        members.remove(came)
    assert all(members.had_podgroup("team", name, name) for name in present - gone)
    assert not members.had_podgroup("team", "g-1", "g-1")


def test_a_pod_that_is_none_of_our_business_is_not_kept() -> None:
    assert len(Held().has(pod())) == 0


def test_a_pod_that_leaves_its_queue_is_forgotten_and_heard_of() -> None:
    held = Held()
    held.has(member(queue="research"), pod(version=2, annotations={}))
    assert len(held.members) == 0
    assert [after for _, after in held.heard][-1] is None
    assert held.members.counts("research") == MemberCounts()


def test_a_pod_made_again_under_its_name_is_another() -> None:
    held = Held()
    held.has(member(queue="research", uid="one", version=1), member(queue="research", uid="two", version=5))
    held.tell("remove", member(queue="research", uid="one", version=4))
    found = held.members.get("team", "work")
    assert found is not None
    assert found.uid == "two"
    assert held.members.counts("research").live == 1


def test_removing_what_is_not_held_changes_nothing() -> None:
    held = Held()
    held.tell("remove", member())
    assert held.heard == []


def test_waiting_members_are_found_by_their_namespace_and_group() -> None:
    members = Held().has(
        pod("a", annotations={GROUP: "gang"}),
        pod("b", annotations={GROUP: "other"}),
        pod("c", annotations={GROUP: "gang"}, namespace="elsewhere"),
    )
    assert [one.name for one in members.in_podgroup("team", "gang") if not one.queue] == ["a"]
    assert {one.queue for one in members.in_queue("")} == {""}


def test_what_was_given_out_never_changes() -> None:
    held = Held()
    members = held.has(member(queue="research"))
    [given_out], listed = members.in_queue("research"), members.in_queue("research")
    held.has(member(queue="research", version=2, nodeName="node-1"))
    assert given_out.node == ""
    assert listed == [given_out]


@each_case(
    ("more", "live", "waiting", "bindable_"),
    [
        ({}, True, True, True),
        ({"gates": [GATE]}, True, True, False),
        ({"gates": ["x"]}, True, True, False),
        ({"nodeName": "n"}, True, False, False),
        ({"status": {"phase": "Succeeded"}}, False, False, False),
        ({"status": {"phase": "Failed"}}, False, False, False),
        ({"status": {"phase": "Unknown"}, "nodeName": "n"}, True, False, False),
    ],
    ids=str,
)
def test_what_a_member_may_be(more: Wire, live: bool, waiting: bool, bindable_: bool) -> None:
    [one] = Held().has(member(**more)).in_queue("research")
    assert (one.live, one.waiting, one.bindable) == (live, waiting, bindable_)


def test_one_that_is_being_deleted_is_bound_no_more() -> None:
    """The API server refuses that; so it keeps no stop waiting, however long a finalizer holds it."""
    held = Held()
    held.has(member(resources=None))
    assert (
        held.members.bindable_namespaces("research")
        == held.members.unfiltered_namespaces("research")
        == ["team"]
    )
    leaving = member(resources=None, version=2)
    leaving["metadata"]["deletionTimestamp"] = "2030-01-01T12:00:00Z"
    [one] = held.has(leaving).in_queue("research")
    assert (one.live, one.waiting, one.bindable, one.may_be_bound) == (True, True, False, False)
    assert (
        held.members.bindable_namespaces("research") == held.members.unfiltered_namespaces("research") == []
    )


@pytest.mark.parametrize(
    ("scheduler", "resources", "filtered"),
    [("ours", None, True), ("other", None, False), ("other", MARKED, True), ("ours", MARKED, True)],
)
def test_a_pod_with_the_marker_or_of_our_own_scheduler_is_filtered(
    scheduler: str, resources: Any, filtered: bool
) -> None:
    held = Held(calling_schedulers={"ours"})
    obj = member(resources=resources)
    obj["spec"]["schedulerName"] = scheduler
    [one] = held.has(obj).in_queue("research")
    assert one.filtered is filtered
    assert held.members.unfiltered_namespaces("research") == ([] if filtered else ["team"])


def test_what_is_kept_of_a_pod() -> None:
    controlled = job("train")
    obj = member(
        version=7,
        priority=-3,
        owner=owner(controlled),
        resources=MARKED,
        gates=[GATE, "x"],
        annotations={"sluice.dev/woken": "r1"},
        status={
            "nominatedNodeName": "node-9",
            "conditions": [
                {"type": "Ready", "status": "False", "message": "no"},
                {"type": "PodScheduled", "status": "False", "message": "why"},
            ],
        },
    )
    obj["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    [one] = Held().has(obj).in_queue("research")
    assert (one.version, one.priority, one.owner_uid, one.nominated) == (7, -3, "uid-train", "node-9")
    assert (one.filtered, one.gated, one.others_gated, one.leaving, one.written) == (True,) * 5
    assert (one.condition, one.retried_for) == ("why", "r1")


def test_a_condition_that_holds_says_nothing() -> None:
    said = [{"type": "PodScheduled", "status": "True", "message": "old"}]
    [one] = Held().has(member(status={"conditions": said})).in_queue("research")
    assert one.condition == ""


@pytest.mark.parametrize(
    ("gates", "reason", "told"),
    [
        (["sluice.dev/queue"], "SchedulingGated", "why"),
        (["somebody.else/gate"], "SchedulingGated", "why"),
        ([], "SchedulingGated", ""),
        ([], "Unschedulable", "why"),
    ],
)
def test_what_a_gate_said_is_void_once_it_is_off(gates: list[str], reason: str, told: str) -> None:
    """The scheduler writes the condition only when it has tried the pod."""
    said = [{"type": "PodScheduled", "status": "False", "reason": reason, "message": "why"}]
    [one] = Held().has(member(gates=gates, status={"conditions": said})).in_queue("research")
    assert one.condition == told


@pytest.mark.parametrize(
    ("scheduler", "gates", "reason", "is_outdated"),
    [
        ("others", [], "SchedulingGated", True),
        ("others", ["somebody.else/gate"], "SchedulingGated", False),
        ("others", [], "Unschedulable", False),
        ("default-scheduler", [], "SchedulingGated", False),
    ],
)
def test_another_scheduler_may_never_write_over_what_a_gate_said(
    scheduler: str, gates: list[str], reason: str, *, is_outdated: bool
) -> None:
    """Kubernetes' own does; of others nobody knows whether they run."""
    said = [{"type": "PodScheduled", "status": "False", "reason": reason, "message": "why"}]
    pod = member(gates=gates, status={"conditions": said})
    pod["spec"]["schedulerName"] = scheduler
    [one] = Held().has(pod).in_queue("research")
    assert one.says_gated is is_outdated


@each_case(
    ("annotations", "labels", "task"),
    [
        ({}, {}, ""),
        ({"volcano.sh/task-spec": "ps"}, {}, "ps"),
        ({}, {"volcano.sh/task-spec": "worker"}, "worker"),
        ({"volcano.sh/task-spec": "ps"}, {"volcano.sh/task-spec": "worker"}, "ps"),
        ({"volcano.sh/task-spec": "x" * 100_000}, {}, "x" * 320),
    ],
)
def test_a_pod_says_its_task_by_annotation_or_label(annotations: Wire, labels: Wire, task: str) -> None:
    members = Held().has(member("p", annotations=annotations, labels=labels))
    found = members.get("team", "p")
    assert found is not None
    assert found.task == task
