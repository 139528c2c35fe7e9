"""What each node has, and what pods use of it: one row a node, one column a resource.

Invariants
- After any history, what is used of a node is the sum of the requests of the pods that are on it: of those
  that are seen there, and of those that are assumed there. A pod counts on one node at most.
- A pod is assumed on a node from the moment in which a score made it go there until it is seen on a node,
  is gone, is assumed elsewhere, or the assumption expires.
- Pods may be seen before their node, and a node may go before its pods: they count as soon as both exist.
- A column exists for each resource that a node has (`COLUMN_LIMIT` at most; pods make none). A new column
  begins with what the pods that are known use of it.
- A generation changes whenever a node comes or goes or its facts of that kind change (`View`), and only then:
  what is derived from these facts alone may be kept as long.
- A view's parts belong together, whatever happens afterwards: its rows and columns are in its arrays. Amounts
  in the arrays go on changing; the row of a node that has gone meanwhile may have those of another node.
- Each change of a row's amounts is recorded, in the same step. So what was computed from a view is right
  still, except for the rows that changed after the view's position (`changed_rows`), as long as the arrays of
  the latest view have the same shape.
- One lock for all that write. What takes longer than microseconds, such as reading a pod's terms, is done
  before the lock is taken.

Times are monotonic seconds.
"""

from __future__ import annotations

import heapq
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat

import msgspec
import numpy as np
import numpy.typing as npt

from queues.scoring.pod_classes import PodClasses, ScoringPodClass
from queues.scoring.preferences import NO_FACTS, NodeFacts, PodPlacement
from queues.scoring.requests import AMOUNT_LIMIT, ScoringRequest

Units = npt.NDArray[np.int64]

CPU, MEMORY = 0, 1
#: Resources that a table keeps; what further ones nodes have is not scored.
COLUMN_LIMIT = 64
#: Changes that are recorded, at least; twice as many at most.
CHANGES_KEPT = 4096
_FIRST_ROWS = 16


class View(msgspec.Struct, frozen=True):
    """The table at one moment. The arrays are the table's own: copy rows, change nothing.

    `padded`: what is used of CPU and memory with kube-scheduler's defaults. `facts`: by row; None: no node.
    `labels_generation`, `taints_generation`, `images_generation`: of the facts of each kind; all three change
    when a node comes or goes. `label_keys`: those that any node has. `image_nodes`: on how many nodes each
    image is, always the latest.
    """

    labels_generation: int
    taints_generation: int
    images_generation: int
    facts: Sequence[NodeFacts | None]
    names: Sequence[str]
    label_keys: frozenset[str]
    image_nodes: Mapping[str, int]

    rows: Mapping[str, int]
    columns: Mapping[str, int]
    allocatable: Units
    used: Units
    padded: Units

    def rows_of(self, names: Sequence[str]) -> npt.NDArray[np.intp]:
        """The row of each node. Raises KeyError if one is not known."""
        return np.fromiter(map(self.rows.__getitem__, names), dtype=np.intp, count=len(names))

    def select(self, names: Sequence[str]) -> npt.NDArray[np.intp]:
        """The row of each node; -1 for one that is not known."""
        return np.fromiter(map(self.rows.get, names, repeat(-1)), dtype=np.intp, count=len(names))


class _Placed(msgspec.Struct, gc=False):
    """A pod on a node. `until`: when the assumption expires; None if the pod was seen there."""

    node: str
    request: ScoringRequest
    until: float | None
    pod_class: ScoringPodClass | None


class NodeTable:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[str, int] = {}
        self._free: list[int] = list(range(_FIRST_ROWS))
        self._columns: dict[str, int] = {"cpu": CPU, "memory": MEMORY}
        self._allocatable: Units = np.zeros((_FIRST_ROWS, 2), dtype=np.int64)
        self._used: Units = np.zeros((_FIRST_ROWS, 2), dtype=np.int64)
        self._padded: Units = np.zeros((_FIRST_ROWS, 2), dtype=np.int64)
        self.classes = PodClasses()
        self._facts: list[NodeFacts | None] = [None] * _FIRST_ROWS
        self._names: list[str] = [""] * _FIRST_ROWS
        self._labels_generation = self._taints_generation = self._images_generation = 0
        self._label_keys: Counter[str] = Counter()
        self._image_nodes: Counter[str] = Counter()
        #: The view, until a node, a fact or a column changes.
        self._view: View | None = None
        #: The rows whose amounts changed, in order; and how many changes there were before these.
        self._changed: list[int] = []
        self._dropped_changes = 0
        self._pods: dict[str, _Placed] = {}
        #: The UIDs of the pods on each node, whether the node is known or not.
        self._pods_on: dict[str, set[str]] = {}
        #: The ends of assumptions and the UIDs of their pods, a heap; some have ended otherwise since.
        self._ends: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def has_node(self, name: str) -> bool:
        return name in self._rows

    def view(self) -> View:
        return self.snapshot()[0]

    def snapshot(self) -> tuple[View, int]:
        """The view, and its position among the changes: amounts in it are as new as that, or newer."""
        with self._lock:
            if self._view is None:
                self._view = View(
                    labels_generation=self._labels_generation,
                    taints_generation=self._taints_generation,
                    images_generation=self._images_generation,
                    facts=tuple(self._facts),
                    names=tuple(self._names),
                    label_keys=frozenset(self._label_keys),
                    image_nodes=self._image_nodes,
                    rows=dict(self._rows),
                    columns=dict(self._columns),
                    allocatable=self._allocatable,
                    used=self._used,
                    padded=self._padded,
                )
            return self._view, self._dropped_changes + len(self._changed)

    def changed_rows(self, since: int, until: int) -> set[int] | None:
        """The rows whose amounts changed between two positions; None: that is no longer known."""
        if since == until:
            return set()
        with self._lock:
            if since < self._dropped_changes:
                return None
            return set(self._changed[since - self._dropped_changes : until - self._dropped_changes])

    def set_node(self, name: str, allocatable: Mapping[str, int], facts: NodeFacts = NO_FACTS) -> None:
        """A node that is there, with the whole units (see `requests`) that pods may use."""
        with self._lock:
            for resource in allocatable:
                self._ensure_column(resource)
            row = self._rows.get(name)
            if row is None:
                row = self._take_row()
                self._used[row], self._padded[row] = 0, 0
                for uid in self._pods_on.get(name, ()):
                    self._count(row, self._pods[uid].request, 1)
            self._allocatable[row] = 0
            for resource, units in allocatable.items():
                column = self._columns.get(resource)
                if column is not None:
                    self._allocatable[row, column] = max(0, min(units, AMOUNT_LIMIT))
            self._record_change(row)
            self._set_facts(row, name, facts)

    def remove_node(self, name: str) -> None:
        with self._lock:
            row = self._rows.get(name)
            if row is not None:
                self._set_facts(row, name, None)
                self._free.append(row)

    def _set_facts(self, row: int, name: str, facts: NodeFacts | None) -> None:
        """The facts of the node in a row, which is a node's from now on; None: no more."""
        before = self._facts[row]
        if facts is not None and before == facts:
            return
        if before is None or facts is None:
            self._labels_generation += 1
            self._taints_generation += 1
            self._images_generation += 1
        else:
            self._labels_generation += before.labels != facts.labels
            self._taints_generation += before.taints != facts.taints
            self._images_generation += before.images != facts.images
        for known, sign in ((before, -1), (facts, 1)):
            if known is not None:
                _count_keys(self._label_keys, known.labels, sign)
                _count_keys(self._image_nodes, known.images, sign)
        self._facts[row] = facts
        if facts is None:
            self._names[row] = ""
            del self._rows[name]
        else:
            self._names[row], self._rows[name] = name, row
        self._view = None

    def see_pod(
        self,
        uid: str,
        node: str,
        request: ScoringRequest,
        placement: PodPlacement | None = None,
        *,
        terminating: bool = False,
    ) -> None:
        """A pod that is bound to a node, and has not ended. `placement`: where others' affinity counts."""
        pod_class = self._class_of(placement, terminating=terminating)
        with self._lock:
            self._place(uid, _Placed(node, request, None, pod_class))

    def forget_pod(self, uid: str) -> None:
        """A pod that has ended or is gone."""
        with self._lock:
            self._displace(uid)

    def assume_pod(
        self,
        uid: str,
        node: str,
        request: ScoringRequest,
        placement: PodPlacement | None = None,
        *,
        until: float,
    ) -> None:
        """A pod that was just scored and goes to `node`; one that is seen on a node stays where it is."""
        pod_class = self._class_of(placement)
        with self._lock:
            placed = self._pods.get(uid)
            if placed is None or placed.until is not None:
                self._place(uid, _Placed(node, request, until, pod_class))

    def drop_assumption(self, uid: str) -> None:
        """A pod that is being scheduled anew, so that it did not go where it was assumed."""
        with self._lock:
            placed = self._pods.get(uid)
            if placed is not None and placed.until is not None:
                self._displace(uid)

    def expire(self, now: float) -> None:
        """Drops the assumptions that have expired."""
        with self._lock:
            while self._ends and self._ends[0][0] <= now:
                until, uid = heapq.heappop(self._ends)
                placed = self._pods.get(uid)
                if placed is not None and placed.until == until:
                    self._displace(uid)

    def retain_pods(self, uids: Iterable[str]) -> None:
        """After a list of all pods: forgets those that were seen before and are not in it."""
        listed = set(uids)
        with self._lock:
            for uid in [uid for uid, placed in self._pods.items() if placed.until is None]:
                if uid not in listed:
                    self._displace(uid)

    def retain_nodes(self, names: Iterable[str]) -> None:
        """After a list of all nodes: forgets those that are not in it."""
        listed = set(names)
        with self._lock:
            gone = [name for name in self._rows if name not in listed]
        for name in gone:
            self.remove_node(name)

    def _class_of(
        self, placement: PodPlacement | None, *, terminating: bool = False
    ) -> ScoringPodClass | None:
        return self.classes.class_of(placement, terminating=terminating) if placement else None

    def _place(self, uid: str, placed: _Placed) -> None:
        self._displace(uid)
        if placed.pod_class is not None:
            placed.pod_class = self.classes.count(placed.pod_class, placed.node, 1)
        row = self._rows.get(placed.node)
        if row is not None:
            placed.node = self._names[row]  # one string for all pods of the node
            self._count(row, placed.request, 1)
        self._pods[uid] = placed
        self._pods_on.setdefault(placed.node, set()).add(uid)
        if placed.until is not None:
            heapq.heappush(self._ends, (placed.until, uid))

    def _displace(self, uid: str) -> None:
        placed = self._pods.pop(uid, None)
        if placed is None:
            return
        if placed.pod_class is not None:
            self.classes.count(placed.pod_class, placed.node, -1)
        on_node = self._pods_on[placed.node]
        on_node.discard(uid)
        if not on_node:
            del self._pods_on[placed.node]
        row = self._rows.get(placed.node)
        if row is not None:
            self._count(row, placed.request, -1)

    def _count(self, row: int, request: ScoringRequest, sign: int) -> None:
        used, padded = self._used, self._padded  # `item` and not `+=`: in half the time
        used[row, CPU] = used.item(row, CPU) + sign * request.cpu
        used[row, MEMORY] = used.item(row, MEMORY) + sign * request.memory
        padded[row, CPU] = padded.item(row, CPU) + sign * request.padded_cpu
        padded[row, MEMORY] = padded.item(row, MEMORY) + sign * request.padded_memory
        for resource, units in request.others:
            column = self._columns.get(resource)
            if column is not None:
                used[row, column] = used.item(row, column) + sign * units
        self._record_change(row)

    def _record_change(self, row: int) -> None:
        self._changed.append(row)
        if len(self._changed) >= 2 * CHANGES_KEPT:
            del self._changed[:CHANGES_KEPT]
            self._dropped_changes += CHANGES_KEPT

    def _take_row(self) -> int:
        if not self._free:
            before = len(self._allocatable)
            self._allocatable, self._used, self._padded = (
                np.concatenate([array, np.zeros_like(array)])
                for array in (self._allocatable, self._used, self._padded)
            )
            self._facts += [None] * before
            self._names += [""] * before
            self._view = None
            self._free = list(range(before, 2 * before))
        return self._free.pop()

    def _ensure_column(self, resource: str) -> None:
        if resource in self._columns or len(self._columns) >= COLUMN_LIMIT:
            return
        column = len(self._columns)
        empty = np.zeros((len(self._allocatable), 1), dtype=np.int64)
        self._allocatable = np.concatenate([self._allocatable, empty], axis=1)
        used = np.concatenate([self._used, empty], axis=1)
        for placed in self._pods.values():
            row = self._rows.get(placed.node)
            if row is not None:
                used[row, column] += sum(units for name, units in placed.request.others if name == resource)
        self._used, self._view = used, None
        self._columns[resource] = column


def _count_keys(counter: Counter[str], keys: Iterable[str], sign: int) -> None:
    """Counts each key up or down; one that is counted down to nothing is dropped."""
    for key in keys:
        counter[key] += sign
        if not counter[key]:
            del counter[key]
