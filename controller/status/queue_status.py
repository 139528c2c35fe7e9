"""A queue's status as it should be, from its verdict and from what is counted. Pure.

Invariants
- A condition's `lastTransitionTime` changes only with its status (`conditions`).
- `Active=False` is written for a generation only once the stop is acknowledged, and `Accepting` only once
  every replica has seen the specs. Until then the condition stays as it was, and its `observedGeneration`
  says that it is of a former generation.
- `status.observedGeneration` is the generation whose effects are all written; so it waits for the
  acknowledgement as well.
- The size of what users write is limited here: resources, names, texts. The essential fields are written
  apart from the rest where the rest is large (`may_share`), so that neither the size nor a refusal of the
  rest delays an acknowledgement.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from heapq import nsmallest
from typing import Any

import msgspec

from cluster.cache.members import MemberCounts
from cluster.objects import QueueObject, QueueStatus, QuotaStatus, StopStatus
from controller.status.conditions import updated_conditions, wire_conditions
from queues import well_known
from queues.apimachinery.quantities import Amount, format_quantity
from queues.drain.progress import DRAINED, DrainedReason
from queues.quota.enforcement import QUOTA_ENFORCED
from queues.quota.exceeded_guarantees import GUARANTEES_MET
from queues.quota.report import BESIDE, MORE_RESOURCES, NATIVE, RESOURCES
from queues.status.changes import parse_history
from queues.status.closing import ClosingStatus, closing_fields
from queues.status.conditions import (
    ACTIVE,
    DerivedCondition,
    accepting_condition,
    active_condition,
    not_acknowledged_condition,
    not_asked_condition,
)
from queues.status.policy_condition import POLICY_RESOLVED
from queues.verdict import Verdict

#: PodGroup phases and the fields of `status` that count them.
PHASES = ("pending", "running", "inqueue", "unknown", "completed")
#: Conditions of a queue with a quota. One that a queue does not have is removed.
QUOTA_CONDITIONS = frozenset({QUOTA_ENFORCED, GUARANTEES_MET})
#: The fields that say whether a stop holds and a queue accepts. Their size is limited by us.
ESSENTIAL = frozenset({"state", "observedGeneration", "conditions", "changes", "stop"})
#: Bytes of all other fields that are written together with the essential ones.
SHARED_BYTES = 4096


class Confirmed(msgspec.Struct, frozen=True, kw_only=True):
    """What the replicas and the API server have confirmed.

    `acknowledged`: the stop holds on every replica.
    `seen_by_all`: every live replica has seen the specs of the queue's chain.
    `closed_verified`: no queue of the subtree shows a `Closed` that was not checked against the API server.
    `unlabelled`: what is not known yet of members without their label; "" if nothing is.
    `not_asked`: why the API server does not ask us about all pods; "" if it does.
    """

    acknowledged: bool
    seen_by_all: bool
    closed_verified: bool = True
    unlabelled: str = ""
    not_asked: str = ""


class StopReport(msgspec.Struct, frozen=True, kw_only=True):
    """The stop that there is, acknowledged or not.

    `status`: for `status.stop`. `scope`: the specs that its acknowledgement would be for.
    """

    status: StopStatus
    scope: str


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """What is counted of a queue: its pods, and its PodGroups by phase in lower case.

    `not_selected`: those of its pods whose namespace it does not select. `recreating`: those without the gate
    that are to be created again with it. `quota`: in wire form; None where it has none.
    """

    pods: MemberCounts
    groups: dict[str, int]
    not_selected: int = 0
    recreating: int = 0
    quota: dict[str, Any] | None = None


class DrainReport(msgspec.Struct, frozen=True, kw_only=True):
    """How far a queue's drain is: condition Drained, and `status.drain`."""

    condition: DerivedCondition
    status: dict[str, Any]


def desired_status(  # noqa: PLR0913 - all that a status is derived from
    obj: QueueObject,
    verdict: Verdict,
    counted: Counted,
    *,
    confirmed: Confirmed,
    now: datetime,
    stop: StopReport | None = None,
    drain: DrainReport | None = None,
    policy: DerivedCondition | None = None,
    quota: Sequence[DerivedCondition] = (),
    closing: ClosingStatus | None = None,
) -> dict[str, Any]:
    """Return the status in wire form.

    `stop`: None if the queue schedules. `drain`: None while it is not known, or if there is none.
    `policy`: condition PolicyResolved; None if the queue has none. `quota`: those of `QUOTA_CONDITIONS` that
    it has. `closing`: what keeps the queue from
    Closed; None if it is not to be Closed, or is. It is written with condition Accepting.
    """
    generation = obj.metadata.generation
    is_settled = confirmed.acknowledged or verdict.schedules
    is_complete = confirmed.seen_by_all and is_settled and confirmed.closed_verified
    derived = []
    if confirmed.seen_by_all:
        derived.append(accepting_condition(verdict, closing=closing))
    if is_settled:
        derived.append(active_condition(verdict))
    elif confirmed.not_asked and _was_acknowledged(obj.status):
        derived.append(not_asked_condition(verdict, confirmed.not_asked))
    elif _is_outdated(obj.status, scope=stop.scope if stop else ""):
        derived.append(not_acknowledged_condition(verdict))
    if drain is not None:
        derived.append(_drained_condition(drain.condition, confirmed))
    derived += [*([policy] if policy is not None else []), *quota]
    absent = {
        *([] if verdict.drains else [DRAINED]),
        *([] if policy is not None else [POLICY_RESOLVED]),
        *(QUOTA_CONDITIONS - {each.type for each in quota}),
    }
    stored = [one for one in obj.status.conditions or () if one.type not in absent]
    conditions = updated_conditions(stored, derived, now=now, generation=generation)
    return {
        "state": verdict.state.value,
        "observedGeneration": generation if is_complete else obj.status.observed_generation,
        "conditions": wire_conditions(conditions, keep_empty=True),
        **counts(counted, schedules=verdict.schedules, quota=in_quota(obj)),
        "changes": changes(obj),
        "drain": (drain.status if drain is not None else obj.status.drain) if verdict.drains else None,
        "stop": stop_fields(stop.status) if stop else None,
        "closing": _closing(closing if confirmed.seen_by_all else obj.status.closing),
    }


def _closing(closing: ClosingStatus | None) -> dict[str, Any] | None:
    return closing_fields(closing) if closing else None


def _was_acknowledged(status: QueueStatus) -> bool:
    active = status.condition(ACTIVE)
    return active is not None and active.status != "True"


def _is_outdated(status: QueueStatus, *, scope: str) -> bool:
    """Whether the status says that a stop is acknowledged, but for other specs than there are now."""
    active = status.condition(ACTIVE)
    if active is None or active.status != "False":
        return False
    return status.stop is None or status.stop.scope != scope


def _drained_condition(condition: DerivedCondition, confirmed: Confirmed) -> DerivedCondition:
    """Drained is True only for an acknowledged stop, since pods that were let through before may still come,
    and only once each member has its label, since a pod without it is not known to run.
    """
    if not condition.status or (confirmed.acknowledged and not confirmed.unlabelled):
        return condition
    missing = confirmed.unlabelled if confirmed.acknowledged else "the stop is not acknowledged yet"
    return DerivedCondition(condition.type, False, DrainedReason.DRAINING.value, missing)


def counts(counted: Counted, *, schedules: bool, quota: Collection[str] = frozenset()) -> dict[str, Any]:
    """Return the part of the status that may be late (`count_slots`). Parked pods wait because of the queue.

    `quota`: the resources that the queue's quota names.
    """
    pods = counted.pods
    return {
        **{phase: counted.groups.get(phase, 0) for phase in PHASES},
        "pods": {
            "pending": pods.pending,
            "gated": pods.gated,
            "parked": pods.gated if schedules else pods.pending,
            "recreating": 0 if schedules else min(counted.recreating, pods.pending - pods.gated),
            "running": pods.running,
            "succeeded": pods.succeeded,
            "failed": pods.failed,
            "notSelected": counted.not_selected,
        },
        "allocated": {
            "pods": str(pods.running),
            # Copied in one step: the pod reflector's thread writes meanwhile.
            **allocated(pods.allocated.copy(), quota=quota),
        },
        "quota": counted.quota,
    }


def allocated(amounts: Mapping[str, Amount], *, quota: Collection[str] = frozenset()) -> dict[str, str]:
    """Return what the running pods request, of at most `RESOURCES` resources: first those that each cluster
    has, then those that the quota names, then by name.
    """
    shown: Iterable[str] = amounts
    if len(amounts) > RESOURCES:
        shown = nsmallest(RESOURCES, amounts, key=lambda one: (one not in NATIVE, one not in quota, one))
    texts = {resource: format_quantity(amounts[resource], resource) for resource in sorted(shown)}
    more = len(amounts) - len(texts)
    return {**texts, **({MORE_RESOURCES: str(more)} if more else {})}


def in_quota(obj: QueueObject) -> frozenset[str]:
    """Return the resources that a queue's quota names, as far as the quota can be read."""
    spec = obj.spec
    guarantee = spec.guarantee.get("resource") if isinstance(spec.guarantee, dict) else None
    quotas = (spec.capability, spec.deserved, guarantee)
    return frozenset(name for quota in quotas if isinstance(quota, dict) for name in quota)


def split_essential(difference: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the essential fields, and all others."""
    essential = {key: value for key, value in difference.items() if key in ESSENTIAL}
    return essential, {key: value for key, value in difference.items() if key not in ESSENTIAL}


def may_share(counted: dict[str, Any]) -> bool:
    """Return whether what is counted is small enough to be written with the essential fields."""
    return len(msgspec.json.encode(counted)) <= SHARED_BYTES


def current_status(status: QueueStatus) -> dict[str, Any]:
    """Return the status that the object has, in the same form, to be compared."""
    return {
        "state": status.state,
        "observedGeneration": status.observed_generation,
        "conditions": wire_conditions(status.conditions or (), keep_empty=True),
        **{phase: getattr(status, phase) for phase in PHASES},
        "pods": msgspec.to_builtins(status.pods) if status.pods else None,
        "allocated": status.allocated,
        "quota": _quota(status.quota) if status.quota else None,
        "changes": [msgspec.to_builtins(line) for line in status.changes or ()],
        "drain": status.drain,
        "stop": stop_fields(status.stop) if status.stop else None,
        "closing": _closing(status.closing),
    }


def _quota(quota: QuotaStatus) -> dict[str, Any]:
    fields = msgspec.to_builtins(quota)
    return {key: value for key, value in fields.items() if value is not None}


def stop_fields(stop: StopStatus) -> dict[str, Any]:
    """Return `status.stop` in wire form; empty fields are left out."""
    fields = {
        "revision": stop.revision,
        "scope": stop.scope,
        "queues": stop.queues,
        "chain": [{"name": link.name, "generation": link.generation} for link in stop.chain or ()],
        "refusal": stop.refusal,
        "contact": stop.contact,
        "waitingFor": stop.waiting_for,
    }
    return {key: value for key, value in fields.items() if value}


def changes(obj: QueueObject) -> list[dict[str, str]]:
    """Return the history that admission wrote into the annotation."""
    return [msgspec.to_builtins(line) for line in parse_history(obj.metadata.annotation(well_known.CHANGES))]


def status_patch(desired: dict[str, Any], present: dict[str, Any]) -> dict[str, Any]:
    """Return the fields to write, as a merge patch (RFC 7396); empty if nothing differs."""
    changed = {key: value for key, value in desired.items() if present.get(key) != value}
    for key in ("allocated", "stop", "closing"):
        if changed.get(key) is not None:
            changed[key] = _without_gone(changed[key], present.get(key))
    if (quota := changed.get("quota")) is not None:
        stored = present.get("quota") or {}
        amounts = {
            key: _without_gone(quota[key], stored.get(key))
            for key in ("used", "forceDeleted", "keptForGangs", *BESIDE)
            if key in quota
        }
        changed["quota"] = {**_without_gone(quota, stored), **amounts}
    return changed


def _without_gone(after: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any]:
    """A merge patch keeps the fields that it does not name."""
    return {**after, **dict.fromkeys((before or {}).keys() - after.keys())}


def is_urgent(difference: dict[str, Any], before: dict[str, Any]) -> bool:
    """Return whether anything but counts, and the text of condition Drained, differs from `before`.

    What keeps a queue from Closed is in the text of condition Accepting too, but for the number of others.
    """
    keys = difference.keys() - {*PHASES, "pods", "allocated", "quota", "drain", "closing"}
    if keys == {"conditions"}:
        return _without_counts(difference["conditions"]) != _without_counts(before["conditions"])
    return bool(keys)


def is_policy_alone(difference: dict[str, Any], before: dict[str, Any]) -> bool:
    """Return whether of the essential fields only condition PolicyResolved differs from `before`."""
    if difference.keys() & ESSENTIAL != {"conditions"}:
        return False
    now, then = (
        [one for one in conditions or () if one["type"] != POLICY_RESOLVED]
        for conditions in (difference["conditions"], before["conditions"])
    )
    return now == then


def _without_counts(conditions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**one, "message": ""} if one["type"] == DRAINED else one for one in conditions]
