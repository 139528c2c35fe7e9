"""Conditions in a status: those that are derived replace the stored ones of their types. Pure.

Invariants
- `lastTransitionTime` changes only with the condition's status.
- Conditions of other types, which others write, are written back as they were read.
- Conditions are sorted by type, so that two statuses that say the same are equal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from cluster.objects import Condition
from queues.apimachinery.timestamps import rfc3339
from queues.status.conditions import DerivedCondition


def updated_conditions(
    stored: Collection[Condition], derived: Iterable[DerivedCondition], *, now: datetime, generation: int = 0
) -> list[Condition]:
    """Return the stored conditions with the derived ones in place.

    `generation`: the `observedGeneration` of the derived ones, where the kind has that field.
    """
    by_type = {condition.type: condition for condition in stored}
    ours = {
        condition.type: _with_time(condition, by_type.get(condition.type), now=now, generation=generation)
        for condition in derived
    }
    others = [condition for condition in stored if condition.type not in ours]
    return sorted([*others, *ours.values()], key=lambda condition: condition.type)


def _with_time(
    derived: DerivedCondition, stored: Condition | None, *, now: datetime, generation: int
) -> Condition:
    status = "Unknown" if derived.status is None else str(derived.status)
    same_status = stored is not None and stored.status == status
    return Condition(
        type=derived.type,
        status=status,
        reason=derived.reason,
        message=derived.message,
        observed_generation=generation,
        last_transition_time=(stored.last_transition_time if stored and same_status else None)
        or rfc3339(now),
    )


def wire_conditions(conditions: Iterable[Condition], *, keep_empty: bool = False) -> list[dict[str, Any]]:
    """Return the conditions as they are written.

    `keep_empty`: the definition of the kind requires reason, message and time, so they are written though
    they are empty.
    """
    by_type = sorted(conditions, key=lambda condition: condition.type)
    return [_fields(condition, keep_empty=keep_empty) for condition in by_type]


def _fields(condition: Condition, *, keep_empty: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
    }
    if condition.observed_generation:
        fields["observedGeneration"] = condition.observed_generation
    if condition.transition_id:
        fields["transitionID"] = condition.transition_id
    return fields if keep_empty else {name: value for name, value in fields.items() if value}
