"""The workloads that own pods: their queue, whether they are live, and who owns whom.

Invariants
- Each kind has one writer: its reflector's thread.
- A workload that belongs to no queue is stored too, if it is passed on, with an empty `queue`: owners are
  looked up by UID. `cluster.informers.workloads` says which workloads are passed on.
- `live(queue)` always matches the stored workloads: the call that changes a workload changes the count.
- A workload older than the stored one is dropped.
- An owner is looked up by UID, in the same namespace, through references with `controller: true`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from cluster.inflight.admissions import admission_request
from cluster.objects import OwnerReference, WorkloadObject
from queues.workload_kinds import KINDS, MAX_OWNERS, WorkloadKind
from queues.world.members import controller_reference
from queues.world.workloads import Workload, read_workload

__all__ = ["AllWorkloads", "Workload", "Workloads", "scale_up_key"]

#: Returns the queue of a workload, under which it is stored; "" for none.
QueueOf = Callable[[WorkloadKind, WorkloadObject], str]


class Workloads:
    """The workloads of one kind; the event handler of their reflector."""

    def __init__(
        self,
        kind: WorkloadKind,
        *,
        queue_of: QueueOf,
        on_change: Callable[[str], None],
        arrived: Callable[[str], None] = lambda _admission: None,
        counts_in: Callable[[str], bool] = lambda _namespace: True,
    ) -> None:
        """`counts_in`: whether the workloads of a namespace count as live."""
        self._kind = kind
        self._queue_of = queue_of
        self._counts_in = counts_in
        self._on_change = on_change
        self._arrived = arrived
        self._by_uid: dict[str, Workload] = {}
        self._by_queue: dict[str, dict[str, Workload]] = {}
        #: The number of live workloads, by queue and namespace.
        self._live: dict[str, dict[str, int]] = {}
        #: The workloads that we suspended, by queue ("" for none).
        self._paused: dict[str, dict[str, Workload]] = {}

    def replace(self, objects: list[WorkloadObject]) -> None:
        present = {obj.metadata.uid for obj in objects}
        for uid in [uid for uid in self._by_uid if uid not in present]:
            self._set(self._by_uid[uid], None)
        for obj in objects:
            self.upsert(obj)

    def upsert(self, obj: WorkloadObject) -> None:
        before = self._by_uid.get(obj.metadata.uid)
        if before is None or obj.metadata.version >= before.version:
            self._set(before, self._read(obj))
            self._arrived(admission_request(obj.metadata))
            if obj.spec.replicas:
                self._arrived(scale_up_key(self._kind, obj.metadata.namespace, obj.metadata.name))

    def remove(self, obj: WorkloadObject) -> None:
        before = self._by_uid.get(obj.metadata.uid)
        if before is not None:
            self._set(before, None)

    def by_uid(self, uid: str) -> Workload | None:
        return self._by_uid.get(uid)

    def owner_uids(self) -> list[str]:
        return [work.owner_uid for work in list(self._by_uid.values())]

    def by_name(self, namespace: str, name: str) -> Workload | None:
        """Search all workloads by name; slow, for rare questions."""
        return next(
            (
                work
                for work in list(self._by_uid.values())
                if (work.namespace, work.name) == (namespace, name)
            ),
            None,
        )

    def live(self, queue: str) -> int:
        return len(self._by_queue.get(queue, ()))

    def live_by_namespace(self, queue: str) -> dict[str, int]:
        return self._live.get(queue, {})

    def live_in(self, queue: str) -> list[Workload]:
        return list(self._by_queue.get(queue, {}).values())

    def suspended_by_drain(self, queue: str) -> list[Workload]:
        return list(self._paused.get(queue, {}).values())

    def _read(self, obj: WorkloadObject) -> Workload:
        return read_workload(
            self._kind,
            obj,
            queue=self._queue_of(self._kind, obj),
            counts=self._counts_in(obj.metadata.namespace),
        )

    def _set(self, before: Workload | None, after: Workload | None) -> None:
        # In this order a live workload is never missing from the count.
        if after is not None:
            self._by_uid[after.uid] = after
            if after.live and after.queue:
                self._by_queue.setdefault(after.queue, {})[after.uid] = after
                self._count(after, 1)
            if after.suspended_by_drain:
                self._paused.setdefault(after.queue, {})[after.uid] = after
        elif before is not None:
            del self._by_uid[before.uid]
        if before is not None:
            self._remove_from_queue(before)
        if before is None or after is None or _notified_fields(before) != _notified_fields(after):
            for queue in {work.queue for work in (before, after) if work is not None and work.queue}:
                self._on_change(queue)

    def _count(self, work: Workload, by: int) -> None:
        by_namespace = self._live.setdefault(work.queue, {})
        number = by_namespace.get(work.namespace, 0) + by
        if number:
            by_namespace[work.namespace] = number
            return
        by_namespace.pop(work.namespace, None)
        if not by_namespace:
            del self._live[work.queue]

    def _remove_from_queue(self, before: Workload) -> None:
        if before.live and before.queue:
            self._count(before, -1)
        for index in (self._by_queue, self._paused):
            in_queue = index.get(before.queue)
            if in_queue is not None:
                if in_queue.get(before.uid) is before:
                    del in_queue[before.uid]
                if not in_queue:  # users choose queue names: an index without workloads would stay for good
                    del index[before.queue]


class AllWorkloads:
    """The workloads of every kind; each kind has its own event handler (`of_kind`)."""

    def __init__(
        self,
        *,
        queue_of: QueueOf,
        on_change: Callable[[str], None],
        arrived: Callable[[str], None],
        counts_in: Callable[[str], bool],
    ) -> None:
        self.of_kind: Mapping[str, Workloads] = {
            key: Workloads(kind, queue_of=queue_of, on_change=on_change, arrived=arrived, counts_in=counts_in)
            for key, kind in KINDS.items()
        }
        self._all = tuple(self.of_kind.values())

    def by_uid(self, uid: str) -> Workload | None:
        for workloads in self._all:
            work = workloads.by_uid(uid)
            if work is not None:
                return work
        return None

    def owner_uids(self) -> list[str]:
        """Return the UIDs of the owners of all workloads; "" for those without."""
        return [uid for workloads in self._all for uid in workloads.owner_uids()]

    def live(self, queues: Iterable[str]) -> int:
        return sum(workloads.live(queue) for queue in queues for workloads in self._all)

    def is_live_in(self, queue: str, namespace: str) -> bool:
        """Return whether a queue has a live workload in a namespace."""
        return any(namespace in workloads.live_by_namespace(queue) for workloads in self._all)

    def live_by_namespace(self, queue: str) -> dict[str, int]:
        """Return the number of live workloads of a queue by namespace."""
        counts: dict[str, int] = {}
        for workloads in self._all:
            for namespace, number in list(workloads.live_by_namespace(queue).items()):
                counts[namespace] = counts.get(namespace, 0) + number
        return counts

    def suspended_by_drain(self, queue: str) -> Iterator[Workload]:
        for workloads in self._all:
            yield from workloads.suspended_by_drain(queue)

    def live_in(self, queue: str) -> Iterator[Workload]:
        for workloads in self._all:
            yield from workloads.live_in(queue)

    def topmost(self, references: list[OwnerReference] | None, *, namespace: str) -> Workload | None:
        """Return the topmost owner of an object, as far as owners answer for the objects they create."""
        reference = controller_reference(references)
        return self.top_of(reference.uid, namespace=namespace) if reference else None

    def top_of(self, uid: str, *, namespace: str) -> Workload | None:
        """Return the topmost owner, starting from the nearest owner's UID."""
        top: Workload | None = None
        for _ in range(MAX_OWNERS):
            owner = self.by_uid(uid) if uid else None
            if owner is None or owner.namespace != namespace or not owner.kind.answers_for_children:
                break
            top, uid = owner, owner.owner_uid
        return top


def _notified_fields(work: Workload) -> tuple[str, bool, bool, str]:
    """Return the fields whose changes listeners are notified of."""
    return work.queue, work.live, work.paused, work.suspended_by_drain


def scale_up_key(kind: WorkloadKind, namespace: str, name: str) -> str:
    """Return the key of a scale-up from zero, pending until the workload is seen with replicas.

    A scale-up writes nothing on the workload that could identify the request.
    """
    return f"scale/{kind.key}/{namespace}/{name}"
