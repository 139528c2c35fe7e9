"""Writes the phase, the counts and the conditions of PodGroups.

Invariants
- What is written follows from the PodGroup, its pods, the queue snapshot and how it stands as a gang
  (`queues.status.podgroup_phases`, `queues.status.podgroup_conditions`).
- A phase or a condition is written at once, counts alone at most once in `COUNT_SECONDS` for a PodGroup.
  Nothing is written where nothing differs.
- While the store has an older PodGroup than the one that was written last, nothing is written. That holds in
  any term, so these versions are in no table of requests (`controller.requests`).
- Conditions of other types, which others write, stay as they are; so does an `Unschedulable` of others. Where
  one of them cannot be read, no conditions are written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from cluster.api.client import decode_response
from cluster.cache.changes import QueueChange
from cluster.cache.members import tally_pods
from cluster.cache.podgroups import PodGroupKey
from cluster.objects import Condition, PodGroup
from cluster.write_ranks import WriteRank
from controller.context import QUEUE_VERSION, ControllerContext, podgroup_subject
from controller.parts import Part
from controller.pods.pod_conditions import EVENT_REASONS
from controller.status.conditions import updated_conditions, wire_conditions
from queues.snapshot import QueueDecision
from queues.status.podgroup_conditions import (
    FREE,
    UNSCHEDULABLE,
    GangQuotaState,
    is_unschedulable_of_ours,
    populated_condition,
    scheduled_condition,
    unschedulable_condition,
)
from queues.status.podgroup_phases import POPULATED, Phase, PodTally, derive_phase
from queues.world.podgroups import phase_of, queue_of

COUNT_SECONDS = 1.0
#: A write that is not taken, since a former one is under way, is tried again after so many seconds at least.
RETRY_SECONDS = 0.1
COUNTS = ("running", "succeeded", "failed")

_podgroup = msgspec.json.Decoder(PodGroup)


class PodGroupRecord(msgspec.Struct):
    """What is remembered of a PodGroup. Times are monotonic seconds.

    `written_version`: the version that the last write made. `counted_at`: when counts were written last.
    """

    written_version: int = 0
    counted_at: float = -math.inf


class PodGroupStatuses(Part):
    """Owner: the controller's thread; the writes run in the writers' threads."""

    name = "podgroups"

    def __init__(
        self,
        context: ControllerContext,
        *,
        standing: Callable[[PodGroup], GangQuotaState | None] = lambda _: FREE,
        take_changed: Callable[[], Iterable[PodGroupKey]] = tuple,
    ) -> None:
        """`standing`: how a PodGroup stands with the quotas; None: not to be written before it is known.
        `take_changed`: those that stand otherwise since it was called last.
        """
        self._take_changed = take_changed
        self._context = context
        self._standing = standing
        #: By UID.
        self._records: dict[str, PodGroupRecord] = {}
        #: When a PodGroup is reconciled again, in monotonic seconds.
        self._due: dict[PodGroupKey, float] = {}

    @property
    def due(self) -> float:
        """When the first PodGroup is due, in monotonic seconds; infinity if none is."""
        return min(self._due.values(), default=math.inf)

    def reconcile(self, keys: Iterable[PodGroupKey]) -> None:
        """Write what has changed in the statuses of these PodGroups."""
        present = [
            podgroup for key in keys if (podgroup := self._context.store.podgroups.get(*key)) is not None
        ]
        for queue, groups in _by_queue(present).items():
            self._context.store.backoff.attempt_each(
                "podgroup",
                groups,
                self._reconcile,
                key=key_of,
                version=lambda podgroup: podgroup.metadata.version,
                queue=queue,
                subject=podgroup_subject,
            )

    def reconcile_queue(self, queue: str) -> None:
        self.reconcile(map(key_of, self._context.store.podgroups.in_queue(queue)))

    def step(self) -> None:
        """Reconcile the PodGroups whose counts were written too recently, or whose write was not taken."""
        now = self._context.store.clock.monotonic()
        keys = [key for key, when in self._due.items() if when <= now]
        for key in keys:
            del self._due[key]
        self.reconcile(dict.fromkeys([*self._take_changed(), *keys]))

    def _reconcile(self, podgroup: PodGroup) -> None:
        store, key, meta = self._context.store, key_of(podgroup), podgroup.metadata
        record = self._records.setdefault(meta.uid, PodGroupRecord())
        if meta.deletion_timestamp is not None or meta.version < record.written_version:
            return
        standing = self._standing(podgroup)
        if standing is None:
            return
        decision = store.decisions.of_queue(queue_of(podgroup), namespace=meta.namespace)
        desired = desired_status(
            podgroup,
            tally_pods(store.members.in_podgroup(*key)),
            decision,
            standing=standing,
            had_pods=store.members.had_podgroup(*key, meta.uid) or _had_pods(podgroup),
            now=store.clock.now(),
        )
        if "status.conditions" in store.unreadable.fault_of(meta.uid):
            del desired["conditions"]  # what others wrote there could not be written back
        difference = status_difference(desired, podgroup)
        if not difference:
            return
        now, due = store.clock.monotonic(), record.counted_at + COUNT_SECONDS
        if not difference.keys() - set(COUNTS) and now < due:
            self._due[key] = due
            return
        record.counted_at = now
        self._submit(key, podgroup, difference)
        if "conditions" in difference:
            self._record_stop(podgroup, decision)

    def _submit(self, key: PodGroupKey, podgroup: PodGroup, difference: dict[str, Any]) -> None:
        meta = podgroup.metadata
        path = f"/apis/{QUEUE_VERSION}/namespaces/{meta.namespace}/podgroups/{meta.name}"
        # Over the version it was derived from: a list of conditions is replaced as a whole.
        body = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": difference,
        }
        write_key = ("podgroup", meta.uid)
        if not self._context.submit(
            self._context.writers,
            write_key,
            lambda: decode_response(self._context.client.patch(path, body), _podgroup),
            partial(self._receive, podgroup),
            rank=WriteRank.UPKEEP if difference.keys() - set(COUNTS) else WriteRank.COUNTS,
            subject=podgroup_subject(podgroup),
            batched=True,
        ):
            wait = max(RETRY_SECONDS, self._context.writers.wait(write_key))
            self._due[key] = self._context.store.clock.monotonic() + wait

    def _receive(self, before: PodGroup, after: PodGroup | None) -> None:
        """The status was written over `before`; `after` is None if that failed."""
        if after is not None:
            record = self._records.get(after.metadata.uid)
            if record is not None:
                record.written_version = after.metadata.version
            return
        now = self._context.store.clock.monotonic()
        self._due.setdefault(key_of(before), now + COUNT_SECONDS)
        self._context.work_queue.add_batched(queue_of(before), QueueChange.STATUS)

    def resync(self) -> None:
        """Forget PodGroups that do not exist any more."""
        present = {podgroup.metadata.uid for podgroup in self._context.store.podgroups.all()}
        for uid in self._records.keys() - present:
            del self._records[uid]

    def _record_stop(self, podgroup: PodGroup, decision: QueueDecision) -> None:
        """Record an event on a PodGroup that waits since its queue does not schedule."""
        if decision.stop is None or phase_of(podgroup) is Phase.COMPLETED:
            return
        self._context.recorder.record(
            podgroup_subject(podgroup),
            reason=EVENT_REASONS[decision.stop.kind],
            message=decision.text,
            rate_limit_key=f"workloads/{decision.queue}",
        )


def key_of(podgroup: PodGroup) -> PodGroupKey:
    return PodGroupKey(podgroup.metadata.namespace, podgroup.metadata.name)


def _by_queue(groups: Iterable[PodGroup]) -> dict[str, list[PodGroup]]:
    by_queue: dict[str, list[PodGroup]] = {}
    for podgroup in groups:
        by_queue.setdefault(queue_of(podgroup), []).append(podgroup)
    return by_queue


def desired_status(
    podgroup: PodGroup,
    pods: PodTally,
    decision: QueueDecision,
    *,
    standing: GangQuotaState = FREE,
    had_pods: bool,
    now: datetime,
) -> dict[str, Any]:
    """Return our part of the status, in wire form. `had_pods`: whether the PodGroup ever had a pod."""
    phase = derive_phase(
        pods=pods,
        least=podgroup.spec.min_member,
        schedules=decision.schedules,
        before=phase_of(podgroup),
        has_room=standing.has_room,
    )
    stop = (decision.stop.kind.value, decision.text) if decision.stop is not None else None
    derived = [scheduled_condition(phase, standing, stop=stop)]
    unschedulable = None if stop is not None else unschedulable_condition(phase, standing)
    if unschedulable is not None:
        derived.append(unschedulable)
    if had_pods:
        derived.append(populated_condition(pods))
    stored = list(podgroup.status.conditions or ())
    if unschedulable is None:
        stored = [each for each in stored if not _is_of_ours(each)]
    return {
        "phase": phase.value,
        "running": pods.running,
        "succeeded": pods.succeeded,
        "failed": pods.failed,
        "conditions": wire_conditions(updated_conditions(stored, derived, now=now)),
    }


def _is_of_ours(condition: Condition) -> bool:
    return condition.type == UNSCHEDULABLE and is_unschedulable_of_ours(condition.message)


def _had_pods(podgroup: PodGroup) -> bool:
    status = podgroup.status
    return status.condition(POPULATED) is not None or bool(status.running + status.succeeded + status.failed)


def status_difference(desired: dict[str, Any], podgroup: PodGroup) -> dict[str, Any]:
    """Return the fields of `desired` that differ from the stored status, whatever the order of conditions."""
    status = podgroup.status
    present: dict[str, Any] = {
        "phase": status.phase,
        **{name: getattr(status, name) for name in COUNTS},
        "conditions": wire_conditions(status.conditions or ()),
    }
    return {key: value for key, value in desired.items() if value != present[key]}
