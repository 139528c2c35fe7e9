"""What edits of quotas say they do: each row of the table, and its texts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from queues.admission.quota_edits import QueueUse, quota_consequences
from queues.admission.stop_edits import LENGTH
from queues.apimachinery.quantities import Amount
from queues.queue import Queue
from queues.states import Desired
from queues.tree import Tree
from tests.support.cases import each_case

NOW = datetime(2030, 1, 1, tzinfo=UTC)
GIB = 2**30
TOP = Queue(name="top", capability=(("cpu", 10), ("memory", 4 * GIB)))
LAB, TEAM = Queue(name="lab"), Queue(name="team", parent="lab")
USE = {
    "lab": QueueUse(used={"cpu": 1, "pods": 1}, waiting=2),
    "team": QueueUse(used={"cpu": 4, "memory": 8 * GIB, "pods": 3}, waiting=5),
    "top": QueueUse(used={"cpu": 7, "pods": 7}, waiting=50),
}


def told(
    after: Queue, before: Queue = LAB, *others: Queue, use: dict[str, QueueUse] | None = None
) -> list[str]:
    trees = [
        Tree({**{each.name: each for each in (TOP, LAB, TEAM, *others)}, one.name: one})
        for one in (before, after)
    ]
    uses = USE if use is None else use
    texts = quota_consequences(
        after.name,
        before=trees[0],
        after=trees[1],
        use=lambda name: uses.get(name, QueueUse()),
        now=NOW,
    )
    return list(texts)


def limited(queue: Queue = LAB, /, **capability: Amount) -> Queue:
    return replace(queue, capability=tuple(sorted(capability.items())) or None)


NOTHING = "nothing is evicted for that, and nothing that requests it is released until enough has ended"


@each_case(
    ("before", "after", "expected"),
    [
        (limited(cpu=9), limited(cpu=2), [f'queue "lab" uses cpu 5 of 2: {NOTHING}']),
        (limited(cpu=2), limited(cpu=1), [f'queue "lab" uses cpu 5 of 1: {NOTHING}']),
        (limited(cpu=2), limited(cpu=2), []),
        (limited(cpu=2), limited(cpu=9), []),
        (limited(cpu=2), limited(cpu=2, pods=9), []),
        (limited(cpu=9), limited(cpu=5), []),
        (
            LAB,
            limited(cpu=2, memory=4 * GIB, pods=1),
            [f'queue "lab" uses cpu 5 of 2, memory 8Gi of 4Gi and 1 more: {NOTHING}'],
        ),
        (limited(memory=9 * GIB), limited(memory=GIB), [f'queue "lab" uses memory 8Gi of 1Gi: {NOTHING}']),
    ],
    ids=str,
)
def test_a_capability_below_what_is_used_says_what_becomes_of_it(
    before: Queue, after: Queue, expected: list[str]
) -> None:
    """The use is that of the queue and of all below it."""
    assert told(after, before) == expected


def test_the_first_quota_of_a_queue_says_what_counts() -> None:
    assert told(limited(cpu=9)) == [
        'queue "lab" is limited (cpu 5 of 9): the 4 pods that run count, '
        "the 7 pods that wait go as there is room"
    ]
    one = {"lab": QueueUse(used={"cpu": 1, "pods": 1})}
    assert told(limited(cpu=9), use=one) == ['queue "lab" is limited (cpu 1 of 9): the pod that runs counts']
    assert told(limited(cpu=9), use={"lab": QueueUse(waiting=1)}) == [
        'queue "lab" is limited (cpu 0 of 9): the pod that waits goes as there is room'
    ]
    assert told(limited(cpu=9), use={}) == []


def test_a_move_below_a_queue_with_a_quota_says_the_same_of_that() -> None:
    moved = replace(LAB, parent="top")
    assert told(moved) == [f'queue "top" uses cpu 12 of 10 and memory 8Gi of 4Gi: {NOTHING}']
    light = {"lab": USE["lab"], "top": USE["top"]}
    assert told(moved, use=light) == [
        'queue "lab" is limited by queue "top" (cpu 8 of 10 and memory 0 of 4Gi): the pod that runs counts, '
        "the 2 pods that wait go as there is room"
    ]
    assert told(LAB, moved) == ['no capability limits queue "lab" any more: the 7 pods that wait for room go']


def test_a_capability_that_goes_says_how_many_pods_go() -> None:
    assert told(LAB, limited(cpu=2)) == [
        'no capability limits queue "lab" any more: the 7 pods that wait for room go'
    ]
    below = replace(limited(cpu=2), parent="top")
    assert told(replace(LAB, parent="top"), below) == [], "queue top still limits it"
    stopped = replace(LAB, desired=Desired.SUSPENDED)
    assert told(stopped, limited(stopped, cpu=2)) == []
    assert told(LAB, limited(cpu=2), use={"lab": QueueUse(waiting=1)}) == [
        'no capability limits queue "lab" any more: the pod that waits for room goes'
    ]


def test_pods_that_a_policy_lets_overcommit_wait_on_without_a_capability() -> None:
    before, after = (Tree({"lab": each, "team": TEAM}) for each in (limited(cpu=2), LAB))
    texts = quota_consequences(
        "lab",
        before=before,
        after=after,
        use=lambda name: USE.get(name, QueueUse()),
        now=NOW,
        overcommits=lambda name: name == "team",
    )
    assert texts == ('no capability limits queue "lab" any more: the 2 pods that wait for room go',)


def test_zero_is_said_where_volcano_takes_it_for_no_limit() -> None:
    text = (
        'spec.capability.{}: "0" lets nothing run that requests {}; Volcano takes it for no limit: '
        "leave it out for that"
    )
    zeros = replace(LAB, capability=(("cpu", 0), ("memory", 0), ("nvidia.com/gpu", 0)))
    assert told(zeros, use={}) == [text.format("cpu", "cpu"), text.format("memory", "memory")]
    assert told(limited(cpu=0, memory=1), limited(cpu=0, memory=2), use={}) == []


def test_a_guarantee_without_room_says_that_nothing_is_evicted_for_it() -> None:
    moved = replace(LAB, parent="top")
    light = {"lab": USE["lab"], "top": USE["top"]}

    def guaranteed(**amounts: Amount) -> Queue:
        return replace(moved, guarantee=tuple(sorted(amounts.items())))

    text = (
        'queue "lab" uses cpu 1 of 4 that it is guaranteed, and queue "top" has no room for the rest now: '
        "nothing is evicted for that, and what ends is kept for it"
    )
    assert told(guaranteed(cpu=4), moved, use=light) == [text]
    assert told(guaranteed(cpu=3), moved, use=light) == [], "8 of 10 are used"
    assert told(guaranteed(cpu=3), guaranteed(cpu=4), use=light) == []
    assert told(guaranteed(pods=4), moved, use=light) == [], "nothing limits it"


@pytest.mark.parametrize("field", ["capability", "guarantee", "deserved"])
def test_children_that_together_come_over_their_parent_share_what_it_has(field: str) -> None:
    one, two = (replace(Queue(name=name, parent="top"), **{field: (("cpu", 6),)}) for name in ("one", "two"))
    small = replace(one, **{field: (("cpu", 4),)})
    may = {"capability": "may use", "guarantee": "are guaranteed", "deserved": "deserve"}[field]
    text = f'the queues below queue "top" {may} cpu 12 of 10 together: they share what there is'
    assert told(one, small, two, use={}) == [text]
    assert told(one, replace(one, parent="root"), two, use={}) == [text]
    assert told(small, one, two, use={}) == []
    lower = replace(TOP, capability=(("cpu", 9), ("memory", 4 * GIB)))
    assert told(lower, TOP, small, two, use={}) == [text.replace("12 of 10", "10 of 9")]
    assert told(replace(TOP, capability=(("cpu", 11),)), TOP, one, two, use={}) == [], "it became less"


def test_a_new_queue_says_what_concerns_others() -> None:
    """Whose pods may be there before it."""
    after = Tree({"new": Queue(name="new", capability=(("cpu", 0),))})
    use = QueueUse(waiting=3)
    assert quota_consequences("new", before=Tree({}), after=after, use=lambda _: use, now=NOW)[0] == (
        'queue "new" is limited (cpu 0 of 0): the 3 pods that wait go as there is room'
    )


def test_an_edit_of_anything_else_says_nothing() -> None:
    assert told(replace(limited(cpu=1), desired=Desired.SUSPENDED), limited(cpu=1)) == []


def test_texts_are_bounded() -> None:
    name, resource = "q" * 253, "e" * 250 + "/r"
    used = {f"{resource}{number}": 2**63 - 1 for number in range(5000)}
    after = Queue(name=name, capability=tuple(sorted((each, 1) for each in used)))
    texts = told(after, Queue(name=name), use={name: QueueUse(used=used)})
    assert len(texts) == 1
    assert len(texts[0]) <= LENGTH
    assert "nothing is evicted" in texts[0]
