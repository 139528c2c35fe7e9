"""Closing a queue: whether it is empty before it is said to be Closed, and what keeps it from that.

The cache may be behind: what was admitted just before the close may not have come yet. So before Closed is
written the API server is asked for the live members, by the label that admission puts on each, after
every replica refuses new ones and nothing that was admitted before can come any more
(`StopAcknowledgement.nothing_pending`).

Invariants
- An answer holds for one close: for the wishes on the queue's chain (`revision`) and the queues below it as
  they were when it was asked for. Opened and closed again, a queue is asked about again.
- It is asked for in a writer's thread, for all queues that wait for it at once, so that the end of many
  queues keeps nobody else's stop waiting.
- A queue that was not empty is asked about again after a back-off (`REPEAT`) while it is the same close.
- What is in a namespace that its queue does not select keeps the queue from nothing.
- What cannot be read of an object keeps its own queue from Closed only where that would tell whether it is
  live, and no other queue.

`closing_blocker` names a live member, as far as the cache knows one, for condition Accepting.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from cluster.api.pages import list_objects
from cluster.backoff import Backoff
from cluster.cache.changes import QueueChange
from cluster.cache.members import FINISHED_PHASES
from cluster.cache.podgroups import is_live as is_live_group
from cluster.cache.store import Store
from cluster.cache.workloads import Workload, is_live
from cluster.informers.lenient_decoding import LenientReader, fault_text
from cluster.objects import Metadata, Pod, PodGroup, WorkloadObject
from controller.context import ControllerContext
from queues import labels as names
from queues.membership import label_value
from queues.states import State
from queues.verdict import Verdict
from queues.workload_kinds import KINDS, WorkloadKind

#: Queues named in one label selector.
AT_ONCE = 50
REPEAT = Backoff(0.5, 30.0)

PODGROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"

_workload = LenientReader(WorkloadObject)

log = logging.getLogger(__name__)


class Close(msgspec.Struct, frozen=True):
    """One close of one queue."""

    queue: str
    uid: str
    revision: str
    below: frozenset[str]


class ClosingChecks:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        #: By UID: what the last answer was about, and whether the queue was empty.
        self._found: dict[str, tuple[Close, bool]] = {}
        self._asked_at: dict[str, float] = {}
        #: How often in a row the same close was found not to be empty.
        self._occupied_times: dict[str, int] = {}
        self._wanted: dict[str, Close] = {}

    def is_empty(self, close: Close) -> bool | None:
        """Whether it was found to be empty; None if that is not known."""
        found = self._found.get(close.uid)
        return found[1] if found is not None and found[0] == close else None

    def request(self, close: Close) -> None:
        """Have it asked about, soon."""
        if self.seconds_left(close) <= 0:
            self._wanted[close.uid] = close

    def seconds_left(self, close: Close) -> float:
        """For how many seconds it is not asked about again."""
        found = self._found.get(close.uid)
        times = self._occupied_times.get(close.uid, 0) if found is not None and found[0] == close else 0
        seconds = REPEAT.seconds(max(1, times))
        asked = self._asked_at.get(close.uid, float("-inf"))
        return max(0.0, asked + seconds - self._context.store.clock.monotonic())

    def forget(self, uid: str) -> None:
        """It accepts again, or is gone."""
        for memory in (self._found, self._asked_at, self._occupied_times, self._wanted):
            memory.pop(uid, None)

    def send(self) -> None:
        """Ask about all that is wanted, unless a question is under way."""
        closes = list(self._wanted.values())
        if not closes or not self._context.submit(
            self._context.writers,
            ("closing", ""),
            partial(self._labels_in_use, closes),
            partial(self._receive, closes),
            rank=(1,),
        ):
            return
        now = self._context.store.clock.monotonic()
        self._asked_at |= {close.uid: now for close in closes}
        self._wanted.clear()

    def _labels_in_use(self, closes: list[Close]) -> frozenset[str]:
        """In another thread: the labels of those queues that have a live member."""
        labels = sorted({label_value(queue) for close in closes for queue in close.below})
        batches = [labels[start : start + AT_ONCE] for start in range(0, len(labels), AT_ONCE)]
        queues = {label_value(queue): queue for close in closes for queue in close.below}
        selects = self._context.store.selects

        def is_counted(meta: Metadata) -> bool:
            queue = queues.get(meta.label(names.QUEUE))
            return queue is None or selects(queue, meta.namespace)

        occupied = (_occupied(self._context, batch, is_counted=is_counted) for batch in batches)
        return frozenset(label for labels in occupied for label in labels)

    def _receive(self, closes: list[Close], labels: frozenset[str] | None) -> None:
        """`labels`: those in use; None if the API server could not be asked."""
        if labels is None:
            return
        for close in closes:
            self._context.work_queue.add(close.queue, QueueChange.STATUS)
            if close.uid in self._asked_at:
                before, empty = self._found.get(close.uid), labels.isdisjoint(_labels(close))
                times = self._occupied_times.get(close.uid, 0) + 1 if before == (close, False) else 1
                self._occupied_times[close.uid] = 0 if empty else times
                self._found[close.uid] = (close, empty)


def _labels(close: Close) -> set[str]:
    return {label_value(queue) for queue in close.below}


class _Asked(msgspec.Struct, frozen=True):
    """One kind: where it is listed, how it is read, and who of it is live."""

    path: str
    read: Callable[[msgspec.Raw], tuple[Any, list[str]]]
    is_live: Callable[[Any], bool]


def _of_kind(kind: WorkloadKind) -> _Asked:
    return _Asked(kind.path, _workload, lambda obj: is_live(kind, obj))


#: Who makes comes before what is made: what has made its last pod meanwhile is found by its pods.
_ASKED = (
    *(_of_kind(kind) for kind in KINDS.values()),
    _Asked(PODGROUPS, LenientReader(PodGroup), is_live_group),
    _Asked("/api/v1/pods", LenientReader(Pod), lambda pod: pod.status.phase not in FINISHED_PHASES),
)


def _occupied(
    context: ControllerContext,
    labels: list[str],
    *,
    is_counted: Callable[[Metadata], bool] = lambda _meta: True,
) -> Iterator[str]:
    """Those of the labels that a live member bears, as the API server says now, if that counts."""
    selector = f"{names.QUEUE} in ({','.join(labels)})"
    for asked in _ASKED:
        for raw in list_objects(context.client, asked.path, selector=selector):
            obj, faults = asked.read(raw)
            if faults:
                meta, text = obj.metadata, fault_text(faults)
                log.warning("%s %s/%s cannot be read: %s", asked.path, meta.namespace, meta.name, text)
            if asked.is_live(obj) and is_counted(obj.metadata):
                yield obj.metadata.label(names.QUEUE)


def closing_blocker(store: Store, verdict: Verdict) -> str:
    """For condition Accepting; empty where the queue accepts, or is Closed."""
    if verdict.refusal is None or verdict.state is State.CLOSED:
        return ""
    for queue in sorted(store.snapshot.tree.subtree(verdict.queue)):
        name = _blocker(store, queue)
        if name:
            others = " and others" if store.live_members_of(queue) > 1 else ""
            return f"kept from Closed by {name}{others} of queue {queue}"
    return "what was admitted before may still come"


def _blocker(store: Store, queue: str) -> str:
    """A live member, the first that is found: rather what its user made than what that made."""
    works = (one for one in store.workloads.live_in(queue) if store.selects(queue, one.namespace))
    work = next((one for one in works if not _is_part(store, one)), None)
    if work is not None:
        return _readable(store, work.uid, str(work))
    groups = (one for one in store.podgroups.in_queue(queue) if store.selects(queue, one.metadata.namespace))
    group = next((one for one in groups if is_live_group(one)), None)
    if group is not None:
        name = f"podgroup {group.metadata.namespace}/{group.metadata.name}"
        return _readable(store, group.metadata.uid, name)
    pods = (one for one in store.members.in_queue(queue) if store.selects(queue, one.namespace))
    pod = next((one for one in pods if one.live), None)
    return _readable(store, pod.uid, f"pod {pod.namespace}/{pod.name}") if pod else ""


def _readable(store: Store, uid: str, name: str) -> str:
    """The name, and what of the object cannot be read: that may be why it keeps the queue."""
    fault = store.unreadable.fault_of(uid)
    return f"{name} (it cannot be read in full: {fault})" if fault else name


def _is_part(store: Store, work: Workload) -> bool:
    """Whether another workload made it, and is the one to name."""
    top = store.workloads.top_of(work.uid, namespace=work.namespace)
    return top is not None and top.uid != work.uid
