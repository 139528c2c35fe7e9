"""From when on the capability of each queue holds: gathers the evidence for `queues.quota.enforcement`.

| evidence                         | where it comes from                                                   |
|----------------------------------|-----------------------------------------------------------------------|
| which replicas know quotas       | their Leases (`cluster.coordination.replica_report`)                  |
| that each has seen the scope     | the same, as for a stop (`StopAcknowledgement.demand_version_of_all`) |
| that the members are known       | the pods as of a reading of the Leases after the requests had ended   |
| that no other release can happen | the open book (`QuotaReleases.is_book_ready`)                         |
| where the guard is on            | `BindGuards.on`                                                       |

Owner: the controller's thread. Nothing is written here: the status that it goes into is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from controller.context import ControllerContext
from controller.quota.releases import QuotaReleases
from controller.stops.acknowledgement import StopAcknowledgement
from controller.stops.bind_guard import BindGuards
from queues.apimachinery.quantities import Amount
from queues.quota.devices import ClaimFault, device_class_in
from queues.quota.enforcement import (
    QUOTA_ENFORCED,
    SETTLED,
    QuotaEvidence,
    QuotaScope,
    enforced_condition,
    over_capability,
)
from queues.status.conditions import DerivedCondition


class _Wait(msgspec.Struct, kw_only=True):
    """What is known of one queue. `version`: one of the queues that has the scope. `ended`: one of the pods
    that was current when what had been let through was over.
    """

    scope: QuotaScope
    version: int
    seen_at: float | None = None
    ended: int | None = None
    was_settled: bool = False
    is_waiting: bool = True


class QuotaEnforcement:
    """Owner: the controller's thread."""

    def __init__(
        self,
        context: ControllerContext,
        *,
        acknowledgement: StopAcknowledgement,
        guards: BindGuards,
        releases: QuotaReleases,
    ) -> None:
        self._store = context.store
        self._acknowledgement = acknowledgement
        self._guards = guards
        self._releases = releases
        self._waits: dict[str, _Wait] = {}

    def forget(self, queue: str) -> None:
        self._waits.pop(queue, None)

    def forget_all(self) -> None:
        """A term begins or ends."""
        self._waits.clear()

    def is_waiting(self, queue: str) -> bool:
        """Whether its condition may change though nothing does that is heard of."""
        wait = self._waits.get(queue)
        return wait is not None and wait.is_waiting

    def condition(self, queue: str, *, used: Mapping[str, Amount]) -> DerivedCondition | None:
        """Condition QuotaEnforced; None for a queue without a capability of its own. `used`: by it and by all
        queues below it.
        """
        own = self._store.snapshot.tree.get(queue)
        if own is None or own.capability is None:
            self.forget(queue)
            return None
        wait = self._wait_of(queue, QuotaScope(frozenset(dict(own.capability)), self._places(queue)))
        found = enforced_condition(
            queue,
            self._evidence(
                queue,
                wait,
                over=over_capability(dict(own.capability), used),
                devices=self._store.device_claims.fault if device_class_in(own.capability) else None,
            ),
        )
        wait.is_waiting = found.reason not in SETTLED
        wait.was_settled = wait.was_settled or not wait.is_waiting
        return found

    def _wait_of(self, queue: str, scope: QuotaScope) -> _Wait:
        known = self._waits.get(queue)
        if known is not None and known.scope.covers(scope):
            known.scope = scope
            return known
        was_settled = known is None and self._says_settled(queue, scope)
        version = self._store.snapshot.resource_version
        wait = self._waits[queue] = _Wait(scope=scope, version=version, was_settled=was_settled)
        return wait

    def _says_settled(self, queue: str, scope: QuotaScope) -> bool:
        """Whether a former leader had seen to it, or there is nothing to see to: the queue is new."""
        obj = self._store.queues.get(queue)
        if obj is None:
            return False
        stored = obj.status.condition(QUOTA_ENFORCED)
        if stored is None:
            return obj.metadata.generation == 1 and not scope.places
        return stored.reason in SETTLED and stored.observed_generation == obj.metadata.generation

    def _places(self, queue: str) -> frozenset[str]:
        """The places of the queues below it, but for those that were created there."""
        tree = self._store.snapshot.tree
        below = [tree.queues[name] for name in tree.subtree(queue) if name != queue and name in tree]
        return frozenset(each.place for each in below if not each.was_created_here)

    def _evidence(
        self, queue: str, wait: _Wait, *, over: Mapping[str, Amount], devices: ClaimFault | None
    ) -> QuotaEvidence:
        unaware = self._acknowledgement.unaware_of_quotas
        now, request_seconds = self._store.clock.monotonic(), self._store.bind_passes.request_seconds
        is_seen = self._acknowledgement.demand_version_of_all(wait.version, queue=queue)
        if unaware:  # what it lets through is under way when it is gone
            wait.seen_at, wait.ended, wait.was_settled = None, None, False
        elif is_seen and wait.seen_at is None and unaware is not None:
            wait.seen_at = now
        return QuotaEvidence(
            unaware=unaware,
            was_settled=wait.was_settled,
            seen_at=wait.seen_at,
            are_pods_known=self._demand_pods(queue, wait, now=now, request_seconds=request_seconds),
            is_book_ready=self._releases.is_book_ready,
            unguarded=self._is_unguarded(queue, since=now - request_seconds),
            devices=devices,
            over=over,
            now=now,
            request_seconds=request_seconds,
        )

    def _demand_pods(self, queue: str, wait: _Wait, *, now: float, request_seconds: float) -> bool:
        """Whether the members are known as of a moment when what was let through was over. If not, they will
        be; asked only while that matters.
        """
        if wait.was_settled or wait.seen_at is None or now < wait.seen_at + request_seconds:
            return False
        if wait.ended is None:
            since = wait.seen_at + request_seconds
            wait.ended = self._acknowledgement.demand_version_since(since, queue=queue)
        return wait.ended is not None and self._store.watch_progress.demand("pods", wait.ended)

    def _is_unguarded(self, queue: str, *, since: float) -> bool:
        """Whether a pod that was not released could be bound where the guard is on for less than that."""
        members, on = self._store.members, self._guards.on
        return any(
            on.get(namespace, math.inf) > since
            for name in self._store.snapshot.tree.subtree(queue)
            for namespace in members.unreleased_namespaces(name)
        )
