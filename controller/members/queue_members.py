"""What a sync does with the members and PodGroups of each queue that has changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial

from cluster.cache.changes import NO_QUEUE, PodGroupChange, QueueChange, StoreChange
from cluster.cache.members import Member
from cluster.cache.podgroups import PodGroupKey
from controller.context import RETRY_SECONDS, ControllerContext
from controller.drain.controller import DrainController
from controller.members.changed_members import OF_ALL, ChangedMembers
from controller.members.resumed_pods import ResumedPods
from controller.parts import Part, attempt
from controller.pods.nominations import Nominations
from controller.pods.pod_conditions import PodConditions
from controller.pods.recreation import ParkedPodRecreation
from controller.pods.retry import PreemptionRetry
from controller.pods.ungating import Ungating
from controller.status.podgroup_status import PodGroupStatuses
from controller.stops.acknowledgement import StopAcknowledgement


class QueueMembers(Part):
    """Owner: the controller's thread."""

    #: Not that of the work for each queue, no queue among them: what becomes of one is not said of the other.
    name = "queue_members"

    def __init__(  # noqa: PLR0913 - each has its turn with the members
        self,
        context: ControllerContext,
        *,
        members: ChangedMembers,
        resumed: ResumedPods,
        ungating: Ungating,
        preemption_retry: PreemptionRetry,
        acknowledgement: StopAcknowledgement,
        conditions: PodConditions,
        recreation: ParkedPodRecreation,
        draining: DrainController,
        podgroups: PodGroupStatuses,
    ) -> None:
        self._store = context.store
        self._work_queue = context.work_queue
        self._members = members
        self._resumed = resumed
        self._ungating = ungating
        self._preemption_retry = preemption_retry
        self._acknowledgement = acknowledgement
        self._conditions = conditions
        self._recreation = recreation
        self._draining = draining
        self._podgroups = podgroups
        self._nominations = Nominations(context)
        #: What is to be looked at, until it was.
        self._changes: dict[str, set[StoreChange]] = {}

    def record(self, changes: Mapping[str, Iterable[StoreChange]]) -> None:
        for queue, of_queue in changes.items():
            self._changes.setdefault(queue, set()).update(of_queue)

    def step(self) -> None:
        while self._changes:
            queue, changes = next(iter(self._changes.items()))
            del self._changes[queue]
            if queue != NO_QUEUE and queue not in self._resumed.done:
                ungate = partial(self._resumed.ungate, queue, changes)
                attempt(self._store, self._resumed.name, ungate, queue=queue)
            attempt(self._store, "members", partial(self._sync, queue, changes), queue=queue)

    def _sync(self, queue: str, changes: Collection[StoreChange]) -> None:
        members = self._members.of(queue, changes)
        if queue != NO_QUEUE:
            self._retry_preemptions(queue, members)
        self._ungating.assign_queues(members, queue=queue)
        if self._conditions.write_conditions(queue, members):
            self._work_queue.add_after(queue, QueueChange.STATUS, seconds=RETRY_SECONDS)
        self._recreation.consider(queue, members)
        self._nominations.cancel(queue, members)
        self._draining.queue_changed(queue)
        self._draining.resume_workloads(queue)
        if not OF_ALL.isdisjoint(changes):
            self._podgroups.reconcile_queue(queue)
        else:
            self._podgroups.reconcile(_groups(changes))

    def _retry_preemptions(self, queue: str, members: list[Member]) -> None:
        if self._preemption_retry.retry_if_refused(
            queue,
            members,
            may_retry=partial(self._resumed.may_retry, queue),
            demand_alike_answers=partial(self._acknowledgement.demand_alike_answers, queue),
        ):
            self._work_queue.add_after(queue, QueueChange.MEMBERS, seconds=RETRY_SECONDS)


def _groups(changes: Iterable[StoreChange]) -> list[PodGroupKey]:
    """The PodGroups that changed."""
    return [change.key for change in changes if isinstance(change, PodGroupChange)]
