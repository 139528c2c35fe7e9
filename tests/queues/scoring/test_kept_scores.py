"""Kept scores are what the formulas give from scratch, after any history, whatever other threads do."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from queues.policies.model import Binpack, NodeOrder, Policy
from queues.scoring import node_table
from queues.scoring.kept_scores import FEW_ROWS, LIMIT, KeptScores
from queues.scoring.node_table import NodeTable
from queues.scoring.preferences import PodPlacement
from queues.scoring.requests import ScoringRequest
from queues.scoring.resource_scores import BinpackFormula, NodeOrderFormula
from queues.scoring.total import Scorer
from tests.support.examples import examples

GPU = "nvidia.com/gpu"
NAMES = [f"n{number}" for number in range(24)]
ANY_POD = PodPlacement(namespace="team")

nodes = st.sampled_from(NAMES)
uids = st.sampled_from([f"pod-{number}" for number in range(12)])
units = st.integers(0, 10_000) | st.integers(0, 2**48)
resources = st.sampled_from([GPU, "example.com/a"])
requests = st.builds(
    ScoringRequest,
    cpu=units,
    memory=units,
    padded_cpu=units,
    padded_memory=units,
    others=st.dictionaries(resources, st.integers(0, 8), max_size=2).map(
        lambda others: tuple(sorted(others.items()))
    ),
)
allocatables = st.dictionaries(st.sampled_from(["cpu", "memory"]), units, max_size=2).flatmap(
    lambda amounts: st.dictionaries(resources, st.integers(0, 8), max_size=2).map(
        lambda others: {**amounts, **others}
    )
)
weights = st.integers(0, 10) | st.integers(0, 1_000_000)
binpacks = st.builds(
    Binpack,
    weight=weights,
    resources=st.dictionaries(st.sampled_from(["cpu", "memory", GPU, "example.com/a"]), weights),
)
node_orders = st.builds(
    NodeOrder,
    least_requested=weights,
    most_requested=weights,
    balanced_resource=weights,
    taint_toleration=st.integers(0, 1),
)
#: Few, so that they come again; each is one object, as those of a policy are.
REQUESTS = (
    ScoringRequest(cpu=500, memory=2**30, padded_cpu=500, padded_memory=2**30),
    ScoringRequest(cpu=1000, padded_cpu=1000, padded_memory=200 * 2**20, others=((GPU, 1), ("pods", 1))),
    ScoringRequest(padded_cpu=100, padded_memory=200 * 2**20),
)
POLICIES = (
    Policy(actions=("allocate",), binpack=Binpack(weight=3, resources={"cpu": 2, "memory": 1, GPU: 7})),
    Policy(actions=("allocate",), node_order=NodeOrder()),
    Policy(
        actions=("allocate",),
        binpack=Binpack(weight=1, resources={"cpu": 1, "memory": 1}),
        node_order=NodeOrder(least_requested=0, most_requested=5, balanced_resource=7),
    ),
    Policy(
        actions=("allocate",),
        node_order=NodeOrder(least_requested=0, most_requested=0, balanced_resource=0),
    ),
)


def from_scratch(scorer: Scorer, table: NodeTable, policy: Policy, request: ScoringRequest) -> list[float]:
    """By the formulas over all rows; a node that is not known gets 0."""
    view = table.view()
    rows = view.select(NAMES)
    parts = dict(scorer.parts(policy, view, rows[rows >= 0], request, ANY_POD))
    packed = parts.pop("binpack", np.zeros(len(rows[rows >= 0])))
    scores = np.zeros(len(NAMES))
    scores[rows >= 0] = packed + sum(parts.values(), np.zeros(len(packed)))
    numbers: list[float] = scores.tolist()
    return numbers


@pytest.fixture(autouse=True)
def few_changes_are_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """So that the table forgets changes that kept scores have not seen."""
    monkeypatch.setattr(node_table, "CHANGES_KEPT", 20)
    yield


class Histories(RuleBasedStateMachine):
    """Scores are asked for between any changes, with another request and policy each time."""

    def __init__(self) -> None:
        super().__init__()
        self.table = NodeTable()
        self.scorer = Scorer(self.table, namespace_labels=lambda _: None)
        self.now = 0.0

    @rule(name=nodes, allocatable=allocatables)
    def node_appears(self, name: str, allocatable: dict[str, int]) -> None:
        self.table.set_node(name, allocatable)

    @rule(allocatable=allocatables)
    def many_nodes_appear(self, allocatable: dict[str, int]) -> None:
        for name in NAMES:
            self.table.set_node(name, allocatable)

    @rule(name=nodes)
    def node_goes(self, name: str) -> None:
        self.table.remove_node(name)

    @rule(uid=uids, node=nodes, request=requests)
    def pod_is_seen(self, uid: str, node: str, request: ScoringRequest) -> None:
        self.table.see_pod(uid, node, request)

    @rule(uid=uids)
    def pod_goes(self, uid: str) -> None:
        self.table.forget_pod(uid)

    @rule(uid=uids, node=nodes, request=requests)
    def pod_is_assumed(self, uid: str, node: str, request: ScoringRequest) -> None:
        self.table.assume_pod(uid, node, request, until=self.now + 10)

    @rule(seconds=st.sampled_from([1.0, 10.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.table.expire(self.now)

    @rule(policy=st.sampled_from(POLICIES), request=st.sampled_from(REQUESTS))
    def scores_are_asked_for(self, policy: Policy, request: ScoringRequest) -> None:
        expected = from_scratch(self.scorer, self.table, policy, request)
        for _ in range(2):  # the first time that a request comes, nothing is kept yet
            assert self.scorer.scores(policy, NAMES, request, ANY_POD).tolist() == expected


Histories.TestCase.settings = settings(examples(30), stateful_step_count=40)
TestHistories = Histories.TestCase


@given(
    amounts=st.lists(st.tuples(allocatables, requests), min_size=1, max_size=FEW_ROWS),
    request=requests,
    binpack=binpacks,
    node_order=node_orders,
)
def test_a_row_by_itself_scores_as_all_rows_at_once(
    amounts: list[tuple[dict[str, int], ScoringRequest]],
    request: ScoringRequest,
    binpack: Binpack,
    node_order: NodeOrder,
) -> None:
    table = NodeTable()
    for number, (allocatable, used) in enumerate(amounts):
        table.set_node(f"n{number}", allocatable)
        table.see_pod(f"pod-{number}", f"n{number}", used)
    view = table.view()
    rows = np.arange(len(view.used))
    for formula in (
        BinpackFormula(view.columns, request, binpack),
        NodeOrderFormula(view.columns, request, node_order),
    ):
        assert [formula.of_row(view, row) for row in range(len(rows))] == formula.of_rows(view, rows).tolist()


def test_thousands_of_requests_are_not_kept() -> None:
    table = NodeTable()
    table.set_node("n0", {"cpu": 4000, "memory": 2**33})
    kept = KeptScores(table)
    weights = Binpack(weight=1, resources={"cpu": 1})
    for cpu in range(5000):
        view, position = table.snapshot()
        request = ScoringRequest(cpu=cpu % 4000)
        kept.scores(weights, request, view, position, view.select(["n0"]))
    assert len(kept) == LIMIT


def test_the_changes_that_are_recorded_are_limited() -> None:
    table = NodeTable()
    table.set_node("n0", {"cpu": 4000})
    _, first = table.snapshot()
    for number in range(1000):
        table.see_pod(f"pod-{number}", "n0", REQUESTS[0])
    _, last = table.snapshot()
    assert last - first == 1000
    assert table.changed_rows(first, last) is None
    assert table.changed_rows(last - 5, last) == {table.view().rows["n0"]}
    assert table.changed_rows(last, last) == set()


def test_scores_are_right_again_after_nodes_and_pods_came_and_went_meanwhile() -> None:
    table = NodeTable()
    scorer = Scorer(table, namespace_labels=lambda _: None)
    stop = threading.Event()

    def churn(worker: int) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            name = NAMES[number * (worker + 1) % len(NAMES)]
            others = {f"example.com/{number % 40}": 8} if number % 50 == 0 else {}
            table.set_node(name, {"cpu": 4000 + number % 7, "memory": 2**33, **others})
            table.see_pod(f"{worker}-{number % 50}", name, REQUESTS[number % 3])
            if number % 5 == 0:
                table.remove_node(NAMES[number * 7 % len(NAMES)])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=churn, args=(worker,)) for worker in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(2000):
            scorer.scores(POLICIES[number % 4], NAMES, REQUESTS[number % 3], ANY_POD)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    for policy in POLICIES:
        for request in REQUESTS:
            expected = from_scratch(scorer, table, policy, request)
            assert scorer.scores(policy, NAMES, request, ANY_POD).tolist() == expected
