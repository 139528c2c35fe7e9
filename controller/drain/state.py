"""What is remembered of drains. One owner: the controller's thread. No I/O and no clock in here.

`Drains` holds all drains, and the progress and counts of each queue. `DrainState` is one drain: all queues
that the policy of queue `by` drains. Their attributes are set by their own methods alone. Everything else in
this package takes values and returns values.
Times are monotonic seconds, handed in.

Invariants
- Nothing that matters is remembered here alone: a new leader finds the same by reading the cluster. The
  counts are read back from `status.drain`. The first snapshot of a drain says which pods leave already, so
  that no pod is evicted twice.
- A budget is busy while pods of suspended workloads that it selects leave, and `BUDGET_SETTLE_SECONDS`
  longer.
- Which requests were sent, and when each may be sent again, is one table by UID (`DrainRequestTable`). A
  request that fails delays its own pod; an overloaded API server, the namespace (`limits.OverloadPauses`).
- No more pods are in flight than the drain's share and its `inFlight`, and no more are sent a second than its
  share of the rate and its `rate`. With none of its pods in flight, one unit may go, however large.
- Delayed pods (`queues.drain.terminating_pods`) hold no place in flight. Namespaces with such pods go after
  the others and have half of the places at most: a thousand pods that do not end hold up others once, not a
  thousand times.
- A suspended workload whose pods no controller deletes within `ABANDONED_SECONDS`, or whose Command no
  controller takes, or acts on within that time, is not suspended again: its pods are evicted.
- The counts of a queue belong to the queue: they stay when another policy begins to drain it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import msgspec

from cluster.token_bucket import TokenBucket
from controller.drain.limits import OverloadPauses
from controller.drain.request_states import (
    OF_WORKLOAD,
    REFUSAL_LIMIT,
    SUSPEND_SECONDS,
    DrainRequestTable,
    RequestResult,
)
from controller.drain.snapshot import DrainSnapshot, ReadMemory, ReadRequest, ReadResult
from controller.evictions.answers import EvictionOutcome
from controller.requests import NEVER
from queues.drain.disruption_budgets import BudgetKey
from queues.drain.model import (
    BlockedUnit,
    BlockerReason,
    DrainAction,
    DrainSpec,
    Plan,
    RunningPod,
    Unit,
)
from queues.drain.progress import DrainCounts, QueueProgress
from queues.drain.terminating_pods import Delay, DelayedPod
from queues.text import printable

#: How long after a step the next one is taken, where pods come or go; and where budgets are waited for.
STEP_SECONDS, READ_SECONDS = 0.1, 0.5
#: A step is followed by a rest of `REST_FACTOR` times its duration, at most `LONG_REST_SECONDS`, but at least
#: `LONG_REST_FACTOR` times its duration.
REST_FACTOR, LONG_REST_SECONDS, LONG_REST_FACTOR = 15.0, 0.5, 5.0
#: The pods of a suspended workload that no controller deletes are evicted after this time.
ABANDONED_SECONDS = 120.0
#: How long the status of a budget takes to follow its pods.
BUDGET_SETTLE_SECONDS = 0.3


class DrainState:
    """One drain; see the module's invariants."""

    def __init__(self, by: str, *, now: float, rate: float) -> None:
        """`rate`: the server's limit, of which it has a share."""
        self.by = by
        self.queues: tuple[str, ...] = ()
        self.spec = DrainSpec()
        #: Up to which version of the queues every replica is known to refuse their pods.
        self._seen_version = -1
        #: The version that the replicas are to have; none where it is not above the seen one.
        self._awaited_version = -1
        # When steps are taken
        #: When the next step is due; infinity is "when something changes".
        self._due = 0.0
        self._last_step_at = 0.0
        #: No step is taken before: the last one took long.
        self._rests_until = 0.0
        # What was read
        self.snapshot: DrainSnapshot | None = None
        self._read_at = NEVER
        #: Whether the snapshot had the budgets of all units of the last plan.
        self.all_budgets_known = True
        # What was requested
        self._requests = DrainRequestTable()
        #: Gangs of which pods were evicted, by namespace and name.
        self.started_gangs: set[BudgetKey] = set()
        #: UIDs of workloads that no controller suspends.
        self.unsuspendable: set[str] = set()
        #: Since when suspended workloads were seen to have pods that no controller deletes, by UID.
        self._suspended_since: dict[str, float] = {}
        #: When each budget was last seen to be busy; those of the last plan.
        self._busy_budgets_at: dict[BudgetKey, float] = {}
        self._planned_busy_budgets: frozenset[BudgetKey] = frozenset()
        # How much may be requested
        self._pauses = OverloadPauses()
        self._bucket = TokenBucket(rate, now=now)
        #: Pods in flight, as of the last plan and what was sent since.
        self.in_flight = 0
        #: UIDs of the delayed pods; and their namespaces, but for pods on nodes that are gone.
        self.delayed_pods: frozenset[str] = frozenset()
        self.slow_namespaces: frozenset[str] = frozenset()
        #: Pods that were in flight or could have been sent at the last step; whether any could be sent.
        self.demand = 0
        self.has_steps = False
        #: Its shares of the server's limits: pods in flight, and evictions a second.
        self.in_flight_share = 0
        self._rate_share = rate
        self.last_sent_at = NEVER

    @property
    def own_rate(self) -> float:
        return self.spec.rate

    def set_queues(self, queues: tuple[str, ...]) -> None:
        """The queues that the policy drains by now, in a new snapshot. The next step is due at once."""
        if queues != self.queues:  # an older version says nothing of a queue that joins
            self._awaited_version = -1
        self.queues = queues
        self._due = self._rests_until = 0.0

    def await_version(self, version: int, *, demand_version_of_all: Callable[[int], bool]) -> bool:
        """Whether every replica refuses new pods of the queues, which are of this version.

        The replicas are asked about one version until all of them have it: a newer one in each step would
        never be seen by all.
        """
        if self._seen_version >= version:
            return True
        if self._awaited_version <= self._seen_version:
            self._awaited_version = version
        if not demand_version_of_all(self._awaited_version):
            return False
        self._seen_version = self._awaited_version
        return True

    def set_spec(self, spec: DrainSpec) -> None:
        if spec.rate and not self.spec.rate:
            self._bucket.limit_burst(1.0)
        self.spec = spec
        self.set_shares(in_flight=self.in_flight_share, rate=self._rate_share)

    def set_shares(self, *, in_flight: int, rate: float) -> None:
        """Its shares of the server's limits; `rate` is more than 0."""
        self.in_flight_share, self._rate_share = in_flight, rate
        self._bucket.set_rate(min(self.spec.rate or rate, rate))

    # When steps are taken

    @property
    def next_step_at(self) -> float:
        return max(self._due, self._rests_until)

    def begin_step(self, now: float) -> None:
        self._last_step_at = now

    def end_step(self, now: float) -> None:
        """A step that takes long is followed by a rest."""
        rest = rest_after(now - self._last_step_at, has_limit=bool(self.spec.in_flight))
        self._rests_until = self._last_step_at + rest

    def schedule(self, at: float) -> None:
        """Take the next step then; infinity is "when something changes"."""
        self._due = at

    def wake(self) -> None:
        """Something has changed: take the next step `STEP_SECONDS` after the last one, if not sooner."""
        self._due = min(self._due, self._last_step_at + STEP_SECONDS)

    # 1. Snapshot

    def wants_read(self, now: float) -> bool:
        """Whether the last read is old enough for another one."""
        return now >= self._read_at + (READ_SECONDS if self.all_budgets_known else STEP_SECONDS)

    def begin_read(self, now: float) -> None:
        self._read_at = now

    def record_snapshot(self, snapshot: DrainSnapshot) -> None:
        if self.snapshot is None:
            self._requests.set_granted(snapshot.leaving, at=snapshot.at)
        self.snapshot = snapshot

    def record_pods(
        self, pods: Collection[RunningPod], *, is_leaving: Callable[[str], bool], now: float
    ) -> None:
        """The pods of the drain that the cache holds. `is_leaving`: whether it shows that a UID leaves."""
        self._requests.record_pods(uids(pods), is_leaving=is_leaving, now=now)

    def expect_pods(self, number: int) -> None:
        """Record how many pods are to go while nothing is planned yet."""
        self.demand, self.has_steps = self._demand(number, flying=0), number > 0

    @property
    def requested_uids(self) -> frozenset[str]:
        """UIDs of pods and workloads with a request that the cache does not show yet."""
        return self._requests.unshown

    @property
    def pending_queues(self) -> frozenset[str]:
        """The queues with requests that were sent and not answered: their counts are not complete."""
        return self._requests.pending_queues

    def pending_disruptions(self) -> dict[BudgetKey, int]:
        """By budget: the disruptions that were requested and that the snapshot does not count yet."""
        return self._requests.pending_disruptions(self.snapshot)

    def busy_budgets(self, snapshot: DrainSnapshot) -> frozenset[BudgetKey]:
        """Budgets that were busy when they were read, or until shortly before."""
        return frozenset(
            key
            for key, at in self._busy_budgets_at.items()
            if snapshot.read_at(key[0]) <= at + BUDGET_SETTLE_SECONDS
        )

    @property
    def has_busy_budgets(self) -> bool:
        return bool(self._busy_budgets_at)

    # 2. Plan

    def undeleted_workloads(self, plan: Plan, *, now: float) -> frozenset[str]:
        """UIDs of suspended workloads whose pods no controller has deleted for `SUSPEND_SECONDS`.

        Not of a scaled one with a pod that is ending: a StatefulSet ends one after the other.
        """
        suspended = {
            pod.workload.uid
            for pod in plan.leaving
            if pod.termination is None and pod.workload is not None and pod.workload.suspended
        } - self._ending_in_turn(plan)
        self._suspended_since = {uid: self._suspended_since.get(uid, now) for uid in suspended}
        since = self._suspended_since.items()
        self.unsuspendable |= {uid for uid, at in since if at + ABANDONED_SECONDS < now}
        return frozenset(uid for uid, at in since if at + SUSPEND_SECONDS < now)

    def _ending_in_turn(self, plan: Plan) -> set[str]:
        """UIDs of scaled workloads with a pod that is ending and has its place in flight."""
        ending = (pod for pod in plan.leaving if pod.termination is not None)
        return {
            pod.workload.uid
            for pod in ending
            if pod.workload is not None and pod.workload.scaled and pod.uid not in self.delayed_pods
        }

    def record_plan(self, plan: Plan, *, now: float, delays: Iterable[DelayedPod] = ()) -> list[DelayedPod]:
        """Record the pods of the plan that leave; return those that are delayed now and were not before.

        `delays`: the pods of the plan that have lost their places in flight.
        """
        delayed = {each.pod.uid: each for each in delays}
        new = [each for uid, each in delayed.items() if uid not in self.delayed_pods]
        self.delayed_pods = frozenset(delayed)
        self.slow_namespaces = frozenset(
            each.pod.namespace for each in delayed.values() if each.delay is not Delay.NODE_GONE
        )
        self.in_flight = sum(1 for pod in plan.leaving if pod.uid not in delayed)
        fresh = {key: at for key, at in self._busy_budgets_at.items() if at > now - SUSPEND_SECONDS}
        busy = plan.busy_budgets | self._planned_busy_budgets
        self._busy_budgets_at = fresh | dict.fromkeys(busy, now)
        self._planned_busy_budgets = plan.busy_budgets
        self.started_gangs |= {
            (pod.namespace, pod.pod_group) for pod in plan.leaving if pod.pod_group and pod.workload is None
        }
        return new

    def with_refusals(self, plan: Plan) -> Plan:
        """The plan, with units that were refused again and again moved to the blocked ones."""
        blocked, steps = [], []
        for unit in plan.steps:
            refusal = self._requests.refusal(unit)
            if refusal is None:
                steps.append(unit)
                continue
            message = f"refused again and again: {printable(refusal, limit=REFUSAL_LIMIT)}"
            blocked.append(
                BlockedUnit(unit=unit, reason=BlockerReason.REFUSED, blocker=str(unit), message=message)
            )
        if not blocked:
            return plan
        return msgspec.structs.replace(plan, steps=tuple(steps), blocked=(*plan.blocked, *blocked))

    # 3. Execute

    def pause_seconds(self, now: float) -> float:
        """Seconds until any request may be sent."""
        return self._pauses.seconds(now)

    def take_steps(self, plan: Plan, *, now: float, spare: int) -> tuple[list[Unit], float]:
        """Take the steps to be sent now, in their order. Also returns the seconds until more may be sent.

        `spare`: pods that all drains together may still have in flight.
        """
        units: list[Unit] = []
        places = [pod for pod in plan.leaving if pod.uid not in self.delayed_pods]
        flying, slowly = len(places), sum(1 for pod in places if pod.namespace in self.slow_namespaces)
        ready = [unit for unit in plan.steps if self._may_request(unit, now)]
        self.all_budgets_known = all(self._budgets_known(unit) for unit in plan.steps)
        self.has_steps = bool(ready)
        self.demand = self._demand(flying + sum(len(unit.pods) for unit in ready), flying=flying)
        limit = min(self.spec.in_flight or self.in_flight_share, self.in_flight_share)
        for unit in sorted(ready, key=self._is_slow):
            size, slow = len(unit.pods), self._is_slow(unit)
            if slow and slowly and slowly + size > limit // 2:
                continue
            if not _fits(size, flying=flying, limit=limit, spare=spare):
                break
            if not self._bucket.ready(now):
                return units, self._bucket.wait()
            self._bucket.take(size)
            units.append(unit)
            self.last_sent_at = now
            flying, spare, slowly = flying + size, spare - size, slowly + size * slow
        return units, 0.0

    def take_cuts(self, units: Iterable[Unit], *, now: float) -> Iterator[Unit]:
        """Take those of these terminating pods whose grace periods are to be cut now.

        They have places in flight already, or have lost them; so only the rate counts.
        """
        for unit in units:
            if not self._bucket.ready(now):
                return
            if self._may_request(unit, now):
                self._bucket.take(1)
                yield unit

    def record_request(self, unit: Unit, *, now: float) -> None:
        """The unit is about to be sent."""
        if unit.action is not DrainAction.CUT_GRACE:
            self.in_flight += len(unit.pods)
        if unit.action in OF_WORKLOAD:
            self._busy_budgets_at |= dict.fromkeys(unit.budgets, now)
        self._requests.send_all(unit)

    def has_command(self, unit: Unit) -> bool:
        """Whether a Command was sent for the unit's workload.

        If the unit is a step again, the Command had no effect so far.
        """
        return self._requests.has_command(unit)

    def budget_of(self, pod: RunningPod) -> BudgetKey | None:
        """The first budget that selects the pod, as far as was read; a pod under two is never sent."""
        budgets = (
            self.snapshot.index.selecting(pod.namespace, pod.labels) if self.snapshot is not None else ()
        )
        return budgets[0].key if budgets else None

    def _is_slow(self, unit: Unit) -> bool:
        return unit.pods[0].namespace in self.slow_namespaces

    def _demand(self, wanted: int, *, flying: int) -> int:
        return max(flying, min(wanted, self.spec.in_flight or wanted))

    def _budgets_known(self, unit: Unit) -> bool:
        """Whether the budgets of its namespace were read."""
        return self.snapshot is None or self.snapshot.knows(unit.pods[0].namespace)

    def _may_request(self, unit: Unit, now: float) -> bool:
        if self._pauses.is_paused(unit.pods[0].namespace, now=now) or not self._budgets_known(unit):
            return False
        return self._requests.may_send_all(unit, now=now)

    # 4. Account

    def record_result(self, result: RequestResult, *, now: float) -> None:
        namespace = result.unit.pods[0].namespace
        match result.outcome:
            case EvictionOutcome.GRANTED:
                self._requests.record_grant(result, now=now)
                self._pauses.record_success(namespace)
                if result.unit.gang:
                    self.started_gangs.add((namespace, result.unit.gang))
            case EvictionOutcome.DROPPED:
                self._requests.record_drop(result, now=now)
            case EvictionOutcome.COMMAND_WITHDRAWN | EvictionOutcome.NOT_SCALABLE:
                self._requests.record_drop(result, now=now)
                self.unsuspendable.add(result.uid)
            case EvictionOutcome.COMMAND_TAKEN:
                if self._requests.record_taken(result, now=now) >= ABANDONED_SECONDS:
                    self.unsuspendable.add(result.uid)
            case _:
                self._record_failure(result, now=now)
        self._due = min(self._due, now)

    def _record_failure(self, result: RequestResult, *, now: float) -> None:
        """A request that failed gives back what it took of the rate."""
        pod = result.pod or result.unit.pods[0]
        if result.outcome is EvictionOutcome.OVERLOADED:
            self._pauses.record_overload(pod.namespace, retry_after=result.retry_after, now=now)
        known = self.snapshot is None or not self.snapshot.index.excess(pod.namespace, pod.labels)
        self._requests.record_failure(result, now=now, budgets_known=known)
        self._bucket.take(-1)

    def forget_absent(self, present: Collection[str]) -> None:
        """Forget requests for pods and workloads that are not there any more."""
        self._requests.forget_gone(present)


class Drains:
    """All drains, and the progress and counts of each queue."""

    def __init__(self) -> None:
        self._by_policy: dict[str, DrainState] = {}
        self._by_queue: dict[str, DrainState] = {}
        self._progress: dict[str, QueueProgress] = {}
        self._counts: dict[str, DrainCounts] = {}
        #: What each drain wants to have read: all of it in one read, and one read at a time.
        self._read_requests: dict[str, ReadRequest] = {}
        self._read_pending = False
        self._read_memory = ReadMemory()

    def __iter__(self) -> Iterator[DrainState]:
        return iter(self._by_policy.values())

    def of_policy(self, by: str) -> DrainState | None:
        """The drain by the policy of that queue."""
        return self._by_policy.get(by)

    def of_queue(self, queue: str) -> DrainState | None:
        return self._by_queue.get(queue)

    def follow(self, draining: Mapping[str, list[str]], *, now: float, rate: float) -> None:
        """Begin, keep and end drains as a new snapshot says. A step of each drain is due at once.

        `draining`: by the queue whose policy it is, the queues that drain.
        """
        before = self._by_policy
        self._by_policy = {by: before.get(by) or DrainState(by, now=now, rate=rate) for by in draining}
        self._by_queue = {queue: self._by_policy[by] for by, queues in draining.items() for queue in queues}
        for by, drain in self._by_policy.items():
            drain.set_queues(tuple(draining[by]))
        self._progress = {queue: each for queue, each in self._progress.items() if queue in self._by_queue}
        self._counts = {queue: each for queue, each in self._counts.items() if queue in self._by_queue}

    def forget(self) -> None:
        """Forget all drains: this replica leads no longer."""
        self.follow({}, now=0.0, rate=0.0)
        self._read_requests.clear()
        self._read_pending = False

    def request_read(self, by: str, request: ReadRequest) -> None:
        """Replaces what that drain wanted to have read before."""
        self._read_requests[by] = request

    def begin_read(self, now: float) -> tuple[dict[str, ReadRequest], ReadMemory]:
        """What is to be read now, and what the read before left; nothing while a read is under way."""
        if self._read_pending:
            return {}, self._read_memory
        requests, self._read_requests = self._read_requests, {}
        for drain in filter(None, map(self.of_policy, requests)):
            drain.begin_read(now)
        self._read_pending = bool(requests)
        return requests, self._read_memory

    def cancel_read(self) -> None:
        """The read was not sent."""
        self._read_pending = False

    def record_read(self, result: ReadResult) -> None:
        self._read_pending, self._read_memory = False, result.memory
        for drain in filter(None, map(self.of_policy, result.drains)):
            if result.snapshot is not None:
                drain.record_snapshot(result.snapshot)
                drain.wake()

    def record_result(self, result: RequestResult, *, now: float) -> None:
        drain = self.of_policy(result.drain)
        if drain is not None:
            drain.record_result(result, now=now)
        counts = self._counts.get(result.queue)
        if counts is not None and result.outcome is EvictionOutcome.GRANTED:
            counts.add(result.action, pods=len(result.unit.pods))

    def record_progress(
        self, progress: Mapping[str, QueueProgress], *, stored: Callable[[str], DrainCounts]
    ) -> set[str]:
        """The queues whose progress has changed. `stored`: the counts that the status of a queue has."""
        changed = {queue for queue, each in progress.items() if self._progress.get(queue) != each}
        self._progress |= progress
        self._counts |= {queue: stored(queue) for queue in progress.keys() - self._counts.keys()}
        return changed

    def progress(self, queue: str) -> tuple[DrainCounts, QueueProgress] | None:
        """None where the queue does not drain, or no step was taken yet."""
        progress = self._progress.get(queue)
        return (self._counts[queue], progress) if progress is not None else None


def uids(pods: Collection[RunningPod]) -> set[str]:
    """The UIDs of the pods and of their workloads."""
    return {pod.uid for pod in pods} | {pod.workload.uid for pod in pods if pod.workload is not None}


def _fits(size: int, *, flying: int, limit: int, spare: int) -> bool:
    """Whether a unit of so many pods may go beside those in flight. With none in flight any size may."""
    if not flying:
        return limit > 0 and spare > 0
    return flying + size <= limit and size <= spare


def rest_after(seconds: float, *, has_limit: bool = False) -> float:
    """How long no step is taken after one that took so many seconds: other threads need the interpreter.

    `has_limit`: the drain has an `inFlight`. A pod that leaves makes room for another, so a long rest would
    slow the drain.
    """
    least = LONG_REST_FACTOR * seconds
    return least if has_limit else max(min(REST_FACTOR * seconds, LONG_REST_SECONDS), least)
