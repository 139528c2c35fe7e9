"""What the facts of all nodes say to a question, as one array over the rows of a table.

Labels are compared by topology, not by node: each label key has an array with the number of each row's value
(`Domains`), which is kept until a label changes. So the work for a question does not grow with the number of
its values times the number of nodes, whoever wrote it.

Invariants
- An answer is that of the view it is asked for, whatever was kept: the generations of its facts count.
- Only keys that some node has are kept, and images that some node has: at most `KEPT` of each; the oldest go
  first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from queues.scoring.node_table import View
from queues.scoring.preferences import (
    PREFER_NO_SCHEDULE,
    NodeRequirement,
    NodeTerm,
    Taint,
    Toleration,
    tolerates,
    whole_number,
)

NodeFlags = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]
A = TypeVar("A")

Numbers = tuple[NodeFlags, Counts]

#: Label keys, and images.
KEPT = 128


class Domains(msgspec.Struct, frozen=True):
    """The topology of one key: the number of each row's domain (-1: the node has no such label)."""

    of_row: Counts
    ids: Mapping[str, int]

    @property
    def count(self) -> int:
        return len(self.ids)

    def numbers(self) -> Numbers:
        """Which of the values are whole numbers, by their number; and these numbers."""
        read = [whole_number(value) for value in self.ids]
        return (
            np.array([number is not None for number in read]),
            np.array([number or 0 for number in read], dtype=np.int64),
        )


class NodeMatches:
    """Answers for one table; used by one thread at a time."""

    def __init__(self) -> None:
        self._exist: _Kept[NodeFlags] = _Kept(1)
        self._domains: _Kept[Domains] = _Kept(KEPT)
        self._numbers: _Kept[Numbers] = _Kept(KEPT)
        self._taints: _Kept[Mapping[Taint, Counts]] = _Kept(1)
        self._images: _Kept[Counts] = _Kept(KEPT)

    def exist(self, view: View) -> NodeFlags:
        """Which rows are nodes."""
        return self._exist.get(view.labels_generation, "", lambda: _exist(view))

    def term(self, view: View, term: NodeTerm) -> NodeFlags:
        """Which nodes match a term."""
        expressions, fields = term.match_expressions or (), term.match_fields or ()
        flags = self.exist(view).copy() if expressions or fields else np.zeros(len(view.facts), dtype=bool)
        for one in expressions:
            flags &= self._requirement(view, one)
        for one in fields:
            flags &= _field(view, one)
        return flags

    def selector(self, view: View, labels: Mapping[str, str]) -> NodeFlags:
        """Which nodes have all these labels (`spec.nodeSelector`)."""
        flags = self.exist(view).copy()
        if any(key not in view.label_keys for key in labels):
            return np.zeros(len(view.facts), dtype=bool)
        for key, value in labels.items():
            domains = self.domains(view, key)
            flags &= domains.of_row == domains.ids.get(value, -2)
        return flags

    def domains(self, view: View, key: str) -> Domains:
        if key not in view.label_keys:
            return Domains(np.full(len(view.facts), -1, dtype=np.int64), {})
        return self._domains.get(view.labels_generation, key, lambda: _domains(view, key))

    def intolerable(self, view: View, tolerations: tuple[Toleration, ...], *, soft: bool) -> Counts:
        """How many taints of each node the pod does not tolerate: those of `PreferNoSchedule`, or others."""
        taints = self._taints.get(view.taints_generation, "", lambda: _taints(view))
        counts = np.zeros(len(view.facts), dtype=np.int64)
        if taints:
            tolerated = tolerates(tolerations)
            for taint, rows in taints.items():
                if (taint.effect == PREFER_NO_SCHEDULE) is soft and not tolerated(taint):
                    counts[rows] += 1
        return counts

    def image_sizes(self, view: View, name: str) -> Counts:
        """The bytes of an image that some node has, by row; 0: it is not there."""
        return self._images.get(view.images_generation, name, lambda: _images(view, name))

    def _requirement(self, view: View, one: NodeRequirement) -> NodeFlags:
        domains = self.domains(view, one.key)
        # by the number of the value; the last is for nodes without the label (-1)
        matches = np.zeros(domains.count + 1, dtype=bool)
        if one.operator in ("In", "NotIn"):
            matches[[domains.ids[value] for value in one.values or () if value in domains.ids]] = True
        elif one.operator in ("Exists", "DoesNotExist"):
            matches[:-1] = True
        elif domains.ids:
            matches[:-1] = _compared(one, self._numbers.get(view.labels_generation, one.key, domains.numbers))
        flags: NodeFlags = (~matches if one.operator in ("NotIn", "DoesNotExist") else matches)[
            domains.of_row
        ]
        return flags


class _Kept(Generic[A]):
    """Answers of one kind, of one generation of facts."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._generation = -1
        self._answers: OrderedDict[str, A] = OrderedDict()

    def get(self, generation: int, question: str, compute: Callable[[], A]) -> A:
        if generation != self._generation:
            self._answers, self._generation = OrderedDict(), generation
        answer = self._answers.get(question)
        if answer is None:
            answer = self._answers[question] = compute()
            if len(self._answers) > self._limit:
                self._answers.popitem(last=False)
        return answer


def _compared(one: NodeRequirement, numbers: Numbers) -> NodeFlags:
    """`Gt` and `Lt`; any other operator matches nothing."""
    readable, values = numbers
    asked = whole_number(one.values[0]) if one.values and len(one.values) == 1 else None
    if asked is None or one.operator not in ("Gt", "Lt"):
        return np.zeros(len(values), dtype=bool)
    compared: NodeFlags = readable & (values > asked if one.operator == "Gt" else values < asked)
    return compared


def _exist(view: View) -> NodeFlags:
    return np.fromiter((facts is not None for facts in view.facts), dtype=np.bool_, count=len(view.facts))


def _field(view: View, one: NodeRequirement) -> NodeFlags:
    """`matchFields`: there is one field, the node's name."""
    flags = np.zeros(len(view.facts), dtype=bool)
    if one.key == "metadata.name" and one.operator in ("In", "NotIn"):
        flags[[view.rows[name] for name in one.values or () if name in view.rows]] = True
        if one.operator == "NotIn":
            flags = ~flags
    return flags


def _domains(view: View, key: str) -> Domains:
    ids: dict[str, int] = {}
    of_row = np.full(len(view.facts), -1, dtype=np.int64)
    for row, facts in enumerate(view.facts):
        value = facts.labels.get(key) if facts is not None else None
        if value is not None:
            of_row[row] = ids.setdefault(value, len(ids))
    return Domains(of_row, ids)


def _taints(view: View) -> Mapping[Taint, Counts]:
    """The rows that have each taint."""
    rows: dict[Taint, list[int]] = {}
    for row, facts in enumerate(view.facts):
        for taint in facts.taints if facts is not None else ():
            rows.setdefault(taint, []).append(row)
    return {taint: np.array(of_taint, dtype=np.int64) for taint, of_taint in rows.items()}


def _images(view: View, name: str) -> Counts:
    return np.fromiter(
        (0 if facts is None else facts.images.get(name, 0) for facts in view.facts),
        dtype=np.int64,
        count=len(view.facts),
    )
