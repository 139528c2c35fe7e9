"""Cycles of parents: each is found once, and its text names the two edits and the way out."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given

from queues.queue import Queue
from queues.status.changes import HistoryLine
from queues.status.parent_cycles import cycle_text, find_cycles
from queues.tree import Tree
from tests.support.cases import each_case
from tests.support.rules.cases import (
    HOSTILE,
    MODEST,
    plain,
    queue,
    random_forests,
    tree,
)

ROUND = tree(queue("a", "c"), queue("b", "a"), queue("c", "b"), queue("below", "b"), queue("apart"))


def put(name: str, under: str, *, by: str = "alice", minute: int = 0) -> HistoryLine:
    return HistoryLine(by=by, field="parent", from_="root", to=under, at=f"2030-01-01T12:{minute:02}:00Z")


def test_a_cycle_is_returned_once_whichever_of_its_queues_are_given() -> None:
    """It begins with its first name; a queue below it is not of it."""
    assert find_cycles(ROUND, ROUND) == (("a", "c", "b"),)
    assert [find_cycles(ROUND, [name]) for name in ("b", "below")] == [(("a", "c", "b"),)] * 2
    assert find_cycles(ROUND, ["apart", "root", "nobody"]) == ()


def test_a_parent_that_is_not_there_is_no_cycle() -> None:
    """Its chain is broken otherwise."""
    assert find_cycles(tree(queue("a", "ghost")), ["a"]) == ()


def test_the_text_names_both_edits_and_the_way_out() -> None:
    """The two latest, in their order; other fields and older moves are left out; the latest is undone."""
    histories = {
        "a": [
            put("a", "x", minute=50),
            put("a", "c", by="alice", minute=2),
            HistoryLine(by="x", field="state"),
        ],
        "b": [put("b", "a", by="early", minute=1)],
        "c": [put("c", "b", by="bob", minute=3)],
    }
    assert cycle_text(("a", "c", "b"), histories) == (
        'the parents form a cycle: a > c > b > a: "alice" put queue "a" under "c" at 2030-01-01T12:02:00Z; '
        '"bob" put queue "c" under "b" at 2030-01-01T12:03:00Z; give one of them another parent, such as: '
        """kubectl patch queue c --type merge -p '{"spec":{"parent":"root"}}'"""
    )


def test_a_queue_that_was_made_where_it_stands_has_no_edit_to_name() -> None:
    """The other one is named alone; and without any the way out still is."""
    found = cycle_text(("a", "b"), {"a": [put("a", "b")]})
    assert found.count("put queue") == 1
    assert cycle_text(("a", "b"), {}).startswith("the parents form a cycle: a > b > a; give one of them")


@each_case("by", HOSTILE.values(), ids=HOSTILE.keys())
def test_the_text_fits_an_event_with_the_longest_author(by: str) -> None:
    """Names of any length, users of any kind: one line, and the way out is in it."""
    names = tuple(f"{letter}{'x' * 252}" for letter in "abcdefghij")
    text = cycle_text(names, {name: [put(name, names[0], by=by)] for name in names})
    assert plain(text)
    assert len(text.encode()) < 1000
    assert text.endswith("""'{"spec":{"parent":"root"}}'""")


@MODEST
@given(queues=random_forests())
def test_each_cycle_has_every_queue_that_comes_back_to_itself(queues: Mapping[str, Queue]) -> None:
    """Found by walking up from each for as long as there are queues."""
    found = Tree(queues)

    def returns(name: str) -> bool:
        above = name
        for _ in found:
            parent = found.get(above)
            if above == "root" or parent is None:
                return False
            above = parent.parent or "root"
            if above == name:
                return True
        return False

    on_cycles = [name for cycle in find_cycles(found, found) for name in cycle]
    assert sorted(on_cycles) == sorted(name for name in found if name != "root" and returns(name))
