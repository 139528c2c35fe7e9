"""What the facts of all nodes say to a question, as one array over the rows of a table.

Facts change seldom and many pods ask the same: answers are kept until the table's generation changes.

Invariants
- An answer is that of the view it is asked for, whatever was kept: its generation counts.
- At most `KEPT` answers of each kind are kept; the oldest go first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from queues.scoring.node_table import View
from queues.scoring.preferences import PREFER_NO_SCHEDULE, NodeFacts, NodeTerm, Taint, Toleration

Flags = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]
A = TypeVar("A")

#: Answers of each kind.
KEPT = 64


class Domains(msgspec.Struct, frozen=True):
    """The topology of one key: the number of each row's domain (-1: the node has no such label)."""

    of_row: Counts
    count: int


class Image(msgspec.Struct, frozen=True):
    """The size of an image on each row (0: not there), and on how many nodes it is."""

    size: Counts
    nodes: int


class NodeMatches:
    """Answers for one table; used by one thread at a time."""

    def __init__(self) -> None:
        self._generation = -1
        self._answers: dict[str, OrderedDict[Hashable, object]] = {}

    def term(self, view: View, term: NodeTerm) -> Flags:
        """Which nodes match a term."""
        return self._answer(
            view,
            "term",
            term,
            lambda: _flags(view, lambda name, facts: term.matches(name, facts.labels)),
        )

    def selector(self, view: View, labels: Mapping[str, str]) -> Flags:
        """Which nodes have all these labels (`spec.nodeSelector`)."""
        wanted = tuple(sorted(labels.items()))
        return self._answer(
            view,
            "selector",
            wanted,
            lambda: _flags(
                view, lambda _, facts: all(facts.labels.get(key) == value for key, value in wanted)
            ),
        )

    def domains(self, view: View, key: str) -> Domains:
        return self._answer(view, "domains", key, lambda: _domains(view, key))

    def intolerable(self, view: View, tolerations: tuple[Toleration, ...], *, soft: bool) -> Counts:
        """How many taints of each node the pod does not tolerate: those of `PreferNoSchedule`, or others."""
        return self._answer(
            view,
            "taints",
            (soft, tolerations),
            lambda: _numbers(
                view,
                lambda facts: sum(
                    1
                    for taint in facts.taints
                    if (taint.effect == PREFER_NO_SCHEDULE) is soft and not _tolerated(taint, tolerations)
                ),
            ),
        )

    def image(self, view: View, name: str) -> Image:
        def compute() -> Image:
            size = _numbers(view, lambda facts: facts.images.get(name, 0))
            nodes = sum(1 for facts in view.facts if facts is not None and name in facts.images)
            return Image(size, nodes)

        return self._answer(view, "image", name, compute)

    def _answer(self, view: View, kind: str, question: Hashable, compute: Callable[[], A]) -> A:
        if view.generation != self._generation:
            self._answers, self._generation = {}, view.generation
        answers = self._answers.setdefault(kind, OrderedDict())
        answer = answers.get(question)
        if answer is None:
            answer = answers[question] = compute()
            if len(answers) > KEPT:
                answers.popitem(last=False)
        return answer  # type: ignore[return-value]  # what `compute` of this kind returned


def _flags(view: View, matches: Callable[[str, NodeFacts], bool]) -> Flags:
    return np.fromiter(
        (
            facts is not None and matches(name, facts)
            for name, facts in zip(view.names, view.facts, strict=True)
        ),
        dtype=np.bool_,
        count=len(view.facts),
    )


def _numbers(view: View, number: Callable[[NodeFacts], int]) -> Counts:
    return np.fromiter(
        (0 if facts is None else number(facts) for facts in view.facts),
        dtype=np.int64,
        count=len(view.facts),
    )


def _domains(view: View, key: str) -> Domains:
    ids: dict[str, int] = {}
    of_row = np.full(len(view.facts), -1, dtype=np.int64)
    for row, facts in enumerate(view.facts):
        value = facts.labels.get(key) if facts is not None else None
        if value is not None:
            of_row[row] = ids.setdefault(value, len(ids))
    return Domains(of_row, len(ids))


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(toleration.tolerates(taint) for toleration in tolerations)
