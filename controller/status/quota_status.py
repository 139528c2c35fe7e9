"""What the status of a queue says of its quota, counted from the members of it and of the queues below it.

What is used is what the watch shows. A release that the watch has not shown yet is named as such beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from cluster.cache.members import Member
from cluster.cache.podgroups import PodGroupKey
from cluster.cache.store import Store
from queues.apimachinery.pod_requests import Requests
from queues.apimachinery.quantities import Amount, add_amounts
from queues.apimachinery.timestamps import rfc3339
from queues.quota.devices import (
    add_claims,
    add_classes,
    is_of_claims,
    shared_counts,
    with_claims_counted,
)
from queues.quota.given_back import GivenBack
from queues.quota.report import NOTHING_BESIDE, CountedBeside, QuotaClaim, quota_report
from queues.tree import Tree


class Use(NamedTuple):
    """What the pods of some queues take of quotas, `PODS` among it, and how many of them wait for room.
    `force_deleted`: what of that is of pods that were deleted by force, and may still run.

    Of one queue, the claims that pods may share are resources of their own (`queues.quota.devices`).
    """

    used: dict[str, Amount]
    waiting: int
    force_deleted: dict[str, Amount]


NOTHING = Use({}, 0, {})
_NOTHING_KEPT: Mapping[PodGroupKey, Requests] = {}


def own_use(queue: str, store: Store) -> Use:
    """Pods of a queue that does not schedule wait for that."""
    counts, decision = store.members.counts(queue), store.snapshot.decision(queue)
    claims, used = counts.claims.copy().items(), store.quota_use(queue)
    forced = store.force_deleted.used(queue)
    if decision.limits_devices:
        add_classes(used, tuple(used.items()), store.device_claims)
        add_classes(forced, tuple(forced.items()), store.device_claims)
        add_claims(used, claims, store.device_claims)
    return Use(used, counts.held if decision.schedules else 0, forced)


class QuotaUseByQueue:
    """What queues use with all below them, kept from one time to the next: a pod that comes or goes costs its
    chain, and not a count of all queues. Owner: the controller's thread.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.forget()

    def forget(self) -> None:
        """Count everything again."""
        #: Of which the sums are; None: nothing was counted yet. And the version of what claims count.
        self._tree: Tree | None = None
        self._devices = -1
        #: By queue: its own use, and that of it and of all below it.
        self._own: dict[str, Use] = {}
        self._below: dict[str, Use] = {}
        #: The queues whose own use may be another than that.
        self._changed: set[str] = set()

    def record(self, queues: Iterable[str]) -> None:
        """Something of these queues has changed: a member, the spec, or what follows from it."""
        if self._tree is not None:
            self._changed.update(queues)

    def below(self, queue: str) -> Use:
        """That of the queue and of all below it."""
        tree, devices = self._store.snapshot.tree, self._store.device_claims.version
        if tree is not self._tree or devices != self._devices:
            self.forget()
            self._tree, self._devices, self._changed = tree, devices, {*tree, *tree.former}
        for name in self._changed & {*tree, *tree.former} if self._changed else ():
            self._count(name, tree)
        self._changed.clear()
        return self._with_claims(self._below.get(queue, NOTHING))

    def _with_claims(self, use: Use) -> Use:
        """With what shared claims count: each once, however many pods below share it."""
        if not any(map(is_of_claims, use.used)):
            return use
        used = with_claims_counted(use.used, shared_counts(self._store.device_claims))
        return use._replace(used=used)

    def _count(self, queue: str, tree: Tree) -> None:
        before, after = self._own.get(queue, NOTHING), own_use(queue, self._store)
        self._own[queue] = after
        if after == before:
            return
        more, more_forced = (
            _differences(before.used, after.used),
            _differences(before.force_deleted, after.force_deleted),
        )
        for each in tree.counting_chain(queue):
            below = self._below.get(each, NOTHING)
            self._below[each] = Use(
                _sums(below.used, more),
                below.waiting + after.waiting - before.waiting,
                _sums(below.force_deleted, more_forced),
            )


def _differences(before: dict[str, Amount], after: dict[str, Amount]) -> dict[str, Amount]:
    resources = before.keys() | after.keys()
    more = {name: after.get(name, 0) - before.get(name, 0) for name in resources}
    return {name: amount for name, amount in more.items() if amount}


def _sums(amounts: dict[str, Amount], more: dict[str, Amount]) -> dict[str, Amount]:
    return {**amounts, **{name: amounts.get(name, 0) + amount for name, amount in more.items()}}


def quota_fields(
    queue: str,
    store: Store,
    use: Use,
    *,
    claimant: Member | None = None,
    given_back: Sequence[GivenBack] = (),
    kept: Mapping[PodGroupKey, Requests] = _NOTHING_KEPT,
    beside: CountedBeside = NOTHING_BESIDE,
) -> dict[str, Any]:
    """`status.quota` in wire form, of a queue with a quota. `use`: its own and that of all below it.
    `claimant`: the pod for which others leave room in it. `given_back`: by it, or to it. `kept`: for gangs of
    it, and of the queues below it. `beside`: what else counts of them that no pod uses.
    """
    kept_for_gangs: dict[str, Amount] = {}
    for requests in kept.values():
        add_amounts(kept_for_gangs, requests)
    used = dict(use.used)
    add_amounts(used, kept_for_gangs.items())
    chain = store.snapshot.tree.chain(queue).queues
    claim = None if claimant is None else _claim(claimant)
    report = quota_report(
        chain,
        used=used,
        waiting=use.waiting,
        claim=claim,
        force_deleted=use.force_deleted,
        kept_for_gangs=kept_for_gangs,
        kept_for=[f"{key.namespace}/{key.name}" for key in kept],
        beside=beside,
    )
    fields = msgspec.to_builtins(report)
    if given_back:
        fields["givenBack"] = msgspec.to_builtins(given_back)
    return {key: value for key, value in fields.items() if value is not None}


def _claim(claimant: Member) -> QuotaClaim:
    return QuotaClaim(
        namespace=claimant.namespace,
        pod=claimant.name,
        queue=claimant.queue,
        since=rfc3339(claimant.created),
    )
