"""How a queue stands against its own quota, resource by resource: what people are shown.

Promise: what is not known is None, and never taken for 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from queues.apimachinery.quantities import Amount, format_quantity
from queues.queue import Amounts, Queue
from queues.quota.report import sorted_resources
from queues.quota.usage import PODS


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Of one resource: what the queue and those below it use, and what its spec says of it.

    `lent`: what of `deserved` it does not use, and others may; `borrowed`: what it uses beyond that.
    """

    resource: str
    used: Amount | None = None
    limit: Amount | None = None
    deserved: Amount | None = None
    guarantee: Amount | None = None

    @property
    def lent(self) -> Amount | None:
        return self._beyond(1)

    @property
    def borrowed(self) -> Amount | None:
        return self._beyond(-1)

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
        }
        return {
            key: format_quantity(value, self.resource) for key, value in amounts.items() if value is not None
        }

    def _beyond(self, sign: int) -> Amount | None:
        if self.deserved is None or self.used is None:
            return None
        return max(0, sign * (self.deserved - self.used))


def standings(
    chain: Sequence[Queue], *, used: Mapping[str, Amount], guarantee: Amounts | None = None
) -> tuple[Standing, ...]:
    """`chain`: the queue, and those above it. `used`: what is known of it, by resource.

    Of the resources that its own quota names, and of others that are used; `pods` only where a quota of the
    chain names it.
    """
    queue = chain[0]
    limits, deserved = dict(queue.capability or ()), dict(queue.deserved or ())
    guaranteed = dict(guarantee or ())
    names = {*limits, *deserved, *guaranteed, *used}
    if PODS not in {*guaranteed, *_named(chain)}:
        names.discard(PODS)
    return tuple(
        Standing(
            resource=name,
            used=used.get(name),
            limit=limits.get(name),
            deserved=deserved.get(name),
            guarantee=guaranteed.get(name),
        )
        for name in sorted_resources(names)
    )


def _named(chain: Sequence[Queue]) -> Iterator[str]:
    return (
        name for queue in chain for quota in (queue.capability, queue.deserved) for name, _ in quota or ()
    )
