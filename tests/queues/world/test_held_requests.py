"""What a pod asks of a node, held against every moment of its life."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.objects import Pod, PodSpec
from queues.apimachinery.pod_requests import MAX_SHARED, pod_requests
from queues.world.held_requests import held_requests
from tests.support.cases import each_case
from tests.support.http.wire_objects import Wire
from tests.support.rules.cases import MODEST

#: Amounts as they are written and what they are; None is no amount, and counts as nothing.
AMOUNTS: list[tuple[Any, Fraction | None]] = [
    ("0", Fraction(0)),
    ("100m", Fraction(1, 10)),
    ("0.5", Fraction(1, 2)),
    (0.25, Fraction(1, 4)),
    ("1", Fraction(1)),
    (2, Fraction(2)),
    ("1500m", Fraction(3, 2)),
    ("1Ki", Fraction(1024)),
    ("1k", Fraction(1000)),
    ("nonsense", None),
    ("", None),
]
VALUES = dict(AMOUNTS)
RESOURCES = ["cpu", "memory", "example.com/gpu", "sluice.dev/member", "sluice.dev/scored"]
MARKERS = {"sluice.dev/member", "sluice.dev/scored"}


def asked(spec: Wire) -> dict[str, Any]:
    return dict(pod_requests(msgspec.json.decode(json.dumps(spec), type=PodSpec)))


def container(asks: Wire | None, *, sidecar: bool = False) -> Wire:
    return {
        "name": "c",
        **({} if asks is None else {"resources": {"requests": asks}}),
        **({"restartPolicy": "Always"} if sidecar else {}),
    }


def value(held: Wire | None, resource: str) -> Fraction:
    return VALUES.get((held or {}).get(resource, "0")) or Fraction(0)


def moments(spec: Wire) -> list[list[Wire]]:
    """Each moment of the pod's life, as the containers that run then: its init containers start in their
    order, each but a sidecar ends before the next, and then all the others run at once."""
    found: list[list[Wire]] = []
    sidecars: list[Wire] = []
    for one in spec["initContainers"]:
        found.append([*sidecars, one])
        if one.get("restartPolicy") == "Always":
            sidecars.append(one)
    return [*found, [*sidecars, *spec["containers"]]]


def expected(spec: Wire) -> dict[str, Fraction]:
    whole = spec.get("resources", {}).get("requests", {})
    result = {}
    for resource in set(RESOURCES) - MARKERS:
        at_once = max(
            sum(value(one.get("resources", {}).get("requests"), resource) for one in moment)
            for moment in moments(spec)
        )
        if VALUES.get(whole.get(resource, "nonsense")) is not None:
            at_once = value(whole, resource)
        result[resource] = at_once + value(spec["overhead"], resource)
    return {resource: amount for resource, amount in result.items() if amount}


ASKS = st.none() | st.dictionaries(st.sampled_from(RESOURCES), st.sampled_from(list(VALUES)), max_size=4)


@st.composite
def specs(draw: st.DrawFn) -> Wire:
    spec: Wire = {
        "containers": [container(draw(ASKS)) for _ in range(draw(st.integers(0, 3)))],
        "initContainers": [
            container(draw(ASKS), sidecar=draw(st.booleans())) for _ in range(draw(st.integers(0, 4)))
        ],
        "overhead": draw(ASKS) or {},
    }
    if draw(st.booleans()):
        spec["resources"] = {"requests": draw(ASKS) or {}}
    return spec


@MODEST
@given(spec=specs())
def test_it_asks_for_its_worst_moment_or_what_it_says_for_itself_and_its_overhead(spec: Wire) -> None:
    assert asked(spec) == expected(spec)


@MODEST
@given(spec=specs())
def test_two_pods_that_ask_for_the_same_share_one_answer_in_one_order(spec: Wire) -> None:
    first, second = (pod_requests(msgspec.json.decode(json.dumps(spec), type=PodSpec)) for _ in range(2))
    assert first is second
    assert list(first) == sorted(first)


CASES: list[tuple[str, Wire, dict[str, Any]]] = [
    ("nothing", {}, {}),
    ("nulls", {"containers": None, "initContainers": None, "resources": None, "overhead": None}, {}),
    (
        "containers add up",
        {"containers": [container({"cpu": "1"}), container({"cpu": "500m"})]},
        {"cpu": Fraction(3, 2)},
    ),
    (
        "an init container counts where it is more",
        {"containers": [container({"cpu": 1, "memory": "1k"})], "initContainers": [container({"cpu": 2})]},
        {"cpu": 2, "memory": 1000},
    ),
    (
        "init containers run one after the other",
        {"initContainers": [container({"cpu": 2}), container({"cpu": 2})]},
        {"cpu": 2},
    ),
    (
        "a sidecar runs beside all that comes after it",
        {
            "containers": [container({"cpu": 1})],
            "initContainers": [
                container({"cpu": 3}),
                container({"cpu": 1}, sidecar=True),
                container({"cpu": 3}),
            ],
        },
        {"cpu": 4},
    ),
    (
        "what the pod says for itself counts in place of them, also where it is less",
        {"containers": [container({"cpu": 5, "memory": "1k"})], "resources": {"requests": {"cpu": 1}}},
        {"cpu": 1, "memory": 1000},
    ),
    (
        "overhead comes on top of what the pod says for itself",
        {"resources": {"requests": {"cpu": 1}}, "overhead": {"cpu": "250m"}},
        {"cpu": Fraction(5, 4)},
    ),
    (
        "a marker is no resource",
        {"containers": [container({"sluice.dev/member": 1, "sluice.dev/scored": 1})]},
        {},
    ),
    ("nought is nothing", {"containers": [container({"cpu": "0"})]}, {}),
    (
        "what is no amount is passed over",
        {"containers": [container({"cpu": "many", "memory": 1})]},
        {"memory": 1},
    ),
    (
        "limits alone are no requests",
        {"containers": [{"name": "c", "resources": {"limits": {"cpu": 1}}}]},
        {},
    ),
]


@each_case(("spec", "found"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_by_example(spec: Wire, found: dict[str, Any]) -> None:
    assert asked(spec) == found


def test_amounts_are_exact_whatever_is_added_up() -> None:
    spec = {"containers": [container({"cpu": "100m"}) for _ in range(10)]}
    [(_, amount)] = asked(spec).items()
    assert amount == 1
    assert not isinstance(amount, float)


def decoded(*asks: Wire) -> PodSpec:
    return msgspec.json.decode(json.dumps({"containers": [container(one) for one in asks]}), type=PodSpec)


def test_pods_of_one_shape_share_what_they_ask_for() -> None:
    assert pod_requests(decoded({"cpu": "1"})) is pod_requests(decoded({"cpu": "1"}))
    assert pod_requests(decoded({"cpu": "1"})) is pod_requests(decoded({"cpu": "1000m"}))


@pytest.mark.parametrize(
    "spec",
    [
        decoded({f"example.com/{number}": "1" for number in range(MAX_SHARED)}),
        decoded(*[{"cpu": "1"}] * MAX_SHARED),
    ],
    ids=["requests", "containers"],
)
def test_what_is_huge_is_counted_and_not_remembered(spec: PodSpec) -> None:
    """Nobody fills the memory with pods that no other one is like."""
    assert pod_requests(spec) == pod_requests(spec)
    assert pod_requests(spec) is not pod_requests(spec)
    assert sum(amount for _, amount in pod_requests(spec)) == MAX_SHARED


@each_case(
    ("asks", "held", "counted"),
    [
        ({"cpu": "1"}, {"cpu": "3"}, {"cpu": 3}),
        ({"cpu": "1"}, {"cpu": "1"}, {"cpu": 1}),
        ({"cpu": "3"}, {"cpu": "1"}, {"cpu": 3}),
        ({"cpu": "1", "memory": "2Gi"}, {"cpu": "2", "memory": "1Gi"}, {"cpu": 2, "memory": 2 * 1024**3}),
        ({}, {"cpu": "1"}, {"cpu": 1}),
        ({"cpu": "1"}, {"cpu": "nonsense"}, {"cpu": 1}),
        ({"cpu": "1"}, None, {"cpu": 1}),
    ],
    ids=["smaller", "as it is", "larger", "both", "nothing asked", "no amount", "not said"],
)
@each_case("kind", ["containers", "initContainers"])
def test_a_container_counts_what_its_node_holds_for_it_where_that_is_more(
    asks: Wire, held: Wire | None, counted: dict[str, int], kind: str
) -> None:
    """While it is made smaller in place: the node gives back only then."""
    one = container(asks, sidecar=kind == "initContainers")
    named = "containerStatuses" if kind == "containers" else "initContainerStatuses"
    status = [{"name": "c", **({} if held is None else {"allocatedResources": held})}, {"name": "other"}]
    made = {"metadata": {"name": "p"}, "spec": {kind: [one]}, "status": {named: status}}
    found = held_requests(msgspec.json.decode(json.dumps(made), type=Pod))
    assert dict(found) == counted


@pytest.mark.parametrize(
    ("allocated", "has", "counted"),
    [
        ({"cpu": "1"}, {"cpu": "3"}, 3),
        ({"cpu": "3"}, {"cpu": "1"}, 3),
        ({}, {"cpu": "3"}, 3),
        ({}, {"cpu": "1"}, 2),
    ],
)
def test_a_container_counts_what_it_has_where_that_is_more(allocated: Wire, has: Wire, counted: int) -> None:
    """Its node has promised it less, and has not taken the rest away from it yet."""
    status = [{"name": "c", "allocatedResources": allocated, "resources": {"requests": has}}]
    spec = {"containers": [container({"cpu": "2"})]}
    made = {"metadata": {"name": "p"}, "spec": spec, "status": {"containerStatuses": status}}
    assert dict(held_requests(msgspec.json.decode(json.dumps(made), type=Pod))) == {"cpu": counted}


def test_claims_are_counted_by_their_number() -> None:
    claims = [
        {"name": "gpu", "resourceClaimName": "one"},
        {"name": "nic", "resourceClaimTemplateName": "two"},
    ]
    spec = {"containers": [container({"cpu": "1"})], "resourceClaims": claims}
    assert asked(spec) == {"cpu": 1, "count/resourceclaims.resource.k8s.io": 2}
