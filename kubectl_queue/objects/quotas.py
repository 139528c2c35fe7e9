"""What a Queue object says of its quota: `status.quota`, and condition QuotaEnforced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from kubectl_queue.objects.fields import Object, condition_of, status_of
from queues.admission.quota_edits import QueueUse
from queues.apimachinery.quantities import Amount, BadQuantity, parse_quantity
from queues.quota.enforcement import COMES_LATER, QUOTA_ENFORCED, EnforcementReason, while_stopped
from queues.quota.report import BESIDE, MORE_RESOURCES, QuotaClaim
from queues.quota.usage import PODS
from queues.tree import Tree


class QuotaUse(NamedTuple):
    """Of the queue and all below it, at most a second old. `claim`: of whom others leave room.
    `force_deleted`: what of `used` is of pods that were deleted by force and may still run;
    `kept_for_gangs`: what of it is kept for PodGroups, of which `kept_for` are the first. `beside`: what
    counts beside that, by the names of `BESIDE`.
    """

    used: dict[str, Amount]
    waiting: int
    claim: QuotaClaim | None = None
    force_deleted: Mapping[str, Amount] = {}
    kept_for_gangs: Mapping[str, Amount] = {}
    kept_for: tuple[str, ...] = ()
    beside: Mapping[str, Mapping[str, Amount]] = {}


def quota_use(item: Object) -> QuotaUse | None:
    """None where the status has none: it has no quota, or the controller has not written it."""
    quota = status_of(item).get("quota")
    if not isinstance(quota, dict):
        return None
    return QuotaUse(
        _amounts(quota.get("used")),
        int(quota.get("waiting") or 0),
        claim=_claim(quota.get("claim")),
        force_deleted=_amounts(quota.get("forceDeleted")),
        kept_for_gangs=_amounts(quota.get("keptForGangs")),
        kept_for=tuple(str(name) for name in quota.get("keptFor") or ()),
        beside={name: amounts for name in BESIDE if (amounts := _amounts(quota.get(name)))},
    )


def _claim(stored: Any) -> QuotaClaim | None:
    if not isinstance(stored, dict):
        return None
    texts = {name: str(stored.get(name) or "") for name in ("namespace", "pod", "queue", "since")}
    return QuotaClaim(**texts) if texts["pod"] else None


def use_alone(name: str, items: Mapping[str, Object], tree: Tree) -> QueueUse:
    """What the queue uses without those below it, and how many of its pods wait.

    Of a queue without a quota: what runs, and all that wait.
    """
    item = items.get(name)
    if item is None:
        return QueueUse()
    pods = status_of(item).get("pods") or {}
    use = quota_use(item)
    if use is None:
        used = {**_amounts(status_of(item).get("allocated")), PODS: int(pods.get("running") or 0)}
        return QueueUse(used=used, waiting=int(pods.get("pending") or 0))
    used, waiting = dict(use.used), use.waiting
    for child in tree.children(name):
        below = quota_use(items[child]) if child in items else None
        if below is not None:
            waiting -= below.waiting
            for resource, amount in below.used.items():
                used[resource] = used.get(resource, 0) - amount
    return QueueUse(used=used, waiting=max(0, waiting))


def part_alone(
    name: str, items: Mapping[str, Object], tree: Tree, part: Callable[[QuotaUse], Mapping[str, Amount]]
) -> dict[str, Amount]:
    """The part of what counts of the queue without those below it. Nothing below 0: statuses are not written
    at one time, and name the resources of their own chains.
    """
    use = quota_use(items[name]) if name in items else None
    alone = dict(part(use)) if use is not None else {}
    for child in tree.children(name) if alone else ():
        below = quota_use(items[child]) if child in items else None
        for resource, amount in part(below).items() if below is not None else ():
            if resource in alone:
                alone[resource] = max(0, alone[resource] - amount)
    return {resource: amount for resource, amount in alone.items() if amount}


def _amounts(texts: Any) -> dict[str, Amount]:
    """What cannot be read is left out."""
    amounts: dict[str, Amount] = {}
    for resource, text in (texts if isinstance(texts, dict) else {}).items():
        if resource != MORE_RESOURCES:
            with suppress(BadQuantity):
                amounts[resource] = parse_quantity(text)
    return amounts


def not_enforced(item: Object, *, is_stopped: bool) -> str:
    """Why its capability does not hold yet, or that more is used; "" where it holds, or has none.

    `is_stopped`: the stop of the queue is acknowledged.
    """
    condition = condition_of(item, QUOTA_ENFORCED)
    message = str(condition.get("message") or "") if condition.get("status") == "False" else ""
    if message and is_stopped and condition.get("reason") in COMES_LATER:
        return while_stopped(message)
    return message


def releases_nothing(item: Object) -> bool:
    """Whether none of its pods is released, since the server cannot write its book of releases."""
    reason = condition_of(item, QUOTA_ENFORCED).get("reason")
    return bool(reason == EnforcementReason.BOOK_NOT_WRITTEN)
