"""Cycles of parents: which there are, who made them, and the way out.

No replica admits an edit that makes a cycle by the queues that it knows. Two edits at once through two
replicas can make one: each edit is right by what its replica knows.

Promises
- A cycle is returned once, whichever of its queues are given; it begins with the first name in order.
- The text names the two latest edits of parents in the cycle, and is a function of its arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from queues.status.changes import HistoryLine
from queues.text import printable
from queues.tree import ChainBreak, Tree

#: Characters of a queue's or a user's name in the text, so that it fits an event.
_NAME = 60

Cycle = tuple[str, ...]


def find_cycles(tree: Tree, among: Iterable[str]) -> tuple[Cycle, ...]:
    """The cycles that the chains of these queues run into."""
    turned = {
        _turned(broken.cycle)
        for name in among
        if name in tree and (broken := tree.chain(name).broken) is not None and broken.cycle
    }
    return tuple(sorted(turned))


def cycle_text(cycle: Cycle, histories: Mapping[str, Iterable[HistoryLine]]) -> str:
    """What an event on each queue of the cycle says; `histories`: `status.changes` by queue."""
    edits = sorted(
        (edit.at, name, edit) for name in cycle if (edit := _set_last(histories.get(name, ()))) is not None
    )[-2:]
    history = "; ".join(
        f"{_name(edit.by)} put queue {_name(name)} under {_name(edit.to)} at {edit.at}"
        for _, name, edit in edits
    )
    last = edits[-1][1] if edits else cycle[0]
    return (
        f"{ChainBreak(cycle[-1], cycle[0], cycle) if _fits(cycle) else 'the parents form a cycle'}"
        f"{': ' if history else ''}{history}; give one of them another parent, such as: "
        f"""kubectl patch queue {last} --type merge -p '{{"spec":{{"parent":"root"}}}}'"""
    )


def _set_last(history: Iterable[HistoryLine]) -> HistoryLine | None:
    """The latest change of the parent; None if it was set at creation, or the line is gone."""
    return next((change for change in reversed(list(history)) if change.field == "parent"), None)


def _turned(cycle: Cycle) -> Cycle:
    start = cycle.index(min(cycle))
    return cycle[start:] + cycle[:start]


def _fits(cycle: Cycle) -> bool:
    return sum(map(len, cycle)) < 4 * _NAME


def _name(name: str) -> str:
    return f'"{printable(name, limit=_NAME)}"'
