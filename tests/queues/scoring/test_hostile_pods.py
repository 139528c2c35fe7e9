"""Pods as large as etcd takes: a call for them takes about as long as one for an ordinary pod."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
import pytest

from queues.policies.model import NodeOrder, Policy
from queues.scoring.node_table import NodeTable
from queues.scoring.preferences import (
    REQUIREMENT_LIMIT,
    TERM_BYTES,
    TERM_LIMIT,
    Affinity,
    NodeFacts,
    PodPlacement,
    SpreadConstraint,
    Taint,
    Toleration,
)
from queues.scoring.requests import ScoringRequest
from queues.scoring.topology_scores import HOSTNAME
from queues.scoring.total import Scorer

NODES = 2_000
NAMES = [f"node-{number}" for number in range(NODES)]
#: Seconds of this process. Each of these pods took from seconds to minutes before its work was limited.
LIMIT = 0.5
ALL = Policy(actions=("allocate",), node_order=NodeOrder())
MANY = 20_000


def full_table() -> NodeTable:
    table = NodeTable()
    for number, name in enumerate(NAMES):
        table.set_node(
            name,
            {"cpu": 4000, "memory": 2**33},
            NodeFacts(
                labels={HOSTNAME: name, **{f"key-{one}": str(number % 7) for one in range(20)}},
                taints=(Taint(key="soft", value=str(number % 3), effect="PreferNoSchedule"),),
                images={f"image-{one}:latest": 2**30 for one in range(50)},
            ),
        )
    return table


TABLE = full_table()


def affinity(kind: str, terms: list[Mapping[str, Any]]) -> Affinity:
    return msgspec.convert({kind: {"preferredDuringSchedulingIgnoredDuringExecution": terms}}, Affinity)


def node_terms(*terms: Sequence[Mapping[str, Any]]) -> Affinity:
    return affinity(
        "nodeAffinity", [{"weight": 1, "preference": {"matchExpressions": each}} for each in terms]
    )


def pod_term(number: int) -> Mapping[str, Any]:
    term = {
        "labelSelector": {"matchLabels": {"app": str(number)}},
        "topologyKey": f"key-{number % 20}",
        "namespaceSelector": {},
    }
    return {"weight": 1, "podAffinityTerm": term}


VALUES = [str(number) for number in range(100, MANY)]
HOSTILE = {
    "a term of many values": PodPlacement(
        affinity=node_terms([{"key": HOSTNAME, "operator": "NotIn", "values": VALUES}])
    ),
    "many terms of many values": PodPlacement(
        affinity=node_terms(
            *[[{"key": HOSTNAME, "operator": "In", "values": VALUES[:500]}] for _ in range(TERM_LIMIT)]
        )
    ),
    "many requirements": PodPlacement(
        affinity=node_terms(
            [{"key": HOSTNAME, "operator": "Exists"} for _ in range(MANY)],
            [{"key": HOSTNAME, "operator": "Gt", "values": ["5"]} for _ in range(MANY)],
        )
    ),
    "as many comparisons as count": PodPlacement(
        affinity=node_terms(
            [{"key": HOSTNAME, "operator": "Gt", "values": ["5"]} for _ in range(REQUIREMENT_LIMIT)]
        )
    ),
    "many tolerations": PodPlacement(
        tolerations=tuple(Toleration(key="soft", operator="Equal", value=value) for value in VALUES)
    ),
    "many images": PodPlacement(images=tuple(f"image-{number % 50}" for number in range(MANY))),
    "many selected labels": PodPlacement(
        node_selector={f"key-{number}": "1" for number in range(MANY)},
        spread=(SpreadConstraint(topology_key="key-1", when_unsatisfiable="ScheduleAnyway"),),
    ),
    "many constraints": PodPlacement(
        spread=tuple(
            SpreadConstraint(
                topology_key=f"key-{number % 20}",
                when_unsatisfiable="ScheduleAnyway",
                label_selector={"matchLabels": {"app": str(number)}},
            )
            for number in range(MANY)
        )
    ),
    "many preferred pods": PodPlacement(
        affinity=affinity("podAffinity", [pod_term(number) for number in range(5_000)])
    ),
}


def seconds(table: NodeTable, pod: PodPlacement) -> float:
    scorer = Scorer(table, namespace_labels=lambda _: {})
    scorer.scores(ALL, NAMES, ScoringRequest(), PodPlacement())
    began = time.process_time()
    scorer.scores(ALL, NAMES, ScoringRequest(), pod)
    return time.process_time() - began


@pytest.mark.parametrize("pod", [pytest.param(pod, id=what) for what, pod in HOSTILE.items()])
def test_a_large_pod_does_not_make_others_wait(pod: PodPlacement) -> None:
    assert seconds(TABLE, pod) < LIMIT


@pytest.fixture(scope="module")
def crowded() -> NodeTable:
    """Five thousand pods of namespace `team`, no two alike, with twenty terms each."""
    table = full_table()
    for number in range(5_000):
        placement = PodPlacement(namespace="team", labels={"app": str(number)}, affinity=unlike())
        table.see_pod(str(number), NAMES[number % NODES], ScoringRequest(), placement)
    return table


@cache
def unlike() -> Affinity:
    return affinity("podAntiAffinity", [pod_term(number) for number in range(20)])


@pytest.mark.parametrize("namespace", ["mine", "team"])
def test_many_unlike_pods_with_many_terms_do_not_make_others_wait(crowded: NodeTable, namespace: str) -> None:
    mine = PodPlacement(
        namespace=namespace,
        affinity=unlike(),
        spread=tuple(
            SpreadConstraint(
                topology_key=f"key-{number}",
                when_unsatisfiable="ScheduleAnyway",
                label_selector={"matchLabels": {"app": str(number)}},
            )
            for number in range(20)
        ),
    )
    assert seconds(crowded, mine) < LIMIT


def test_terms_of_other_namespaces_take_nothing_from_those_of_the_own() -> None:
    table = NodeTable()
    table.set_node("n1", {"cpu": 4000}, NodeFacts(labels={"key-1": "a"}))
    table.set_node("n2", {"cpu": 4000}, NodeFacts(labels={"key-1": "b"}))
    far = affinity("podAntiAffinity", [pod_term(2)] * TERM_LIMIT)
    for number in range(1_000):
        placement = PodPlacement(namespace="far", labels={"n": str(number)}, affinity=far)
        table.see_pod(str(number), "n2", ScoringRequest(), placement)
    avoids = PodPlacement(namespace="mine", affinity=affinity("podAntiAffinity", [pod_term(1)]))
    table.see_pod("mine", "n1", ScoringRequest(), avoids)
    scorer, view = Scorer(table, namespace_labels=lambda _: {}), table.view()

    def scores(namespace: str) -> list[float]:
        pod = PodPlacement(namespace=namespace, labels={"app": "1"})
        rows = view.select(["n1", "n2"])
        return [float(score) for score in scorer.parts(ALL, view, rows, ScoringRequest(), pod)["podaffinity"]]

    assert scores("mine") == [0, 200]
    assert scores("third") == [0, 0]  # the limit was reached before


def test_of_a_pod_counts_what_is_written_first() -> None:
    many = PodPlacement(affinity=affinity("podAffinity", [pod_term(number) for number in range(1_000)]))
    assert [term.topology_key for term in many.preferred_pods[:2]] == ["key-0", "key-1"]
    assert len(many.preferred_pods) == TERM_LIMIT
    large = {
        "weight": 10**30,
        "podAffinityTerm": {"labelSelector": {"matchLabels": {"app": "x" * TERM_BYTES}}, "topologyKey": "k"},
    }
    assert PodPlacement(affinity=affinity("podAffinity", [large])).preferred_pods == ()
    small = {**large, "podAffinityTerm": {"labelSelector": {}, "topologyKey": "k"}}
    (term,) = PodPlacement(affinity=affinity("podAntiAffinity", [small])).preferred_pods
    assert term.weight == -100
