"""How a queue stands against its own quota, resource by resource: what people are shown.

Promise: what is not known is None, and never taken for 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from queues.apimachinery.quantities import Amount, format_quantity
from queues.queue import Queue
from queues.quota.report import sorted_resources
from queues.quota.usage import PODS

_NOTHING: Mapping[str, Amount] = {}
_NONE_BESIDE: Mapping[str, Mapping[str, Amount]] = {}


class ResourceUse(msgspec.Struct, frozen=True, kw_only=True):
    """Of one resource: what the queue and those below it use, and what its spec says of it.

    `deserved`: what it deserves in the end (`queues.quota.deserved`). `lent`: what of that it does not use,
    and others may, since it is not guaranteed; `borrowed`: what it uses beyond that.
    `force_deleted`: what of `used` is of pods that were deleted by force and may still run; `kept_for_gangs`:
    what of it is kept for PodGroups; 0 where none is. `beside`: what counts beside `used`, by the names of
    `report.CountedBeside` in the status.
    """

    resource: str
    used: Amount | None = None
    limit: Amount | None = None
    deserved: Amount | None = None
    guarantee: Amount | None = None
    force_deleted: Amount = 0
    kept_for_gangs: Amount = 0
    beside: Mapping[str, Amount] = _NOTHING

    @property
    def lent(self) -> Amount | None:
        if self.deserved is None or self.used is None:
            return None
        return max(0, self.deserved - max(self.used, self.guarantee or 0))

    @property
    def borrowed(self) -> Amount | None:
        return None if self.deserved is None or self.used is None else max(0, self.used - self.deserved)

    @property
    def part(self) -> float | None:
        """How full it is, 1 being its limit. None where it has none, or what is used is not known."""
        if self.limit is None or self.used is None:
            return None
        return float(self.used / self.limit) if self.limit else 1.0

    def texts(self) -> dict[str, str]:
        """The amounts that are known, by name."""
        amounts = {
            "used": self.used,
            "limit": self.limit,
            "deserved": self.deserved,
            "guarantee": self.guarantee,
            "lent": self.lent,
            "borrowed": self.borrowed,
            "forceDeleted": self.force_deleted or None,
            "keptForGangs": self.kept_for_gangs or None,
            **self.beside,
        }
        return {
            key: format_quantity(value, self.resource) for key, value in amounts.items() if value is not None
        }


def standings(
    chain: Sequence[Queue],
    *,
    used: Mapping[str, Amount],
    deserved: Mapping[str, Amount],
    force_deleted: Mapping[str, Amount] = _NOTHING,
    kept_for_gangs: Mapping[str, Amount] = _NOTHING,
    beside: Mapping[str, Mapping[str, Amount]] = _NONE_BESIDE,
) -> tuple[ResourceUse, ...]:
    """`chain`: the queue, and those above it. `used`: what is known of it, by resource; `force_deleted`,
    `kept_for_gangs`: parts of that. `beside`: by field of the status, what counts beside it. `deserved`: what
    it deserves in the end.

    Of the resources that its own quota names, and of others that are used; `pods` only where a quota of the
    chain names it.
    """
    queue = chain[0]
    limits, guaranteed = dict(queue.capability or ()), dict(queue.guarantee or ())
    names = {*limits, *deserved, *guaranteed, *used}
    if PODS not in set(_named(chain)):
        names.discard(PODS)
    return tuple(
        ResourceUse(
            resource=name,
            used=used.get(name),
            limit=limits.get(name),
            deserved=deserved.get(name),
            guarantee=guaranteed.get(name),
            force_deleted=force_deleted.get(name, 0),
            kept_for_gangs=kept_for_gangs.get(name, 0),
            beside={field: amounts[name] for field, amounts in beside.items() if amounts.get(name)},
        )
        for name in sorted_resources(names)
    )


def _named(chain: Sequence[Queue]) -> Iterator[str]:
    quotas = (quota for each in chain for quota in (each.capability, each.deserved, each.guarantee))
    return (name for quota in quotas for name, _ in quota or ())
