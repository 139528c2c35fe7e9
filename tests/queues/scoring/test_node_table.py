"""What is used of nodes, after any history of nodes, pods and assumptions: the same as a recount."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from queues.policies.model import Binpack, NodeOrder, Policy
from queues.scoring.node_table import COLUMN_LIMIT, NodeTable
from queues.scoring.preferences import NodeFacts, PodPlacement, SpreadConstraint
from queues.scoring.requests import AMOUNT_LIMIT, ScoringRequest, request_of
from queues.scoring.resource_scores import binpack_scores
from queues.scoring.total import Scorer
from tests.support.examples import examples

SMALL = ScoringRequest(cpu=100, memory=2**20, padded_cpu=100, padded_memory=2**20)
NODE = {"cpu": 4000, "memory": 2**33}

nodes = st.sampled_from(["n1", "n2", "n3", *(f"m{number}" for number in range(30))])
uids = st.sampled_from([f"pod-{number}" for number in range(12)])
units = st.integers(0, 10_000)
resources = st.sampled_from(["example.com/a", "example.com/b", "ephemeral-storage"])
requests = st.builds(
    ScoringRequest,
    cpu=units,
    memory=units,
    padded_cpu=units,
    padded_memory=units,
    others=st.dictionaries(resources, units, max_size=2).map(lambda found: tuple(sorted(found.items()))),
)
allocatables = st.dictionaries(st.sampled_from(["cpu", "memory"]) | resources, units, max_size=5)


class Histories(RuleBasedStateMachine):
    """Any order of events; the model is two dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.table = NodeTable()
        self.nodes: dict[str, dict[str, int]] = {}
        self.pods: dict[str, tuple[str, ScoringRequest, float | None]] = {}
        self.now = 0.0

    @rule(name=nodes, allocatable=allocatables)
    def node_appears(self, name: str, allocatable: dict[str, int]) -> None:
        self.table.set_node(name, allocatable)
        self.nodes[name] = allocatable

    @rule(name=nodes)
    def node_goes(self, name: str) -> None:
        self.table.remove_node(name)
        self.nodes.pop(name, None)

    @rule(uid=uids, node=nodes, request=requests)
    def pod_is_seen(self, uid: str, node: str, request: ScoringRequest) -> None:
        self.table.see_pod(uid, node, request)
        self.pods[uid] = (node, request, None)

    @rule(uid=uids)
    def pod_goes(self, uid: str) -> None:
        self.table.forget_pod(uid)
        self.pods.pop(uid, None)

    @rule(uid=uids, node=nodes, request=requests)
    def pod_is_assumed(self, uid: str, node: str, request: ScoringRequest) -> None:
        self.table.assume_pod(uid, node, request, until=self.now + 10)
        if uid not in self.pods or self.pods[uid][2] is not None:
            self.pods[uid] = (node, request, self.now + 10)

    @rule(uid=uids)
    def pod_is_scheduled_anew(self, uid: str) -> None:
        self.table.drop_assumption(uid)
        if uid in self.pods and self.pods[uid][2] is not None:
            del self.pods[uid]

    @rule(seconds=st.sampled_from([0.0, 1.0, 4.0, 10.0, 30.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.table.expire(self.now)
        self.pods = {
            uid: placed for uid, placed in self.pods.items() if placed[2] is None or placed[2] > self.now
        }

    @rule(listed=st.sets(uids))
    def pods_are_listed(self, listed: set[str]) -> None:
        self.table.retain_pods(listed)
        self.pods = {
            uid: placed for uid, placed in self.pods.items() if placed[2] is not None or uid in listed
        }

    @rule(listed=st.sets(nodes))
    def nodes_are_listed(self, listed: set[str]) -> None:
        self.table.retain_nodes(listed)
        self.nodes = {name: amounts for name, amounts in self.nodes.items() if name in listed}

    @invariant()
    def used_is_the_sum_over_the_pods(self) -> None:
        view = self.table.view()
        assert set(view.rows) == set(self.nodes)
        for name, allocatable in self.nodes.items():
            row = view.rows[name]
            on_node = [request for node, request, _ in self.pods.values() if node == name]
            assert view.padded[row].tolist() == [
                sum(request.padded_cpu for request in on_node),
                sum(request.padded_memory for request in on_node),
            ]
            for resource, column in view.columns.items():
                assert view.allocatable[row, column] == allocatable.get(resource, 0)
                assert view.used[row, column] == sum(_of(request, resource) for request in on_node)


def _of(request: ScoringRequest, resource: str) -> int:
    return {"cpu": request.cpu, "memory": request.memory, **dict(request.others)}.get(resource, 0)


Histories.TestCase.settings = settings(examples(60), stateful_step_count=30)
TestHistories = Histories.TestCase


def test_unknown_nodes_have_no_row() -> None:
    table = NodeTable()
    table.set_node("n1", NODE)
    assert table.view().select(["n1", "n2", ""]).tolist()[1:] == [-1, -1]


def test_pods_make_no_columns_and_nodes_only_so_many() -> None:
    table = NodeTable()
    table.see_pod("uid", "n1", ScoringRequest(others=(("example.com/x", 1),)))
    assert set(table.view().columns) == {"cpu", "memory"}
    table.set_node("n1", {f"example.com/{number}": 1 for number in range(1000)})
    assert len(table.view().columns) == COLUMN_LIMIT


def test_amounts_that_nobody_has_do_not_overflow() -> None:
    table = NodeTable()
    table.set_node("n1", {"cpu": 2**62})
    huge = request_of([("cpu", 2**63 - 1), ("memory", 2**63 - 1)], [])
    for number in range(1000):
        table.see_pod(str(number), "n1", huge)
    view = table.view()
    assert view.used[view.rows["n1"]].tolist() == [1000 * AMOUNT_LIMIT, 1000 * AMOUNT_LIMIT]
    assert view.allocatable[view.rows["n1"], 0] == AMOUNT_LIMIT


def test_a_view_stays_complete_while_nodes_and_resources_come() -> None:
    table = NodeTable()
    table.set_node("n0", NODE)
    view = table.view()
    for number in range(1, 100):  # the arrays grow by rows and columns
        table.set_node(f"n{number}", {**NODE, f"example.com/{number % 20}": 1})
    asked = ScoringRequest(cpu=100, memory=2**20, others=(("example.com/1", 1),))
    rows = view.select(["n0", "n50"])
    assert rows.tolist() == [view.rows["n0"], -1]
    weights = Binpack(weight=1, resources={"cpu": 1, "example.com/1": 1})
    assert binpack_scores(view, rows[:1], asked, weights).tolist() == [1.25]
    assert len(view.facts) == len(view.names) == len(view.allocatable)
    assert table.view() is table.view()
    assert table.view().select(["n50"]).tolist() == [table.view().rows["n50"]]


def test_a_view_stays_complete_when_a_node_goes_and_its_row_is_used_again() -> None:
    table = NodeTable()
    table.set_node("n0", NODE, NodeFacts(labels={"a": "b"}))
    view = table.view()
    table.remove_node("n0")
    table.set_node("n1", NODE)
    row = view.rows["n0"]
    assert (view.names[row], view.facts[row]) == ("n0", NodeFacts(labels={"a": "b"}))
    assert table.view().select(["n0"]).tolist() == [-1]


def test_what_nodes_have_is_counted_as_facts_come_and_go() -> None:
    table = NodeTable()
    table.set_node("n1", NODE, NodeFacts(labels={"a": "1"}, images={"x": 5}))
    table.set_node("n2", NODE, NodeFacts(labels={"a": "2", "b": "1"}, images={"x": 5, "y": 6}))
    assert set(table.view().label_keys) == {"a", "b"}
    assert dict(table.view().image_nodes) == {"x": 2, "y": 1}
    before = table.view()
    table.set_node("n2", {"cpu": 1}, NodeFacts(labels={"a": "2"}, images={"x": 5, "y": 6}))
    after = table.view()
    assert set(after.label_keys) == {"a"}
    assert after.labels_generation > before.labels_generation
    assert after.images_generation == before.images_generation
    table.remove_node("n2")
    assert dict(table.view().image_nodes) == {"x": 1}


def test_pods_of_one_kind_that_come_at_once_are_one_class() -> None:
    table = NodeTable()
    kind = PodPlacement(namespace="team", labels={"app": "web"})

    def come(worker: int) -> None:
        for number in range(200):
            table.see_pod(f"{worker}-{number}", f"n{number % 3}", SMALL, kind)
            if number % 2:
                table.forget_pod(f"{worker}-{number}")

    threads = [threading.Thread(target=come, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (only,) = table.classes.of_namespaces(["team"])
    assert sum(only.nodes.values()) == 400
    for worker in range(4):
        for number in range(0, 200, 2):
            table.forget_pod(f"{worker}-{number}")
    assert len(table.classes) == 0
    assert table.classes.of_namespaces(["team"]) == []


def test_scores_are_answered_while_nodes_resources_and_pods_come_and_go() -> None:
    table = NodeTable()
    names = [f"n{number}" for number in range(200)]
    stop = threading.Event()

    def churn() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            name = names[number % 200]
            labels = {"zone": str(number % 5), f"key-{number % 50}": "x"}
            facts = NodeFacts(labels=labels, images={f"image-{number % 7}:latest": 2**29})
            table.set_node(name, {**NODE, f"example.com/{number % 60}": 8}, facts)
            kind = PodPlacement(namespace="team", labels={"app": str(number % 9)})
            table.see_pod(str(number % 500), name, SMALL, kind)
            if number % 3 == 0:
                table.remove_node(names[(number * 7) % 200])

    policy = Policy(
        actions=("allocate",),
        binpack=Binpack(weight=1, resources={f"example.com/{number}": 1 for number in range(60)}),
        node_order=NodeOrder(),
    )
    pod = PodPlacement(
        namespace="team",
        labels={"app": "1"},
        images=("image-1",),
        spread=(
            SpreadConstraint(
                topology_key="zone",
                when_unsatisfiable="ScheduleAnyway",
                label_selector={"matchLabels": {"app": "1"}},
            ),
        ),
    )
    asked = ScoringRequest(cpu=100, others=tuple((f"example.com/{number}", 1) for number in range(60)))
    scorer = Scorer(table, namespace_labels=lambda _: None)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(400):
            assert len(scorer.scores(policy, names, asked, pod)) == 200
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)


def test_many_nodes_and_threads() -> None:
    table = NodeTable()
    names = [f"n{number}" for number in range(300)]

    def fill(worker: int) -> None:
        for number, name in enumerate(names):
            table.set_node(name, NODE)
            table.see_pod(f"{worker}-{number}", name, SMALL)
            table.assume_pod(f"a{worker}-{number}", name, SMALL, until=1.0)

    threads = [threading.Thread(target=fill, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    view = table.view()
    assert (view.used[view.select(names), 0] == 8 * SMALL.cpu).all()
    table.expire(2.0)
    assert (table.view().used[view.select(names), 0] == 4 * SMALL.cpu).all()


@given(st.integers(-(2**70), 2**70))
def test_units_are_never_negative_nor_beyond_the_limit(amount: int) -> None:
    assert 0 <= request_of([("memory", amount)], []).memory <= AMOUNT_LIMIT


@pytest.mark.parametrize(("amounts", "cpu"), [([("cpu", 2)], 2000), ([], 0)])
def test_cpu_counts_in_thousandths(amounts: list[tuple[str, int]], cpu: int) -> None:
    assert request_of(amounts, amounts).cpu == cpu
    assert np.int64(cpu) == request_of(amounts, amounts).padded_cpu
