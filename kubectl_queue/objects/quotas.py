"""What a Queue object says of its quota: `status.quota`, and condition QuotaEnforced."""

from __future__ import annotations

from typing import NamedTuple

from kubectl_queue.objects.fields import Object, condition_of, status_of
from queues.apimachinery.quantities import Amount, BadQuantity, parse_quantity
from queues.quota.enforcement import QUOTA_ENFORCED
from queues.quota.report import MORE_RESOURCES


class QuotaUse(NamedTuple):
    """Of the queue and all below it, at most a second old."""

    used: dict[str, Amount]
    waiting: int


def quota_use(item: Object) -> QuotaUse | None:
    """None where the status has none: it has no quota, or the controller has not written it."""
    quota = status_of(item).get("quota")
    if not isinstance(quota, dict):
        return None
    used: dict[str, Amount] = {}
    for resource, text in (quota.get("used") or {}).items():
        if resource == MORE_RESOURCES:
            continue
        try:
            used[resource] = parse_quantity(text)
        except BadQuantity:
            continue
    return QuotaUse(used, int(quota.get("waiting") or 0))


def not_enforced(item: Object) -> str:
    """Why its capability does not hold yet, or that more is used; "" where it holds, or has none."""
    condition = condition_of(item, QUOTA_ENFORCED)
    return str(condition.get("message") or "") if condition.get("status") == "False" else ""
