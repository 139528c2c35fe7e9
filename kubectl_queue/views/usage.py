"""What queues use of their quotas: a row for each queue that has one, with its resources.

Promises
- Of `top`: the queues above it that have a quota, outermost first, since these bound it too; then the queue
  and all below it, parents first. Without it, all queues.
- A queue has a quota where it or a queue above it has a capability. Others have no row.
- What the controller has not written yet is not known, and not shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from kubectl_queue.objects.queues import QueueObjects, stop_acknowledgement
from kubectl_queue.objects.quotas import not_enforced, quota_use
from queues.apimachinery.quantities import Amount, format_quantity
from queues.queue import ROOT
from queues.quota.deserved import Deserved
from queues.quota.standing import ResourceUse, standings
from queues.quota.usage import Usage
from queues.status.stop_status import Acknowledgement


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """One queue. `depth`: how many rows above it are queues above it. `waiting`: pods that wait for room, in
    it and below it; None where that is not known. `not_enforced`: why its capability does not hold yet.
    """

    name: str
    parent: str
    depth: int
    waiting: int | None
    resources: tuple[ResourceUse, ...]
    not_enforced: str = ""


def usage_rows(queues: QueueObjects, *, top: str = "") -> list[UsageRow]:
    above = [queue.name for queue in reversed(queues.tree.chain(top).queues[1:])] if top else []
    rows: list[UsageRow] = []
    deserved = Usage(queues.tree).deserved
    depths: dict[str, int] = {}
    for name in (*above, *_from(top or ROOT, queues)):
        row = _row(name, queues, depths, deserved=deserved)
        if row is not None:
            rows.append(row)
            depths[name] = row.depth
    return rows


def as_structure(rows: Sequence[UsageRow]) -> list[dict[str, Any]]:
    """What is not known is not there."""
    return [
        _known(
            name=row.name,
            parent=row.parent,
            waiting=row.waiting,
            resources={each.resource: each.texts() for each in row.resources},
            notEnforced=row.not_enforced or None,
        )
        for row in rows
    ]


def _known(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _from(top: str, queues: QueueObjects) -> Iterator[str]:
    """The queue and all below it, parents first; of all queues also those whose parent is not there."""
    waiting, seen = [top], {top}
    while waiting:
        name = waiting.pop()
        yield name
        children = [child for child in queues.tree.children(name) if child not in seen]
        seen.update(children)
        waiting += reversed(children)
    if top == ROOT:
        yield from sorted(set(queues.tree) - seen)


def _row(name: str, queues: QueueObjects, depths: dict[str, int], *, deserved: Deserved) -> UsageRow | None:
    if name not in queues.items:
        return None
    item, chain = queues.items[name], queues.tree.chain(name).queues
    use = quota_use(item)
    if use is None and all(queue.capability is None for queue in chain):
        return None
    parent = chain[0].parent or ""
    is_stopped = stop_acknowledgement(item, chain=queues.chain(name)) is Acknowledgement.ACKNOWLEDGED
    return UsageRow(
        name=name,
        parent=parent,
        depth=depths.get(parent, -1) + 1,
        waiting=use.waiting if use else None,
        resources=standings(
            chain,
            used=use.used if use else {},
            deserved=deserved.of(name),
            force_deleted=use.force_deleted if use else {},
            kept_for_gangs=use.kept_for_gangs if use else {},
            beside=use.beside if use else {},
        ),
        not_enforced=not_enforced(item, is_stopped=is_stopped),
    )


def amount_text(value: Amount | None, resource: str) -> str:
    return "" if value is None else format_quantity(value, resource)
