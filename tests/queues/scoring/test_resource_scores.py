"""Scores by what is requested of nodes: Volcano's published values, and its formulae node by node."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.policies.model import Binpack
from queues.scoring.levels import levels_with_choice, to_levels
from queues.scoring.node_table import NodeTable, View
from queues.scoring.requests import ScoringRequest
from queues.scoring.resource_scores import (
    balanced_scores,
    binpack_scores,
    least_requested_scores,
    most_requested_scores,
)
from tests.support.cases import each_case

GPU, FOO = "nvidia.com/gpu", "example.com/foo"
GI = 2**30


def request(cpu: int, memory: int, **others: int) -> ScoringRequest:
    names = {"gpu": GPU, "foo": FOO}
    return ScoringRequest(
        cpu=cpu,
        memory=memory,
        padded_cpu=cpu or 100,
        padded_memory=memory or 200 * 2**20,
        others=tuple(sorted((names[name], units) for name, units in others.items())),
    )


#: The pods and nodes of Volcano's own test of binpack (`binpack_test.go`): p1 is on n1, p2 on n3.
PODS = {
    "p1": request(1000, GI),
    "p2": request(1500, 0),
    "p3": request(2000, 10 * GI, gpu=2),
    "p4": request(3000, 4 * GI, foo=3),
}
NAMES = ["n1", "n2", "n3"]


def volcano_nodes() -> View:
    table = NodeTable()
    table.set_node("n1", {"cpu": 2000, "memory": 4 * GI, "pods": 10})
    table.set_node("n2", {"cpu": 4000, "memory": 16 * GI, "pods": 10, GPU: 4})
    table.set_node("n3", {"cpu": 2000, "memory": 4 * GI, "pods": 10, FOO: 16})
    table.see_pod("p1", "n1", PODS["p1"])
    table.see_pod("p2", "n3", PODS["p2"])
    return table.view()


HEAVY = Binpack(weight=10, resources={"cpu": 2, "memory": 3, GPU: 7, FOO: 8})
LIGHT = Binpack(weight=1, resources={"cpu": 1, "memory": 1, GPU: 23})


@each_case(
    ("weights", "pod", "expected"),
    [
        (HEAVY, "p1", [700, 137.5, 0]),
        (HEAVY, "p2", [0, 375, 0]),
        (HEAVY, "p3", [0, 531.25, 0]),
        (HEAVY, "p4", [0, 173.076923076, 0]),
        (LIGHT, "p1", [75, 15.625, 0]),
        (LIGHT, "p2", [0, 37.5, 0]),
        (LIGHT, "p3", [0, 50.5, 0]),
        (LIGHT, "p4", [0, 50, 0]),
    ],
)
def test_binpack_gives_the_values_that_volcano_publishes(
    weights: Binpack, pod: str, expected: list[float]
) -> None:
    view = volcano_nodes()
    assert binpack_scores(view, view.select(NAMES), PODS[pod], weights).tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("used", "asked", "least", "most", "balanced"),
    [
        # cpu of 4000, memory of 10,000: the values of Kubernetes' own tests of these plugins
        ((0, 0), (3000, 5000), 37, 62, 87),
        ((0, 0), (0, 0), 0, 0, 100),
        ((3000, 5000), (3000, 5000), 0, 100, 100),
        ((1000, 2000), (1000, 2000), 55, 45, 95),
    ],
)
def test_scores_by_cpu_and_memory(
    used: tuple[int, int], asked: tuple[int, int], least: int, most: int, balanced: int
) -> None:
    table = NodeTable()
    table.set_node("n1", {"cpu": 4000, "memory": 10_000})
    table.see_pod("other", "n1", ScoringRequest(*used, *used))
    view, pod = table.view(), ScoringRequest(*asked, *asked)
    rows = view.select(["n1"])
    if asked != (0, 0):
        assert least_requested_scores(view, rows, pod).tolist() == [least]
    assert most_requested_scores(view, rows, pod).tolist() == [most]
    assert balanced_scores(view, rows, pod).tolist() == [balanced]


def test_a_node_without_allocatable_scores_nothing() -> None:
    table = NodeTable()
    table.set_node("n1", {})
    view = table.view()
    rows = view.select(["n1"])
    pod = request(1000, GI)
    assert binpack_scores(view, rows, pod, LIGHT).tolist() == [0]
    assert least_requested_scores(view, rows, pod).tolist() == [0]
    assert most_requested_scores(view, rows, pod).tolist() == [0]
    assert balanced_scores(view, rows, pod).tolist() == [100]


units = st.integers(0, 2**44)
amounts = st.fixed_dictionaries({"cpu": units, "memory": units}, optional={GPU: st.integers(0, 16)})
small = st.integers(0, 10)


@given(
    nodes=st.lists(st.tuples(amounts, amounts), min_size=1, max_size=6),
    asked=amounts,
    weights=st.tuples(small, small, small, st.integers(1, 10)),
)
def test_all_nodes_at_once_score_as_one_by_one(
    nodes: list[tuple[dict[str, int], dict[str, int]]],
    asked: dict[str, int],
    weights: tuple[int, int, int, int],
) -> None:
    table = NodeTable()
    for number, (allocatable, used) in enumerate(nodes):
        table.set_node(f"n{number}", allocatable)
        table.see_pod(f"p{number}", f"n{number}", _request(used))
    view, pod = table.view(), _request(asked)
    rows = view.select([f"n{number}" for number in range(len(nodes))])
    binpack = Binpack(weight=weights[3], resources={"cpu": weights[0], "memory": weights[1], GPU: weights[2]})
    assert binpack_scores(view, rows, pod, binpack).tolist() == pytest.approx(
        [_binpack(asked, allocatable, used, binpack) for allocatable, used in nodes]
    )
    assert least_requested_scores(view, rows, pod).tolist() == [
        _mean(asked, allocatable, used, least=True) for allocatable, used in nodes
    ]
    assert most_requested_scores(view, rows, pod).tolist() == [
        _mean(asked, allocatable, used, least=False) for allocatable, used in nodes
    ]
    known = {name: units for name, units in asked.items() if name in view.columns}
    assert balanced_scores(view, rows, pod).tolist() == pytest.approx(
        [_balanced(known, allocatable, used) for allocatable, used in nodes], abs=1
    )


def _request(amounts: Mapping[str, int]) -> ScoringRequest:
    cpu, memory = amounts["cpu"], amounts["memory"]
    others = tuple((name, units) for name, units in amounts.items() if name == GPU and units)
    return ScoringRequest(cpu, memory, cpu, memory, others)


def _binpack(
    asked: Mapping[str, int], allocatable: Mapping[str, int], used: Mapping[str, int], weights: Binpack
) -> float:
    score, total = 0.0, 0
    for name, units in asked.items():
        if not units:
            continue
        weight, capacity = weights.resources[name], allocatable.get(name, 0)
        total += weight
        if not capacity or not weight:
            continue
        if units + used.get(name, 0) > capacity:
            return 0.0
        score += (units + used.get(name, 0)) * weight / capacity
    return (score / total if total else score) * 100 * weights.weight


def _mean(
    asked: Mapping[str, int], allocatable: Mapping[str, int], used: Mapping[str, int], *, least: bool
) -> int:
    shares = []
    for name in ("cpu", "memory"):
        capacity = allocatable[name]
        if capacity:
            full = min(asked[name] + used[name], capacity)
            shares.append((capacity - full if least else full) * 100 // capacity)
    return sum(shares) // len(shares) if shares else 0


def _balanced(asked: Mapping[str, int], allocatable: Mapping[str, int], used: Mapping[str, int]) -> int:
    fractions = [
        min(1.0, (units + used.get(name, 0)) / allocatable[name])
        for name, units in asked.items()
        if allocatable.get(name) and (units or name != GPU)
    ]
    if len(fractions) < 2:
        return 100
    mean = sum(fractions) / len(fractions)
    return int((1 - math.sqrt(sum((one - mean) ** 2 for one in fractions) / len(fractions))) * 100)


scores = st.lists(st.sampled_from([0.0, 1.5, 2.0, 50.0]) | st.floats(0, 1e6), max_size=60)


@given(scores)
def test_levels_keep_the_choice_and_the_order(scores: list[float]) -> None:
    levels = to_levels(np.array(scores))
    assert len(levels) == len(scores)
    for score, level in zip(scores, levels, strict=True):
        assert 0 <= level <= 10
        assert (level == 10) == (score == max(scores))
    by_score = sorted(zip(scores, levels, strict=True))
    assert [level for _, level in by_score] == sorted(levels)
    if len(set(scores)) <= 11:
        assert len(set(levels)) == len(set(scores))
    else:
        assert set(levels) == set(range(11))


@given(scores, st.randoms(use_true_random=False))
def test_the_chosen_one_of_equal_nodes_gets_the_only_ten(scores: list[float], chance: random.Random) -> None:
    levels, chosen = levels_with_choice(np.array(scores), chance.randrange)
    if not scores:
        assert (levels, chosen) == ([], -1)
        return
    assert scores[chosen] == max(scores)
    better = [*scores]
    better[chosen] = math.nextafter(better[chosen], math.inf)
    assert levels == to_levels(np.array(better))
    assert [number for number, level in enumerate(levels) if level == 10] == [chosen]


def test_each_of_equal_nodes_is_chosen_at_times() -> None:
    chosen = {
        levels_with_choice(np.array([1.0, 3.0, 3.0, 2.0, 3.0]), random.randrange)[1] for _ in range(200)
    }
    assert chosen == {1, 2, 4}
