"""What a move, or another edit, does to the pods below: each row of the table, and its texts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from msgspec.structs import replace

from queues.admission.stop_edits import LENGTH
from queues.admission.tree_edits import PodNumbers, tree_consequences
from queues.node_groups import NodeGroups
from queues.queue import Queue
from queues.states import Desired, StopPolicy
from queues.tree import Tree
from queues.verdict import verdict
from tests.support.cases import each_case

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)

PARENTS = {
    "open": Queue(name="open"),
    "suspended": Queue(name="suspended", desired=Desired.SUSPENDED),
    "ends": Queue(name="ends", desired=Desired.SUSPENDED, resume_at=NOW - timedelta(hours=1)),
    "closed": Queue(name="closed", desired=Desired.CLOSED),
    "held": Queue(name="held", stop_policy=StopPolicy.HOLD),
    "drained": Queue(name="drained", stop_policy=StopPolicy.HOLD_AND_DRAIN),
}
TEAM = Queue(name="team", parent="open")
LAB, STOPPED = Queue(name="lab", parent="team"), Queue(name="off", parent="team", desired=Desired.SUSPENDED)
PODS = {
    "team": PodNumbers(running=1, waiting=2),
    "lab": PodNumbers(running=10, waiting=20),
    "off": PodNumbers(running=100, waiting=200),
}


def tree(team: Queue = TEAM) -> Tree:
    return Tree({**PARENTS, "team": team, "lab": LAB, "off": STOPPED})


def told(
    after: Queue, before: Queue = TEAM, *, pods: dict[str, PodNumbers] = PODS, keeping: str = ""
) -> list[str]:
    return list(
        tree_consequences(
            "team",
            before=tree(before),
            after=tree(after),
            pods=lambda name: pods.get(name, PodNumbers()),
            keeps=lambda name: name == keeping,
            now=NOW,
        )
    )


def moved(parent: str) -> Queue:
    return replace(TEAM, parent=parent)


@each_case(
    ("parent", "expected"),
    [
        ("root", []),
        ("ends", []),
        ("suspended", ['queue "suspended" stops queue "team" there: the 22 pods that wait go on waiting']),
        ("held", ['queue "held" stops queue "team" there: the 22 pods that wait go on waiting']),
        ("closed", ['queue "closed" is Closed: queue "team" takes no new work there']),
        (
            "drained",
            [
                'stopPolicy HoldAndDrain of queue "drained" drains queue "team": '
                "the 111 pods that run will be evicted, as spec.drain says",
                'queue "drained" stops queue "team" there: the 22 pods that wait go on waiting',
            ],
        ),
    ],
)
def test_a_move_says_what_it_does_to_all_below(parent: str, expected: list[str]) -> None:
    """What a queue below asked for itself changes nothing for it: its waiting pods waited before."""
    assert told(moved(parent)) == expected


def test_a_move_out_of_a_stop_says_what_it_lets_run() -> None:
    assert told(moved("open"), moved("suspended")) == [
        'queue "suspended" no longer stops queue "team": the 22 pods that wait will run'
    ]
    assert told(moved("open"), moved("closed")) == [
        'queue "team" takes new work again: it is no longer below queue "closed"'
    ]


def test_a_move_under_a_parent_that_exists_says_what_it_lets_run() -> None:
    assert told(moved("open"), moved("gone")) == [
        'the chain of parents of queue "team" reaches root again: the 22 pods that wait will run'
    ]


def test_a_drain_by_hand_says_how_many_pods_go() -> None:
    assert told(replace(TEAM, stop_policy=StopPolicy.HOLD_AND_DRAIN)) == [
        'stopPolicy HoldAndDrain of queue "team" drains queue "team": the 111 pods that run will be evicted, '
        "as spec.drain says"
    ]


@pytest.mark.parametrize(
    ("keeping", "pods", "said"),
    [
        ("drained", PODS, "up to 111 pods that run will be evicted"),
        ("drained", {"team": PodNumbers(running=1)}, "up to 1 pod that runs will be evicted"),
        ("team", PODS, "the 111 pods that run will be evicted"),
    ],
    ids=["several", "one", "not of the queue that drains"],
)
def test_a_drain_that_lets_pods_stay_says_up_to_how_many_go(
    keeping: str, pods: dict[str, PodNumbers], said: str
) -> None:
    """Which of them its selector selects is not known where only numbers are."""
    assert said in told(moved("drained"), pods=pods, keeping=keeping)[0]


@pytest.mark.parametrize("stop", [{"desired": Desired.SUSPENDED}, {"stop_policy": StopPolicy.HOLD}], ids=str)
def test_a_stop_that_is_asked_for_by_name_says_nothing(stop: dict[str, object]) -> None:
    assert told(replace(TEAM, **stop)) == []


BIG = NodeGroups(is_bound=True, required=("big",))


def test_other_node_groups_say_how_many_pods_keep_theirs() -> None:
    """Those of queues below that have none of their own count, too."""
    keep = 'of before in queue "team"; new ones get those of now'
    bound = replace(TEAM, node_groups=BIG)
    assert told(bound) == [f"the 333 pods that exist keep the node groups {keep}"]
    assert told(TEAM, bound) == told(bound)
    assert told(bound, bound) == []
    assert told(bound, pods={"lab": PodNumbers(running=1)}) == [
        f"the pod that exists keeps the node groups {keep}"
    ]
    assert told(bound, pods={}) == []


def test_one_pod_and_none() -> None:
    one = {"team": PodNumbers(running=1, waiting=1)}
    assert [text.partition(": ")[2] for text in told(moved("drained"), pods=one)] == [
        "the pod that runs will be evicted, as spec.drain says",
        "the pod that waits goes on waiting",
    ]
    assert told(moved("drained"), pods={}) == ['queue "drained" stops queue "team" there: nothing new runs']


def test_something_is_said_wherever_a_verdict_changes_and_nowhere_else() -> None:
    for source, target in product(PARENTS, PARENTS):
        before, after = moved(source), moved(target)
        was, will = (verdict("team", tree=tree(each), live=True, now=NOW) for each in (before, after))
        changed = (was.schedules, was.accepts, was.drains) != (will.schedules, will.accepts, will.drains)
        assert bool(told(after, before)) is changed, (source, target)


def test_texts_are_bounded() -> None:
    name = "q" * 253
    above = Queue(name="p" * 253, stop_policy=StopPolicy.HOLD_AND_DRAIN)
    before, after = (
        Tree({above.name: above, name: Queue(name=name, parent=parent)}) for parent in ("root", above.name)
    )
    texts = tree_consequences(
        name,
        before=before,
        after=after,
        pods=lambda _: PodNumbers(running=10**6, waiting=10**6),
        keeps=lambda _: True,
        now=NOW,
    )
    assert len(texts) == 2
    assert max(map(len, texts)) <= LENGTH
