"""Queues that are emptied: HoldAndDrain.

A drain is all queues that one queue's policy drains (`QueueDecision.policy_by`): its own and those below
it that no nearer one drains. The wishes of that queue count for all of them.

Once every replica refuses new pods, so that what is evicted does not come back elsewhere:

1. The budgets are read, and for those that would not let all go, the pods they count (`drain_reading`).
2. Who may go now is worked out from the members held (`runners`, `queues.drain.plan`).
3. As many as rate and number in flight allow are asked to go (`drain_shares`, `evicting`, `pausing`), each
   once; of pods that are terminating already the grace periods are cut where the drain says so.
4. What is left, kept and blocked is told (`queues.drain.progress`), pods that outstay their grace periods too
   (`queues.drain.terminating_pods`).

And again until nobody is left: after `LOOK_SECONDS` where somebody comes or goes, after `READ_SECONDS` where
budgets are waited for.

Invariants
- Nothing that matters is remembered: who leads next finds the same by looking. What is counted is read back
  from `status.drain`; the first look asks the API server who is on its way already, so that nobody is evicted
  twice.
- A drain that has ended asks for nothing more, at once (`Evictions.asked`).
- What the API server is too busy for is asked for again after a pause that grows, nothing else of that
  namespace meanwhile.
- Whatever users make, one look and one reading take bounded work, and a drain leaves the others their shares.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from queue import SimpleQueue

from cluster.exceptions import ClusterError
from controller.context import ControllerContext
from controller.drain.accounts import DrainAccounts
from controller.drain.eviction import (
    Answer,
    Evictions,
    Outcome,
)
from controller.drain.executor import DrainExecutor
from controller.drain.fair_shares import share_limits, spare
from controller.drain.job_suspension import JobSuspension
from controller.drain.running_pods import RunningPods
from controller.drain.snapshot import (
    Asked,
    DrainReader,
    DrainSnapshot,
    together,
)
from queues.drain.disruption_budgets import Key
from queues.drain.model import (
    DrainSpec,
    How,
    Plan,
    RunningPod,
    Unit,
    drain_spec_of,
    rule_for,
)
from queues.drain.plan import plan
from queues.drain.terminating_pods import (
    Delay,
    cut_grace,
    given_grace,
)
from queues.snapshot import QueueSnapshot

LOOK_SECONDS = 0.1
READ_SECONDS = 0.5
#: Where nothing but what can never go is left.
IDLE_SECONDS = 5.0
#: A look is followed by a rest of so many times what it took, but of no more than `LONG_REST` seconds, unless
#: it took so long that fewer times that are more.
TIMES, LONG_REST, FEWER_TIMES = 15.0, 0.5, 5.0

log = logging.getLogger(__name__)


class DrainController:
    """Owner: the controller's thread. `changed`: a queue is to be looked at again; from any thread."""

    def __init__(self, parts: ControllerContext, *, changed: Callable[[str], None]) -> None:
        self._parts = parts
        self._store = parts.store
        self._changed = changed
        self._evicting = Evictions(parts, changed=changed)
        self.pausing = JobSuspension(parts, evicting=self._evicting)
        self._board: QueueSnapshot | None = None
        self._drains: dict[str, DrainExecutor] = {}
        self._of: dict[str, DrainExecutor] = {}
        self._readings: SimpleQueue[tuple[tuple[str, ...], DrainSnapshot | None]] = SimpleQueue()
        #: What each drain wants to have read: all of it at once, and one reading after the other.
        self._wanted: dict[str, Asked] = {}
        self._reading = False
        self._reader = DrainReader(parts.client)
        #: Pods in flight in all drains but the one that is looked at.
        self._flying_of_others = 0
        self.accounts = DrainAccounts(parts)

    def heard(self, queue: str) -> None:
        """Something of the queue has changed."""
        drain = self._of.get(queue)
        if drain is not None:
            drain.due = min(drain.due, drain.looked_at + LOOK_SECONDS)

    @property
    def due(self) -> float:
        """When it is to be looked at again, in monotonic seconds."""
        return min((drain.looks_at for drain in self._drains.values()), default=math.inf)

    def work(self, *, seen_by_all: Callable[[int], bool]) -> set[str]:
        """Look at every drain whose time has come; the queues of which something else is to be told."""
        self._collect()
        self.pausing.collect()
        self._follow()
        told: set[str] = set()
        flying = sum(drain.flying for drain in self._drains.values())
        share_limits(
            self._drains.values(), rate=self._parts.drain_rate, in_flight=self._parts.drain_in_flight
        )
        for drain in self._drains.values():
            if drain.looks_at <= self._now():
                self._flying_of_others = others = flying - drain.flying
                told |= self._looked(drain, seen_by_all=seen_by_all)
                flying = others + drain.flying
        self._read()
        return told

    def concerns(self, queue: str) -> bool:
        """Whether the queue drains, or did when drains were last looked at."""
        return self._store.board.ruling(queue).drains or self.accounts.of(queue) is not None

    def forget(self) -> None:
        """We lead no longer: whoever does may have done anything meanwhile."""
        self._drains.clear()
        self._of.clear()
        self.accounts.keep_only(())
        self._wanted.clear()
        self._board = None

    def _now(self) -> float:
        return self._store.clock.monotonic()

    def _follow(self) -> None:
        """The drains of the present board."""
        board = self._store.board
        if board is self._board:
            return
        self._board = board
        found = board.draining()
        rate, now = self._parts.drain_rate, self._now()
        self._drains = {by: self._drains.get(by) or DrainExecutor(by, now=now, rate=rate) for by in found}
        self._of = {queue: self._drains[by] for by, queues in found.items() for queue in queues}
        for by, drain in self._drains.items():
            drain.queues = tuple(found[by])
            drain.due = drain.rests_until = 0.0
        self.accounts.keep_only(self._of)

    def _looked(self, drain: DrainExecutor, *, seen_by_all: Callable[[int], bool]) -> set[str]:
        """Look at one; what is wrong with it keeps no other waiting, nor does a long look."""
        began = self._now()
        try:
            return self._look(drain, seen_by_all=seen_by_all)
        except ClusterError:
            raise
        except Exception:
            log.exception("the drain of queue %s", drain.by)
            drain.due = began + IDLE_SECONDS
            return set()
        finally:
            drain.rests_until = began + rest_after(self._now() - began, waited=bool(drain.wishes.in_flight))

    def _look(self, drain: DrainExecutor, *, seen_by_all: Callable[[int], bool]) -> set[str]:
        now = self._now()
        drain.looked_at = now
        version = self._store.board.seen
        if drain.agreed < version:
            if not seen_by_all(version):
                drain.due = now + LOOK_SECONDS
                return set()
            drain.agreed = version
        obj = self._store.queues.get(drain.by)
        drain.set_wishes(
            drain_spec_of(obj.spec.drain) if obj is not None else DrainSpec(unreadable="it is gone")
        )
        seeing = RunningPods(
            store=self._store,
            queues=frozenset(drain.queues),
            gone=drain.gone,
            unanswered=drain.unanswered,
            stuck=drain.stuck,
            now=self._store.clock.now(),
        )
        held = list(seeing.runners())
        drain.seen(held, on_its_way=self._is_on_its_way, now=now)
        if now >= drain.read_at + (READ_SECONDS if drain.knows_all else LOOK_SECONDS):
            self._wanted[drain.by] = self._asked(drain, held)
        if drain.reading is None:
            drain.expects(len(held))
            drain.due = now + READ_SECONDS
            return set()
        found = plan(
            held,
            drain.reading.index,
            drain.wishes,
            now=self._store.clock.now(),
            taken=drain.taken(),
            begun=drain.begun,
            busy=self._busy(drain.reading),
        )
        delays = self.accounts.delayed(drain, found)
        slow = frozenset(each.pod.namespace for each in delays.values() if each.delay is not Delay.NODE_GONE)
        drain.planned(found, stuck=frozenset(delays), slow=slow, now=now)
        wait = self._take(drain, found)
        found = drain.told(found)
        drain.due = self._next(found, wait, stuck=len(delays))
        drain.forget({pod.uid for pod in held} | {pod.work.uid for pod in held if pod.work is not None})
        return self.accounts.tell(drain, found, delays)

    def _busy(self, reading: DrainSnapshot) -> frozenset[Key]:
        """Budgets that paused work of any drain takes from."""
        return frozenset().union(*(one.busy(reading) for one in self._drains.values() if one.has_busy))

    def _next(self, found: Plan, wait: float, *, stuck: int) -> float:
        if not found.left:
            return math.inf
        rests = not found.steps and all(block.never for block in found.blocked)
        if rests and len(found.leaving) == stuck:
            return self._now() + IDLE_SECONDS
        return self._now() + max(LOOK_SECONDS, min(wait, READ_SECONDS))

    def _take(self, drain: DrainExecutor, found: Plan) -> float:
        """Ask for as many steps as may be; the seconds after which more may be."""
        now = self._now()
        paused = drain.paused(now)
        if paused:
            return paused
        self._cut(drain, found, now=now)
        flying = self._flying_of_others + drain.flying
        room = spare(flying, in_flight=self._parts.drain_in_flight)
        units, wait = drain.sendable(found, now=now, spare=room)
        for unit in units:
            drain.asking(unit, now=now)
            if unit.work is not None and unit.work.uid in drain.commanded:
                self.pausing.withdraw(drain.by, unit)  # nobody has taken the Command
            elif unit.how in {How.SUSPEND, How.SUSPEND_ANYWAY}:
                self.pausing.send(drain.by, unit)
            else:
                for pod in unit.pods:
                    self._send(drain, unit, pod)
        return wait

    def _send(self, drain: DrainExecutor, unit: Unit, pod: RunningPod) -> None:
        limit, budget = self._parts.drain_grace_limit, drain.budget_of(pod)
        grace = given_grace(pod, drain.wishes, delete=unit.how is How.DELETE, limit=limit)
        self._evicting.send(drain.by, unit, pod, grace=grace, budget=budget)

    def _cut(self, drain: DrainExecutor, found: Plan, *, now: float) -> None:
        """Cut the grace periods of pods that are terminating, where the drain says so."""
        time, limit = self._store.clock.now(), self._parts.drain_grace_limit
        graces = {
            pod.uid: grace
            for pod in found.leaving
            if (grace := cut_grace(pod, drain.wishes, now=time, limit=limit)) is not None
        }
        units = (Unit(how=How.CUT_GRACE, pods=(pod,)) for pod in found.leaving if pod.uid in graces)
        for unit in drain.to_cut(units, now=now):
            drain.asking(unit, now=now)
            pod = unit.pods[0]
            self._evicting.send(drain.by, unit, pod, grace=graces[pod.uid])

    # What comes of it

    def _collect(self) -> None:
        while not self._readings.empty():
            names, reading = self._readings.get()
            self._reading = False
            for drain in (self._drains[by] for by in names if by in self._drains):
                if reading is not None:
                    drain.read(reading)
                    drain.due = min(drain.due, drain.looked_at + LOOK_SECONDS)
        while not self._evicting.answers.empty():
            self._answered(self._evicting.answers.get())

    def _answered(self, answer: Answer) -> None:
        drain = self._drains.get(answer.drain)
        if drain is not None:
            drain.answered(answer, now=self._now())
        if answer.outcome is Outcome.GONE:
            self.accounts.count(answer)

    def _read(self) -> None:
        """Have read what is wanted, unless a reading is under way."""
        if self._reading or not self._wanted:
            return
        names, asked = tuple(self._wanted), together(self._wanted.values())
        for drain in (self._drains[by] for by in names if by in self._drains):
            drain.read_at = self._now()
        self._wanted.clear()

        def send() -> None:
            reading = None
            try:
                reading = self._reader.read(asked)
            except ClusterError as exc:
                log.warning("the disruption budgets cannot be read: %s", exc)
            except Exception:  # whatever it is, it is not the last reading
                log.exception("the disruption budgets cannot be read")
            self._readings.put((names, reading))
            self._changed(names[0])

        self._reading = self._parts.drain_writers.submit(("budgets", ""), send, rank=(0,))

    def _asked(self, drain: DrainExecutor, held: list[RunningPod]) -> Asked:
        going = {pod.uid: (pod.namespace, pod.labels) for pod in held if rule_for(pod, drain.wishes) is None}
        waiting, nodes, now = set(), set(), self._store.clock.now()
        for member in (member for queue in drain.queues for member in self._store.members.of(queue)):
            if member.waiting:
                waiting.add(member.uid)
            elif member.leaves_at is not None and member.leaves_at < now:
                nodes.add(member.node)
        return Asked(
            at=self._now(),
            unread=drain.queues if drain.reading is None else (),
            going=going,
            waiting=frozenset(waiting),
            nodes=frozenset(nodes),
        )

    def _is_on_its_way(self, uid: str) -> bool:
        member, work = self._store.members.by_uid(uid), self._store.workloads.by_uid(uid)
        return member.leaving if member is not None else work is None or work.paused


def rest_after(seconds: float, *, waited: bool = False) -> float:
    """How long nobody looks after a look that took so long: others have the interpreter meanwhile.

    `waited`: whoever leaves makes room for another, so that a long rest would slow the drain.
    """
    least = FEWER_TIMES * seconds
    return least if waited else max(min(TIMES * seconds, LONG_REST), least)
