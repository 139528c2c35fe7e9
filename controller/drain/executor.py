"""One drain: what was asked for, what is on its way, and how much more may be asked for.

Invariants
- It asks for no more than its share of the server's rate and of the pods in flight
  (`controller.drain.fair_shares`), and no more than its own settings. With none of its pods in flight, one
  unit may go, however large.
- A request that fails delays its own pod; one that the API server is too busy for delays its namespace; all
  namespaces only where requests of several fail and none succeeds in between.
- Namespaces whose pods have outstayed their places go after the others, and have half of the places at most:
  a thousand pods that do not end hold up others once, not a thousand times.
- What was granted and never shows in the cache is asked for again (`GRANTED_SECONDS`).

Owner: the controller's thread. Times are monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

import msgspec

from controller.drain.eviction import Outcome, RequestResult
from controller.drain.rate_limit import TokenBucket
from controller.drain.running_pods import VOLCANO
from controller.drain.snapshot import DrainSnapshot
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
from queues.text import printable

#: A request that failed is not repeated for so long.
RETRY_SECONDS = 1.0
#: Where it fails again and again, for longer and longer, up to this; what a budget refuses, up to that.
MAX_RETRY_SECONDS = 60.0
MAX_BUDGET_RETRY_SECONDS = 4.0
#: Failures in a row after which one is told of; characters of what was said.
REFUSALS_TO_BLOCK = 2
REFUSAL_LIMIT = 300
MAX_PAUSE_SECONDS = 30.0
#: How long it takes at most until suspended work is seen to be, and until a Command is taken.
SUSPEND_SECONDS = 10.0
#: How long the status of a budget takes to follow its pods.
BUDGET_SETTLE_SECONDS = 0.3
#: How long a granted eviction may take to show in the cache, before it counts as not granted.
GRANTED_SECONDS = 60.0


class Drain:
    """All queues that the policy of queue `by` drains."""

    def __init__(self, by: str, *, now: float, rate: float) -> None:
        """`rate`: the server's limit, of which it has a share."""
        self.by = by
        self.queues: tuple[str, ...] = ()
        self.spec = DrainSpec()
        #: Up to which version of the queues every replica is known to refuse their pods.
        self.acknowledged_version = -1
        self.snapshot: DrainSnapshot | None = None
        #: When it was asked for last; whether the budgets of all units were read by then.
        self.requested_at = float("-inf")
        self.all_budgets_known = True
        #: When to look again; infinity is "when something is heard".
        self.due = 0.0
        self.last_step_at = 0.0
        #: No look is taken before, whatever has come: the last one took long.
        self.rests_until = 0.0
        #: Gangs that pods were evicted from, by namespace and name.
        self.started_gangs: set[BudgetKey] = set()
        #: UIDs of work that nobody suspends, and since when a Command waits for somebody.
        self.unsuspendable: set[str] = set()
        self.commanded_at: dict[str, float] = {}
        self._bucket = TokenBucket(rate, now=now)
        #: UIDs of pods and work with a request under way.
        self._pending_requests: set[str] = set()
        #: UIDs of pods that were evicted and of work that was suspended, while the store does not know it.
        #: With the time from which on the store should.
        self._granted_at: dict[str, float] = {}
        #: Disruptions asked for: budget, how many, and when the answer came.
        self._disruptions: dict[str, tuple[tuple[BudgetKey, ...], int, float | None]] = {}
        self._not_before: dict[str, float] = {}
        #: By UID, how often in a row it failed, and what was said last.
        self._failures_by_uid: dict[str, tuple[int, str]] = {}
        self._paused_until = 0.0
        self._failures = 0
        #: Namespaces whose requests the API server was too busy for since the last one that succeeded.
        self._failing_namespaces: set[str] = set()
        #: By namespace: until when nothing is asked for in it, and how often in a row it failed.
        self._namespace_pauses: dict[str, tuple[float, int]] = {}
        #: When each budget was last seen to be taken from by paused work.
        self._busy_budgets_at: dict[BudgetKey, float] = {}
        self._planned_busy_budgets: frozenset[BudgetKey] = frozenset()
        #: Pods on their way, as of the last look, without those that do not get on; these, by UID.
        self.in_flight = 0
        self.delayed_pods: frozenset[str] = frozenset()
        #: Namespaces of pods that are to blame for that.
        self.slow_namespaces: frozenset[str] = frozenset()
        #: Pods that it had in flight or might have asked for, as of the last look; whether any might go.
        self.demand = 0
        self.has_steps = False
        #: Its shares of the server's limits: pods in flight, and evictions a second.
        self.in_flight_share = 0
        self._rate = rate
        #: When a unit was last sent.
        self.last_sent_at = float("-inf")

    @property
    def next_step_at(self) -> float:
        """When it is to be looked at."""
        return max(self.due, self.rests_until)

    def set_spec(self, spec: DrainSpec) -> None:
        if spec.rate and not self.spec.rate:
            self._bucket.empty(1.0)
        self.spec = spec
        self.set_shares(in_flight=self.in_flight_share, rate=self._rate)

    def set_shares(self, *, in_flight: int, rate: float) -> None:
        """Its shares of the server's limits; `rate` is more than 0."""
        self.in_flight_share, self._rate = in_flight, rate
        self._bucket.set_rate(min(self.spec.rate or rate, rate))

    def expect_pods(self, number: int) -> None:
        """So many pods are to go, and nothing was planned yet."""
        self.demand, self.has_steps = self._demand(number, flying=0), number > 0

    @property
    def requested_uids(self) -> frozenset[str]:
        """UIDs of the pods and the work that were asked to go, as far as the store does not know that yet."""
        return frozenset(self._granted_at.keys() | self._pending_requests)

    def pause_seconds(self, now: float) -> float:
        """Seconds until anything may be asked for."""
        return max(0.0, self._paused_until - now)

    def pending_disruptions(self) -> dict[BudgetKey, int]:
        """By budget, what was asked for and what the reading does not know of."""
        self._disruptions = {
            uid: (budgets, number, answered)
            for uid, (budgets, number, answered) in self._disruptions.items()
            if answered is None or not self._was_read(budgets, answered)
        }
        found: dict[BudgetKey, int] = {}
        for budgets, number, _ in self._disruptions.values():
            for budget in budgets:
                found[budget] = found.get(budget, 0) + number
        return found

    def _was_read(self, budgets: tuple[BudgetKey, ...], answered: float) -> bool:
        """Whether all of these were read after that answer."""
        reading = self.snapshot
        return reading is not None and all(answered < reading.read_at(namespace) for namespace, _ in budgets)

    def budget_of(self, pod: RunningPod) -> BudgetKey | None:
        """The first budget that selects it, as far as was read; whom two select is never asked to go."""
        found = self.snapshot.index.selecting(pod.namespace, pod.labels) if self.snapshot is not None else ()
        return found[0].key if found else None

    def busy_budgets(self, reading: DrainSnapshot) -> frozenset[BudgetKey]:
        """Budgets that paused work of this drain takes from, or did until shortly before that reading."""
        return frozenset(
            key
            for key, at in self._busy_budgets_at.items()
            if reading.read_at(key[0]) <= at + BUDGET_SETTLE_SECONDS
        )

    @property
    def has_busy_budgets(self) -> bool:
        return bool(self._busy_budgets_at)

    def record_plan(
        self,
        plan: Plan,
        *,
        now: float,
        stuck: frozenset[str] = frozenset(),
        slow: frozenset[str] = frozenset(),
    ) -> None:
        """Take note of who is on their way; a budget settles once nobody of it is asked without its leave.

        `stuck`: UIDs of pods that have lost their places in flight; `slow`: the namespaces that are to blame.
        """
        self.delayed_pods, self.slow_namespaces = stuck, slow
        self.in_flight = sum(1 for pod in plan.leaving if pod.uid not in stuck)
        fresh = {key: at for key, at in self._busy_budgets_at.items() if at > now - SUSPEND_SECONDS}
        self._busy_budgets_at = fresh | dict.fromkeys(plan.busy_budgets | self._planned_busy_budgets, now)
        self._planned_busy_budgets = plan.busy_budgets
        self.started_gangs |= {
            (pod.namespace, pod.pod_group) for pod in plan.leaving if pod.pod_group and pod.workload is None
        }

    def record_snapshot(self, reading: DrainSnapshot) -> None:
        if self.snapshot is None:
            self._granted_at |= dict.fromkeys(reading.leaving, reading.at)
        self.snapshot = reading

    def record_pods(
        self, held: Collection[RunningPod], *, on_its_way: Callable[[str], bool], now: float
    ) -> None:
        """Of those evicted and suspended, the store knows by now who are on their way, or gone."""
        present = {runner.uid for runner in held} | {
            pod.workload.uid for pod in held if pod.workload is not None
        }
        self._granted_at = {
            uid: at
            for uid, at in self._granted_at.items()
            if uid in present and now < at + GRANTED_SECONDS and not on_its_way(uid)
        }

    def take_steps(self, plan: Plan, *, now: float, spare: int) -> tuple[list[Unit], float]:
        """The steps to be taken now, in their order; and the seconds after which more may be.

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

    def _is_slow(self, unit: Unit) -> bool:
        return unit.pods[0].namespace in self.slow_namespaces

    def _demand(self, wanted: int, *, flying: int) -> int:
        return max(flying, min(wanted, self.spec.in_flight or wanted))

    def take_cuts(self, units: Iterable[Unit], *, now: float) -> Iterator[Unit]:
        """Of these pods, which are terminating already, those whose grace periods are to be cut now.

        They have their places in flight, or have lost them; so only the rate counts.
        """
        for unit in units:
            if not self._bucket.ready(now):
                return
            if self._may_request(unit, now):
                self._bucket.take(1)
                yield unit

    def record_request(self, unit: Unit, *, now: float) -> None:
        """It is about to be asked to go."""
        if unit.action is not DrainAction.CUT_GRACE:
            self.in_flight += len(unit.pods)
        if unit.workload is not None:
            self._busy_budgets_at |= dict.fromkeys(unit.budgets, now)
        for uid, pods in _request_uids(unit):
            self._pending_requests.add(uid)
            self._disruptions[uid] = (unit.budgets, pods, None)

    def record_result(self, answer: RequestResult, *, now: float) -> None:
        uid = (
            answer.pod.uid
            if answer.pod is not None
            else answer.unit.workload.uid
            if answer.unit.workload
            else ""
        )
        self._pending_requests.discard(uid)
        asked = self._disruptions.pop(uid, None)
        namespace = answer.unit.pods[0].namespace
        match answer.outcome:
            case Outcome.GONE:
                self._record_success(answer, uid, now=now)
                if asked is not None:
                    self._disruptions[uid] = (asked[0], asked[1], now)
            case Outcome.BUSY:
                self._record_overload(namespace, retry_after=answer.retry_after, now=now)
                self._record_failure(uid, answer, now=now)
            case Outcome.UNANSWERED:
                self.unsuspendable.add(uid)
            case Outcome.SEVERAL_BUDGETS:
                self._record_failure(uid, answer, now=now, wait=MAX_RETRY_SECONDS)
            case Outcome.DROPPED:
                self._not_before[uid] = now + RETRY_SECONDS
            case _:
                self._record_failure(uid, answer, now=now)
        self.due = min(self.due, now)

    def _record_success(self, answer: RequestResult, uid: str, *, now: float) -> None:
        """The API server has granted it."""
        unit = answer.unit
        self._failures = 0
        self._failing_namespaces.clear()
        self._namespace_pauses.pop(unit.pods[0].namespace, None)
        self._failures_by_uid.pop(uid, None)
        if unit.action is DrainAction.CUT_GRACE:
            self._not_before[uid] = now + SUSPEND_SECONDS
            return
        if unit.workload is None or unit.workload.kind != VOLCANO:
            self._granted_at[uid] = now
        if unit.gang:
            self.started_gangs.add((unit.pods[0].namespace, unit.gang))
        if answer.pod is None and unit.workload is not None:
            self._not_before[uid] = now + SUSPEND_SECONDS
            if unit.workload.kind == VOLCANO:
                self.commanded_at[uid] = now

    def _record_overload(self, namespace: str, *, retry_after: float, now: float) -> None:
        """The API server is too busy for that namespace; where that is so of several, for all of them."""
        times = self._namespace_pauses.get(namespace, (0.0, 0))[1] + 1
        self._namespace_pauses[namespace] = now + _pause_after(times, retry_after=retry_after), times
        self._failures += 1
        self._failing_namespaces.add(namespace)
        if len(self._failing_namespaces) > 1:
            self._paused_until = now + _pause_after(self._failures, retry_after=retry_after)

    def _record_failure(self, uid: str, answer: RequestResult, *, now: float, wait: float = 0.0) -> None:
        """It is asked for again after a while, which grows; what it took of the rate is given back."""
        times = self._failures_by_uid.get(uid, (0, ""))[0] + 1
        self._failures_by_uid[uid] = (times, answer.message)
        by_budget = answer.outcome is Outcome.BUDGET and self._knows_budgets(answer)
        longest = MAX_BUDGET_RETRY_SECONDS if by_budget else MAX_RETRY_SECONDS
        self._not_before[uid] = now + max(wait, min(RETRY_SECONDS * 2.0 ** min(times - 1, 10), longest))
        self._bucket.take(-1)

    def _knows_budgets(self, answer: RequestResult) -> bool:
        """Whether they were read. If not, the eviction API looks through very many for each try."""
        pod = answer.pod or answer.unit.pods[0]
        return self.snapshot is None or not self.snapshot.index.excess(pod.namespace, pod.labels)

    def with_refusals(self, plan: Plan) -> Plan:
        """The plan with those that were refused again and again among the blocked, in the refusal's words."""
        blocks, steps = [], []
        for unit in plan.steps:
            said = self._refusal(unit)
            if said is None:
                steps.append(unit)
                continue
            message = f"refused again and again: {printable(said, limit=REFUSAL_LIMIT)}"
            blocks.append(
                BlockedUnit(unit=unit, reason=BlockerReason.REFUSED, blocker=str(unit), message=message)
            )
        if not blocks:
            return plan
        return msgspec.structs.replace(plan, steps=tuple(steps), blocked=(*plan.blocked, *blocks))

    def _refusal(self, unit: Unit) -> str | None:
        """What was said of it at the last of several failures in a row."""
        failed = (self._failures_by_uid.get(uid) for uid, _ in _request_uids(unit))
        return next((one[1] for one in failed if one is not None and one[0] >= REFUSALS_TO_BLOCK), None)

    def forget_absent(self, present: Collection[str]) -> None:
        """What is remembered of pods and work that are not there any more."""
        self._not_before = {uid: at for uid, at in self._not_before.items() if uid in present}
        self._failures_by_uid = {uid: one for uid, one in self._failures_by_uid.items() if uid in present}
        self.commanded_at = {uid: at for uid, at in self.commanded_at.items() if uid in present}

    def _budgets_known(self, unit: Unit) -> bool:
        """Whether the budgets of its namespace were read."""
        return self.snapshot is None or self.snapshot.knows(unit.pods[0].namespace)

    def _may_request(self, unit: Unit, now: float) -> bool:
        """Not where it was asked for and has not answered, or failed just now, or its budgets are unread."""
        namespace = unit.pods[0].namespace
        if self._namespace_pauses.get(namespace, (0.0, 0))[0] > now:
            return False
        return self._budgets_known(unit) and not any(
            uid in self._pending_requests or uid in self._granted_at or self._not_before.get(uid, 0.0) > now
            for uid, _ in _request_uids(unit)
        )


def _request_uids(unit: Unit) -> list[tuple[str, int]]:
    """The UID of each request that a unit takes, and how many pods go by it."""
    if unit.action in {DrainAction.SUSPEND, DrainAction.SUSPEND_ANYWAY} and unit.workload is not None:
        return [(unit.workload.uid, len(unit.pods))]
    return [(pod.uid, 1) for pod in unit.pods]


def _fits(size: int, *, flying: int, limit: int, spare: int) -> bool:
    """Whether a unit of so many pods may go beside those in flight. With none in flight any size may."""
    if not flying:
        return limit > 0 and spare > 0
    return flying + size <= limit and size <= spare


def _pause_after(times: int, *, retry_after: float) -> float:
    """Seconds after so many failures in a row."""
    return min(max(retry_after, 0.5 * 2.0 ** min(times, 10)), MAX_PAUSE_SECONDS)
