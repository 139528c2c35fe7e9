"""Closing a queue: whether it is empty before its status says Closed, and what keeps it from that.

The cache may be behind: what was admitted just before the close may not have arrived yet. So before Closed is
written the API server is asked for the live members, by the label that admission puts on each. It is asked
after every replica refuses new ones, and after nothing that was admitted before can arrive any more
(`StopAcknowledgement.demand_nothing_pending`).

Invariants
- An answer holds for one close: for the specs on the queue's chain (`QueueDecision.revision`), and for the
  queues below it as they were when the question was asked. After a reopening the question is asked again.
- So it is no table of requests (`controller.requests`): an answer holds in any term, for the same close.
- The question is asked in a writer's thread, for all queues that wait for it at once, so that the end of many
  queues does not delay a stop.
- A live workload without the label keeps its queue from Closed too: where no member with the label does, the
  workloads without it are listed.
- For a queue that was not empty it is asked again after a back-off (`REPEAT`) while it is the same close.
- What is in a namespace that its queue does not select does not keep the queue from Closed.
- An object that cannot be read in full keeps its own queue from Closed if it may be live, and no other queue.

`closing_status` names a live member, as far as the cache knows one, for `status.closing`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from cluster.api.client import Client
from cluster.api.pages import list_objects
from cluster.backoff import Backoff
from cluster.cache.changes import QueueChange
from cluster.cache.members import Member
from cluster.cache.store import Store
from cluster.cache.workloads import Workload
from cluster.objects import Metadata, Pod, PodGroup, WorkloadObject
from cluster.write_ranks import WriteRank
from controller.context import ControllerContext
from controller.parts import Part
from queues import well_known
from queues.apimachinery.lenient import LenientReader, fault_text
from queues.causes import CauseKind
from queues.membership import label_value
from queues.states import State
from queues.status.closing import ClosingStatus
from queues.verdict import Verdict
from queues.workload_kinds import KINDS, Life, WorkloadKind
from queues.world.members import FINISHED_PHASES
from queues.world.podgroups import is_live as is_live_group
from queues.world.workloads import is_live

#: Queues that one label selector names.
QUEUES_PER_LIST = 50
#: How soon the question is asked again for a queue that was not empty.
REPEAT = Backoff(0.5, 30.0)

PODGROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"

_workload = LenientReader(WorkloadObject)

log = logging.getLogger(__name__)


class Close(msgspec.Struct, frozen=True):
    """One close of one queue. `revision`: of the specs on its chain; `below`: the queues of its subtree."""

    queue: str
    uid: str
    revision: str
    below: frozenset[str]


class _Check(msgspec.Struct):
    """The check of one close. `empty`: the answer, None before there is one. `occupied_times`: how often in a
    row the queue was not empty. `asked_at`: monotonic seconds.
    """

    close: Close
    empty: bool | None = None
    occupied_times: int = 0
    asked_at: float = -math.inf


class ClosingChecks(Part):
    """Owner: the controller's thread."""

    name = "closing"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        #: By queue: the check of its latest close.
        self._checks: dict[str, _Check] = {}
        #: By queue: the closes that the next question is about.
        self._requested: dict[str, Close] = {}

    def is_empty(self, close: Close) -> bool | None:
        """Return whether the API server said that the queue is empty; None if it has not answered for this
        close.
        """
        check = self._checks.get(close.queue)
        return check.empty if check is not None and check.close == close else None

    def request(self, close: Close) -> None:
        """Make the close part of the next question, unless it backs off."""
        if self.seconds_left(close) <= 0:
            self._requested[close.queue] = close

    def seconds_left(self, close: Close) -> float:
        """Return for how many seconds the question is not asked again."""
        check = self._checks.get(close.queue)
        if check is None or check.close.uid != close.uid:
            return 0.0
        times = check.occupied_times if check.close == close else 0
        until = check.asked_at + REPEAT.seconds(max(1, times))
        return max(0.0, until - self._context.store.clock.monotonic())

    def forget(self, queue: str) -> None:
        """Forget a queue that accepts again, or does not exist any more."""
        self._checks.pop(queue, None)
        self._requested.pop(queue, None)

    def step(self) -> None:
        """Ask one question for all closes that are requested, unless one is under way."""
        closes = list(self._requested.values())
        if not closes or not self._context.submit(
            self._context.writers,
            ("closing", ""),
            partial(self._labels_in_use, closes),
            partial(self._receive, closes),
            rank=WriteRank.RELEASE,
        ):
            return
        now = self._context.store.clock.monotonic()
        for close in closes:
            check = self._checks.get(close.queue)
            if check is None or check.close != close:
                check = self._checks[close.queue] = _Check(close)
            check.asked_at = now
        self._requested.clear()

    def _labels_in_use(self, closes: list[Close]) -> frozenset[str]:
        """In another thread: return the labels of those queues that have a live member."""
        queues = {label_value(queue): queue for close in closes for queue in close.below}
        labels = sorted(queues)
        batches = [
            labels[start : start + QUEUES_PER_LIST] for start in range(0, len(labels), QUEUES_PER_LIST)
        ]
        store = self._context.store

        def is_counted(meta: Metadata, kind: WorkloadKind | None) -> bool:
            if kind is not None and store.memberships.is_managed(meta.namespace) is False:
                return False
            queue = queues.get(meta.label(well_known.QUEUE))
            return queue is None or store.decisions.selects(queue, meta.namespace)

        occupied = (occupied_labels(self._context.client, batch, is_counted=is_counted) for batch in batches)
        found = {label for labels in occupied for label in labels}
        unlabelled = queues.keys() - found
        if unlabelled:
            below = frozenset(queues[label] for label in unlabelled)
            found |= {label_value(queue) for queue in occupied_by_unlabelled(self._context, below)}
        return frozenset(found)

    def _receive(self, closes: list[Close], labels: frozenset[str] | None) -> None:
        """`labels`: those in use; None if the API server could not be asked."""
        if labels is None:
            return
        for close in closes:
            self._context.work_queue.add(close.queue, QueueChange.STATUS)
            check = self._checks.get(close.queue)
            if check is not None and check.close == close:
                check.empty = labels.isdisjoint(label_value(queue) for queue in close.below)
                check.occupied_times = 0 if check.empty else check.occupied_times + 1


class _MemberKind(msgspec.Struct, frozen=True):
    """A kind of members: where it is listed, how it is read, and which of its objects are live.

    `workload`: None for pods and PodGroups, which stay members where their namespace ceases to be managed.
    """

    path: str
    read: Callable[[msgspec.Raw], tuple[Any, list[str]]]
    is_live: Callable[[Any], bool]
    workload: WorkloadKind | None = None


def _workload_kind(kind: WorkloadKind) -> _MemberKind:
    return _MemberKind(kind.path, _workload, lambda obj: is_live(kind, obj), kind)


#: Owners come before what they make: an owner that has ended by the time of its list left its last pod to the
#: list of pods.
_MEMBER_KINDS = (
    *map(_workload_kind, KINDS.values()),
    _MemberKind(PODGROUPS, LenientReader(PodGroup), is_live_group),
    _MemberKind("/api/v1/pods", LenientReader(Pod), lambda pod: pod.status.phase not in FINISHED_PHASES),
)


def occupied_labels(
    client: Client,
    labels: list[str],
    *,
    is_counted: Callable[[Metadata, WorkloadKind | None], bool] = lambda _meta, _kind: True,
) -> Iterator[str]:
    """Yield the labels for which the API server lists a live member that `is_counted`."""
    selector = f"{well_known.QUEUE} in ({','.join(labels)})"
    for kind in _MEMBER_KINDS:
        for raw in list_objects(client, kind.path, selector=selector):
            obj, faults = kind.read(raw)
            if faults:
                meta, text = obj.metadata, fault_text(faults)
                log.warning("%s %s/%s cannot be read: %s", kind.path, meta.namespace, meta.name, text)
            if kind.is_live(obj) and is_counted(obj.metadata, kind.workload):
                yield obj.metadata.label(well_known.QUEUE)


def occupied_by_unlabelled(context: ControllerContext, queues: frozenset[str]) -> Iterator[str]:
    """Yield those of these queues of which the API server lists a live workload without the label.

    Such workloads are not watched as a rule (`cluster.informers.workloads`).
    """
    store = context.store
    for kind in KINDS.values():
        if kind.life is Life.NEVER:
            continue
        for raw in list_objects(context.list_client, kind.path, selector=f"!{well_known.QUEUE}"):
            obj, _ = _workload(raw)
            namespace = obj.metadata.namespace
            is_counted = is_live(kind, obj) and store.memberships.is_managed(namespace) is not False
            queue = store.memberships.queue_of_workload(kind, obj) if is_counted else ""
            if queue in queues and store.decisions.selects(queue, namespace):
                yield queue


def closing_status(store: Store, verdict: Verdict) -> ClosingStatus | None:
    """Return what keeps a queue from Closed; None if it is not to be Closed, or is."""
    if verdict.refusal is None or verdict.refusal.kind not in {CauseKind.CLOSED, CauseKind.TERMINATING}:
        return None
    if verdict.state is State.CLOSED:
        return None
    for queue in sorted(store.snapshot.tree.subtree(verdict.queue)):
        member = _live_member(store, queue)
        if member is not None:
            kind, meta = member
            return ClosingStatus(
                kind=kind,
                namespace=meta.namespace,
                name=meta.name,
                queue=queue,
                others=max(0, store.live_members.of(queue) - 1),
                unreadable=store.unreadable.fault_of(meta.uid),
            )
    return ClosingStatus()


def _live_member(store: Store, queue: str) -> tuple[str, Metadata | Workload | Member] | None:
    """A live member and its kind: rather one that a user made than what that made."""
    for work in store.workloads.live_in(queue):
        if store.decisions.selects(queue, work.namespace) and not _has_owner(store, work):
            return work.kind.kind, work
    for group in store.podgroups.in_queue(queue):
        if store.decisions.selects(queue, group.metadata.namespace) and is_live_group(group):
            return "PodGroup", group.metadata
    for pod in store.members.in_queue(queue):
        if store.decisions.selects(queue, pod.namespace) and pod.live:
            return "Pod", pod
    return None


def _has_owner(store: Store, work: Workload) -> bool:
    """Whether another workload made it: that one is named."""
    top = store.workloads.top_of(work.uid, namespace=work.namespace)
    return top is not None and top.uid != work.uid
