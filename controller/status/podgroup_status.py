"""The phases, counts and conditions of PodGroups, kept true.

| condition   | True                                  | False                                             |
|-------------|---------------------------------------|---------------------------------------------------|
| `Scheduled` | enough of its pods are on nodes       | not yet; its reason and message say why           |
| `Populated` | it has pods                           | all that it had are gone: it is not live any more |

Invariants
- What is written follows from the group, its pods and the snapshot alone (`queues.status.podgroup_phases`).
- A phase or a condition is written at once, counts alone at most once in `COUNT_SECONDS` a group; what
  does not differ is not written.
- The past is refused: while the store holds an older group than the one last written, it is left alone.
- Conditions of other types, which others write, stay as they are; where one cannot be read, none is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from cluster.api.client import decode_response
from cluster.cache.changes import QueueChange
from cluster.cache.members import tally_pods
from cluster.cache.podgroups import (
    GroupKey,
    phase_of,
    queue_of,
)
from cluster.object_reference import ObjectReference
from cluster.objects import Condition, PodGroup
from controller.context import ControllerContext
from controller.pods.pod_conditions import EVENT_REASONS
from queues.apimachinery.timestamps import rfc3339
from queues.snapshot import QueueDecision
from queues.status.podgroup_phases import (
    POPULATED,
    SCHEDULED,
    Phase,
    PodTally,
    derive_phase,
)

COUNT_SECONDS = 1.0
PODGROUP_VERSION = "scheduling.volcano.sh/v1beta1"
COUNTS = ("running", "succeeded", "failed")

_podgroup = msgspec.json.Decoder(PodGroup)


class PodGroupStatuses:
    """Owner: the controller's thread; the writes run in the writers' threads."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        #: By UID: the version last written, and when counts were.
        self._written: dict[str, int] = {}
        self._counted_at: dict[str, float] = {}
        #: When a group is to be looked at again, in monotonic seconds.
        self.due: dict[GroupKey, float] = {}

    def reconcile(self, keys: Iterable[GroupKey]) -> None:
        """Look at these groups and write what is not true of them any more."""
        present = [group for key in keys if (group := self._context.store.podgroups.get(*key)) is not None]
        for queue, groups in _by_queue(present).items():
            self._context.store.backoff.attempt_each(
                "podgroup",
                groups,
                self._reconcile,
                key=key_of,
                version=lambda group: group.metadata.version,
                queue=queue,
                subject=_subject,
            )

    def reconcile_queue(self, queue: str) -> None:
        self.reconcile(map(key_of, self._context.store.podgroups.in_queue(queue)))

    def reconcile_due(self) -> None:
        """Those whose counts had to wait."""
        now = self._context.store.clock.monotonic()
        ripe = [key for key, when in self.due.items() if when <= now]
        for key in ripe:
            del self.due[key]
        self.reconcile(ripe)

    def _reconcile(self, group: PodGroup) -> None:
        key, meta = key_of(group), group.metadata
        if meta.deletion_timestamp is not None or meta.version < self._written.get(meta.uid, 0):
            return
        pods = tally_pods(self._context.store.members.in_podgroup(*key))
        decision = self._context.store.decision_for(queue_of(group), namespace=meta.namespace)
        had = self._context.store.members.had_podgroup(*key, meta.uid) or _had_pods(group)
        wanted = _wanted(group, pods, decision, had_pods=had, now=self._context.store.clock.now())
        if "status.conditions" in self._context.store.unreadable.fault_of(meta.uid):
            del wanted["conditions"]  # what others wrote there could not be written back
        difference = _differing(wanted, group)
        if not difference:
            return
        now = self._context.store.clock.monotonic()
        due = self._counted_at.get(meta.uid, 0.0) + COUNT_SECONDS
        if not difference.keys() - set(COUNTS) and now < due:
            self.due[key] = due
            return
        self._counted_at[meta.uid] = now
        self._submit(key, group, difference)
        if "conditions" in difference:
            self._say(group, decision)

    def _submit(self, key: GroupKey, group: PodGroup, difference: dict[str, Any]) -> None:
        meta = group.metadata
        path = f"/apis/{PODGROUP_VERSION}/namespaces/{meta.namespace}/podgroups/{meta.name}"
        # Under the version it was derived from: a list of conditions is replaced as a whole.
        body = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": difference,
        }

        writers, what = self._context.writers, ("podgroup", meta.uid)
        if not self._context.submit(
            writers,
            what,
            lambda: decode_response(self._context.client.patch(path, body), _podgroup),
            partial(self._receive, group),
            rank=(2,),
            subject=_subject(group),
            batched=True,
        ):
            wait = max(COUNT_SECONDS / 10, writers.wait(what))
            self.due[key] = self._context.store.clock.monotonic() + wait

    def _receive(self, before: PodGroup, after: PodGroup | None) -> None:
        """The status was written over `before`; `after` is None if that failed."""
        if after is not None:
            self._written[after.metadata.uid] = after.metadata.version
            return
        now = self._context.store.clock.monotonic()
        self.due.setdefault(key_of(before), now + COUNT_SECONDS)
        self._context.work_queue.add_batched(queue_of(before), QueueChange.STATUS)

    def forget(self) -> None:
        """What is remembered of groups that are gone."""
        present = {group.metadata.uid for group in self._context.store.podgroups.all()}
        for memory in (self._written, self._counted_at):
            for uid in memory.keys() - present:
                memory.pop(uid, None)

    def _say(self, group: PodGroup, decision: QueueDecision) -> None:
        if decision.stop is None or phase_of(group) is Phase.COMPLETED:
            return
        self._context.recorder.record(
            _subject(group),
            reason=EVENT_REASONS[decision.stop.kind],
            message=decision.text,
            budget=f"workloads/{decision.queue}",
        )


def key_of(group: PodGroup) -> GroupKey:
    return GroupKey(group.metadata.namespace, group.metadata.name)


def _by_queue(groups: Iterable[PodGroup]) -> dict[str, list[PodGroup]]:
    by_queue: dict[str, list[PodGroup]] = {}
    for group in groups:
        by_queue.setdefault(queue_of(group), []).append(group)
    return by_queue


def _subject(group: PodGroup) -> ObjectReference:
    meta = group.metadata
    return ObjectReference(
        api_version=PODGROUP_VERSION,
        kind="PodGroup",
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
    )


def _wanted(
    group: PodGroup, pods: PodTally, decision: QueueDecision, *, had_pods: bool, now: datetime
) -> dict[str, Any]:
    """The part of the status that is ours, in wire form."""
    found = derive_phase(
        pods=pods, least=group.spec.min_member, schedules=decision.schedules, before=phase_of(group)
    )
    wanted = {SCHEDULED: _scheduled(found, decision)}
    if had_pods:
        wanted[POPULATED] = _populated(pods)
    others = [_told(one) for one in group.status.conditions or () if one.type not in wanted]
    ours = [_condition(kind, told, group, now=now) for kind, told in sorted(wanted.items())]
    return {
        "phase": found.value,
        "running": pods.running,
        "succeeded": pods.succeeded,
        "failed": pods.failed,
        "conditions": [*others, *ours],
    }


def _had_pods(group: PodGroup) -> bool:
    status = group.status
    return status.condition(POPULATED) is not None or bool(status.running + status.succeeded + status.failed)


class _Finding(msgspec.Struct, frozen=True):
    status: bool
    reason: str
    message: str


def _scheduled(found: Phase, decision: QueueDecision) -> _Finding:
    if found in {Phase.RUNNING, Phase.COMPLETED}:
        return _Finding(True, found.value, "enough of its pods are on nodes or done")
    if decision.stop is not None:
        return _Finding(False, decision.stop.kind.value, decision.text)
    return _Finding(False, found.value, "fewer of its pods than minMember are on nodes")


def _populated(pods: PodTally) -> _Finding:
    if pods.total:
        return _Finding(True, "HasPods", "it has pods")
    return _Finding(False, "PodsGone", "all pods that it had are gone")


def _condition(kind: str, told: _Finding, group: PodGroup, *, now: datetime) -> dict[str, Any]:
    held = group.status.condition(kind)
    status = "True" if told.status else "False"
    kept = held.last_transition_time if held is not None and held.status == status else None
    return {
        "type": kind,
        "status": status,
        "reason": told.reason,
        "message": told.message,
        "lastTransitionTime": kept or rfc3339(now),
    }


def _told(held: Condition) -> dict[str, Any]:
    """As it came: what it does not say is not written."""
    told = {
        "type": held.type,
        "status": held.status,
        "reason": held.reason,
        "message": held.message,
        "transitionID": held.transition_id,
        "lastTransitionTime": held.last_transition_time,
    }
    return {key: value for key, value in told.items() if value}


def _differing(wanted: dict[str, Any], group: PodGroup) -> dict[str, Any]:
    status = group.status
    present: dict[str, Any] = {
        "phase": status.phase,
        **{name: getattr(status, name) for name in COUNTS},
        "conditions": [_told(one) for one in status.conditions or ()],
    }
    return {key: value for key, value in wanted.items() if _ordered(value) != _ordered(present[key])}


def _ordered(value: Any) -> Any:
    return sorted(value, key=lambda one: str(one["type"])) if isinstance(value, list) else value
