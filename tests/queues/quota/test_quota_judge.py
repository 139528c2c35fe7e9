"""The judge of runs under faults can find what it is for: each kind of fault, in a few stored states."""

from __future__ import annotations

import random

import msgspec

from queues.quota.book import Book, encode
from tests.support.quota.fault_tree import GI, TREE
from tests.support.quota.pod_life import random_arrivals
from tests.support.quota.quota_judge import IN_TIME, QuotaJudge, SeenGang, SeenPod, pod_takes

WAITS = SeenPod(
    uid="0", name="p", queue="c0", version=5, takes={"pods": 1, "cpu": 3_000, "memory": GI}, waits=True
)


def released(pod: SeenPod, *, version: int) -> SeenPod:
    return msgspec.structs.replace(pod, version=version, waits=False, is_released=True)


def written(judge: QuotaJudge, *pods: SeenPod, term: int = 1) -> None:
    judge.note_book(encode(Book(term=term, intents={pod.uid: pod.version for pod in pods})))


def two() -> tuple[QuotaJudge, SeenPod, SeenPod]:
    """Each fits into the queue, and not both."""
    judge, first, second = QuotaJudge(), WAITS, msgspec.structs.replace(WAITS, uid="1", name="q", version=6)
    for pod in (first, second):
        judge.note_pod(pod)
    return judge, first, second


def test_a_release_within_the_book_is_no_fault_and_uses_what_it_takes() -> None:
    judge, first, second = two()
    assert {pod.name for pod in judge.left().values()} == {"p", "q"}
    written(judge, first)
    judge.note_pod(released(first, version=8))
    assert (judge.faults, judge.most["c0"]["cpu"], judge.left()) == ([], 3_000, {})
    judge.note_pod(msgspec.structs.replace(released(first, version=9), is_over=True))
    assert [pod.name for pod in judge.left().values()] == [second.name]


def test_two_pods_in_the_book_without_room_for_both_are_a_fault_before_they_are_released() -> None:
    judge, first, second = two()
    written(judge, first, second)
    assert judge.faults == ["the book takes c0 to 6000 cpu of 4000"]


def test_a_release_beyond_a_capability_and_one_that_is_not_in_the_book_are_faults() -> None:
    judge, first, second = two()
    written(judge, first)
    judge.note_pod(released(first, version=8))
    judge.note_pod(released(second, version=9))
    assert judge.faults == [
        "q was released at version 6: not in the book",
        "q takes c0 to 6000 cpu of 4000",
    ]


def test_a_release_at_another_version_than_that_in_the_book_is_a_fault() -> None:
    judge, first, _ = two()
    written(judge, first)
    judge.note_pod(msgspec.structs.replace(first, version=7))
    judge.note_pod(released(first, version=8))
    assert judge.faults == ["p was released at version 7: not in the book"]


def test_a_book_of_an_earlier_term_and_one_that_nobody_can_read_are_faults() -> None:
    judge, first, _ = two()
    written(judge, first, term=4)
    written(judge, first, term=3)
    judge.note_book("1 4\nx")
    assert judge.faults == [
        "the book of term 3 follows that of term 4",
        "the book cannot be read: somebody has changed it",
    ]


def test_a_pod_that_has_room_and_waits_is_left_and_its_time_is_measured() -> None:
    judge = QuotaJudge()
    for number in range(5):
        judge.note_pod(msgspec.structs.replace(WAITS, version=5 + number, says="no room"), at=1.0 + number)
    assert judge.longest == (4.0, f"p of {WAITS.queue}: no room")


def test_who_has_room_and_leaves_it_to_the_claim_of_another_is_not_left() -> None:
    judge, first, second = two()
    smaller = msgspec.structs.replace(WAITS, uid="2", name="r", takes={"pods": 1, "cpu": 1_000})
    judge.note_pod(smaller)
    assert {pod.name for pod in judge.left({"c": "q"}).values()} == {"q", "r"}
    assert {pod.name for pod in judge.left({"a": "q"}).values()} == {first.name, second.name, smaller.name}


def test_what_a_queue_is_guaranteed_is_no_room_for_others() -> None:
    """b0 is guaranteed one of the three devices of b."""
    judge, gpu = QuotaJudge(), "example.com/gpu"
    two_of_them = msgspec.structs.replace(WAITS, queue="b2", takes={"pods": 1, gpu: 2})
    written(judge, two_of_them)
    judge.note_pod(two_of_them)
    judge.note_pod(released(two_of_them, version=7))
    judge.note_pod(msgspec.structs.replace(WAITS, uid="1", queue="b2", takes={"pods": 1, gpu: 1}))
    assert (judge.faults, judge.left()) == ([], {})
    judge.note_pod(msgspec.structs.replace(WAITS, uid="2", queue="b0", takes={"pods": 1, gpu: 1}))
    assert list(judge.left()) == ["2"]


def test_a_container_that_is_made_smaller_takes_what_its_node_still_gives_it() -> None:
    containers = [{"name": "work", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]
    given = {"name": "work", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1500m"}}}
    pod = {"spec": {"containers": containers}, "status": {"containerStatuses": [given]}}
    assert pod_takes(pod) == {"pods": 1, "cpu": 1_500, "memory": GI}


GANG = SeenGang(uid="g", name="gang", least=2, created="2026-01-01T00:00:00Z")
SMALL = {"pods": 1, "cpu": 2_000, "memory": GI}


def gang_of_two() -> tuple[QuotaJudge, SeenPod, SeenPod]:
    """Together they fill the queue."""
    judge = QuotaJudge()
    judge.note_gang(GANG)
    first, second = (
        msgspec.structs.replace(WAITS, uid=uid, name=uid, version=version, gang="gang", takes=SMALL)
        for uid, version in (("a", 6), ("b", 7))
    )
    for pod in (first, second):
        judge.note_pod(pod)
    return judge, first, second


def there(pod: SeenPod, *, version: int) -> SeenPod:
    return msgspec.structs.replace(released(pod, version=version), is_there=True)


def on_node(pod: SeenPod, *, version: int) -> SeenPod:
    return msgspec.structs.replace(there(pod, version=version), ran=True)


def test_a_gang_that_is_in_the_book_whole_and_gets_its_nodes_in_time_is_no_fault() -> None:
    judge, first, second = gang_of_two()
    written(judge, first, second)
    judge.note_pod(there(first, version=9), at=1.0)
    judge.note_pod(there(second, version=10), at=2.0)
    judge.note_pod(on_node(first, version=11), at=3.0)
    judge.note_pod(on_node(second, version=12), at=5.0)
    judge.note_pod(WAITS, at=5.0 + 2 * IN_TIME)
    assert (judge.faults, judge.whole, judge.longest_partly) == ([], {"gang"}, (4.0, "gang"))


def test_a_book_that_begins_less_than_the_minimum_of_a_gang_is_a_fault() -> None:
    judge, first, second = gang_of_two()
    written(judge, first)
    assert judge.faults == ["the book begins 1 pods of gang, of which 2 start together"]
    judge.note_pod(there(first, version=9))
    written(judge, second, term=2)
    assert len(judge.faults) == 1, "with it the minimum is there"


def test_a_gang_of_which_the_rest_waits_for_longer_than_it_is_given_is_a_fault() -> None:
    judge, first, second = gang_of_two()
    written(judge, first, second)
    judge.note_pod(on_node(first, version=9), at=1.0)
    judge.note_pod(WAITS, at=1.0 + IN_TIME)
    assert judge.faults == []
    judge.note_pod(WAITS, at=2.0 + IN_TIME)
    assert judge.faults == [f"gang was partly on nodes for {IN_TIME + 1:.0f} s: a ran, b released"]


def test_a_gang_that_has_lost_a_pod_meanwhile_is_not_judged_and_what_waits_of_it_waits_in_vain() -> None:
    judge, first, second = gang_of_two()
    written(judge, first, second)
    judge.note_pod(on_node(first, version=9), at=1.0)
    assert judge.incomplete() == set()
    judge.note_pod(on_node(first, version=10), gone=True, at=2.0)
    judge.note_pod(WAITS, at=3.0 + IN_TIME)
    assert (judge.faults, judge.incomplete()) == ([], {second.name})


def test_a_gang_is_left_where_its_whole_minimum_has_room() -> None:
    judge, first, _ = gang_of_two()
    assert set(judge.left()) == {GANG.uid}
    other = msgspec.structs.replace(WAITS, uid="2", name="r", takes={"pods": 1, "cpu": 1_000})
    judge.note_pod(other)
    assert set(judge.left({"c": first.name})) == {GANG.uid}, "it has a claim on what the other lacks then"
    written(judge, other)
    judge.note_pod(released(other, version=9))
    assert judge.left() == {}, "there is room for one of them"
    judge.note_pod(there(first, version=10))
    assert judge.left() == {}
    judge.note_pod(msgspec.structs.replace(released(other, version=11), is_over=True))
    assert set(judge.left()) == {GANG.uid}, "for what its minimum lacks"


def test_a_gang_without_enough_pods_or_without_its_podgroup_is_not_left_nor_ahead_of_others() -> None:
    judge, fifo = QuotaJudge(), "a2"
    alone = msgspec.structs.replace(WAITS, queue=fifo, gang="gang", place=(0, "2026-01-01T00:00:00Z", "0"))
    behind = msgspec.structs.replace(
        WAITS, uid="1", name="q", queue=fifo, place=(0, "2026-01-02T00:00:00Z", "1")
    )
    for pod in (alone, behind):
        judge.note_pod(pod)
    assert set(judge.left()) == {behind.uid}
    judge.note_gang(GANG)
    assert set(judge.left()) == {behind.uid}
    judge.note_pod(msgspec.structs.replace(alone, uid="2", name="r"))
    assert set(judge.left()) == {GANG.uid}


def test_one_pod_in_five_comes_with_a_gang_that_fits_into_its_queue() -> None:
    arrivals = random_arrivals(5_000, random.Random(0))
    pods = [each for each in arrivals if not each.least]
    assert [len(pods), len({each.name for each in pods})] == [5_000, 5_000]
    assert 0.15 < sum(bool(each.gang) for each in pods) / len(pods) < 0.25
    for group in arrivals:
        if group.least:
            assert {each.queue for each in pods if each.gang == group.gang} == {group.queue}
            assert group.least <= TREE[group.queue].capability.get("pods", 5)


def test_a_pod_that_was_let_in_again_and_has_to_go_at_once_is_a_fault() -> None:
    """One of the same workload that was there before may go at any time, and any of them after a minute."""
    judge = QuotaJudge()
    pods = [
        msgspec.structs.replace(WAITS, uid=name, name=name, takes={"pods": 1}, workload="rs", version=place)
        for place, name in enumerate(("first", "beside"), start=1)
    ]

    def let_in(pod: SeenPod, *, at: float) -> None:
        written(judge, pod)
        judge.note_pod(released(pod, version=pod.version + 10), at=at)

    def goes(pod: SeenPod, *, at: float) -> None:
        gone = msgspec.structs.replace(released(pod, version=pod.version + 20), evicted="Reclaimed", ran=True)
        judge.note_pod(gone, at=at)

    for pod in pods:
        judge.note_pod(pod)
        let_in(pod, at=0.0)
    goes(pods[0], at=1.0)
    goes(pods[1], at=2.0)
    again = [
        msgspec.structs.replace(pods[0], uid=name, name=name, version=place)
        for place, name in enumerate(("late", "soon"), start=101)
    ]
    for pod in again:
        judge.note_pod(pod)
        let_in(pod, at=3.0)
    goes(again[0], at=63.0)
    assert (judge.faults, judge.let_in_again) == ([], 2)
    goes(again[1], at=23.0)
    assert judge.faults == ["soon had to go 20 s after it was let in again"]
