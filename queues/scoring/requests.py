"""What a pod requests, in the whole units that scores are computed with.

CPU counts in thousandths of a core, everything else in its own unit (bytes, pieces); parts of a unit are
rounded up, as in kube-scheduler. A pod's amount is cut at `AMOUNT_LIMIT`: so no sum over the pods of a
node overflows 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from queues.apimachinery.quantities import Amount

#: 281 TB, or as many thousandths of a core.
AMOUNT_LIMIT = 2**48


class ScoringRequest(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Whole units by resource; `cpu` and `memory` as 0 where nothing is requested.

    `padded_cpu`, `padded_memory`: with kube-scheduler's defaults for each container that requests none (its
    `NonZeroRequested`); least and most requested count with these.
    """

    cpu: int = 0
    memory: int = 0
    padded_cpu: int = 0
    padded_memory: int = 0
    others: tuple[tuple[str, int], ...] = ()


def whole_units(resource: str, amount: Amount) -> int:
    """The amount in the units of this module, from 0 to `AMOUNT_LIMIT`."""
    units = math.ceil(amount * 1000 if resource == "cpu" else amount)
    return max(0, min(units, AMOUNT_LIMIT))


def request_of(amounts: Iterable[tuple[str, Amount]], padded: Iterable[tuple[str, Amount]]) -> ScoringRequest:
    """The request of a pod. `padded`: its amounts with the defaults of kube-scheduler."""
    units = {resource: whole_units(resource, amount) for resource, amount in amounts}
    with_defaults = {resource: whole_units(resource, amount) for resource, amount in padded}
    return ScoringRequest(
        cpu=units.pop("cpu", 0),
        memory=units.pop("memory", 0),
        padded_cpu=with_defaults.get("cpu", 0),
        padded_memory=with_defaults.get("memory", 0),
        others=tuple(sorted(units.items())),
    )
