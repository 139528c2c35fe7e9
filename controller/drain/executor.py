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

from controller.drain.eviction import Answer, Outcome
from controller.drain.rate_limit import TokenBucket
from controller.drain.running_pods import VOLCANO
from controller.drain.snapshot import DrainSnapshot
from queues.apimachinery.display import printable
from queues.drain.disruption_budgets import Key
from queues.drain.model import (
    Block,
    BlockerReason,
    DrainSpec,
    How,
    Plan,
    RunningPod,
    Unit,
)

#: A request that failed is not repeated for so long.
AGAIN_SECONDS = 1.0
#: Where it fails again and again, for longer and longer, up to this; what a budget refuses, up to that.
LONGEST_WAIT = 60.0
BUDGET_SECONDS = 4.0
#: Failures in a row after which one is told of; characters of what was said.
REPEATED = 2
SAID_LIMIT = 300
LONGEST_PAUSE = 30.0
#: How long it takes at most until suspended work is seen to be, and until a Command is taken.
ANSWER_SECONDS = 10.0
#: How long the status of a budget takes to follow its pods.
SETTLE_SECONDS = 0.3
#: How long a granted eviction may take to show in the cache, before it counts as not granted.
GRANTED_SECONDS = 60.0


class DrainExecutor:
    """All queues that the policy of queue `by` drains."""

    def __init__(self, by: str, *, now: float, rate: float) -> None:
        """`rate`: the server's limit, of which it has a share."""
        self.by = by
        self.queues: tuple[str, ...] = ()
        self.wishes = DrainSpec()
        #: Up to which version of the queues every replica is known to refuse their pods.
        self.agreed = -1
        self.reading: DrainSnapshot | None = None
        #: When it was asked for last; whether the budgets of all units were read by then.
        self.read_at = float("-inf")
        self.knows_all = True
        #: When to look again; infinity is "when something is heard".
        self.due = 0.0
        self.looked_at = 0.0
        #: No look is taken before, whatever has come: the last one took long.
        self.rests_until = 0.0
        #: Gangs that pods were evicted from, by namespace and name.
        self.begun: set[Key] = set()
        #: UIDs of work that nobody suspends, and since when a Command waits for somebody.
        self.unanswered: set[str] = set()
        self.commanded: dict[str, float] = {}
        self._bucket = TokenBucket(rate, now=now)
        #: UIDs of pods and work with a request under way.
        self._under_way: set[str] = set()
        #: UIDs of pods that were evicted and of work that was suspended, while the store does not know it.
        #: With the time from which on the store should.
        self._gone: dict[str, float] = {}
        #: Disruptions asked for: budget, how many, and when the answer came.
        self._asked: dict[str, tuple[tuple[Key, ...], int, float | None]] = {}
        self._not_before: dict[str, float] = {}
        #: By UID, how often in a row it failed, and what was said last.
        self._failed: dict[str, tuple[int, str]] = {}
        self._paused_until = 0.0
        self._failures = 0
        #: Namespaces whose requests the API server was too busy for since the last one that succeeded.
        self._failing: set[str] = set()
        #: By namespace: until when nothing is asked for in it, and how often in a row it failed.
        self._quiet: dict[str, tuple[float, int]] = {}
        #: When each budget was last seen to be taken from by paused work.
        self._busy_at: dict[Key, float] = {}
        self._busy: frozenset[Key] = frozenset()
        #: Pods on their way, as of the last look, without those that do not get on; these, by UID.
        self.flying = 0
        self.stuck: frozenset[str] = frozenset()
        #: Namespaces of pods that are to blame for that.
        self.slow: frozenset[str] = frozenset()
        #: Pods that it had in flight or might have asked for, as of the last look; whether any might go.
        self.demand = 0
        self.active = False
        #: Its shares of the server's limits: pods in flight, and evictions a second.
        self.share = 0
        self._rate = rate
        #: When a unit was last sent.
        self.sent_at = float("-inf")

    @property
    def looks_at(self) -> float:
        """When it is to be looked at."""
        return max(self.due, self.rests_until)

    def set_wishes(self, wishes: DrainSpec) -> None:
        if wishes.rate and not self.wishes.rate:
            self._bucket.empty(1.0)
        self.wishes = wishes
        self.set_shares(in_flight=self.share, rate=self._rate)

    def set_shares(self, *, in_flight: int, rate: float) -> None:
        """Its shares of the server's limits; `rate` is more than 0."""
        self.share, self._rate = in_flight, rate
        self._bucket.set_rate(min(self.wishes.rate or rate, rate))

    def expects(self, number: int) -> None:
        """So many pods are to go, and nothing was planned yet."""
        self.demand, self.active = self._demand(number, flying=0), number > 0

    @property
    def gone(self) -> frozenset[str]:
        """UIDs of the pods and the work that were asked to go, as far as the store does not know that yet."""
        return frozenset(self._gone.keys() | self._under_way)

    def paused(self, now: float) -> float:
        """Seconds until anything may be asked for."""
        return max(0.0, self._paused_until - now)

    def taken(self) -> dict[Key, int]:
        """By budget, what was asked for and what the reading does not know of."""
        self._asked = {
            uid: (budgets, number, answered)
            for uid, (budgets, number, answered) in self._asked.items()
            if answered is None or not self._was_read(budgets, answered)
        }
        found: dict[Key, int] = {}
        for budgets, number, _ in self._asked.values():
            for budget in budgets:
                found[budget] = found.get(budget, 0) + number
        return found

    def _was_read(self, budgets: tuple[Key, ...], answered: float) -> bool:
        """Whether all of these were read after that answer."""
        reading = self.reading
        return reading is not None and all(answered < reading.read_at(namespace) for namespace, _ in budgets)

    def budget_of(self, pod: RunningPod) -> Key | None:
        """The first budget that selects it, as far as was read; whom two select is never asked to go."""
        found = self.reading.index.of(pod.namespace, pod.labels) if self.reading is not None else ()
        return found[0].key if found else None

    def busy(self, reading: DrainSnapshot) -> frozenset[Key]:
        """Budgets that paused work of this drain takes from, or did until shortly before that reading."""
        return frozenset(
            key for key, at in self._busy_at.items() if reading.read_at(key[0]) <= at + SETTLE_SECONDS
        )

    @property
    def has_busy(self) -> bool:
        return bool(self._busy_at)

    def planned(
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
        self.stuck, self.slow = stuck, slow
        self.flying = sum(1 for pod in plan.leaving if pod.uid not in stuck)
        fresh = {key: at for key, at in self._busy_at.items() if at > now - ANSWER_SECONDS}
        self._busy_at = fresh | dict.fromkeys(plan.busy | self._busy, now)
        self._busy = plan.busy
        self.begun |= {(pod.namespace, pod.group) for pod in plan.leaving if pod.group and pod.work is None}

    def read(self, reading: DrainSnapshot) -> None:
        if self.reading is None:
            self._gone |= dict.fromkeys(reading.leaving, reading.at)
        self.reading = reading

    def seen(self, held: Collection[RunningPod], *, on_its_way: Callable[[str], bool], now: float) -> None:
        """Of those evicted and suspended, the store knows by now who are on their way, or gone."""
        present = {runner.uid for runner in held} | {pod.work.uid for pod in held if pod.work is not None}
        self._gone = {
            uid: at
            for uid, at in self._gone.items()
            if uid in present and now < at + GRANTED_SECONDS and not on_its_way(uid)
        }

    def sendable(self, plan: Plan, *, now: float, spare: int) -> tuple[list[Unit], float]:
        """The steps to be taken now, in their order; and the seconds after which more may be.

        `spare`: pods that all drains together may still have in flight.
        """
        units: list[Unit] = []
        places = [pod for pod in plan.leaving if pod.uid not in self.stuck]
        flying, slowly = len(places), sum(1 for pod in places if pod.namespace in self.slow)
        ready = [unit for unit in plan.steps if self._may_ask(unit, now)]
        self.knows_all = all(self._knows(unit) for unit in plan.steps)
        self.active = bool(ready)
        self.demand = self._demand(flying + sum(len(unit.pods) for unit in ready), flying=flying)
        limit = min(self.wishes.in_flight or self.share, self.share)
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
            self.sent_at = now
            flying, spare, slowly = flying + size, spare - size, slowly + size * slow
        return units, 0.0

    def _is_slow(self, unit: Unit) -> bool:
        return unit.pods[0].namespace in self.slow

    def _demand(self, wanted: int, *, flying: int) -> int:
        return max(flying, min(wanted, self.wishes.in_flight or wanted))

    def to_cut(self, units: Iterable[Unit], *, now: float) -> Iterator[Unit]:
        """Of these pods, which are terminating already, those whose grace periods are to be cut now.

        They have their places in flight, or have lost them; so only the rate counts.
        """
        for unit in units:
            if not self._bucket.ready(now):
                return
            if self._may_ask(unit, now):
                self._bucket.take(1)
                yield unit

    def asking(self, unit: Unit, *, now: float) -> None:
        """It is about to be asked to go."""
        if unit.how is not How.CUT_GRACE:
            self.flying += len(unit.pods)
        if unit.work is not None:
            self._busy_at |= dict.fromkeys(unit.budgets, now)
        for uid, pods in _requests(unit):
            self._under_way.add(uid)
            self._asked[uid] = (unit.budgets, pods, None)

    def answered(self, answer: Answer, *, now: float) -> None:
        uid = answer.pod.uid if answer.pod is not None else answer.unit.work.uid if answer.unit.work else ""
        self._under_way.discard(uid)
        asked = self._asked.pop(uid, None)
        namespace = answer.unit.pods[0].namespace
        match answer.outcome:
            case Outcome.GONE:
                self._succeeded(answer, uid, now=now)
                if asked is not None:
                    self._asked[uid] = (asked[0], asked[1], now)
            case Outcome.BUSY:
                self._pause(namespace, retry_after=answer.retry_after, now=now)
                self._failure(uid, answer, now=now)
            case Outcome.UNANSWERED:
                self.unanswered.add(uid)
            case Outcome.SEVERAL_BUDGETS:
                self._failure(uid, answer, now=now, wait=LONGEST_WAIT)
            case Outcome.DROPPED:
                self._not_before[uid] = now + AGAIN_SECONDS
            case _:
                self._failure(uid, answer, now=now)
        self.due = min(self.due, now)

    def _succeeded(self, answer: Answer, uid: str, *, now: float) -> None:
        """The API server has granted it."""
        unit = answer.unit
        self._failures = 0
        self._failing.clear()
        self._quiet.pop(unit.pods[0].namespace, None)
        self._failed.pop(uid, None)
        if unit.how is How.CUT_GRACE:
            self._not_before[uid] = now + ANSWER_SECONDS
            return
        if unit.work is None or unit.work.kind != VOLCANO:
            self._gone[uid] = now
        if unit.gang:
            self.begun.add((unit.pods[0].namespace, unit.gang))
        if answer.pod is None and unit.work is not None:
            self._not_before[uid] = now + ANSWER_SECONDS
            if unit.work.kind == VOLCANO:
                self.commanded[uid] = now

    def _pause(self, namespace: str, *, retry_after: float, now: float) -> None:
        """The API server is too busy for that namespace; where that is so of several, for all of them."""
        times = self._quiet.get(namespace, (0.0, 0))[1] + 1
        self._quiet[namespace] = now + _pause_after(times, retry_after=retry_after), times
        self._failures += 1
        self._failing.add(namespace)
        if len(self._failing) > 1:
            self._paused_until = now + _pause_after(self._failures, retry_after=retry_after)

    def _failure(self, uid: str, answer: Answer, *, now: float, wait: float = 0.0) -> None:
        """It is asked for again after a while, which grows; what it took of the rate is given back."""
        times = self._failed.get(uid, (0, ""))[0] + 1
        self._failed[uid] = (times, answer.message)
        by_budget = answer.outcome is Outcome.BUDGET and self._knows_budgets(answer)
        longest = BUDGET_SECONDS if by_budget else LONGEST_WAIT
        self._not_before[uid] = now + max(wait, min(AGAIN_SECONDS * 2.0 ** min(times - 1, 10), longest))
        self._bucket.take(-1)

    def _knows_budgets(self, answer: Answer) -> bool:
        """Whether they were read. If not, the eviction API looks through very many for each try."""
        pod = answer.pod or answer.unit.pods[0]
        return self.reading is None or not self.reading.index.excess(pod.namespace, pod.labels)

    def told(self, plan: Plan) -> Plan:
        """The plan with those that were refused again and again among the blocked, in the refusal's words."""
        blocks, steps = [], []
        for unit in plan.steps:
            said = self._said(unit)
            if said is None:
                steps.append(unit)
                continue
            message = f"refused again and again: {printable(said, limit=SAID_LIMIT)}"
            blocks.append(Block(unit=unit, hindrance=BlockerReason.REFUSED, by=str(unit), message=message))
        if not blocks:
            return plan
        return msgspec.structs.replace(plan, steps=tuple(steps), blocked=(*plan.blocked, *blocks))

    def _said(self, unit: Unit) -> str | None:
        """What was said of it at the last of several failures in a row."""
        failed = (self._failed.get(uid) for uid, _ in _requests(unit))
        return next((one[1] for one in failed if one is not None and one[0] >= REPEATED), None)

    def forget(self, present: Collection[str]) -> None:
        """What is remembered of pods and work that are not there any more."""
        self._not_before = {uid: at for uid, at in self._not_before.items() if uid in present}
        self._failed = {uid: one for uid, one in self._failed.items() if uid in present}
        self.commanded = {uid: at for uid, at in self.commanded.items() if uid in present}

    def _knows(self, unit: Unit) -> bool:
        """Whether the budgets of its namespace were read."""
        return self.reading is None or self.reading.knows(unit.pods[0].namespace)

    def _may_ask(self, unit: Unit, now: float) -> bool:
        """Not where it was asked for and has not answered, or failed just now, or its budgets are unread."""
        namespace = unit.pods[0].namespace
        if self._quiet.get(namespace, (0.0, 0))[0] > now:
            return False
        return self._knows(unit) and not any(
            uid in self._under_way or uid in self._gone or self._not_before.get(uid, 0.0) > now
            for uid, _ in _requests(unit)
        )


def _requests(unit: Unit) -> list[tuple[str, int]]:
    """The UID of each request that a unit takes, and how many pods go by it."""
    if unit.how in {How.SUSPEND, How.SUSPEND_ANYWAY} and unit.work is not None:
        return [(unit.work.uid, len(unit.pods))]
    return [(pod.uid, 1) for pod in unit.pods]


def _fits(size: int, *, flying: int, limit: int, spare: int) -> bool:
    """Whether a unit of so many pods may go beside those in flight. With none in flight any size may."""
    if not flying:
        return limit > 0 and spare > 0
    return flying + size <= limit and size <= spare


def _pause_after(times: int, *, retry_after: float) -> float:
    """Seconds after so many failures in a row."""
    return min(max(retry_after, 0.5 * 2.0 ** min(times, 10)), LONGEST_PAUSE)
