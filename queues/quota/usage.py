"""What queues use, with all below them, and whether one more pod has room.

Invariants
- The use of a queue is that of its own pods and of all pods below it.
- A claim of devices (DRA) that pods share counts once for a queue, and once for each queue above it: from
  the first of them to the last (`devices`). What it is known to count may change meanwhile (`recount`).
- Where a capability names a class of devices, a pod has no room while what it claims is not known, and never
  where that cannot be counted.
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
- Who requests the turn (`TURN`) has no room while that of its scope is taken (`gang_turns`). The turn is no
  amount that a queue uses.
- A queue that does not exist, or whose chain is broken, has room for nothing: its limits are not known. What
  it uses counts on in the queues that were above it (`Tree.counting_chain`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

import msgspec

from queues.apimachinery.pod_requests import Requests
from queues.apimachinery.quantities import Amount
from queues.queue import ROOT
from queues.quota.deserved import Deserved
from queues.quota.devices import (
    ClaimCount,
    ClaimFault,
    SharedCounts,
    claimed_devices,
    device_class_in,
    is_of_claims,
    is_shared_claim,
    no_claims,
)
from queues.quota.gang_turns import CLUSTER, GangTurns
from queues.quota.guarantees import effective_guarantees
from queues.quota.lack import Lack, LackKind
from queues.quota.rules import NO_RULES, Rules
from queues.quota.set_aside import SetAside
from queues.tree import Chain, Tree

#: The resource that counts pods, as in a ResourceQuota.
PODS = "pods"

#: What a gang requests that got no nodes before: such gangs are tried one at a time (`gang_turns`). It has
#: two slashes, which no resource of a container has. The amount has no meaning. And what it requests beside
#: that if some of its pods had nodes: those of the whole cluster that had some are tried one at a time, too.
TURN, NODES_TURN = "gang//turn", "gang//nodes"
TURNS = frozenset({TURN, NODES_TURN})


@lru_cache(maxsize=4096)
def quota_requests(requests: Requests) -> Requests:
    """What a pod takes of a quota: its requests, and one pod."""
    return tuple(sorted((*((name, amount) for name, amount in requests if name != PODS), (PODS, 1))))


def no_turn(scope: str) -> Lack:
    """What lacks while another gang has the turn of the scope; `CLUSTER`: that of all that had nodes."""
    return Lack(scope, TURN, 1, kind=LackKind.TURN)


@lru_cache(maxsize=4096)
def asks_for_turn(requests: Requests) -> bool:
    return any(resource == TURN for resource, _ in requests)


@lru_cache(maxsize=4096)
def asks_for_nodes_turn(requests: Requests) -> bool:
    return any(resource == NODES_TURN for resource, _ in requests)


def is_turn(resource: str) -> bool:
    return resource in TURNS


def negative(requests: Iterable[tuple[str, Amount]]) -> Requests:
    """What is to be added where these requests count no longer."""
    return tuple((resource, -amount) for resource, amount in requests)


class Limit(msgspec.Struct, frozen=True, gc=False):
    """The capability of a queue. `devices`: a resource of it that is a class of devices; "" without one."""

    queue: str
    capability: Mapping[str, Amount]
    devices: str = ""


#: What hinders counting a claim, as what lacks.
_FAULTS = {
    ClaimFault.NO_API: LackKind.CLAIMS_UNREAD,
    ClaimFault.UNREAD: LackKind.CLAIMS_UNREAD,
    ClaimFault.ABSENT: LackKind.CLAIM_ABSENT,
    ClaimFault.UNCOUNTABLE: LackKind.DEVICES,
}


#: What lacks by one number alone (`Usage.decisive`).
_DECIDED = frozenset({LackKind.CAPABILITY, LackKind.GUARANTEES})


def limits_of(chain: Chain) -> tuple[Limit, ...]:
    """Those of a queue and its ancestors, nearest first."""
    return tuple(
        Limit(each.name, dict(each.capability), devices=device_class_in(each.capability))
        for each in chain.queues
        if each.capability is not None
    )


def scope_of(tree: Tree, queue: str) -> str:
    """The queue whose capability a queue shares with others: the nearest of its chain that has one. Itself
    where none has, or its chain is not known.
    """
    if queue not in tree or tree.chain(queue).broken is not None:
        return queue
    return next((each.name for each in tree.chain(queue).queues if each.capability is not None), queue)


def never_lack(
    limits: Iterable[Limit], requests: Requests, *, claims: SharedCounts = no_claims
) -> Lack | None:
    """The limit that these requests would pass even in an empty queue, if there is one. `claims`: what those
    count that may be shared; what is not known of them counts as nothing.
    """
    for limit in limits:
        asked, fault = _with_shared(requests, claims) if limit.devices else (requests, None)
        if fault is ClaimFault.UNCOUNTABLE:
            return _claim_lack(limit, fault)
        for resource, amount in asked:
            most = limit.capability.get(resource)
            if most is not None and amount > most:
                return Lack(limit.queue, resource, amount - most, never=True)
    return None


def _claim_lack(limit: Limit, fault: ClaimFault) -> Lack:
    kind = _FAULTS[fault]
    return Lack(limit.queue, limit.devices, never=kind is LackKind.DEVICES, kind=kind)


def _with_shared(
    requests: Requests, claims: SharedCounts, *, taken: Collection[str] = ()
) -> tuple[Sequence[tuple[str, Amount]], ClaimFault | None]:
    """The requests, and the devices of the claims that may be shared, but for those that are `taken` already;
    and what hinders counting them.
    """
    claimed = claimed_devices(requests)
    if not claimed.shared:
        return requests, claimed.fault
    amounts, faults = dict(requests), {claimed.fault}
    for resource in claimed.shared:
        count = claims(resource)
        faults.add(count.fault)
        if resource not in taken:
            for name, amount in count.amounts:
                amounts[name] = amounts.get(name, 0) + amount
    return list(amounts.items()), next((fault for fault in ClaimFault if fault in faults), None)


class Usage:
    """The use of each queue. For one thread. Owner: a `Ledger`, which says why each amount counts.

    It lives as long as its tree.
    """

    def __init__(
        self,
        tree: Tree,
        *,
        rules: Rules = NO_RULES,
        claims: SharedCounts = no_claims,
        turns: GangTurns | None = None,
    ) -> None:
        """`claims`: what those count that may be shared. `turns`: of gangs that got no nodes; None: there are
        none yet.
        """
        self._tree = tree
        self.rules = rules
        self._claims = claims
        self._names_devices = any(device_class_in(queue.capability) for queue in tree.queues.values())
        #: What each claim counts that is taken by some queue; and of each queue how many pods take which.
        self._claim_counts: dict[str, ClaimCount] = {}
        self._claim_pods: dict[str, dict[str, Amount]] = {}
        self.guarantees = effective_guarantees(tree, lending=rules.lending)
        #: All there is, of the resources of which that is known.
        self.whole = {**(rules.nodes or {}), **dict(tree.queues[ROOT].capability or ())}
        self.deserved = Deserved(tree, self.guarantees, whole=self.whole)
        #: Pods that were released and have no node yet. The owner counts them, where a rule needs it.
        self.unplaced = 0
        self.turns = turns or GangTurns()
        self._set_aside = SetAside(tree, self.guarantees)
        self._sets_aside = bool(self._set_aside)
        #: By queue: the amounts used by it and by all below it.
        self._used: dict[str, dict[str, Amount]] = {}
        #: The same of each queue's ancestors and itself, by the queue.
        self._uses: dict[str, list[dict[str, Amount]]] = {}
        #: By queue: its ancestors and itself, and those of them that have a capability.
        self._chains: dict[str, tuple[str, ...]] = {}
        self._limits: dict[str, tuple[Limit, ...]] = {}
        #: The same; None of a queue of which the limits are not known.
        self._known_limits: dict[str, tuple[Limit, ...] | None] = {}

    def add(self, queue: str, requests: Collection[tuple[str, Amount]]) -> None:
        """Count what pods of this queue take, for it and for its ancestors. Amounts below zero: what they
        took no longer counts. The owner calls it (`ledger`), and nobody else.
        """
        taken = requests
        if self._names_devices:
            taken = self._add_claims(queue, taken)
        uses = self._uses.get(queue)
        if uses is None:
            uses = self._uses[queue] = [self._used.setdefault(name, {}) for name in self.chain(queue)]
        for used in uses:
            for resource, amount in taken:
                used[resource] = used.get(resource, 0) + amount
        if self._sets_aside:
            self._set_aside.add(self.chain(queue), taken)

    def _add_claims(self, queue: str, requests: Collection[tuple[str, Amount]]) -> list[tuple[str, Amount]]:
        """Count the claims that may be shared; returns the other requests."""
        for resource, pods in requests:
            if is_shared_claim(resource):
                for name in self.chain(queue):
                    self._add_claim(name, resource, pods)
        return [each for each in requests if not is_of_claims(each[0])]

    def _add_claim(self, queue: str, claim: str, pods: Amount) -> None:
        of_queue = self._claim_pods.setdefault(queue, {})
        before = of_queue.get(claim, 0)
        after = before + pods
        if after:
            of_queue[claim] = after
        else:
            of_queue.pop(claim, None)
        if before <= 0 < after:
            if claim not in self._claim_counts:
                self._claim_counts[claim] = self._claims(claim)
            self._count_claim(queue, claim, 1)
        elif after <= 0 < before:
            self._count_claim(queue, claim, -1)
            if not any(claim in others for others in self._claim_pods.values()):
                del self._claim_counts[claim]

    def _count_claim(self, queue: str, claim: str, by: int) -> None:
        used = self._used.setdefault(queue, {})
        for resource, amount in self._claim_counts[claim].amounts:
            used[resource] = used.get(resource, 0) + by * amount

    def recount(self, claim: str) -> list[str]:
        """Count what the claim is known to count now. Returns the queues that use something else by that."""
        before, after = self._claim_counts.get(claim), self._claims(claim)
        if before is None or before.amounts == after.amounts:
            return []
        queues = [name for name, pods in self._claim_pods.items() if pods.get(claim, 0) > 0]
        for count, by in ((before, -1), (after, 1)):
            self._claim_counts[claim] = count
            for queue in queues:
                self._count_claim(queue, claim, by)
        return queues

    def devices_of(self, claim: str) -> list[str]:
        """The resources that a claim counts in, which may be shared."""
        return [name for name, _ in (self._claim_counts.get(claim) or self._claims(claim)).amounts]

    def counts_devices(self, queue: str) -> bool:
        """Whether a capability of the queue's chain names a class of devices."""
        if not self._names_devices or queue not in self._tree:
            return False
        return any(limit.devices for limit in self._limits_of(queue))

    def used(self, queue: str) -> Mapping[str, Amount]:
        """What the queue and those below it use."""
        return self._used.get(queue, {})

    def guaranteed_below(self, queue: str) -> dict[str, Amount]:
        """What queues below the queue are guaranteed, and do not use: nobody else may have it."""
        return self._set_aside.unused_below(queue, self.used(queue))

    def lack(self, queue: str, requests: Requests) -> Lack | None:
        """Why one more pod of the queue has no room; None where it has. The nearest queue is named first."""
        limits = self._limits_if_known(queue)
        if limits is None:
            return Lack(queue, kind=LackKind.NO_QUEUE)
        for limit in limits:
            used = self._used.get(limit.queue, {})
            asked: Iterable[tuple[str, Amount]] = requests
            if limit.devices:
                taken = self._claim_pods.get(limit.queue, ())
                asked, fault = _with_shared(requests, self._claims, taken=taken)
                if fault is not None:
                    return never_lack(limits, requests, claims=self._claims) or _claim_lack(limit, fault)
            for resource, amount in asked:
                most = limit.capability.get(resource)
                if most is not None and (missing := used.get(resource, 0) + amount - most) > 0:
                    return never_lack(limits, requests, claims=self._claims) or Lack(
                        limit.queue, resource, missing, by_claims=asked is not requests
                    )
        if self._sets_aside and (lack := self._guaranteed_to_others(queue, limits, requests)) is not None:
            return lack
        factor = self.rules.overcommit.get(queue)
        lack = None if factor is None or not self.unplaced else self._overcommitted(requests, factor)
        if lack is None and self.turns.taken and asks_for_turn(requests):
            scopes = self.turn_scopes(queue, requests)
            return next((no_turn(scope) for scope in scopes if scope in self.turns.taken), None)
        return lack

    def turn_scopes(self, queue: str, requests: Requests) -> tuple[str, ...]:
        """The turns that are asked for by a gang of the queue."""
        own = self.scope(queue)
        return (own, CLUSTER) if asks_for_nodes_turn(requests) else (own,)

    def scope(self, queue: str) -> str:
        """As `scope_of`."""
        limits = self._limits_if_known(queue)
        return limits[0].queue if limits else queue

    def decisive(self, queue: str, lack: Lack) -> Amount | None:
        """What has to fall by what is missing before a pod of the queue, with this lack, has room; None where
        no number says so. The same number later: `amount_of`.
        """
        if lack.by_claims or lack.kind not in _DECIDED:
            return None
        if lack.kind is LackKind.GUARANTEES:
            chain = self.chain(queue)
            if not self._set_aside.adds_all(chain, lack.queue, lack.resource):
                return None
        return self.amount_of(lack.kind, lack.queue, lack.resource)

    def amount_of(self, kind: LackKind, queue: str, resource: str) -> Amount:
        """What counts for lacks of this kind: what is used; and where guarantees count, what is set aside for
        the queues below, too.
        """
        if kind is LackKind.GUARANTEES:
            return self._set_aside.taken(queue, resource)
        return self._used.get(queue, {}).get(resource, 0)

    def never_lack(self, queue: str, requests: Requests) -> Lack | None:
        """The limit of its chain that these requests would pass even where nothing is used."""
        if queue not in self._tree:
            return None
        return never_lack(self._limits_of(queue), requests, claims=self._claims)

    def _guaranteed_to_others(self, queue: str, limits: tuple[Limit, ...], requests: Requests) -> Lack | None:
        chain = self.chain(queue)
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
            if (
                resource == PODS
                or is_turn(resource)
                or whole == 0
                or (whole is None and self.rules.nodes is not None)
            ):
                continue
            missing = used.get(resource, 0) + amount - factor * (whole or 0)
            if whole is None or missing > 0:
                return Lack(ROOT, resource, missing, kind=LackKind.OVERCOMMIT)
        return None

    def chain(self, queue: str) -> tuple[str, ...]:
        """The queues in which what pods of this queue use counts."""
        known = self._chains.get(queue)
        if known is None:
            known = self._chains[queue] = self._tree.counting_chain(queue)
        return known

    def _limits_if_known(self, queue: str) -> tuple[Limit, ...] | None:
        if queue in self._known_limits:
            return self._known_limits[queue]
        if queue not in self._tree:  # users choose queue names
            return None
        is_broken = self._tree.chain(queue).broken is not None
        known = self._known_limits[queue] = None if is_broken else self._limits_of(queue)
        return known

    def _limits_of(self, queue: str) -> tuple[Limit, ...]:
        known = self._limits.get(queue)
        if known is None:
            known = self._limits[queue] = limits_of(self._tree.chain(queue))
        return known
