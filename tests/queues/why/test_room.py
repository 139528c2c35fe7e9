"""Why a pod has no room: its place, which queue lacks what, and who holds it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from queues.apimachinery.quantities import Amount
from queues.apimachinery.timestamps import rfc3339
from queues.queue import DequeueStrategy, Queue, StoppedGuarantee
from queues.quota.lack import LackKind
from queues.quota.pod_classes import WaitingPod
from queues.quota.report import QuotaClaim
from queues.quota.usage import quota_requests
from queues.states import Desired
from queues.tree import Tree
from queues.why.explain import explain
from queues.why.explanation import (
    Claimant,
    ExplainedMembership,
    Explanation,
    Fate,
    Holder,
    ObjectRef,
    ObservedObject,
    ObservedQueues,
    QueueRecord,
    Room,
)
from queues.why.room import ObservedLine, of_waiting_gang, room_of, with_claimants, with_gang

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)

#: 8 cpu: of these 6 are used by `speech`, and 2 by `vision`, which is bounded by no limit of its own.
LAB = (
    Queue(name="lab", capability=(("cpu", 8),)),
    Queue(name="vision", parent="lab"),
    Queue(name="speech", parent="lab"),
)
USED: dict[str, Mapping[str, Amount]] = {"lab": {"cpu": 8}, "vision": {"cpu": 2}, "speech": {"cpu": 6}}


def seen(*queues: Queue, used: Mapping[str, Mapping[str, Amount]] = USED) -> ObservedQueues:
    records = {each.name: QueueRecord(used=used.get(each.name)) for each in queues}
    return ObservedQueues(
        tree=Tree({each.name: each for each in queues}), records=records, now=NOW, all_read=True
    )


def waiting(
    name: str, *, cpu: Amount = 1, priority: int = 0, age: int = 0, queue: str = "vision"
) -> WaitingPod:
    since = NOW - timedelta(seconds=age)
    requests = quota_requests((("cpu", cpu),))
    return WaitingPod(uid=name, queue=queue, requests=requests, priority=priority, since=since)


def line(*pods: WaitingPod, whole: bool = True) -> ObservedLine:
    return ObservedLine(pods=pods, names={each.uid: f"team/{each.uid}" for each in pods}, whole=whole)


def test_the_queue_that_lacks_room_is_named_with_what_lacks_and_who_holds_it() -> None:
    pod = waiting("p", cpu=2)
    room = room_of(pod, line=line(pod), queues=seen(*LAB))
    assert room == Room(
        place=1,
        waiting=1,
        queue="lab",
        kind="capability",
        resource="cpu",
        requested="2",
        missing="2",
        used="8",
        limit="8",
        holders=(Holder(queue="speech", amount="6"), Holder(queue="vision", amount="2")),
        since=rfc3339(pod.since),
    )


#: 4 cpu: 1 by pods of `team` itself, 3 by `child`, of which 2 by `deep`.
TEAM = (
    Queue(name="team", capability=(("cpu", 4),)),
    Queue(name="child", parent="team"),
    Queue(name="deep", parent="child"),
)
TEAM_USED: dict[str, Mapping[str, Amount]] = {"team": {"cpu": 4}, "child": {"cpu": 3}, "deep": {"cpu": 2}}


@pytest.mark.parametrize(
    ("queue", "deeper"), [("team", ""), ("child", ""), ("deep", "2")], ids=["top", "child", "grandchild"]
)
def test_holders_are_parts_of_what_is_used(queue: str, deeper: str) -> None:
    """None is counted in another one, and together they are all of it."""
    room = room_of(waiting("p", queue=queue), line=None, queues=seen(*TEAM, used=TEAM_USED))
    assert room.holders == (
        Holder(queue="child", amount="3", own=deeper),
        Holder(queue="team", amount="1", itself=True),
    )


def test_what_a_queue_uses_itself_is_known_with_all_queues_alone() -> None:
    chain = replace(seen(TEAM[0], used=TEAM_USED), all_read=False)
    assert room_of(waiting("p", queue="team"), line=None, queues=chain).holders == ()


def test_it_is_told_what_of_that_is_of_pods_that_are_gone() -> None:
    known, pod = seen(*LAB), waiting("p")
    records = {**known.records, "lab": replace(known.records["lab"], force_deleted={"cpu": 3, "pods": 1})}
    room = room_of(pod, line=line(pod), queues=replace(known, records=records))
    assert (room.used, room.force_deleted) == ("8", "3")


def test_a_pod_that_fits_has_room_and_its_own_queue_bounds_it_before_one_above() -> None:
    pod = waiting("p")
    spare = seen(*LAB, used={**USED, "lab": {"cpu": 7}})
    assert room_of(pod, line=line(pod), queues=spare).has_room
    own = Queue(name="vision", parent="lab", capability=(("cpu", 2),))
    room = room_of(pod, line=line(pod), queues=seen(LAB[0], own))
    assert (room.queue, room.used, room.limit) == ("vision", "2", "2")


def test_what_is_kept_for_a_queue_beside_it_is_no_room() -> None:
    """The same rule as the leader's; a queue that does not schedule may lend it."""
    speech = Queue(name="speech", parent="lab", guarantee=(("cpu", 6),))
    pod, used = waiting("p"), {"lab": {"cpu": 3}, "vision": {"cpu": 2}, "speech": {"cpu": 1}}
    room = room_of(pod, line=line(pod), queues=seen(LAB[0], LAB[1], speech, used=used))
    assert (room.queue, room.kind, room.missing) == ("lab", "guarantees", "1")
    lends = replace(speech, desired=Desired.SUSPENDED, stopped_guarantee=StoppedGuarantee.LEND)
    assert room_of(pod, line=line(pod), queues=seen(LAB[0], LAB[1], lends, used=used)).has_room


def test_a_pod_that_never_fits_is_told_so() -> None:
    room = room_of(waiting("p", cpu=9), line=None, queues=seen(*LAB, used={}))
    assert (room.queue, room.never, room.requested, room.limit) == ("lab", True, "9", "8")


def test_the_place_is_that_of_the_leader_s_order() -> None:
    """Higher priority first, then who has waited longest; the first of those before it are named."""
    pod = waiting("p", age=5)
    others = (waiting("older", age=9), waiting("urgent", priority=7), waiting("newer", age=1))
    room = room_of(pod, line=line(pod, *others), queues=seen(*LAB))
    assert (room.place, room.waiting, room.before) == (3, 4, ("team/urgent", "team/older"))
    first = room_of(others[1], line=line(pod, *others), queues=seen(*LAB))
    assert (first.place, first.before) == (1, ())


def test_what_goes_before_takes_the_room_first() -> None:
    """One cpu is free, for which another pod of the queue has waited longer."""
    spare = seen(*LAB, used={**USED, "lab": {"cpu": 7}})
    pod, older = waiting("p", age=1), waiting("older", age=9)
    assert not room_of(pod, line=line(pod, older), queues=spare).has_room
    assert room_of(older, line=line(pod, older), queues=spare).has_room


def test_with_fifo_a_pod_waits_for_what_the_first_one_lacks() -> None:
    lab = Queue(name="lab", capability=(("cpu", 8), ("gpu", 1)), dequeue=DequeueStrategy.FIFO)
    large = WaitingPod(
        uid="large",
        queue="lab",
        requests=quota_requests((("gpu", 1),)),
        priority=1,
        since=NOW,
    )
    small = waiting("small", queue="lab")
    room = room_of(small, line=line(large, small), queues=seen(lab, used={"lab": {"cpu": 1, "gpu": 1}}))
    assert (room.queue, room.resource, room.before) == ("lab", "gpu", ("team/large",))


def test_who_may_not_list_the_pods_of_all_namespaces_is_told_no_place() -> None:
    pod = waiting("p")
    for read in (None, line(pod, waiting("mate", age=9), whole=False)):
        room = room_of(pod, line=read, queues=seen(*LAB))
        assert (room.place, room.waiting, room.queue) == (None, None, "lab")


def test_a_queue_above_that_says_nothing_of_its_use_uses_what_its_own_queue_does() -> None:
    pod = waiting("p")
    assert room_of(pod, line=None, queues=seen(*LAB, used={"vision": {"cpu": 7}})).has_room
    room = room_of(pod, line=None, queues=seen(*LAB, used={"vision": {"cpu": 8}}))
    assert (room.queue, room.used, room.missing) == ("lab", "8", "1")


def explained(room: Room | None = None, **facts: Any) -> Explanation:
    ref = ObjectRef(kind="Pod", name="p", namespace="ns")
    subject = ObservedObject(ref=ref, room=room, **facts)
    return explain(subject, ExplainedMembership(queue="vision"), queues=seen(*LAB))


def test_the_first_line_says_what_is_used() -> None:
    pod = waiting("p")
    found = explained(room_of(pod, line=line(pod), queues=seen(*LAB)))
    assert found.outcome is Fate.WAITS_FOR_OTHER
    assert found.summary == 'Pod ns/p waits for room: queue "lab" uses cpu 8 of 8'
    never = explained(room_of(waiting("p", cpu=9), line=None, queues=seen(*LAB)))
    assert never.summary == 'Pod ns/p waits for room: queue "lab" never has cpu 9, its capability is 8'


@pytest.mark.parametrize(
    ("kind", "first_line"),
    [
        (LackKind.CLAIM, "a pod that has waited longer has a claim on what is left"),
        (LackKind.OVERCOMMIT, "as much waits for nodes already as plugin overcommit of its policy allows"),
    ],
)
def test_what_the_leader_alone_knows_is_what_the_pod_says(kind: LackKind, first_line: str) -> None:
    pod, free = waiting("p"), {"lab": {"cpu": 1}}
    room = room_of(pod, line=line(pod), queues=seen(*LAB, used=free), said=kind)
    assert (room.has_room, room.kind) == (True, kind.value)
    assert explained(room).summary == f"Pod ns/p waits for room: {first_line}"
    used_up = room_of(pod, line=line(pod), queues=seen(*LAB), said=kind)
    assert used_up.kind == "capability", "what can be seen counts"


def test_who_has_a_claim_is_what_the_statuses_of_the_chain_say() -> None:
    claim = QuotaClaim(namespace="team", pod="large", queue="speech", since="2030-01-01T11:00:00Z")
    known = seen(*LAB)
    records = {**known.records, "lab": replace(known.records["lab"], claim=claim)}
    queues = replace(known, records=records)
    pod = waiting("p")
    room = room_of(pod, line=line(pod), queues=queues)
    found = Claimant(queue="lab", pod="team/large", pod_queue="speech", since="2030-01-01T11:00:00Z")
    assert with_claimants(room, "team/p", "vision", queues=queues) == replace(room, claimants=(found,))
    assert with_claimants(room, "team/large", "vision", queues=queues) == replace(room, claims_in=("lab",))
    never = replace(room, never=True)
    assert with_claimants(never, "team/p", "vision", queues=queues) == never


TEXT = 'queue "vision" has no room for this pod now: the capability of its ancestor "lab" is used; it goes'


def test_who_may_not_read_its_queue_is_told_in_the_words_that_are_on_the_pod() -> None:
    ref = ObjectRef(kind="Pod", name="p", namespace="ns")
    for said in ("", TEXT):
        subject = ObservedObject(
            ref=ref, message=TEXT, message_by="sluice", said=said, gates=("sluice.dev/quota",)
        )
        found = explain(subject, ExplainedMembership(queue="vision"), queues=None)
        assert found.outcome is Fate.WAITS_FOR_OTHER
        assert found.summary == 'Pod ns/p waits for room: queue "vision" has a quota, and is not stopped'
        expected = (f"it says: {TEXT}", 'you may not read queue "vision": this is what it says itself')
        assert found.notes == expected


def test_a_queue_says_how_it_stands_against_its_quota() -> None:
    kept = (("memory", 2**29),)
    lab = Queue(
        name="lab", capability=(("cpu", 8),), deserved=(("cpu", 6), ("memory", 2**30)), guarantee=kept
    )
    records = {"lab": QueueRecord(used={"cpu": 8, "memory": 0}, waiting=3, not_enforced="more is used")}
    queues = ObservedQueues(tree=Tree({"lab": lab}), records=records, now=NOW)
    subject = ObservedObject(ref=ObjectRef(kind="Queue", name="lab"))
    found = explain(subject, ExplainedMembership(queue="lab"), queues=queues)
    assert found.quota is not None
    assert (found.quota.waiting, found.quota.not_enforced) == (3, "more is used")
    assert found.quota.resources == {
        "cpu": {"used": "8", "limit": "8", "deserved": "6", "lent": "0", "borrowed": "2"},
        "memory": {
            "used": "0",
            "deserved": "1Gi",
            "guarantee": "512Mi",
            "lent": "512Mi",
            "borrowed": "0",
        },
    }


def grouped(*pods: WaitingPod, group: str = "team/gang") -> ObservedLine:
    found = line(*pods)
    return ObservedLine(pods=found.pods, names=found.names, groups={each.uid: group for each in pods})


def test_of_a_gang_counts_what_all_that_start_together_request() -> None:
    pods = [waiting(f"p-{at}", cpu=2, age=9 - at) for at in range(5)]
    asked = with_gang(pods[2], grouped(*pods), together=4)
    assert asked.pods == ("p-2", "p-0", "p-1", "p-3")
    queues = seen(
        Queue(name="lab", capability=(("cpu", 8),)),
        Queue(name="vision", parent="lab"),
        used={"lab": {"cpu": 3}, "vision": {"cpu": 3}},
    )
    room = room_of(asked, line=grouped(*pods), queues=queues)
    assert (room.together, room.requested, room.missing, room.used) == (4, "8", "3", "3")
    assert (room.place, room.waiting) == (1, 2)


def test_a_pod_that_completes_its_gang_and_one_of_another_namespace_count_by_themselves() -> None:
    pod = waiting("p")
    assert with_gang(pod, grouped(pod), together=1) is pod
    assert with_gang(pod, line(pod), together=4) is pod
    assert with_gang(pod, None, together=4) is pod


def test_a_gang_that_does_not_start_yet_says_why_and_no_amounts() -> None:
    found = explained(of_waiting_gang("fewer than 4 pods of its PodGroup exist"))
    assert found.summary == (
        "Pod ns/p waits for room: its PodGroup starts as a whole; fewer than 4 pods of its PodGroup exist"
    )
