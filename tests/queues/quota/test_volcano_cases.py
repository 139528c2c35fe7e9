"""The cases of Volcano's own tests of plugin `capacity`, as values: what is released, and what has no room.

What nodes have there is the capability of `root` here. `differs` says where Volcano does something else, and
why. Its case of a closed queue is of stops, and not here.

Source: `pkg/scheduler/plugins/capacity` (its tests without and with hierarchy, and of enqueueing).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction

import msgspec

from queues.apimachinery.quantities import Amount
from queues.queue import Queue
from queues.quota.ledger import AmountReason, Ledger
from queues.quota.pod_classes import WaitingPod
from queues.quota.release_order import ReleasePass
from queues.quota.usage import quota_requests
from queues.quota.waiting_index import WaitingIndex
from queues.tree import Tree
from tests.support.cases import each_case

Resources = Mapping[str, Amount]

NOW = datetime(2026, 1, 1, tzinfo=UTC)
A100, GPU, HCA = "nvidia.com/A100", "nvidia.com/gpu", "rdma/hca"
EVICTS = "it evicts a pod for it: that is reclaim, which nothing does here yet for pods with a gate"
ENQUEUES = "it enqueues what is below its share though nothing is free, to evict for it later"


def of(cpu: Amount = 0, memory: Amount = 0, **more: Amount) -> Resources:
    """Memory in Gi. No zeros, as of a pod's requests (`queues.apimachinery.pod_requests`)."""
    names = {"a100": A100, "gpu": GPU, "hca": HCA}
    amounts = {"cpu": cpu, "memory": memory, **{names.get(name, name): each for name, each in more.items()}}
    return {name: amount for name, amount in amounts.items() if amount}


def queue(
    name: str,
    parent: str = "root",
    *,
    cap: Resources | None = None,
    deserved: Resources | None = None,
    guarantee: Resources | None = None,
    priority: int = 0,
) -> Queue:
    amounts = [None if each is None else tuple(each.items()) for each in (cap, deserved, guarantee)]
    return Queue(
        name=name,
        parent=parent,
        capability=amounts[0],
        deserved=amounts[1],
        guarantee=amounts[2],
        priority=priority,
    )


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """`runs`, `asks`: by queue, what each pod requests. `waits_for`: the queue without room, by the queue of
    the pod that waits.
    """

    nodes: Resources
    queues: Sequence[Queue]
    runs: Sequence[tuple[str, Resources]] = ()
    asks: Sequence[tuple[str, Resources]] = ()
    released: Sequence[str] = ()
    waits_for: Mapping[str, str] = {}
    differs: str = ""


TWO_NODES = of(4, 8)
NODE = of(8, 8, pods=11)
Q1 = [queue("q1", cap=of(4, 4)), queue("q2", cap=of(4, 4))]
Q1_LEAVES = [queue("q11", "q1", cap=of(1, 1)), queue("q12", "q1", cap=of(3, 3))]
Q3 = [
    queue("q3", deserved=of(4, 4, pods=10), cap=of(4, 4, pods=10)),
    queue("q4", deserved=of(2, 2, pods=1), cap=of(4, 4, pods=4)),
    queue("q31", "q3", deserved=of(2, 2, pods=2), cap=of(4, 4, pods=4)),
    queue("q32", "q3", deserved=of(2, 2, pods=2), cap=of(4, 4, pods=4)),
]
ENQUEUE = [
    queue("q1", deserved=of(2, 2), cap=of(2, 2)),
    queue("q2", deserved=of(2, 2), cap=of(3, 3)),
]
ENQUEUE_RUNS = [("q1", of(1, 3)), ("q2", of(3, 1))]
LARGE_NODE = of(16, 16, a100=5, hca=1001, pods=11)
LARGE, HALF = of(16, 16, a100=5, hca=1), of(16, 16, a100=5)
WHOLE = of(32, 32, a100=10)

CASES = {
    "0: below its capability": Case(
        nodes=TWO_NODES,
        queues=[queue("q1", cap=of(2, 2))],
        runs=[("q1", of(1, 1))],
        asks=[("q1", of(1, 1))],
        released=["q1"],
    ),
    "1: beyond its capability": Case(
        nodes=TWO_NODES,
        queues=[queue("q2", cap=of(Fraction(3, 2), Fraction(3, 2)))],
        runs=[("q2", of(1, 1))],
        asks=[("q2", of(1, 1))],
        waits_for={"q2": "q2"},
    ),
    "2: below what it deserves, others use all": Case(
        nodes=TWO_NODES,
        queues=[queue("q3", deserved=of(2, 4)), queue("q4", deserved=of(2, 4))],
        runs=[("q3", of(2, 4)), ("q3", of(2, 4))],
        asks=[("q4", of(2, 4))],
        waits_for={"q4": "root"},
        differs=EVICTS,
    ),
    "3: over in what is not requested": Case(
        nodes=of(4, 8, a100=20),
        queues=[queue("q5", deserved=of(2, 4, a100=10)), queue("q6", deserved=of(2, 4, a100=10))],
        runs=[("q5", of(a100=10)), ("q5", of(a100=10)), ("q6", of(2, 4)), ("q6", of(2, 4))],
        asks=[("q6", of(a100=10))],
        waits_for={"q6": "root"},
        differs=EVICTS,
    ),
    "4: the queue of higher priority": Case(
        nodes=TWO_NODES,
        queues=[
            queue("q7", cap=of(2, 4), priority=5),
            queue("q8", cap=of(2, 4), priority=1),
            queue("q9", cap=of(2, 4), priority=10),
        ],
        runs=[("q7", of(2, 4))],
        asks=[("q8", of(2, 4)), ("q9", of(2, 4))],
        released=["q9"],
        waits_for={"q8": "root"},
    ),
    "5: within what it deserves in one resource": Case(
        nodes=of(2, 4),
        queues=[
            queue("q10", deserved=of(2, 2), cap=of(4, 4)),
            queue("q11", deserved={"cpu": 0, "memory": 0}, cap=of(2, 2)),
        ],
        runs=[("q10", of(1, 3)), ("q11", of(1, 1))],
        asks=[("q10", of(1, 1))],
        waits_for={"q10": "root"},
        differs=EVICTS,
    ),
    "6: beyond what it deserves": Case(
        nodes=of(2, 4),
        queues=[
            queue("q12", deserved=of(1, 2), cap=of(4, 4)),
            queue("q13", deserved={"cpu": 0, "memory": 0}, cap=of(2, 2)),
        ],
        runs=[("q12", of(1, 1)), ("q13", of(1, 1))],
        asks=[("q12", of(1, 2))],
        waits_for={"q12": "root"},
    ),
    "enqueue 0: memory is over, cpu is requested": Case(
        nodes=of(6, 6), queues=ENQUEUE, runs=ENQUEUE_RUNS, asks=[("q1", of(1, 0))], released=["q1"]
    ),
    "enqueue 1: cpu is over, memory is requested": Case(
        nodes=of(6, 6), queues=ENQUEUE, runs=ENQUEUE_RUNS, asks=[("q2", of(0, 1))], released=["q2"]
    ),
    "enqueue 2: beyond its capability": Case(
        nodes=of(6, 6), queues=ENQUEUE, runs=ENQUEUE_RUNS, asks=[("q1", of(1, 1))], waits_for={"q1": "q1"}
    ),
    "tree 0: in a leaf": Case(
        nodes=NODE, queues=[*Q1, *Q1_LEAVES], asks=[("q11", of(1, 1))], released=["q11"]
    ),
    "tree 1: in a queue above others": Case(
        nodes=NODE,
        queues=[*Q1, *Q1_LEAVES],
        asks=[("q1", of(1, 1))],
        released=["q1"],
        differs="it takes pods in leaves alone; here those of a queue stand beside the queues below it",
    ),
    "tree 2: two pods below each capability": Case(
        nodes=NODE, queues=Q3, asks=[("q31", of(2, 2)), ("q31", of(2, 2))], released=["q31", "q31"]
    ),
    "tree 3: a sibling has more than it deserves": Case(
        nodes=NODE,
        queues=Q3,
        runs=[("q4", of(4, 4)), ("q31", of(2, 2)), ("q31", of(2, 2))],
        asks=[("q32", of(2, 2))],
        waits_for={"q32": "q3"},
        differs=EVICTS,
    ),
    "tree 4: the capability above is used": Case(
        nodes=NODE,
        queues=[*Q3, queue("q33", "q3", deserved=of(pods=2), cap=of(4, 4, pods=4))],
        runs=[("q31", of(2, 2)), ("q32", of(2, 2))],
        asks=[("q33", of(3, 3))],
        waits_for={"q33": "q3"},
    ),
    "tree 5: what a capability does not name has no bound of its own": Case(
        nodes=NODE,
        queues=[queue("q5", cap=of(memory=4)), queue("q51", "q5", cap=of(memory=2))],
        asks=[("q51", of(1))],
        released=["q51"],
    ),
    "tree 6: two queues share the capability above": Case(
        nodes=NODE,
        queues=[queue("q6", cap=of(2, 4)), queue("q61", "q6"), queue("q62", "q6")],
        asks=[("q61", of(2, 4)), ("q62", of(2, 4))],
        released=["q61"],
        waits_for={"q62": "q6"},
    ),
    "tree 8: devices that are deserved": Case(
        nodes=of(8, 8, gpu=8, pods=10),
        queues=[
            queue("q8", deserved=of(4, 4, gpu=8)),
            queue("q81", "q8", deserved=of(2, 2, gpu=4)),
            queue("q82", "q8", deserved=of(2, 2, gpu=4)),
        ],
        asks=[("q81", of(2, 2, gpu=1))],
        released=["q81"],
    ),
    "tree 9: nothing is deserved of what is not requested": Case(
        nodes=of(8, 8, gpu=8, pods=10),
        queues=[
            queue("q9", deserved={**of(2, 2, gpu=8), "hugepages-1Gi": 0}),
            queue("q91", "q9", deserved={**of(2, 2, gpu=4), "hugepages-1Gi": 0}),
        ],
        asks=[("q91", of(2, 2, gpu=1))],
        released=["q91"],
    ),
    "tree 11: devices below a queue that names none": Case(
        nodes=of(8, 8, gpu=8, pods=10),
        queues=[
            queue("q1"),
            queue("q11", "q1", cap=of(4, 4, gpu=4)),
            queue("q12", "q1", cap=of(4, 4, gpu=4)),
        ],
        asks=[("q11", of(1, 1, gpu=4)), ("q12", of(1, 1, gpu=4))],
        released=["q11", "q12"],
    ),
    "tree 12: within what it deserves of one device": Case(
        nodes=LARGE_NODE,
        queues=[
            queue("q1", deserved=of(a100=2)),
            queue("q11", "q1", deserved=of(a100=2)),
            queue("q12", "q1"),
        ],
        runs=[("q12", of(1, 1, a100=2, hca=1)), ("q12", of(1, 1, a100=2, hca=1))],
        asks=[("q11", of(1, 1, a100=2, hca=1))],
        waits_for={"q11": "root"},
        differs=EVICTS,
    ),
    "tree 13: below its guarantee, the cluster is full": Case(
        nodes=LARGE_NODE,
        queues=[
            queue("q1", guarantee=WHOLE),
            queue("q11", "q1", guarantee=HALF),
            queue("q12", "q1", guarantee=HALF),
        ],
        runs=[("q12", LARGE)],
        asks=[("q11", LARGE)],
        waits_for={"q11": "root"},
        differs=ENQUEUES,
    ),
    "tree 14: above its guarantee, the cluster is full": Case(
        nodes=LARGE_NODE,
        queues=[
            queue("q1", guarantee=WHOLE),
            queue("q", "q1", guarantee=of(a100=4)),
            queue("q12", "q1", guarantee=HALF),
        ],
        runs=[("q12", LARGE)],
        asks=[("q", LARGE)],
        waits_for={"q": "root"},
    ),
    "tree 15: below what it deserves, the cluster is full": Case(
        nodes=LARGE_NODE,
        queues=[
            queue("q1", deserved=WHOLE),
            queue("q11", "q1", deserved=HALF),
            queue("q12", "q1", deserved=HALF),
        ],
        runs=[("q12", LARGE)],
        asks=[("q11", LARGE)],
        waits_for={"q11": "root"},
        differs=ENQUEUES,
    ),
    "tree 16: above what it deserves, the cluster is full": Case(
        nodes=LARGE_NODE,
        queues=[
            queue("q1", deserved=WHOLE),
            queue("q", "q1", deserved=of(a100=4)),
            queue("q12", "q1", deserved=HALF),
        ],
        runs=[("q12", LARGE)],
        asks=[("q", LARGE)],
        waits_for={"q": "root"},
    ),
}


def ledger_of(case: Case) -> tuple[Tree, Ledger]:
    root = queue("root", "", cap=case.nodes)
    tree = Tree({each.name: each for each in (root, *case.queues)})
    ledger = Ledger(tree)
    for number, (name, requests) in enumerate(case.runs):
        ledger.set_one(name, AmountReason.USED, number, quota_requests(tuple(requests.items())))
    return tree, ledger


@each_case("name", CASES)
def test_what_is_released_and_which_queue_has_no_room(name: str) -> None:
    case = CASES[name]
    tree, ledger = ledger_of(case)
    waiting: dict[str, list[WaitingPod]] = {}
    for number, (of_queue, requests) in enumerate(case.asks):
        pod = WaitingPod(f"{of_queue}/{number}", of_queue, quota_requests(tuple(requests.items())), 0, NOW)
        waiting.setdefault(of_queue, []).append(pod)
    index = WaitingIndex.of(tree, waiting)
    assert [pod.queue for pod in ReleasePass(tree, index, ledger=ledger)] == list(case.released)
    lacks = index.take_untold()
    assert {uid.partition("/")[0]: lack.queue for uid, lack in lacks.items()} == case.waits_for


def test_guarantees_beyond_a_capability_end_nothing() -> None:
    """With hierarchy, case 7: of two guarantees of 4 cpu below a capability of 6 each is worth 3."""
    promised = of(4, 3)
    queues = [
        queue("q7", cap=of(6, 4)),
        queue("q71", "q7", cap=of(6, 4), guarantee=promised),
        queue("q72", "q7", cap=of(6, 4), guarantee=promised),
    ]
    _, ledger = ledger_of(Case(nodes=NODE, queues=queues))
    assert ledger.usage.guarantees["q71"] == ledger.usage.guarantees["q72"] == of(3, 2)


def test_a_capability_of_root_beyond_the_nodes_ends_nothing() -> None:
    """With hierarchy, case 10. It counts in place of what nodes have."""
    _, ledger = ledger_of(Case(nodes=of(16, 16), queues=[queue("q10", cap=of(10, 4))]))
    assert ledger.usage.whole == of(16, 16)
    assert ledger.usage.deserved.real_capability("q10") == of(10, 4)
