"""From when on the capability of each queue holds: gathers the evidence for `queues.quota.enforcement`.

| evidence                         | where it comes from                                                   |
|----------------------------------|-----------------------------------------------------------------------|
| which replicas know quotas       | their Leases (`cluster.coordination.replica_report`)                  |
| that each has seen the scope     | the same, as for a stop (`StopAcknowledgement.demand_version_of_all`, |
|                                  | `demand_all_known`)                                                   |
| that the members are known       | the pods as of a reading of the Leases after the requests had ended   |
| that no other release can happen | the open book (`QuotaReleases.is_book_ready`)                         |
| why the book is not written      | `QuotaReleases.book_fault`, which wakes all queues when it changes    |
| where the guard is on            | `BindGuards.on`                                                       |
| that the API server asks us      | `RegistrationLapses`                                                  |
| the members made while it did    | `MemberLabels.look_for_all`, after such a time                        |
| not                              |                                                                       |

Owner: the controller's thread. Nothing is written here: the status that it goes into is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from controller.context import ControllerContext
from controller.parts import Part
from controller.pods.member_labels import MemberLabels
from controller.quota.releases import QuotaReleases
from controller.stops.acknowledgement import StopAcknowledgement
from controller.stops.bind_guard import BindGuards
from controller.stops.registration_lapses import RegistrationLapses
from queues.apimachinery.quantities import Amount
from queues.quota.devices import ClaimFault, device_class_in
from queues.quota.enforcement import (
    QUOTA_ENFORCED,
    SETTLED,
    EnforcementReason,
    QuotaEvidence,
    QuotaScope,
    book_fault_condition,
    enforced_condition,
    over_capability,
)
from queues.quota.resource_names import uncounted
from queues.status.conditions import DerivedCondition


class _Wait(msgspec.Struct, kw_only=True):
    """What is known of one queue. `version`: one of the queues that has the scope. `ended`: one of the pods
    that was current when what had been let through was over. `lapses`: those that were known before.
    `after_lapse`: members may have been made that we were not asked about.
    """

    scope: QuotaScope
    version: int
    seen_at: float | None = None
    ended: int | None = None
    was_settled: bool = False
    is_waiting: bool = True
    lapses: int = 0
    after_lapse: bool = False


class QuotaEnforcement(Part):
    """Owner: the controller's thread."""

    name = "quota_enforcement"

    def __init__(
        self,
        context: ControllerContext,
        *,
        acknowledgement: StopAcknowledgement,
        guards: BindGuards,
        releases: QuotaReleases,
        member_labels: MemberLabels,
        lapses: RegistrationLapses,
    ) -> None:
        self._store = context.store
        self._acknowledgement = acknowledgement
        self._guards = guards
        self._releases = releases
        self._member_labels = member_labels
        self._lapses = lapses
        self._waits: dict[str, _Wait] = {}

    def forget_queue(self, queue: str) -> None:
        self._waits.pop(queue, None)

    def begin_term(self) -> None:
        self._waits.clear()

    def is_waiting(self, queue: str) -> bool:
        """Whether its condition may change though nothing does that is heard of."""
        wait = self._waits.get(queue)
        return wait is not None and wait.is_waiting

    def condition(
        self, queue: str, *, used: Mapping[str, Amount], is_stopped: bool = False
    ) -> DerivedCondition | None:
        """Condition QuotaEnforced, of a queue with a quota; None for one without a capability of its own,
        while the book can be written. `used`: by it and by all queues below it. `is_stopped`: its stop is
        acknowledged.
        """
        own, fault = self._store.snapshot.tree.get(queue), self._releases.book_fault
        if own is None or own.capability is None:
            self.forget_queue(queue)
            return book_fault_condition(fault) if fault else None
        wait = self._wait_of(queue, QuotaScope(frozenset(dict(own.capability)), self._places(queue)))
        found = enforced_condition(
            queue,
            self._evidence(
                queue,
                wait,
                over=over_capability(dict(own.capability), used),
                devices=self._store.device_claims.fault if device_class_in(own.capability) else None,
                is_stopped=is_stopped,
            ),
        )
        wait.was_settled = wait.was_settled or found.reason in SETTLED
        wait.is_waiting = found.reason not in {*SETTLED, EnforcementReason.BOOK_NOT_WRITTEN}
        return found

    def _wait_of(self, queue: str, scope: QuotaScope) -> _Wait:
        known = self._waits.get(queue)
        if known is not None and known.scope.covers(scope):
            known.scope = scope
            return known
        was_settled = known is None and self._says_settled(queue, scope)
        version = self._store.snapshot.resource_version
        wait = self._waits[queue] = _Wait(
            scope=scope,
            version=version,
            was_settled=was_settled,
            lapses=self._lapses.count,
            after_lapse=known.after_lapse if known is not None else self._says_not_asked(queue),
        )
        return wait

    def _says_not_asked(self, queue: str) -> bool:
        """Whether a former leader had not come to the end of a lapse."""
        obj = self._store.queues.get(queue)
        stored = None if obj is None else obj.status.condition(QUOTA_ENFORCED)
        return stored is not None and stored.reason == EnforcementReason.NOT_ASKED

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
        self,
        queue: str,
        wait: _Wait,
        *,
        over: Mapping[str, Amount],
        devices: ClaimFault | None,
        is_stopped: bool,
    ) -> QuotaEvidence:
        unaware = self._acknowledgement.unaware_of_quotas
        now, request_seconds = self._store.clock.monotonic(), self._store.bind_passes.request_seconds
        is_seen = self._acknowledgement.demand_all_known(wait.version)
        is_seen = self._acknowledgement.demand_version_of_all(wait.version, queue=queue) and is_seen
        if wait.lapses != self._lapses.count or self._lapses.is_lapsed:
            wait.lapses, wait.after_lapse = self._lapses.count, True
            wait.seen_at, wait.ended, wait.was_settled = None, None, False
        elif unaware:  # what it lets through is under way when it is gone
            wait.seen_at, wait.ended, wait.was_settled = None, None, False
        elif is_seen and wait.seen_at is None and unaware is not None:
            wait.seen_at = now
        return QuotaEvidence(
            unaware=unaware,
            not_asked="" if wait.was_settled else self._lapses.obstacle,
            was_settled=wait.was_settled,
            seen_at=wait.seen_at,
            are_pods_known=self._demand_pods(queue, wait, now=now, request_seconds=request_seconds),
            is_book_ready=self._releases.is_book_ready,
            book_fault=self._releases.book_fault,
            unguarded=self._is_unguarded(queue, since=now - request_seconds),
            devices=devices,
            over=over,
            uncounted=uncounted(sorted(wait.scope.resources)),
            is_stopped=is_stopped,
            now=now,
            request_seconds=request_seconds,
        )

    def _demand_pods(self, queue: str, wait: _Wait, *, now: float, request_seconds: float) -> bool:
        """Whether the members are known as of a moment when what was let through was over. If not, they will
        be; asked only while that matters.
        """
        if wait.was_settled or wait.seen_at is None or now < wait.seen_at + request_seconds:
            return False
        since = wait.seen_at + request_seconds
        if wait.ended is None:
            wait.ended = self._acknowledgement.demand_version_since(since, queue=queue)
        if wait.ended is None or not self._store.watch_progress.demand("pods", wait.ended):
            return False
        if wait.after_lapse:
            below = self._store.snapshot.tree.subtree(queue)
            wait.after_lapse = bool(self._member_labels.look_for_all(below, since=since))
        return not wait.after_lapse

    def _is_unguarded(self, queue: str, *, since: float) -> bool:
        """Whether a pod that was not released could be bound where the guard is on for less than that."""
        members, on = self._store.members, self._guards.on
        return any(
            on.get(namespace, math.inf) > since
            for name in self._store.snapshot.tree.subtree(queue)
            for namespace in members.unreleased_namespaces(name)
        )
