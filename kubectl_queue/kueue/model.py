"""Kueue's objects as values: what of them decides about queues."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import msgspec

from queues.apimachinery.quantities import Amount
from queues.states import StopPolicy

#: A resource and a flavor of it.
FlavorResource = tuple[str, str]
NEVER = "Never"


class FlavorQuota(msgspec.Struct, frozen=True):
    """Of one resource in one flavor. None: no such limit."""

    nominal: Amount
    borrowing: Amount | None = None
    lending: Amount | None = None


Quotas = Mapping[FlavorResource, FlavorQuota]


class Preemption(msgspec.Struct, frozen=True):
    """`reclaim`: Never, LowerPriority or Any. `within`: Never, LowerPriority or LowerOrNewerEqualPriority."""

    reclaim: str = NEVER
    within: str = NEVER


class Cohort(msgspec.Struct, frozen=True, kw_only=True):
    """`parent`: the name of a Cohort; "" for the topmost. One that others name exists without an object."""

    name: str
    parent: str = ""
    quotas: Quotas = {}
    weight: Fraction = Fraction(1)


class ClusterQueue(msgspec.Struct, frozen=True, kw_only=True):
    """`selector`: its `namespaceSelector`; None where it selects no namespace."""

    name: str
    cohort: str = ""
    quotas: Quotas = {}
    strict: bool = False
    selector: Mapping[str, Any] | None = None
    stop: StopPolicy = StopPolicy.NONE
    weight: Fraction = Fraction(1)
    preemption: Preemption = Preemption()


class LocalQueue(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    name: str
    cluster_queue: str
    stop: StopPolicy = StopPolicy.NONE
    weight: Fraction = Fraction(1)

    @property
    def path(self) -> str:
        return f"{self.namespace}/{self.name}"


class Kueue(msgspec.Struct, frozen=True, kw_only=True):
    """All that was read, by name. `local_queues`: of ClusterQueues that are here, in the order of names."""

    cluster_queues: Mapping[str, ClusterQueue] = {}
    cohorts: Mapping[str, Cohort] = {}
    local_queues: tuple[LocalQueue, ...] = ()
