"""Drains, step by step.

A drain covers all queues that are drained by the policy of one queue (`QueueDecision.policy_by`): this
queue, and those below it for which no nearer policy decides. The `spec.drain` of this queue holds for all of
them. A drain takes its first step once every replica refuses new pods of its queues, so that no evicted pod
is started elsewhere.

A step:

1. Snapshot. The running pods are read from the cache (`running_pods`), the budgets by a writer's thread from
   the API server (`snapshot`).
2. Plan. `queues.drain.plan` decides from both what may go now.
3. Execute. As many units as the limits allow are sent (`eviction`, `job_suspension`, `scaling`), each once.
   Grace periods of terminating pods are cut where the drain says so.
4. Account. Results come back by the controller's work queue, and are recorded before the next step (`state`).
5. Status. What is left, kept, blocked and delayed is handed to the status of each queue
   (`queues.drain.progress`).

The next step is due after `STEP_SECONDS` where pods come or go, after `READ_SECONDS` where budgets are waited
for.

Invariants
- A drain that has ended sends no further request, at once (`DrainRequests.check_drains`).
- A queue is not Drained before its requests are answered, so that its counts are complete then.
- What is evicted counts for a quota until it is gone; its queue is released nothing before the drain ends.
- A step that fails, or takes long, delays its own drain alone.
- Whatever users make, one step and one read take bounded work, and a drain leaves the others their shares.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Container
from datetime import datetime

import msgspec

from cluster.cache.changes import QueueChange
from cluster.cache.workloads import Workload
from cluster.exceptions import ClusterError
from cluster.write_ranks import WriteRank
from controller.context import ControllerContext
from controller.drain.eviction import DrainRequests, record_delay
from controller.drain.job_suspension import JobSuspension
from controller.drain.limits import share_limits, spare_places
from controller.drain.request_states import OF_WORKLOAD
from controller.drain.running_pods import UNKNOWN_OWNER_WAIT, RunningPodReader, gang_minimums
from controller.drain.snapshot import (
    DrainSnapshot,
    ReadRequest,
    ReadResult,
    merge_requests,
    read_snapshot,
)
from controller.drain.state import READ_SECONDS, STEP_SECONDS, Drains, DrainState, uids
from controller.parts import Part
from queues.apimachinery.conversion import Converter
from queues.drain.broken_gangs import broken_gangs, stays
from queues.drain.disruption_budgets import BudgetKey
from queues.drain.model import (
    DrainAction,
    DrainSpec,
    KeepRule,
    Plan,
    RunningPod,
    Unit,
    parse_drain_spec,
)
from queues.drain.plan import plan
from queues.drain.progress import DrainCounts, QueueProgress, progress_by_queue
from queues.drain.terminating_pods import DelayedPod, cut_grace, find_delays, requested_grace
from queues.snapshot import QueueSnapshot
from queues.windows.drains import drain_in_force

#: When the next step is due where nothing but blocked and delayed pods is left.
IDLE_SECONDS = 5.0

log = logging.getLogger(__name__)

_stored_counts = Converter[DrainCounts | None](DrainCounts | None)


class DrainController(Part):
    """Owner: the controller's thread, which owns the state of all drains (`state.Drains`) too."""

    name = "drains"

    def __init__(self, context: ControllerContext, *, demand_version_of_all: Callable[[int], bool]) -> None:
        """`demand_version_of_all`: whether every live replica has the queues of a version."""
        self._demand_version_of_all = demand_version_of_all
        self._context = context
        self._store = context.store
        self._drains = Drains()
        self._requests = DrainRequests(context, self._drains)
        self._suspension = JobSuspension(context, self._requests)
        #: The snapshot of the queues that the drains were made for.
        self._snapshot: QueueSnapshot | None = None
        #: The queues whose progress has changed since `take_progressed` was called last.
        self._progressed: set[str] = set()

    def hold(self, is_held: Callable[[str], bool]) -> None:
        """`is_held`: whether a workload is not to be resumed yet, by its UID."""
        self._suspension.is_held = is_held

    def queue_changed(self, queue: str) -> None:
        """The queue, or one of its pods, has changed."""
        drain = self._drains.of_queue(queue)
        if drain is not None:
            drain.wake()

    @property
    def due(self) -> float:
        """When the next step is due, in monotonic seconds."""
        return min((drain.next_step_at for drain in self._drains), default=math.inf)

    def is_draining(self, queue: str) -> bool:
        """Whether the queue drains, or did at the last step."""
        return self._store.snapshot.decision(queue).drains or self.progress(queue) is not None

    def progress(self, queue: str) -> tuple[DrainCounts, QueueProgress] | None:
        """The progress of a queue's drain; None if the queue does not drain, or no step was taken yet."""
        return self._drains.progress(queue)

    def resume_workloads(self, queue: str) -> None:
        """Resume what drains suspended and what is of this queue, if that schedules."""
        self._suspension.resume(queue)

    def suspend_waiting(self, workload: Workload, may_suspend: Callable[[], bool]) -> bool:
        """In a writer's thread: suspend a Job none of whose pods is on a node; whether it was."""
        return self._suspension.suspend_waiting(workload, may_suspend=may_suspend)

    def begin_term(self) -> None:
        self._drains.forget()
        self._progressed.clear()
        self._snapshot = None

    def take_progressed(self) -> set[str]:
        """The queues whose progress has changed since this was called last."""
        progressed, self._progressed = self._progressed, set()
        return progressed

    def step(self) -> None:
        """Take a step of each drain that is due."""
        self._follow_policies()
        in_flight = sum(drain.in_flight for drain in self._drains)
        context = self._context
        share_limits(list(self._drains), rate=context.drain_rate, in_flight=context.drain_in_flight)
        for drain in self._drains:
            if drain.next_step_at <= self._now():
                others = in_flight - drain.in_flight
                self._progressed |= self._step_isolated(drain, in_flight_of_others=others)
                in_flight = others + drain.in_flight
        self._send_read()

    def _now(self) -> float:
        return self._store.clock.monotonic()

    def _follow_policies(self) -> None:
        snapshot = self._store.snapshot
        if snapshot is not self._snapshot:
            self._snapshot = snapshot
            self._drains.follow(snapshot.draining_queues(), now=self._now(), rate=self._context.drain_rate)

    def _step_isolated(self, drain: DrainState, *, in_flight_of_others: int) -> set[str]:
        """A step that fails, or takes long, delays its own drain alone."""
        began = self._now()
        drain.begin_step(began)
        try:
            return self._step(drain, in_flight_of_others=in_flight_of_others)
        except ClusterError:
            raise
        except Exception:
            log.exception("the drain of queue %s", drain.by)
            drain.schedule(began + IDLE_SECONDS)
            return set()
        finally:
            drain.end_step(self._now())

    def _step(self, drain: DrainState, *, in_flight_of_others: int) -> set[str]:
        now, version = self._now(), self._store.snapshot.resource_version
        if not drain.await_version(version, demand_version_of_all=self._demand_version_of_all):
            drain.schedule(now + STEP_SECONDS)
            return set()
        drain.set_spec(self._spec_of(drain))
        time = self._store.clock.now()  # one for all of the step: the deadline may pass meanwhile
        # 1. Snapshot
        pods = self._running_pods(drain, time)
        drain.record_pods(pods, is_leaving=self._is_leaving, now=now)
        broken = self._broken_gangs(drain, pods, time)
        self._request_read(drain, pods, now=now, broken=broken)
        if drain.snapshot is None:
            drain.expect_pods(len(pods))
            drain.schedule(now + READ_SECONDS)
            return set()
        # 2. Plan
        planned = plan(
            pods,
            drain.snapshot.index,
            drain.spec,
            now=time,
            pending_disruptions=drain.pending_disruptions(),
            started_gangs=drain.started_gangs,
            busy_budgets=self._busy_budgets(drain.snapshot),
            broken_gangs=broken,
        )
        delays = self._delays(drain, planned, gone_nodes=drain.snapshot.gone_nodes, now=now)
        for delay in drain.record_plan(planned, delays=delays.values(), now=now):
            record_delay(self._context, delay)
        # 3. Execute
        wait = self._send_steps(drain, planned, in_flight_of_others=in_flight_of_others)
        # 5. Status
        planned = drain.with_refusals(planned)
        drain.schedule(self._next_step_at(planned, wait, delayed=len(delays)))
        drain.forget_absent(uids(pods))
        progress = progress_by_queue(
            planned, drain.queues, delays=delays, selects=self._store.decisions.selects
        )
        # A pod may be gone before its eviction is answered.
        pending = drain.pending_queues
        complete = {queue: each for queue, each in progress.items() if each.left or queue not in pending}
        return self._drains.record_progress(complete, stored=self._counts_of_status)

    # 1. Snapshot

    def _spec_of(self, drain: DrainState) -> DrainSpec:
        """As the spec of its queue says, or the window of it that drains."""
        obj, queue = self._store.queues.get(drain.by), self._store.snapshot.tree.get(drain.by)
        if obj is None or queue is None:
            return DrainSpec(unreadable="it is gone")
        on = queue.policy_window(self._store.clock.now())
        return parse_drain_spec(drain_in_force(obj.spec.drain, obj.spec.windows, on))

    def _running_pods(self, drain: DrainState, time: datetime) -> list[RunningPod]:
        reader = RunningPodReader(
            store=self._store,
            queues=frozenset(drain.queues),
            requested=drain.requested_uids,
            unsuspendable=drain.unsuspendable,
            delayed=drain.delayed_pods,
            now=time,
            scales=drain.spec.scales(time),
        )
        return list(reader.pods())

    def _is_leaving(self, uid: str) -> bool:
        """Whether the cache shows that a pod leaves, or that a workload is suspended or gone."""
        member, workload = self._store.members.by_uid(uid), self._store.workloads.by_uid(uid)
        return member.leaving if member is not None else workload is None or workload.paused

    def _broken_gangs(
        self, drain: DrainState, pods: list[RunningPod], time: datetime
    ) -> dict[BudgetKey, str]:
        """The gangs of which nothing stays, since too few pods would."""
        minimums = gang_minimums(self._store, pods) if drain.spec.evict_broken_gangs else {}
        return broken_gangs(pods, drain.spec, minimums, now=time)

    def _request_read(
        self, drain: DrainState, pods: list[RunningPod], *, now: float, broken: Container[BudgetKey]
    ) -> None:
        """Request another read of the budgets, if the last one is old enough."""
        if not drain.wants_read(now):
            return
        waiting, nodes, time = set(), set(), self._store.clock.now()
        for member in (member for queue in drain.queues for member in self._store.members.in_queue(queue)):
            if member.waiting:
                waiting.add(member.uid)
            elif member.leaves_at is not None and member.leaves_at < time:
                nodes.add(member.node)
        to_go = (pod for pod in pods if stays(pod, drain.spec, broken) is None)
        request = ReadRequest(
            at=self._now(),
            unread=drain.queues if drain.snapshot is None else (),
            pods_to_go={pod.uid: (pod.namespace, pod.labels) for pod in to_go},
            waiting_pods=frozenset(waiting),
            nodes=frozenset(nodes),
        )
        self._drains.request_read(drain.by, request)

    def _send_read(self) -> None:
        """Send one read for all drains that have requested one, unless one is under way."""
        requests, memory = self._drains.begin_read(self._now())
        if not requests:
            return
        names, request = tuple(requests), merge_requests(requests.values())

        def read() -> ReadResult:
            return read_snapshot(self._context.client, request, memory, drains=names)

        def receive(result: ReadResult | None) -> None:
            self._drains.record_read(result or ReadResult(drains=names, memory=memory))
            self._context.work_queue.add_batched(names[0], QueueChange.STATUS)

        writers = self._context.drain_writers
        if not self._context.submit(
            writers,
            ("budgets", ""),
            read,
            self._context.requests.of_term(receive),
            rank=WriteRank.STOP,
            batched=True,
        ):
            self._drains.cancel_read()

    # 2. Plan

    def _busy_budgets(self, snapshot: DrainSnapshot) -> frozenset[BudgetKey]:
        """The budgets of the pods of suspended workloads, of all drains."""
        return frozenset().union(
            *(each.busy_budgets(snapshot) for each in self._drains if each.has_busy_budgets)
        )

    def _delays(
        self, drain: DrainState, planned: Plan, *, gone_nodes: frozenset[str], now: float
    ) -> dict[str, DelayedPod]:
        return find_delays(
            planned.leaving,
            drain.spec,
            now=self._store.clock.now(),
            limit=self._context.drain_grace_limit,
            gone_nodes=gone_nodes,
            undeleted_workloads=drain.undeleted_workloads(planned, now=now),
        )

    def _next_step_at(self, planned: Plan, wait: float, *, delayed: int) -> float:
        if not planned.left:
            return self._owner_known_at(planned)
        is_stuck = not planned.steps and all(block.never for block in planned.blocked)
        if is_stuck and len(planned.leaving) == delayed:
            return self._now() + IDLE_SECONDS
        return self._now() + max(STEP_SECONDS, min(wait, READ_SECONDS))

    def _owner_known_at(self, planned: Plan) -> float:
        """When the first pod that is kept for an unknown DaemonSet is decided again; infinity for none."""
        time = self._store.clock.now()
        known = (pod.created + UNKNOWN_OWNER_WAIT for pod, rule in planned.kept if rule is KeepRule.DAEMON)
        left = ((at - time).total_seconds() for at in known if at >= time)
        return self._now() + max(STEP_SECONDS, min(left, default=math.inf))

    # 3. Execute

    def _send_steps(self, drain: DrainState, planned: Plan, *, in_flight_of_others: int) -> float:
        """Send as many steps as the limits allow. Returns the seconds until more may be sent."""
        now = self._now()
        paused = drain.pause_seconds(now)
        if paused:
            return paused
        self._cut_grace_periods(drain, planned, now=now)
        in_flight = in_flight_of_others + drain.in_flight
        spare = spare_places(in_flight, in_flight=self._context.drain_in_flight)
        units, wait = drain.take_steps(planned, now=now, spare=spare)
        for unit in units:
            self._send(drain, unit, now=now)
        return wait

    def _send(self, drain: DrainState, unit: Unit, *, now: float) -> None:
        has_command = drain.has_command(unit)
        drain.record_request(unit, now=now)
        if has_command:
            self._suspension.withdraw_command(drain.by, unit)
        elif unit.parts:
            self._suspension.send_together(drain.by, unit)
        elif unit.action in OF_WORKLOAD:
            self._suspension.send(drain.by, unit)
        else:
            for pod in unit.pods:
                self._send_pod(drain, unit, pod)

    def _send_pod(self, drain: DrainState, unit: Unit, pod: RunningPod) -> None:
        limit, budget = self._context.drain_grace_limit, drain.budget_of(pod)
        grace = requested_grace(pod, drain.spec, delete=unit.action is DrainAction.DELETE, limit=limit)
        self._requests.send(drain.by, unit, pod, grace=grace, budget=budget)

    def _cut_grace_periods(self, drain: DrainState, planned: Plan, *, now: float) -> None:
        """Cut the grace periods of terminating pods, where the drain says so."""
        time, limit = self._store.clock.now(), self._context.drain_grace_limit
        graces = {
            pod.uid: grace
            for pod in planned.leaving
            if (grace := cut_grace(pod, drain.spec, now=time, limit=limit)) is not None
        }
        to_cut = (pod for pod in planned.leaving if pod.uid in graces)
        units = (Unit(action=DrainAction.CUT_GRACE, pods=(pod,)) for pod in to_cut)
        for unit in drain.take_cuts(units, now=now):
            drain.record_request(unit, now=now)
            pod = unit.pods[0]
            self._requests.send(drain.by, unit, pod, grace=graces[pod.uid])

    # 5. Status

    def _counts_of_status(self, queue: str) -> DrainCounts:
        """What the queue's status says of this drain, by an earlier leader."""
        obj = self._store.queues.get(queue)
        try:
            counts = _stored_counts(obj.status.drain if obj is not None else None)
        except msgspec.ValidationError:
            counts = None
        return counts or DrainCounts(since=self._store.clock.now())
