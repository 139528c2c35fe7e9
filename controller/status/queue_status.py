"""A queue's status as it should be, from its verdict and what is counted. Pure.

Invariants
- A condition's `lastTransitionTime` changes only with its status.
- `Active=False` is written for a generation only once the stop is acknowledged, and `Accepting` only once
  every replica accepts, or refuses; until then the condition stays as it was, its `observedGeneration`
  telling that this generation is not there yet.
- What users size is cut: resources, names, texts. What is essential is written apart from the rest where that
  is large (`may_share`), so that no size and no refusal of the rest delays an acknowledgement.
- `status.observedGeneration` is the generation whose effects are all written: so it, too, waits
  for the acknowledgement.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from heapq import nsmallest
from typing import Any

import msgspec

from cluster.cache.members import MemberCounts
from cluster.objects import Condition, QueueObject, QueueStatus, StopStatus
from queues import labels as names
from queues.apimachinery.quantities import Amount, format_quantity
from queues.apimachinery.timestamps import rfc3339
from queues.drain.progress import DrainProgress
from queues.status.changes import parse_history
from queues.status.conditions import (
    ACTIVE,
    DerivedCondition,
    accepting_condition,
    active_condition,
    not_acknowledged_condition,
)
from queues.verdict import Verdict

#: PodGroup phases and the fields of `status` that count them.
PHASES = ("pending", "running", "inqueue", "unknown", "completed")


#: What is told of a drain; its message follows the pods, as counts do.
DRAINS = "Drained"
BOTH = 2
#: Resources that `status.allocated` shows; and, beside them, how many more there are.
RESOURCES = 100
MORE_RESOURCES = "sluice.dev/more-resources"
NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
#: What says whether a stop holds and a queue accepts. Its size is ours: names and texts in it are cut.
ESSENTIAL = frozenset({"state", "observedGeneration", "conditions", "changes", "stop"})
#: Bytes of all else that are written together with it.
SHARED_BYTES = 4096


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What is known: that the stop holds on every replica, that each has seen whether the queue accepts, and
    that no queue below shows the Closed of a former close.

    `told`: the stop that there is, acknowledged or not; None where there is none. `scope`: what its
    acknowledgement would stand for.
    """

    stop: bool
    told: StopStatus | None = None
    scope: str = ""
    seen: bool
    below: bool = True


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """What is counted of a queue: its pods, and its PodGroups by phase in lower case.

    `not_selected`: those of its pods whose namespace it does not select.
    """

    pods: MemberCounts
    groups: dict[str, int]
    not_selected: int = 0


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """How far a queue's drain is: condition Drained, and `status.drain`."""

    finding: DerivedCondition
    told: dict[str, Any]


def desired_status(
    obj: QueueObject,
    verdict: Verdict,
    counted: Counted,
    *,
    known: Known,
    now: datetime,
    kept_by: str,
    drain: Drain | None = None,
) -> dict[str, Any]:
    """The status in wire form. `drain`: None while it is not known, or there is none."""
    generation = obj.metadata.generation
    findings = []
    conditions_unknown: DerivedCondition | None = None
    if known.seen:
        findings.append(accepting_condition(verdict, kept_by=kept_by))
    if known.stop or verdict.schedules:
        findings.append(active_condition(verdict))
    elif _is_void(obj.status, scope=known.scope):
        conditions_unknown = not_acknowledged_condition(verdict)
    waiting = len(findings) < BOTH or not known.below
    conditions = {c.type: _told(c) for c in obj.status.conditions or ()}
    if not verdict.drains:
        conditions.pop(DRAINS, None)
    if drain is not None:
        findings.append(
            drain.finding if known.stop or not drain.finding.status else _unacknowledged(drain.finding)
        )
    if conditions_unknown is not None:
        findings.append(conditions_unknown)
    for finding in findings:
        held = obj.status.condition(finding.type)
        conditions[finding.type] = _condition(finding, held, generation=generation, now=now)
    return {
        "state": verdict.state.value,
        "observedGeneration": obj.status.observed_generation if waiting else generation,
        "conditions": [conditions[kind] for kind in sorted(conditions)],
        **counts(counted, schedules=verdict.schedules, quota=in_quota(obj)),
        "changes": changes(obj),
        "drain": (drain.told if drain is not None else obj.status.drain) if verdict.drains else None,
        "stop": stop_told(known.told) if known.told else None,
    }


def _is_void(status: QueueStatus, *, scope: str) -> bool:
    """Whether the status says that a stop is acknowledged, but for other specs than there are now."""
    held = status.condition(ACTIVE)
    if held is None or held.status != "False":
        return False
    return status.stop is None or status.stop.scope != scope


def _unacknowledged(finding: DerivedCondition) -> DerivedCondition:
    """Who was let through before the stop may still come."""
    return DerivedCondition(
        finding.type, False, DrainProgress.DRAINING.value, "the stop is not acknowledged yet"
    )


def counts(counted: Counted, *, schedules: bool, quota: Collection[str] = frozenset()) -> dict[str, Any]:
    """The part of the status that may be a second late. Parked: waiting because of the queue.

    `quota`: the resources that the queue's quota names.
    """
    pods = counted.pods
    return {
        **{phase: counted.groups.get(phase, 0) for phase in PHASES},
        "pods": {
            "pending": pods.pending,
            "gated": pods.gated,
            "parked": pods.gated if schedules else pods.pending,
            "running": pods.running,
            "succeeded": pods.succeeded,
            "failed": pods.failed,
            "notSelected": counted.not_selected,
        },
        "allocated": {
            "pods": str(pods.running),
            **allocated(pods.allocated, quota=quota),
        },
    }


def allocated(amounts: Mapping[str, Amount], *, quota: Collection[str] = frozenset()) -> dict[str, str]:
    """What is asked for, as far as it is shown: what each cluster has, what the quota names, then by name."""
    names: Iterable[str] = amounts
    if len(amounts) > RESOURCES:
        names = nsmallest(RESOURCES, amounts, key=lambda one: (one not in NATIVE, one not in quota, one))
    told = {resource: format_quantity(amounts[resource], resource) for resource in sorted(names)}
    more = len(amounts) - len(told)
    return {**told, **({MORE_RESOURCES: str(more)} if more else {})}


def in_quota(obj: QueueObject) -> frozenset[str]:
    """The resources that a queue's quota names, whatever is in it."""
    spec = obj.spec
    guarantee = spec.guarantee.get("resource") if isinstance(spec.guarantee, dict) else None
    held = (spec.capability, spec.deserved, guarantee)
    return frozenset(name for quota in held if isinstance(quota, dict) for name in quota)


def split_essential(difference: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is essential of it, and all else."""
    essential = {key: value for key, value in difference.items() if key in ESSENTIAL}
    return essential, {key: value for key, value in difference.items() if key not in ESSENTIAL}


def may_share(counted: dict[str, Any]) -> bool:
    """Whether what is counted is small enough to be written with what is essential."""
    return len(msgspec.json.encode(counted)) <= SHARED_BYTES


def current_status(status: QueueStatus) -> dict[str, Any]:
    """The status that the object has, in the same form, to be compared."""
    return {
        "state": status.state,
        "observedGeneration": status.observed_generation,
        "conditions": sorted(map(_told, status.conditions or ()), key=lambda one: one["type"]),
        **{phase: getattr(status, phase) for phase in PHASES},
        "pods": msgspec.to_builtins(status.pods) if status.pods else None,
        "allocated": status.allocated,
        "changes": [msgspec.to_builtins(line) for line in status.changes or ()],
        "drain": status.drain,
        "stop": stop_told(status.stop) if status.stop else None,
    }


def stop_told(stop: StopStatus) -> dict[str, Any]:
    """In wire form; what is empty is left out."""
    told = {
        "revision": stop.revision,
        "scope": stop.scope,
        "queues": stop.queues,
        "chain": [{"name": link.name, "generation": link.generation} for link in stop.chain or ()],
        "refusal": stop.refusal,
        "waitingFor": stop.waiting_for,
    }
    return {key: value for key, value in told.items() if value}


def changes(obj: QueueObject) -> list[dict[str, str]]:
    """The history that admission wrote down."""
    return [msgspec.to_builtins(line) for line in parse_history(obj.metadata.annotation(names.CHANGES))]


def status_patch(wanted: dict[str, Any], present: dict[str, Any]) -> dict[str, Any]:
    """The fields to be written, as a merge patch has it; empty when there is nothing to say."""
    changed = {key: value for key, value in wanted.items() if present.get(key) != value}
    for key in ("allocated", "stop"):  # a merge patch keeps what it does not name
        if changed.get(key) is not None:
            gone = dict.fromkeys((present.get(key) or {}).keys() - changed[key].keys())
            changed[key] = {**changed[key], **gone}
    return changed


def is_urgent(difference: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether more than counts, and what is said of them, differs from `before`."""
    keys = difference.keys() - {*PHASES, "pods", "allocated", "drain"}
    if keys == {"conditions"}:
        return _without_counts(difference["conditions"]) != _without_counts(before["conditions"])
    return bool(keys)


def _without_counts(conditions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**one, "message": ""} if one["type"] == DRAINS else one for one in conditions]


def _condition(
    finding: DerivedCondition, held: Condition | None, *, generation: int, now: datetime
) -> dict[str, Any]:
    status = "Unknown" if finding.status is None else str(finding.status)
    kept = held is not None and held.status == status and held.last_transition_time is not None
    since = held.last_transition_time if kept and held else None
    return {
        "type": finding.type,
        "status": status,
        "reason": finding.reason,
        "message": finding.message,
        "observedGeneration": generation,
        "lastTransitionTime": since or rfc3339(now),
    }


def _told(held: Condition) -> dict[str, Any]:
    return {
        "type": held.type,
        "status": held.status,
        "reason": held.reason,
        "message": held.message,
        "observedGeneration": held.observed_generation,
        "lastTransitionTime": held.last_transition_time,
    }
