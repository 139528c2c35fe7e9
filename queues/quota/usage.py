"""What queues use, with all below them, and whether one more pod has room.

Invariants
- The use of a queue is that of its own pods and of all pods below it.
- What claims (DRA) name is counted by the number of claims alone. So where a capability names a class of
  devices, a pod with claims never has room.
- A queue without `capability` limits nothing, and a resource that a capability does not name has no bound.
  Zero is zero.
- What a queue is guaranteed is set aside for it. Of a capability counts the greater of what a queue below is
  guaranteed and what it uses, and not only what is used:
  `R = max(guarantee, own use + the R of the queues below)`. A release that raises the R of a queue leaves it
  within the capability; one that does not, since the queue itself or one between is guaranteed as much, needs
  room for what is used alone.
- A pod of a queue whose policy has plugin `overcommit` is let go while all queues use, with it, no more than
  so many times what there is, of resources of which there is anything. One that was let go and has no node
  yet is let stand alone: else an autoscaler would see no reason to add a node. Where it is not known what
  there is, they go one by one.
- A queue that does not exist, or whose chain is broken, has room for nothing: its limits are not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache

import msgspec

from queues.apimachinery.pod_requests import CLAIMS
from queues.apimachinery.quantities import Amount
from queues.queue import ROOT, Amounts
from queues.quota.deserved import Deserved
from queues.quota.guarantees import effective_guarantees
from queues.quota.lack import Lack, LackKind
from queues.quota.rules import NO_RULES, Rules
from queues.quota.set_aside import SetAside
from queues.tree import Chain, Tree

#: The resource that counts pods, as in a ResourceQuota.
PODS = "pods"

#: How a capability names devices of a class, as ResourceQuota of claims does not.
DEVICES_PREFIX = "deviceclass/"

#: Amounts by resource, sorted: equal ones are one class (`release_order`).
Requests = tuple[tuple[str, Amount], ...]


@lru_cache(maxsize=4096)
def quota_requests(requests: Requests) -> Requests:
    """What a pod takes of a quota: its requests, and one pod."""
    return tuple(sorted((*((name, amount) for name, amount in requests if name != PODS), (PODS, 1))))


class Limit(msgspec.Struct, frozen=True, gc=False):
    """The capability of a queue. `devices`: a resource of it that is a class of devices; "" without one."""

    queue: str
    capability: Mapping[str, Amount]
    devices: str = ""


def _names_claims(requests: Requests) -> bool:
    return any(resource == CLAIMS for resource, _ in requests)


def _devices(capability: Amounts) -> str:
    return next((resource for resource, _ in capability if resource.startswith(DEVICES_PREFIX)), "")


def limits_of(chain: Chain) -> tuple[Limit, ...]:
    """Those of a queue and its ancestors, nearest first."""
    return tuple(
        Limit(each.name, dict(each.capability), devices=_devices(each.capability))
        for each in chain.queues
        if each.capability is not None
    )


def never_lack(limits: Iterable[Limit], requests: Requests) -> Lack | None:
    """The limit that these requests would pass even in an empty queue, if there is one."""
    for limit in limits:
        if limit.devices and _names_claims(requests):
            return Lack(limit.queue, limit.devices, never=True, kind=LackKind.DEVICES)
        for resource, amount in requests:
            most = limit.capability.get(resource)
            if most is not None and amount > most:
                return Lack(limit.queue, resource, amount - most, never=True)
    return None


class Usage:
    """The use of each queue, to which releases are added, and from which ends are taken. For one thread.

    It lives as long as its tree: one pod that ends costs its chain, and not a count of all queues.
    """

    def __init__(self, tree: Tree, *, rules: Rules = NO_RULES) -> None:
        self._tree = tree
        self.rules = rules
        self.guarantees = effective_guarantees(tree, lending=rules.lending)
        #: All there is, of the resources of which that is known.
        self.whole = {**(rules.nodes or {}), **dict(tree.queues[ROOT].capability or ())}
        self.deserved = Deserved(tree, self.guarantees, whole=self.whole)
        #: Pods that were released and have no node yet. The owner counts them, where a rule needs it.
        self.unplaced = 0
        self._set_aside = SetAside(tree, self.guarantees)
        #: By queue: the amounts used by it and by all below it.
        self._used: dict[str, dict[str, Amount]] = {}
        #: By queue: its ancestors and itself, and those of them that have a capability.
        self._chains: dict[str, tuple[str, ...]] = {}
        self._limits: dict[str, tuple[Limit, ...]] = {}

    def add(self, queue: str, requests: Iterable[tuple[str, Amount]]) -> None:
        """Count what pods of this queue take, for it and for its ancestors. Amounts below zero: what they
        took no longer counts.
        """
        taken = tuple(requests)
        for name in self._chain(queue):
            used = self._used.setdefault(name, {})
            for resource, amount in taken:
                used[resource] = used.get(resource, 0) + amount
        if self._set_aside:
            self._set_aside.add(self._chain(queue), taken)

    def used(self, queue: str) -> Mapping[str, Amount]:
        """What the queue and those below it use."""
        return self._used.get(queue, {})

    def lack(self, queue: str, requests: Requests) -> Lack | None:
        """Why one more pod of the queue has no room; None where it has. The nearest queue is named first."""
        if queue not in self._tree or self._tree.chain(queue).broken is not None:
            return Lack(queue, kind=LackKind.NO_QUEUE)
        limits = self._limits_of(queue)
        for limit in limits:
            used = self._used.get(limit.queue, {})
            if limit.devices and _names_claims(requests):
                return never_lack(limits, requests)
            for resource, amount in requests:
                most = limit.capability.get(resource)
                if most is not None and (missing := used.get(resource, 0) + amount - most) > 0:
                    return never_lack(limits, requests) or Lack(limit.queue, resource, missing)
        if self._set_aside and (lack := self._guaranteed_to_others(queue, limits, requests)) is not None:
            return lack
        factor = self.rules.overcommit.get(queue)
        return None if factor is None or not self.unplaced else self._overcommitted(requests, factor)

    def _guaranteed_to_others(self, queue: str, limits: tuple[Limit, ...], requests: Requests) -> Lack | None:
        chain = self._chain(queue)
        for resource, amount in requests:
            for limit in limits:
                most = limit.capability.get(resource)
                if most is None:
                    continue
                missing = self._set_aside.missing(chain, limit.queue, resource, amount=amount, most=most)
                if missing > 0:
                    return Lack(limit.queue, resource, missing, kind=LackKind.GUARANTEES)
        return None

    def _overcommitted(self, requests: Requests, factor: Fraction) -> Lack | None:
        used = self._used.get(ROOT, {})
        for resource, amount in requests:
            whole = self.whole.get(resource)
            if resource == PODS or whole == 0 or (whole is None and self.rules.nodes is not None):
                continue
            missing = used.get(resource, 0) + amount - factor * (whole or 0)
            if whole is None or missing > 0:
                return Lack(ROOT, resource, missing, kind=LackKind.OVERCOMMIT)
        return None

    def _chain(self, queue: str) -> tuple[str, ...]:
        known = self._chains.get(queue)
        if known is None:
            names = [each.name for each in self._tree.chain(queue).queues] if queue in self._tree else [queue]
            known = self._chains[queue] = tuple(names)
        return known

    def _limits_of(self, queue: str) -> tuple[Limit, ...]:
        known = self._limits.get(queue)
        if known is None:
            known = self._limits[queue] = limits_of(self._tree.chain(queue))
        return known
