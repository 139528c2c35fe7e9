"""What queues deserve: by their specs, and by weight."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.apimachinery.quantities import Amount
from queues.queue import Amounts, Queue
from queues.quota.deserved import Want, share_out
from queues.quota.rules import Rules
from queues.quota.shares import Shares
from queues.quota.usage import Usage
from queues.tree import Tree
from tests.support.cases import each_case


def cpu(amount: Amount | None) -> Amounts | None:
    return None if amount is None else (("cpu", amount),)


def queue(
    name: str,
    parent: str = "root",
    *,
    cap: int | None = None,
    deserved: int | None = None,
    guarantee: int | None = None,
    weight: int = 1,
) -> Queue:
    return Queue(
        name=name,
        parent=parent,
        capability=cpu(cap),
        deserved=cpu(deserved),
        guarantee=cpu(guarantee),
        weight=weight,
    )


def tree(*queues: Queue) -> Tree:
    return Tree({each.name: each for each in queues})


@each_case(
    ("queues", "expected"),
    [
        ([queue("q")], {}),
        ([queue("q", deserved=4)], {"cpu": 4}),
        ([queue("q", cap=3, deserved=4)], {"cpu": 3}),
        ([queue("q", guarantee=2)], {"cpu": 2}),
        ([queue("q", deserved=1, guarantee=2)], {"cpu": 2}),
        ([queue("root", "", cap=10), queue("q", deserved=8), queue("r", guarantee=4)], {"cpu": 6}),
        ([queue("root", "", cap=10), queue("q", deserved=8, guarantee=4)], {"cpu": 8}),
        ([queue("q", "gone", deserved=4)], {"cpu": 4}),
    ],
)
def test_what_a_queue_deserves_by_its_spec(queues: list[Queue], expected: dict[str, Amount]) -> None:
    assert Usage(tree(*queues)).deserved.of("q") == expected


def test_what_nodes_have_bounds_it_where_root_does_not() -> None:
    queues = tree(queue("q", deserved=8))
    assert Usage(queues, rules=Rules(nodes={"cpu": 6})).deserved.of("q") == {"cpu": 6}


@each_case(
    ("whole", "wants", "expected"),
    [
        (9, [Want("a", 1, 0, 9), Want("b", 2, 0, 9)], {"a": 3, "b": 6}),
        (9, [Want("a", 1, 0, 1), Want("b", 2, 0, 9)], {"a": 1, "b": 8}),
        (9, [Want("a", 1, 0, 1), Want("b", 2, 0, 3)], {"a": 1, "b": 3}),
        (9, [Want("a", 1, 4, 9), Want("b", 2, 0, 9)], {"a": 4, "b": 5}),
        (9, [Want("a", 1, 6, 9), Want("b", 1, 6, 9)], {"a": 6, "b": 6}),
        (9, [Want("a", 1, 3, 0), Want("b", 1, 0, 9)], {"a": 3, "b": 6}),
        (1, [Want("a", 1, 0, 1), Want("b", 2, 0, 1)], {"a": Fraction(1, 3), "b": Fraction(2, 3)}),
        (0, [Want("a", 1, 0, 1)], {"a": 0}),
        (5, [], {}),
    ],
)
def test_a_whole_is_shared_out_by_weight(whole: int, wants: list[Want], expected: dict[str, Amount]) -> None:
    assert share_out(whole, wants) == expected


@given(
    st.integers(0, 60),
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 20), st.integers(0, 20)), max_size=6),
)
def test_shares_are_proportional_within_their_bounds(whole: int, drawn: list[tuple[int, int, int]]) -> None:
    wants = [Want(f"q{n}", weight, least, most) for n, (weight, least, most) in enumerate(drawn)]
    got = share_out(whole, wants)
    most = {want.name: max(want.least, want.most) for want in wants}
    assert all(want.least <= got[want.name] <= most[want.name] for want in wants)
    least = sum(want.least for want in wants)
    assert sum(got.values()) == max(least, min(whole, sum(most.values())))
    for one in wants:
        for other in wants:
            if got[one.name] < most[one.name]:  # it wants more: no other has more for its weight
                above = Fraction(got[other.name]) / other.weight > Fraction(got[one.name]) / one.weight
                assert not above or got[other.name] == other.least


def shares(queues: Tree, used: dict[str, int], waiting: dict[str, int], *, whole: int) -> Shares:
    usage = Usage(queues, rules=Rules(proportional=frozenset({"root"}), nodes={"cpu": whole}))
    for name, amount in used.items():
        usage.add(name, [("cpu", amount)])
    asked = {name: {"cpu": amount} for name, amount in waiting.items()}
    return Shares(queues, usage, whole={"cpu": whole}, waiting=lambda: asked)


def test_by_weight_a_queue_deserves_its_part_of_what_all_want() -> None:
    """Volcano's proportion: what a content queue leaves goes to the others, weight for weight."""
    queues = tree(queue("a", weight=1), queue("b", weight=3), queue("c", weight=4))
    found = shares(queues, {"a": 1}, {"a": 9, "b": 1, "c": 90}, whole=16)
    assert {name: found.deserved(name)["cpu"] for name in ("a", "b", "c")} == {"a": 3, "b": 1, "c": 12}
    keys = {name: found.key(name)[1:3] for name in ("a", "b", "c")}
    assert keys == {"a": (False, pytest.approx(1 / 3)), "b": (False, 0.0), "c": (False, 0.0)}


def test_by_weight_no_queue_deserves_more_than_it_may_use_nor_less_than_its_guarantee() -> None:
    queues = tree(queue("a", cap=2), queue("b", guarantee=9), queue("c"))
    found = shares(queues, {}, {"a": 9, "b": 1, "c": 9}, whole=12)
    assert {name: found.deserved(name)["cpu"] for name in ("a", "b", "c")} == {
        "a": Fraction(3, 2),
        "b": 9,
        "c": Fraction(3, 2),
    }


def test_below_a_queue_that_does_not_share_by_weight_specs_count() -> None:
    queues = tree(queue("lab", weight=3), queue("a", "lab", deserved=2), queue("b"))
    found = shares(queues, {}, {"a": 8, "b": 8}, whole=8)
    assert (found.deserved("lab"), found.deserved("a")) == ({"cpu": 6}, {"cpu": 2})


def test_who_borrows_stands_by_what_it_uses_beyond_what_it_deserves() -> None:
    queues = tree(queue("a", deserved=4), queue("b", deserved=1), queue("c", weight=2))
    usage = Usage(queues)
    for name, amount in (("a", 6), ("b", 4), ("c", 3)):
        usage.add(name, [("cpu", amount)])
    found = Shares(queues, usage, whole={"cpu": 20}, waiting=dict)
    assert [found.key(name)[1:3] for name in ("a", "b", "c")] == [
        (True, 2 / 20),
        (True, 3 / 20),
        (True, 3 / 20 / 2),
    ]


@pytest.mark.parametrize(
    ("lab", "expected"),
    [
        ({"cap": 8}, {"a": 2, "b": 6}),
        ({"cap": 8, "deserved": 4}, {"a": 1, "b": 3}),
        ({}, {"a": 4, "b": 12}),
    ],
    ids=["what it may use", "what it deserves", "all that is above it"],
)
def test_by_weight_the_queues_below_one_share_what_it_deserves_or_else_what_it_may_use(
    lab: dict[str, Any], expected: dict[str, int]
) -> None:
    queues = tree(queue("lab", **lab), queue("a", "lab", weight=1), queue("b", "lab", weight=3))
    usage = Usage(queues, rules=Rules(proportional=frozenset({"lab"}), nodes={"cpu": 16}))
    usage.add("a", [("cpu", 8)])
    asked = {"a": {"cpu": 8}, "b": {"cpu": 16}}
    found = Shares(queues, usage, whole={"cpu": 16}, waiting=lambda: asked)
    assert {name: found.deserved(name)["cpu"] for name in ("a", "b")} == expected
