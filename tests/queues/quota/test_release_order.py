"""Who is released, and in which order."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.queue import Amounts, DequeueStrategy, Queue
from queues.quota.lack import Lack, LackKind
from queues.quota.ledger import ALL_PODS, AmountReason, Ledger
from queues.quota.pod_classes import WaitingPod
from queues.quota.release_order import ReleasePass
from queues.quota.usage import quota_requests
from queues.quota.waiting_index import WaitingIndex
from queues.tree import Tree

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def queue(
    name: str,
    parent: str = "root",
    *,
    cap: Amounts | None = None,
    deserved: Amounts | None = None,
    priority: int = 0,
    weight: int = 1,
    dequeue: DequeueStrategy = DequeueStrategy.TRAVERSE,
) -> Queue:
    return Queue(
        name=name,
        parent=parent,
        capability=cap,
        deserved=deserved,
        priority=priority,
        weight=weight,
        dequeue=dequeue,
    )


def cpu(amount: int) -> Amounts:
    return (("cpu", amount),)


def pod(name: str, of: str, amount: int = 1, *, priority: int = 0, age: int = 0) -> WaitingPod:
    since = NOW - timedelta(seconds=age)
    return WaitingPod(name, of, quota_requests(cpu(amount)), priority, since)


def by_queue(pods: list[WaitingPod]) -> dict[str, list[WaitingPod]]:
    found: dict[str, list[WaitingPod]] = {}
    for each in pods:
        found.setdefault(each.queue, []).append(each)
    return found


class Case:
    def __init__(self, *queues: Queue) -> None:
        self.tree = Tree({each.name: each for each in queues})
        self.ledger = Ledger(self.tree)
        self.blocked: dict[str, Lack] = {}

    def uses(self, of: str, amount: int) -> Case:
        self.ledger.set_all(of, AmountReason.USED, {ALL_PODS: quota_requests(cpu(amount))})
        return self

    def released(self, *pods: WaitingPod) -> list[str]:
        index = WaitingIndex.of(self.tree, by_queue(list(pods)))
        names = [each.uid for each in ReleasePass(self.tree, index, ledger=self.ledger)]
        self.blocked = index.take_untold()
        return names


def test_so_many_go_as_have_room() -> None:
    case = Case(queue("team", cap=cpu(2)))
    assert case.released(*(pod(f"p{number}", "team") for number in range(5))) == ["p0", "p1"]
    assert case.blocked == dict.fromkeys(["p2", "p3", "p4"], Lack("team", "cpu", 1))


def test_higher_priority_goes_first_then_who_has_waited_longest_then_the_uid() -> None:
    pods = [
        pod("c", "team"),
        pod("b", "team"),
        pod("old", "team", age=9),
        pod("urgent", "team", priority=5),
        pod("large", "team", 2, age=5),
    ]
    assert Case(queue("team", cap=cpu(9))).released(*pods) == ["urgent", "old", "large", "b", "c"]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [(DequeueStrategy.TRAVERSE, ["urgent", "small"]), (DequeueStrategy.FIFO, ["urgent"])],
)
def test_behind_a_pod_without_room_the_others_wait_as_the_queue_says(
    strategy: DequeueStrategy, expected: list[str]
) -> None:
    """Kueue's strict and best-effort queues."""
    case = Case(queue("team", cap=cpu(5), dequeue=strategy))
    pods = [
        pod("urgent", "team", 2, priority=100),
        pod("large", "team", 5, priority=10),
        pod("small", "team"),
    ]
    assert case.released(*pods) == expected
    assert case.blocked["large"] == Lack("team", "cpu", 2)


def test_queues_of_higher_priority_go_first() -> None:
    """Volcano capacity, case 5."""
    case = Case(queue("root", "", cap=cpu(4)), queue("q1", priority=1), queue("q2", priority=10)).uses(
        "q1", 2
    )
    assert case.released(pod("one", "q1", 2, age=9), pod("ten", "q2", 2)) == ["ten"]
    assert case.blocked == {"one": Lack("root", "cpu", 2)}


def test_who_uses_less_of_what_it_deserves_goes_first() -> None:
    case = Case(
        queue("root", "", cap=cpu(11)),
        queue("half", deserved=cpu(8)),
        queue("quarter", deserved=cpu(8)),
        queue("borrower", deserved=cpu(1)),
    )
    case.uses("half", 4).uses("quarter", 2).uses("borrower", 1)
    pods = [
        pod("h", "half"),
        pod("q1", "quarter"),
        pod("q2", "quarter"),
        pod("q3", "quarter"),
        pod("b", "borrower"),
    ]
    assert case.released(*pods) == ["q1", "q2", "h", "q3"], "and none above what it deserves before them"


def test_of_borrowers_the_one_with_the_greater_weight_may_use_more() -> None:
    case = Case(queue("root", "", cap=cpu(6)), queue("one"), queue("two", weight=2))
    pods = [pod(f"{name}-{number}", name) for name in ("one", "two") for number in range(6)]
    released = case.released(*pods)
    assert sorted(name[:3] for name in released) == ["one"] * 2 + ["two"] * 4


def test_a_tree_is_walked_level_by_level() -> None:
    """Volcano capacity with hierarchy, case 4: the parent's capability is full."""
    case = Case(queue("q3", cap=cpu(4)), queue("q31", "q3"), queue("q32", "q3"), queue("q33", "q3"))
    case.uses("q31", 2).uses("q32", 2)
    assert case.released(pod("p", "q33", 3)) == []
    assert case.blocked == {"p": Lack("q3", "cpu", 3)}


def test_pods_of_a_queue_stand_beside_the_queues_below_it() -> None:
    case = Case(queue("lab", cap=cpu(2)), queue("team", "lab"))
    assert case.released(pod("own", "lab"), pod("below", "team"), pod("later", "team")) == ["own", "below"]


@pytest.mark.parametrize("name", ["missing", "orphan"])
def test_pods_of_a_queue_that_is_not_there_wait(name: str) -> None:
    case = Case(queue("orphan", "gone"))
    assert case.released(pod("p", name)) == []
    assert case.blocked == {"p": Lack(name, kind=LackKind.NO_QUEUE)}


names = st.sampled_from([f"q{number}" for number in range(6)])


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Queue], list[WaitingPod]]:
    queues = []
    for number in range(6):
        parent = draw(st.sampled_from(["root", *(f"q{above}" for above in range(number))]))
        queues.append(
            queue(
                f"q{number}",
                parent,
                cap=draw(st.none() | st.integers(0, 8).map(cpu)),
                deserved=draw(st.none() | st.integers(0, 4).map(cpu)),
                priority=draw(st.integers(0, 1)),
                weight=draw(st.integers(1, 3)),
                dequeue=draw(st.sampled_from(DequeueStrategy)),
            )
        )
    sizes = draw(st.lists(st.tuples(names, st.integers(0, 4), st.integers(0, 2)), max_size=25))
    pods = [pod(f"p{n}", of, size, priority=rank, age=n % 3) for n, (of, size, rank) in enumerate(sizes)]
    return queues, pods


@given(cases(), st.randoms(use_true_random=False))
def test_no_release_passes_a_capability_and_nothing_that_fits_is_left(
    case: tuple[list[Queue], list[WaitingPod]], shuffled: random.Random
) -> None:
    queues, pods = case
    made = Case(*queues)
    released = made.released(*pods)
    used: dict[str, int] = {}
    by_uid = {each.uid: each for each in pods}
    for uid in released:
        for above in made.tree.chain(by_uid[uid].queue).queues:
            used[above.name] = used.get(above.name, 0) + int(dict(by_uid[uid].requests).get("cpu", 0))
    for each in queues:
        for _, most in each.capability or ():
            assert used.get(each.name, 0) <= most
    assert {*released, *made.blocked} == set(by_uid)
    assert len(released) + len(made.blocked) == len(pods)
    for uid in made.blocked:
        waiting = by_uid[uid]
        if made.tree.queues[waiting.queue].dequeue is DequeueStrategy.TRAVERSE:
            assert made.ledger.usage.lack(waiting.queue, waiting.requests) is not None, "it has no room"
    again = list(pods)
    shuffled.shuffle(again)
    assert Case(*queues).released(*again) == released, "whatever order they come in"
