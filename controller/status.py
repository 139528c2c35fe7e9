"""A queue's status as it should be, from its verdict and what is counted. Pure.

Invariants
- A condition's `lastTransitionTime` changes only with its status.
- `Active=False` is written for a generation only once the stop is acknowledged, and `Accepting` only once
  every replica accepts, or refuses; until then the condition stays as it was, its `observedGeneration`
  telling that this generation is not there yet.
- `status.observedGeneration` is the generation whose effects are all written: so it, too, waits
  for the acknowledgement.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from cluster.members import Counts
from cluster.objects import Condition, QueueObject, QueueStatus
from queues import names
from queues.changes import history
from queues.conditions import Finding, accepting, active
from queues.drained import Standing
from queues.quantities import canonical
from queues.verdict import Verdict

#: PodGroup phases and the fields of `status` that count them.
PHASES = ("pending", "running", "inqueue", "unknown", "completed")


#: What is told of a drain; its message follows the pods, as counts do.
DRAINS = "Drained"
BOTH = 2


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What is known: that the stop holds on every replica, that each has seen whether the queue accepts, and
    that no queue below shows the Closed of a former close."""

    stop: bool
    seen: bool
    below: bool = True


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """What is counted of a queue: its pods, and its PodGroups by phase in lower case.

    `not_selected`: those of its pods whose namespace it does not select.
    """

    pods: Counts
    groups: dict[str, int]
    not_selected: int = 0


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """How far a queue's drain is: condition Drained, and `status.drain`."""

    finding: Finding
    told: dict[str, Any]


def wanted(
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
    if known.seen:
        findings.append(accepting(verdict, kept_by=kept_by))
    if known.stop or verdict.schedules:
        findings.append(active(verdict))
    waiting = len(findings) < BOTH or not known.below
    conditions = {c.type: _told(c) for c in obj.status.conditions or ()}
    if not verdict.drains:
        conditions.pop(DRAINS, None)
    if drain is not None:
        findings.append(
            drain.finding if known.stop or not drain.finding.status else _unacknowledged(drain.finding)
        )
    for finding in findings:
        held = obj.status.condition(finding.type)
        conditions[finding.type] = _condition(finding, held, generation=generation, now=now)
    return {
        "state": verdict.state.value,
        "observedGeneration": obj.status.observed_generation if waiting else generation,
        "conditions": [conditions[kind] for kind in sorted(conditions)],
        **counts(counted, schedules=verdict.schedules),
        "changes": changes(obj),
        "drain": (drain.told if drain is not None else obj.status.drain) if verdict.drains else None,
    }


def _unacknowledged(finding: Finding) -> Finding:
    """Who was let through before the stop may still come."""
    return Finding(finding.type, False, Standing.DRAINING.value, "the stop is not acknowledged yet")


def counts(counted: Counted, *, schedules: bool) -> dict[str, Any]:
    """The part of the status that may be a second late. Parked: waiting because of the queue."""
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
            **{resource: canonical(amount, resource) for resource, amount in sorted(pods.allocated.items())},
        },
    }


def present(status: QueueStatus) -> dict[str, Any]:
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
    }


def changes(obj: QueueObject) -> list[dict[str, str]]:
    """The history that admission wrote down."""
    return [msgspec.to_builtins(line) for line in history(obj.metadata.annotation(names.CHANGES))]


def differing(wanted: dict[str, Any], present: dict[str, Any]) -> dict[str, Any]:
    """The fields to be written, as a merge patch has it; empty when there is nothing to say."""
    changed = {key: value for key, value in wanted.items() if present.get(key) != value}
    if "allocated" in changed:
        gone = dict.fromkeys((present.get("allocated") or {}).keys() - changed["allocated"].keys())
        changed["allocated"] = {**changed["allocated"], **gone}
    return changed


def urgent(difference: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether more than counts, and what is said of them, differs from `before`."""
    keys = difference.keys() - {*PHASES, "pods", "allocated", "drain"}
    if keys == {"conditions"}:
        return _without_counts(difference["conditions"]) != _without_counts(before["conditions"])
    return bool(keys)


def _without_counts(conditions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**one, "message": ""} if one["type"] == DRAINS else one for one in conditions]


def _condition(finding: Finding, held: Condition | None, *, generation: int, now: datetime) -> dict[str, Any]:
    status = "True" if finding.status else "False"
    kept = held is not None and held.status == status and held.last_transition_time is not None
    since = held.last_transition_time if kept and held else now
    return {
        "type": finding.type,
        "status": status,
        "reason": finding.reason,
        "message": finding.message,
        "observedGeneration": generation,
        "lastTransitionTime": time_text(since or now),
    }


def _told(held: Condition) -> dict[str, Any]:
    return {
        "type": held.type,
        "status": held.status,
        "reason": held.reason,
        "message": held.message,
        "observedGeneration": held.observed_generation,
        "lastTransitionTime": time_text(held.last_transition_time) if held.last_transition_time else None,
    }


def time_text(moment: datetime) -> str:
    """In UTC and whole seconds; a moment that has none in UTC, at either end of all times, as it stands."""
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:
        return moment.isoformat()
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
