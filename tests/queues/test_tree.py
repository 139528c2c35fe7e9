"""Chains, cycles and gaps: where a queue stands, whatever its parents are."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.queue import Queue
from queues.tree import ChainBreak, Tree
from tests.support.cases import each_case
from tests.support.rules.cases import (
    MODEST,
    NOW,
    PARENTS,
    SUSPENDED,
    queue,
    random_forests,
    tree,
)
from tests.support.rules.oracle import truths


def chain(of: Tree, name: str) -> list[str]:
    return [one.name for one in of.chain(name).queues]


def test_a_chain_runs_from_the_queue_to_root() -> None:
    """The queue itself comes first, `root` last, nothing broken."""
    deep = tree(queue("a"), queue("b", "a"), queue("c", "b"), queue("other"))
    assert chain(deep, "c") == ["c", "b", "a", "root"]
    assert deep.chain("c").broken is None


def test_root_exists_in_a_tree_before_it_is_created() -> None:
    """A tree of nothing still has an Open `root`, alone on its chain."""
    empty = Tree({})
    assert (list(empty), len(empty), "root" in empty, chain(empty, "root")) == (["root"], 1, True, ["root"])


def test_the_root_that_is_stored_replaces_the_implied_one() -> None:
    """What an operator wrote on `root` is what counts."""
    assert tree(queue("root", desired=SUSPENDED)).get("root") == queue("root", desired=SUSPENDED)


@each_case("parent", [None, "", "root", "a", "ghost"])
def test_root_has_no_parent(parent: str | None) -> None:
    """A parent written on `root` is ignored, even where it would close a cycle."""
    odd = tree(Queue(name="root", parent=parent), queue("a"))
    assert (chain(odd, "root"), odd.chain("root").broken) == (["root"], None)
    assert (chain(odd, "a"), odd.chain("a").broken) == (["a", "root"], None)


def test_root_is_no_queues_child() -> None:
    """A parent written on `root` does not put `root` below that queue."""
    odd = tree(Queue(name="root", parent="a"), queue("a"))
    assert (odd.children("a"), odd.subtree("a")) == ((), frozenset({"a"}))


@pytest.mark.parametrize("parent", [None, ""])
def test_no_parent_means_root(parent: str | None) -> None:
    """A queue without a parent, or with an empty one, has `root` above it."""
    assert chain(tree(Queue(name="q", parent=parent)), "q") == ["q", "root"]


@pytest.mark.parametrize("parent", [None, ""])
def test_a_queue_without_a_parent_is_below_root(parent: str | None) -> None:
    """What has `root` on its chain is among the children of `root` and below it."""
    orphan = tree(Queue(name="q", parent=parent))
    assert (orphan.children("root"), orphan.subtree("root")) == (("q",), frozenset({"root", "q"}))


def test_a_chain_ends_before_a_parent_that_is_missing() -> None:
    """The break names who asks for the parent, and the parent."""
    gap = tree(queue("a", "ghost"), queue("b", "a"))
    assert chain(gap, "b") == ["b", "a"]
    assert gap.chain("b").broken == ChainBreak("a", "ghost")


def test_a_gap_says_which_parent_is_missing_and_whose() -> None:
    """The sentence for a missing parent names both queues."""
    assert str(ChainBreak("a", "ghost")) == 'parent "ghost" of queue "a" does not exist'


def test_a_queue_that_is_its_own_parent_is_a_cycle_of_one() -> None:
    """The smallest cycle ends the chain at once."""
    knot = tree(queue("a", "a"))
    assert (chain(knot, "a"), knot.chain("a").broken) == (["a"], ChainBreak("a", "a", ("a",)))


@pytest.mark.parametrize(
    ("name", "queues", "broken"),
    [
        ("a", ["a", "b", "c"], ChainBreak("c", "a", ("a", "b", "c"))),
        ("b", ["b", "c", "a"], ChainBreak("a", "b", ("b", "c", "a"))),
        ("x", ["x", "b", "c", "a"], ChainBreak("a", "b", ("b", "c", "a"))),
        ("y", ["y", "x", "b", "c", "a"], ChainBreak("a", "b", ("b", "c", "a"))),
    ],
)
def test_a_chain_ends_before_a_queue_would_repeat(name: str, queues: list[str], broken: ChainBreak) -> None:
    """In a cycle each queue comes once; the break names the queue that closes it, and the cycle alone."""
    knot = tree(queue("a", "b"), queue("b", "c"), queue("c", "a"), queue("x", "b"), queue("y", "x"))
    assert chain(knot, name) == queues
    assert knot.chain(name).broken == broken


def test_a_cycle_is_shown_from_its_first_queue_back_to_it() -> None:
    """The sentence for a cycle shows the way round."""
    assert str(ChainBreak("c", "a", ("a", "b", "c"))) == "the parents form a cycle: a > b > c > a"


@pytest.mark.parametrize(
    ("names", "way"),
    [
        ("abcdef", "a > b > c > d > e > f > a"),
        ("abcdefg", "a > b > c > d > e > (1 more) > g > a"),
        ("abcdefghij", "a > b > c > d > e > (4 more) > j > a"),
    ],
)
def test_of_a_long_cycle_both_ends_are_shown(names: str, way: str) -> None:
    """Six queues are named: of a longer cycle the middle is counted."""
    assert str(ChainBreak(names[-1], names[0], tuple(names))) == f"the parents form a cycle: {way}"


def test_a_long_chain_is_walked_without_recursion() -> None:
    """Ten thousand queues one under the other are a chain like any other."""
    deep = tree(*(queue(f"q{i}", f"q{i - 1}" if i else "root") for i in range(10_000)))
    assert len(deep.chain("q9999").queues) == 10_001
    assert deep.depth("q9999") == 10_000
    assert len(deep.subtree("q0")) == 10_000


def test_the_chain_of_a_queue_that_is_not_there_is_a_key_error() -> None:
    """Whoever asks for a chain has looked first."""
    with pytest.raises(KeyError):
        Tree({}).chain("ghost")


def test_depth_counts_the_queues_above() -> None:
    """`root` is at 0, its children at 1."""
    deep = tree(queue("a"), queue("b", "a"))
    assert [deep.depth(name) for name in ("root", "a", "b")] == [0, 1, 2]


def test_children_come_in_the_order_of_their_names() -> None:
    """The same children in whatever order they came give the same answer."""
    assert tree(queue("c", "a"), queue("b", "a"), queue("a")).children("a") == ("b", "c")
    assert tree(queue("b", "a"), queue("a"), queue("c", "a")).children("a") == ("b", "c")


def test_a_leaf_has_no_children() -> None:
    """Neither has a queue that is not there, unless some wait for it."""
    wood = tree(queue("a"), queue("b", "ghost"))
    assert (wood.children("a"), wood.children("nobody"), wood.children("ghost")) == ((), (), ("b",))


def test_below_a_queue_are_itself_and_all_its_descendants() -> None:
    """Siblings and ancestors are not below."""
    wood = tree(queue("a"), queue("b", "a"), queue("c", "b"), queue("d", "a"), queue("e"))
    assert wood.subtree("a") == {"a", "b", "c", "d"}


def test_below_a_queue_of_a_cycle_is_the_whole_cycle_once() -> None:
    """A cycle ends the search instead of going round."""
    knot = tree(queue("a", "b"), queue("b", "a"), queue("x", "a"))
    assert knot.subtree("a") == {"a", "b", "x"}


def test_adding_a_queue_makes_a_new_tree_and_leaves_the_old_one() -> None:
    """`with_queue` answers "what if": neither tree knows of the other."""
    before = tree(queue("a"))
    after = before.with_queue(queue("b", "a"))
    assert ("b" in before, "b" in after, after.children("a")) == (False, True, ("b",))


def test_a_tree_with_a_queue_moved_has_it_in_one_place() -> None:
    """`with_queue` takes the place of the queue of that name."""
    after = tree(queue("a"), queue("b"), queue("q", "a")).with_queue(queue("q", "b"))
    assert (after.children("a"), after.children("b"), len(after)) == ((), ("q",), 4)


def test_a_tree_cannot_be_changed_through_its_queues() -> None:
    """Neither by writing to `queues` nor by changing the mapping it was made of."""
    given_queues = {"a": queue("a")}
    wood = Tree(given_queues)
    given_queues["b"] = queue("b")
    with pytest.raises(TypeError):
        wood.queues["c"] = queue("c")  # type: ignore[index]
    assert set(wood) == {"root", "a"}


@MODEST
@given(random_forests())
def test_a_chain_has_exactly_the_ancestors(queues: dict[str, Queue]) -> None:
    """In any tree the chain is the set found the slow way, each the child of the next."""
    wood = Tree(queues)
    for name, truth in truths(queues, now=NOW).items():
        names = chain(wood, name)
        assert frozenset(names) == truth.above
        assert len(set(names)) == len(names)
        assert names[0] == name
        assert all(wood.queues[low].parent == high for low, high in pairwise(names))


@MODEST
@given(random_forests())
def test_a_chain_is_broken_just_where_it_misses_root(queues: dict[str, Queue]) -> None:
    """In any tree whole chains end with `root`; a break names the last queue and the parent it asks for."""
    wood = Tree(queues)
    for name, truth in truths(queues, now=NOW).items():
        found = wood.chain(name)
        assert (found.broken is not None) is truth.broken
        assert (found.queues[-1].name == "root") is not truth.broken
        if found.broken:
            assert (found.broken.child, found.broken.parent) == (
                found.queues[-1].name,
                found.queues[-1].parent,
            )
            assert bool(found.broken.cycle) is (found.broken.parent in wood)


@MODEST
@given(random_forests())
def test_below_is_the_other_way_round_of_above(queues: dict[str, Queue]) -> None:
    """In any tree a queue is below another just where that one is on its chain."""
    wood, above = Tree(queues), truths(queues, now=NOW)
    for name in wood:
        assert wood.subtree(name) == {other for other in wood if name in above[other].above}


@MODEST
@given(random_forests(), random_forests())
def test_a_tree_with_changes_is_the_same_as_a_new_one(
    before: dict[str, Queue], after: dict[str, Queue]
) -> None:
    """Whatever came, went or moved. Where nothing did, it has the shape of the one before."""
    former, anew = Tree(before), Tree(after)
    changed = former.with_changes(
        {name: after.get(name) for name in {*before, *after} if before.get(name) != after.get(name)}
    )
    assert (dict(changed.queues), set(changed)) == (dict(anew.queues), set(anew))
    for name in {*before, *after, "root", "ghost"}:
        assert (changed.children(name), changed.subtree(name)) == (anew.children(name), anew.subtree(name))
    places = [
        {name: queue.parent or "root" for name, queue in queues.items() if name != "root"}
        for queues in (before, after)
    ]
    assert changed.is_shaped_as(former) is (places[0] == places[1])


@pytest.mark.parametrize("parent", ["a", "root", "ghost", ""])
def test_a_parent_of_root_is_overlooked(parent: str) -> None:
    """The definition lets it in where no webhook is asked; then `a` would be above itself."""
    held = Tree({"root": Queue(name="root", parent=parent), "a": Queue(name="a")})
    assert [one.name for one in held.chain("a").queues] == ["a", "root"]
    assert held.chain("a").broken is None
    assert held.chain("root").broken is None
    assert held.children("root") == ("a",)
    assert held.subtree("a") == {"a"}
    assert (held.depth("root"), held.depth("a")) == (0, 1)


# Queues that are gone


def test_what_was_in_a_queue_counts_where_that_was() -> None:
    """Also above a queue that is gone itself, and for the queues below one, whose chain is broken then."""
    whole = tree(queue("a"), queue("b", "a"), queue("c", "b"), queue("d", "c"))
    assert whole.counting_chain("c") == ("c", "b", "a", "root")
    gone = whole.with_changes({"c": None}, former={"c": "b"})
    assert gone.counting_chain("c") == ("c", "b", "a", "root")
    assert gone.counting_chain("d") == ("d", "c", "b", "a", "root")
    both = gone.with_changes({"b": None}, former={"c": "b", "b": "a"})
    assert both.counting_chain("d") == ("d", "c", "b", "a", "root")
    assert both.with_changes({}).former == {"c": "b", "b": "a"}


def test_of_a_queue_that_nobody_knows_nothing_counts_above() -> None:
    assert tree(queue("a")).counting_chain("ghost") == ("ghost",)
    assert tree(queue("a", "ghost")).counting_chain("a") == ("a",)


@MODEST
@given(random_forests(), st.dictionaries(st.sampled_from(PARENTS), st.sampled_from(PARENTS)))
def test_what_counts_where_ends(queues: dict[str, Queue], former: dict[str, str]) -> None:
    """Whatever is remembered: it begins with the chain, and no queue comes twice."""
    wood = Tree(queues, former=former)
    for name in {*wood, *former}:
        found = wood.counting_chain(name)
        assert len(found) == len(set(found))
        own = tuple(each.name for each in wood.chain(name).queues) if name in wood else (name,)
        assert found[: len(own)] == own
