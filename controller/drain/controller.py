"""Queues that are emptied: HoldAndDrain.

A drain is all queues that one queue's policy drains (`QueueDecision.policy_by`): its own and those below
it that no nearer one drains. The spec of that queue count for all of them.

Once every replica refuses new pods, so that what is evicted does not come back elsewhere:

1. The budgets are read, and for those that would not let all go, the pods they count (`drain_reading`).
2. Who may go now is worked out from the members held (`runners`, `queues.drain.plan`).
3. As many as rate and number in flight allow are asked to go (`drain_shares`, `evicting`, `pausing`), each
   once; of pods that are terminating already the grace periods are cut where the drain says so.
4. What is left, kept and blocked is told (`queues.drain.progress`), pods that outstay their grace periods too
   (`queues.drain.terminating_pods`).

And again until nobody is left: after `STEP_SECONDS` where somebody comes or goes, after `READ_SECONDS` where
budgets are waited for.

Invariants
- Nothing that matters is remembered: who leads next finds the same by looking. What is counted is read back
  from `status.drain`; the first look asks the API server who is on its way already, so that nobody is evicted
  twice.
- A drain that has ended asks for nothing more, at once (`DrainRequests.asked`).
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
from controller.drain.accounts import DrainProgressTracker
from controller.drain.eviction import (
    DrainRequests,
    Outcome,
    RequestResult,
)
from controller.drain.executor import Drain
from controller.drain.fair_shares import share_limits, spare_places
from controller.drain.job_suspension import JobSuspension
from controller.drain.running_pods import RunningPodReader
from controller.drain.snapshot import (
    DrainReader,
    DrainSnapshot,
    ReadRequest,
    merge_requests,
)
from queues.drain.disruption_budgets import BudgetKey
from queues.drain.model import (
    DrainAction,
    DrainSpec,
    Plan,
    RunningPod,
    Unit,
    keep_rule,
    parse_drain_spec,
)
from queues.drain.plan import plan
from queues.drain.terminating_pods import (
    Delay,
    cut_grace,
    requested_grace,
)
from queues.snapshot import QueueSnapshot

STEP_SECONDS = 0.1
READ_SECONDS = 0.5
#: Where nothing but what can never go is left.
IDLE_SECONDS = 5.0
#: A step is followed by a rest of `REST_FACTOR` times its duration, at most `LONG_REST_SECONDS`, but at least
#: `LONG_REST_FACTOR` times its duration.
REST_FACTOR, LONG_REST_SECONDS, LONG_REST_FACTOR = 15.0, 0.5, 5.0

log = logging.getLogger(__name__)


class DrainController:
    """Owner: the controller's thread. `changed`: a queue is to be looked at again; from any thread."""

    def __init__(self, parts: ControllerContext, *, changed: Callable[[str], None]) -> None:
        self._parts = parts
        self._store = parts.store
        self._changed = changed
        self._requests = DrainRequests(parts, changed=changed)
        self.job_suspension = JobSuspension(parts, evicting=self._requests)
        self._board: QueueSnapshot | None = None
        self._drains: dict[str, Drain] = {}
        self._by_queue: dict[str, Drain] = {}
        self._read_results: SimpleQueue[tuple[tuple[str, ...], DrainSnapshot | None]] = SimpleQueue()
        #: What each drain wants to have read: all of it at once, and one reading after the other.
        self._read_requests: dict[str, ReadRequest] = {}
        self._read_pending = False
        self._reader = DrainReader(parts.client)
        #: Pods in flight in all drains but the one that is looked at.
        self._in_flight_of_others = 0
        self.progress = DrainProgressTracker(parts)

    def queue_changed(self, queue: str) -> None:
        """Something of the queue has changed."""
        drain = self._by_queue.get(queue)
        if drain is not None:
            drain.due = min(drain.due, drain.last_step_at + STEP_SECONDS)

    @property
    def due(self) -> float:
        """When it is to be looked at again, in monotonic seconds."""
        return min((drain.next_step_at for drain in self._drains.values()), default=math.inf)

    def step(self, *, seen_by_all: Callable[[int], bool]) -> set[str]:
        """Look at every drain whose time has come; the queues of which something else is to be told."""
        self._collect_results()
        self.job_suspension.report_resumed()
        self._follow_policies()
        told: set[str] = set()
        flying = sum(drain.in_flight for drain in self._drains.values())
        share_limits(
            self._drains.values(), rate=self._parts.drain_rate, in_flight=self._parts.drain_in_flight
        )
        for drain in self._drains.values():
            if drain.next_step_at <= self._now():
                self._in_flight_of_others = others = flying - drain.in_flight
                told |= self._step_isolated(drain, seen_by_all=seen_by_all)
                flying = others + drain.in_flight
        self._send_read()
        return told

    def is_draining(self, queue: str) -> bool:
        """Whether the queue drains, or did when drains were last looked at."""
        return self._store.snapshot.decision(queue).drains or self.progress.of(queue) is not None

    def forget(self) -> None:
        """We lead no longer: whoever does may have done anything meanwhile."""
        self._drains.clear()
        self._by_queue.clear()
        self.progress.keep_only(())
        self._read_requests.clear()
        self._board = None

    def _now(self) -> float:
        return self._store.clock.monotonic()

    def _follow_policies(self) -> None:
        """The drains of the present board."""
        board = self._store.snapshot
        if board is self._board:
            return
        self._board = board
        found = board.draining_queues()
        rate, now = self._parts.drain_rate, self._now()
        self._drains = {by: self._drains.get(by) or Drain(by, now=now, rate=rate) for by in found}
        self._by_queue = {queue: self._drains[by] for by, queues in found.items() for queue in queues}
        for by, drain in self._drains.items():
            drain.queues = tuple(found[by])
            drain.due = drain.rests_until = 0.0
        self.progress.keep_only(self._by_queue)

    def _step_isolated(self, drain: Drain, *, seen_by_all: Callable[[int], bool]) -> set[str]:
        """Look at one; what is wrong with it keeps no other waiting, nor does a long look."""
        began = self._now()
        try:
            return self._step_drain(drain, seen_by_all=seen_by_all)
        except ClusterError:
            raise
        except Exception:
            log.exception("the drain of queue %s", drain.by)
            drain.due = began + IDLE_SECONDS
            return set()
        finally:
            drain.rests_until = began + rest_after(self._now() - began, waited=bool(drain.spec.in_flight))

    def _step_drain(self, drain: Drain, *, seen_by_all: Callable[[int], bool]) -> set[str]:
        now = self._now()
        drain.last_step_at = now
        version = self._store.snapshot.resource_version
        if drain.acknowledged_version < version:
            if not seen_by_all(version):
                drain.due = now + STEP_SECONDS
                return set()
            drain.acknowledged_version = version
        obj = self._store.queues.get(drain.by)
        drain.set_spec(
            parse_drain_spec(obj.spec.drain) if obj is not None else DrainSpec(unreadable="it is gone")
        )
        seeing = RunningPodReader(
            store=self._store,
            queues=frozenset(drain.queues),
            requested=drain.requested_uids,
            unsuspendable=drain.unsuspendable,
            delayed=drain.delayed_pods,
            now=self._store.clock.now(),
        )
        held = list(seeing.pods())
        drain.record_pods(held, on_its_way=self._is_leaving, now=now)
        if now >= drain.requested_at + (READ_SECONDS if drain.all_budgets_known else STEP_SECONDS):
            self._read_requests[drain.by] = self._read_request(drain, held)
        if drain.snapshot is None:
            drain.expect_pods(len(held))
            drain.due = now + READ_SECONDS
            return set()
        found = plan(
            held,
            drain.snapshot.index,
            drain.spec,
            now=self._store.clock.now(),
            pending_disruptions=drain.pending_disruptions(),
            started_gangs=drain.started_gangs,
            busy_budgets=self._busy_budgets(drain.snapshot),
        )
        delays = self.progress.find_delays(drain, found)
        slow = frozenset(each.pod.namespace for each in delays.values() if each.delay is not Delay.NODE_GONE)
        drain.record_plan(found, stuck=frozenset(delays), slow=slow, now=now)
        wait = self._send_steps(drain, found)
        found = drain.with_refusals(found)
        drain.due = self._next_step_at(found, wait, stuck=len(delays))
        drain.forget_absent(
            {pod.uid for pod in held} | {pod.workload.uid for pod in held if pod.workload is not None}
        )
        return self.progress.record_progress(drain, found, delays)

    def _busy_budgets(self, reading: DrainSnapshot) -> frozenset[BudgetKey]:
        """Budgets that paused work of any drain takes from."""
        return frozenset().union(
            *(one.busy_budgets(reading) for one in self._drains.values() if one.has_busy_budgets)
        )

    def _next_step_at(self, found: Plan, wait: float, *, stuck: int) -> float:
        if not found.left:
            return math.inf
        rests = not found.steps and all(block.never for block in found.blocked)
        if rests and len(found.leaving) == stuck:
            return self._now() + IDLE_SECONDS
        return self._now() + max(STEP_SECONDS, min(wait, READ_SECONDS))

    def _send_steps(self, drain: Drain, found: Plan) -> float:
        """Ask for as many steps as may be; the seconds after which more may be."""
        now = self._now()
        paused = drain.pause_seconds(now)
        if paused:
            return paused
        self._cut_grace_periods(drain, found, now=now)
        flying = self._in_flight_of_others + drain.in_flight
        room = spare_places(flying, in_flight=self._parts.drain_in_flight)
        units, wait = drain.take_steps(found, now=now, spare=room)
        for unit in units:
            drain.record_request(unit, now=now)
            if unit.workload is not None and unit.workload.uid in drain.commanded_at:
                self.job_suspension.withdraw_command(drain.by, unit)  # nobody has taken the Command
            elif unit.action in {DrainAction.SUSPEND, DrainAction.SUSPEND_ANYWAY}:
                self.job_suspension.send(drain.by, unit)
            else:
                for pod in unit.pods:
                    self._send_pod(drain, unit, pod)
        return wait

    def _send_pod(self, drain: Drain, unit: Unit, pod: RunningPod) -> None:
        limit, budget = self._parts.drain_grace_limit, drain.budget_of(pod)
        grace = requested_grace(pod, drain.spec, delete=unit.action is DrainAction.DELETE, limit=limit)
        self._requests.send(drain.by, unit, pod, grace=grace, budget=budget)

    def _cut_grace_periods(self, drain: Drain, found: Plan, *, now: float) -> None:
        """Cut the grace periods of pods that are terminating, where the drain says so."""
        time, limit = self._store.clock.now(), self._parts.drain_grace_limit
        graces = {
            pod.uid: grace
            for pod in found.leaving
            if (grace := cut_grace(pod, drain.spec, now=time, limit=limit)) is not None
        }
        units = (
            Unit(action=DrainAction.CUT_GRACE, pods=(pod,)) for pod in found.leaving if pod.uid in graces
        )
        for unit in drain.take_cuts(units, now=now):
            drain.record_request(unit, now=now)
            pod = unit.pods[0]
            self._requests.send(drain.by, unit, pod, grace=graces[pod.uid])

    # What comes of it

    def _collect_results(self) -> None:
        while not self._read_results.empty():
            names, reading = self._read_results.get()
            self._read_pending = False
            for drain in (self._drains[by] for by in names if by in self._drains):
                if reading is not None:
                    drain.record_snapshot(reading)
                    drain.due = min(drain.due, drain.last_step_at + STEP_SECONDS)
        while not self._requests.answers.empty():
            self._record_result(self._requests.answers.get())

    def _record_result(self, answer: RequestResult) -> None:
        drain = self._drains.get(answer.drain)
        if drain is not None:
            drain.record_result(answer, now=self._now())
        if answer.outcome is Outcome.GONE:
            self.progress.count(answer)

    def _send_read(self) -> None:
        """Have read what is wanted, unless a reading is under way."""
        if self._read_pending or not self._read_requests:
            return
        names, asked = tuple(self._read_requests), merge_requests(self._read_requests.values())
        for drain in (self._drains[by] for by in names if by in self._drains):
            drain.requested_at = self._now()
        self._read_requests.clear()

        def send() -> None:
            reading = None
            try:
                reading = self._reader.read(asked)
            except ClusterError as exc:
                log.warning("the disruption budgets cannot be read: %s", exc)
            except Exception:  # whatever it is, it is not the last reading
                log.exception("the disruption budgets cannot be read")
            self._read_results.put((names, reading))
            self._changed(names[0])

        self._read_pending = self._parts.drain_writers.submit(("budgets", ""), send, rank=(0,))

    def _read_request(self, drain: Drain, held: list[RunningPod]) -> ReadRequest:
        going = {pod.uid: (pod.namespace, pod.labels) for pod in held if keep_rule(pod, drain.spec) is None}
        waiting, nodes, now = set(), set(), self._store.clock.now()
        for member in (member for queue in drain.queues for member in self._store.members.in_queue(queue)):
            if member.waiting:
                waiting.add(member.uid)
            elif member.leaves_at is not None and member.leaves_at < now:
                nodes.add(member.node)
        return ReadRequest(
            at=self._now(),
            unread=drain.queues if drain.snapshot is None else (),
            leaving_pods=going,
            waiting_pods=frozenset(waiting),
            nodes=frozenset(nodes),
        )

    def _is_leaving(self, uid: str) -> bool:
        member, work = self._store.members.by_uid(uid), self._store.workloads.by_uid(uid)
        return member.leaving if member is not None else work is None or work.paused


def rest_after(seconds: float, *, waited: bool = False) -> float:
    """How long nobody looks after a look that took so long: others have the interpreter meanwhile.

    `waited`: whoever leaves makes room for another, so that a long rest would slow the drain.
    """
    least = LONG_REST_FACTOR * seconds
    return least if waited else max(min(REST_FACTOR * seconds, LONG_REST_SECONDS), least)
