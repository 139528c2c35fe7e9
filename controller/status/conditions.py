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


def wire_conditions(
    conditions: Iterable[Condition], *, required: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return the conditions as they are written. An empty field is left out unless the definition of the
    kind has it as `required`.
    """
    return [
        {name: value for name, value in _fields(condition).items() if value or name in required}
        for condition in sorted(conditions, key=lambda condition: condition.type)
    ]


def _fields(condition: Condition) -> dict[str, Any]:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "observedGeneration": condition.observed_generation,
        "transitionID": condition.transition_id,
        "lastTransitionTime": condition.last_transition_time,
    }
