"""The fields of `spec.drain`. `queues.drain.model` reads them."""

from __future__ import annotations

from typing import Any

from queues.fields.checks import (
    INT32,
    BadField,
    label_selector,
    object_of,
    one_of,
    rate,
    time,
    whole,
)
from queues.fields.row import FieldEffect, Origin, QueueField


def _row(name: str, **row: Any) -> QueueField:
    return QueueField(name=name, origin=Origin.SLUICE, effect=FieldEffect.ALWAYS, **row)


DRAIN_FIELDS = (
    _row(
        "rate",
        help="Evictions per second, at most.",
        details="Fractions are allowed. The server's own limit holds too.",
        check=rate,
    ),
    _row(
        "inFlight",
        help="Pods that are evicted and not gone yet, at most.",
        details="The server's own limit holds too.",
        check=whole(1, INT32),
    ),
    _row(
        "gracePeriodSeconds",
        help="Seconds that a pod is given to end by itself, those that are being deleted already included.",
        details="0 counts as 1. Absent means what the pod says.",
        check=whole(0, INT32),
    ),
    _row(
        "barePods",
        help="What becomes of pods that nothing would make again.",
        details="Evict loses them, Keep leaves them running.",
        check=one_of("Evict", "Keep"),
    ),
    _row(
        "keep",
        help="Pods that stay, by their labels.",
        details="An empty selector keeps all; an absent one keeps none.",
        check=label_selector,
    ),
    _row(
        "brokenGangs",
        help="What becomes of pods that stay of a gang, where these are less than its minimum.",
        details=(
            "Keep leaves them running. Evict has them go with the gang, though keep or barePods says "
            "otherwise, or the deadline has passed with afterDeadline Keep; disruption budgets hold. Pods of "
            "DaemonSets and system-critical ones stay, and those of queues that are not drained."
        ),
        check=one_of("Evict", "Keep"),
    ),
    _row(
        "deadline",
        help="From when on nothing is evicted any more and the pods that are left meet afterDeadline.",
        details="To be set to a time to come.",
        check=time,
    ),
    _row(
        "afterDeadline",
        help="What becomes of pods that are left at the deadline.",
        details=(
            "Keep leaves them running and says so. Scale brings their Deployments, StatefulSets and "
            "ReplicaSets to zero replicas until the queue schedules again, and deletes other pods. Delete "
            "deletes all. Neither asks disruption budgets; both suspend Jobs. Pods kept by rule stay."
        ),
        check=one_of("Keep", "Scale", "Delete"),
    ),
)

_each_field = object_of({row.name: row.check for row in DRAIN_FIELDS})


def drain(place: str, value: Any, before: Any) -> None:
    """The check of `spec.drain`: each field, and a deadline where something is to happen then."""
    _each_field(place, value, before)
    end = _end_at_no_time(value)
    if end and not _end_at_no_time(before):
        raise BadField(
            f"{place}.deadline: is missing, and afterDeadline is {end}; set a time to {end.lower()} at"
        )


def _end_at_no_time(fields: Any) -> str:
    """What `afterDeadline` asks for where there is no deadline; empty for nothing."""
    given = fields if isinstance(fields, dict) else {}
    end = given.get("afterDeadline")
    return str(end) if end in {"Scale", "Delete"} and given.get("deadline") is None else ""
