"""One drain: what was asked for, what is on its way, and how much more may be asked for.

Owner: the controller's thread. Times are monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from controller.bucket import Bucket
from controller.drain_reading import Reading
from controller.evicting import Answer, Outcome
from controller.runners import VOLCANO
from queues.budgets import Key
from queues.draining import Block, Hindrance, How, Plan, Runner, Unit, Wishes
from queues.showing import shown

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


class Drain:
    """All queues that the policy of queue `by` drains."""

    def __init__(self, by: str, *, now: float) -> None:
        self.by = by
        self.queues: tuple[str, ...] = ()
        self.wishes = Wishes()
        #: Up to which version of the queues every replica is known to refuse their pods.
        self.agreed = -1
        self.reading: Reading | None = None
        #: When it was asked for last.
        self.read_at = float("-inf")
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
        self._bucket = Bucket(0.0, now=now)
        #: UIDs of pods and work with a request under way.
        self._under_way: set[str] = set()
        #: UIDs of pods that were evicted and of work that was suspended, while the store does not know it.
        self._gone: set[str] = set()
        #: Disruptions asked for: budget, how many, and when the answer came.
        self._asked: dict[str, tuple[tuple[Key, ...], int, float | None]] = {}
        self._not_before: dict[str, float] = {}
        #: By UID, how often in a row it failed, and what was said last.
        self._failed: dict[str, tuple[int, str]] = {}
        self._paused_until = 0.0
        self._failures = 0
        #: When each budget was last seen to be taken from by paused work.
        self._busy_at: dict[Key, float] = {}
        self._busy: frozenset[Key] = frozenset()
        #: Pods on their way, as of the last look, without those that do not get on; these, by UID.
        self.flying = 0
        self.stuck: frozenset[str] = frozenset()

    @property
    def looks_at(self) -> float:
        """When it is to be looked at."""
        return max(self.due, self.rests_until)

    def set_wishes(self, wishes: Wishes) -> None:
        self.wishes = wishes
        self._bucket.set_rate(wishes.rate)

    @property
    def gone(self) -> frozenset[str]:
        """UIDs of the pods and the work that were asked to go, as far as the store does not know that yet."""
        return frozenset(self._gone | self._under_way)

    def paused(self, now: float) -> float:
        """Seconds until anything may be asked for."""
        return max(0.0, self._paused_until - now)

    def taken(self) -> dict[Key, int]:
        """By budget, what was asked for and what the reading does not know of."""
        since = self.reading.at if self.reading is not None else 0.0
        self._asked = {uid: one for uid, one in self._asked.items() if one[2] is None or one[2] >= since}
        found: dict[Key, int] = {}
        for budgets, number, _ in self._asked.values():
            for budget in budgets:
                found[budget] = found.get(budget, 0) + number
        return found

    def budget_of(self, pod: Runner) -> Key | None:
        """The first budget that selects it, as far as was read; whom two select is never asked to go."""
        found = self.reading.index.of(pod.namespace, pod.labels) if self.reading is not None else ()
        return found[0].key if found else None

    def busy(self, reading: Reading) -> frozenset[Key]:
        """Budgets that paused work of this drain takes from, or did until shortly before that reading."""
        return frozenset(key for key, at in self._busy_at.items() if reading.at <= at + SETTLE_SECONDS)

    @property
    def has_busy(self) -> bool:
        return bool(self._busy_at)

    def planned(self, plan: Plan, *, now: float, stuck: frozenset[str] = frozenset()) -> None:
        """Take note of who is on their way; a budget settles once nobody of it is asked without its leave."""
        self.stuck = stuck
        self.flying = sum(1 for pod in plan.leaving if pod.uid not in stuck)
        fresh = {key: at for key, at in self._busy_at.items() if at > now - ANSWER_SECONDS}
        self._busy_at = fresh | dict.fromkeys(plan.busy | self._busy, now)
        self._busy = plan.busy
        self.begun |= {(pod.namespace, pod.group) for pod in plan.leaving if pod.group and pod.work is None}

    def read(self, reading: Reading) -> None:
        if self.reading is None:
            self._gone |= reading.leaving
        self.reading = reading

    def seen(self, held: Collection[Runner], *, on_its_way: Callable[[str], bool]) -> None:
        """Of those evicted and suspended, the store knows by now who is on their way, or gone."""
        present = {runner.uid for runner in held} | {pod.work.uid for pod in held if pod.work is not None}
        self._gone = {uid for uid in self._gone if uid in present and not on_its_way(uid)}

    def sendable(
        self, plan: Plan, *, now: float, room: int, server: Bucket, crowded: bool = False
    ) -> tuple[list[Unit], float]:
        """The steps to be taken now, in their order; and the seconds after which more may be.

        `room`: pods that the server may still have in flight; `crowded`: somebody is in flight already.
        """
        found: list[Unit] = []
        flying = sum(1 for pod in plan.leaving if pod.uid not in self.stuck)
        limit = self.wishes.in_flight or flying + room + sum(len(unit.pods) for unit in plan.steps)
        for unit in plan.steps:
            if self._waits(unit, now):
                continue
            size = len(unit.pods)
            if (flying and flying + size > limit) or (crowded and size > room):
                break
            if not self._bucket.ready(now) or not server.ready(now):
                return found, max(self._bucket.wait(), server.wait())
            for bucket in (self._bucket, server):
                bucket.take(size)
            found.append(unit)
            flying, room = flying + size, room - size
        return found, 0.0

    def asking(self, unit: Unit, *, now: float) -> None:
        """It is about to be asked to go."""
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
        match answer.outcome:
            case Outcome.GONE:
                self._failures = 0
                if answer.unit.work is None or answer.unit.work.kind != VOLCANO:
                    self._gone.add(uid)
                if answer.unit.gang:
                    self.begun.add((answer.unit.pods[0].namespace, answer.unit.gang))
                self._failed.pop(uid, None)
                if answer.pod is None and answer.unit.work is not None:
                    self._not_before[uid] = now + ANSWER_SECONDS
                    if answer.unit.work.kind == VOLCANO:
                        self.commanded[uid] = now
                if asked is not None:
                    self._asked[uid] = (asked[0], asked[1], now)
            case Outcome.BUSY:
                self._failures += 1
                wait = max(answer.retry_after, 0.5 * 2.0 ** min(self._failures, 10))
                self._paused_until = now + min(wait, LONGEST_PAUSE)
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

    def _failure(self, uid: str, answer: Answer, *, now: float, wait: float = 0.0) -> None:
        """It is asked for again after a while, which grows; what it took of the rate is given back."""
        times = self._failed.get(uid, (0, ""))[0] + 1
        self._failed[uid] = (times, answer.message)
        longest = BUDGET_SECONDS if answer.outcome is Outcome.BUDGET else LONGEST_WAIT
        self._not_before[uid] = now + max(wait, min(AGAIN_SECONDS * 2.0 ** min(times - 1, 10), longest))
        self._bucket.take(-1)

    def told(self, plan: Plan) -> Plan:
        """The plan with those that were refused again and again among the blocked, in the refusal's words."""
        blocks, steps = [], []
        for unit in plan.steps:
            said = self._said(unit)
            if said is None:
                steps.append(unit)
                continue
            message = f"refused again and again: {shown(said, limit=SAID_LIMIT)}"
            blocks.append(Block(unit=unit, hindrance=Hindrance.REFUSED, by=str(unit), message=message))
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

    def _waits(self, unit: Unit, now: float) -> bool:
        """Whether it was asked for and has not answered, or failed just now."""
        return any(
            uid in self._under_way or uid in self._gone or self._not_before.get(uid, 0.0) > now
            for uid, _ in _requests(unit)
        )


def _requests(unit: Unit) -> list[tuple[str, int]]:
    """The UID of each request that a unit takes, and how many pods go by it."""
    if unit.how in {How.SUSPEND, How.SUSPEND_ANYWAY} and unit.work is not None:
        return [(unit.work.uid, len(unit.pods))]
    return [(pod.uid, 1) for pod in unit.pods]
