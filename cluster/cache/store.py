"""What is known of the cluster, and who hears of changes.

Invariants
- Readers (request handlers above all) take no lock: `board` is replaced by one assignment and
  never changed, the other questions are single look-ups in dicts.
- One writer for each kind: its reflector's thread. What touches several kinds (a PodGroup or a
  namespace that gives pods their queue) is done by telling the pod reflector to list again or
  by the controller, never by writing in another thread's dict.
- `synced` is True only while every kind has been listed and is being watched.
- The past is refused: an object older than the one held is dropped.

`add_listener` adds a callback for changes. It gets the name of the queue concerned ("" for pods without a
queue) and the change (`cluster.cache.changes`). It runs in a reflector's thread, so it must only take note
and return. An exception of one callback concerns neither the other callbacks nor the object that changed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from types import MappingProxyType

import msgspec

from cluster.cache.changes import Change, PodChange, PodGroupChange, QueueChange
from cluster.cache.commands import Commands
from cluster.cache.marker_pods import MARKER_POD as MARKER
from cluster.cache.members import Member, Members
from cluster.cache.namespace_access import NamespaceAccess
from cluster.cache.podgroups import GroupKey, PodGroups
from cluster.cache.podgroups import queue_of as queue_of_podgroup
from cluster.cache.unreadable_objects import UnreadableObject, UnreadableObjects
from cluster.cache.watch_progress import WatchProgress
from cluster.cache.workloads import (
    AllWorkloads,
    recorded_queue,
    workload_facts,
)
from cluster.inflight.admissions import PendingAdmissions
from cluster.inflight.binds import (
    REQUEST_SECONDS,
    BindPass,
    BindPasses,
)
from cluster.inflight.namespaces import PendingNamespaces
from cluster.inflight.queue_edits import PendingQueueEdits
from cluster.key_backoff import KeyBackoff
from cluster.objects import Metadata, Namespace, Pod, PodGroup, QueueObject, WorkloadObject
from queues import labels as names
from queues.membership import (
    VOLCANO_ANNOTATION,
    Membership,
    MembershipSettings,
    PodFacts,
    QueueConflict,
    stored_pod_membership,
    workload_membership,
)
from queues.messages import has_retry_mark
from queues.namespace_selectors import compile_selector, is_reserved_label
from queues.queue import ROOT, Queue
from queues.snapshot import (
    QueueDecision,
    QueueSnapshot,
    decision_for_namespace,
)
from queues.states import Desired, StopPolicy
from queues.tree import Tree
from queues.workload_kinds import WorkloadKind

#: Namespaces that we have not heard of and that hold something. Beyond, all is judged anew.
MAX_EARLY_NAMESPACES = 10_000

#: Writes of ours that are remembered: a Lease is renewed every second or two, a pod heard of sooner.
MAX_WRITES = 64

Listener = Callable[[str, Change], None]

#: Of a namespace without labels.
NO_LABELS: Mapping[str, str] = MappingProxyType({})


class Clock:
    """Now, by the API server's clock, as far as its answers have told."""

    def __init__(self, ahead: Callable[[], float] = lambda: 0.0) -> None:
        self._ahead = ahead

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self._ahead())

    def monotonic(self) -> float:
        return time.monotonic()


class _Held(msgspec.Struct, frozen=True):
    """Whatever has metadata."""

    metadata: Metadata


class Store:
    """All that is known. See the invariants above."""

    def __init__(
        self,
        *,
        rules: MembershipSettings,
        clock: Clock,
        request_seconds: float = REQUEST_SECONDS,
        failed: Callable[[str], None] = lambda _step: None,
    ) -> None:
        """`request_seconds`: how long the API server lets a request take. `failed`: counts what failed."""
        self.rules = rules
        self.clock = clock
        self.backoff = KeyBackoff(clock=clock.monotonic, counted=failed)
        self.bind_passes = BindPasses(
            clock=clock.monotonic, request_seconds=request_seconds, known=lambda: len(self.members)
        )
        self.progress = WatchProgress(clock=clock.monotonic)
        self.queue_edits = PendingQueueEdits(clock=clock.monotonic)
        self.admissions = PendingAdmissions(clock=clock.monotonic, request_seconds=request_seconds)
        arrived = self.admissions.close
        self.members = Members(
            judge=self.pod_membership,
            heard=self._member_heard,
            arrived=arrived,
            group_uid=self._uid_of_group,
            stranger_gone=self._stranger_gone,
        )
        self.queues: dict[str, QueueObject] = {}
        self.podgroups = PodGroups(
            came=lambda: self.notify(""),
            changed=self._podgroup_changed,
            arrived=arrived,
            exempt=rules.exempt_namespaces,
        )
        self.workloads = AllWorkloads(
            queue_of=self._queue_of_stored,
            tell=lambda queue: self.notify(queue, QueueChange.STATUS),
            arrived=arrived,
        )
        self.namespaces: dict[str, Namespace] = {}
        self.pending_namespaces = PendingNamespaces(clock=clock.monotonic)
        self._access = NamespaceAccess()
        #: How often a namespace came to be selected by each queue, or ceased to be.
        self.selection_changes: dict[str, int] = {}
        self.commands = Commands(tell=lambda queue: self.notify(queue, QueueChange.COMMANDS))
        self.snapshot = QueueSnapshot(Tree({}), now=clock.now())
        self.unreadable = UnreadableObjects()
        self._values: dict[str, Queue] = {}
        #: Up to which resource version the changes of queues are in the board; set after it is published.
        self.snapshot_version = 0
        self._coming = 0
        #: Whether the board there is lacks something of `_values`.
        self._unpublished = False
        #: Versions of writes of ours and when they were begun; replaced, never changed.
        self._moments: tuple[tuple[int, float], ...] = ()
        self._listeners: list[Listener] = []
        self._ready: Callable[[], bool] = lambda: False
        self._board_lock = threading.Lock()
        self.relist_members: Callable[[], object] = lambda: None
        #: Whether members are to be judged again, by what namespaces name by now.
        self.is_rejudging: Callable[[], bool] = lambda: False
        #: Called in the pod reflector's thread when a marker has gone by.
        self.marker_seen: Callable[[], object] = lambda: None
        #: Namespaces that were not known when something in them was judged that names no queue itself.
        self._judged_early: set[str] = set()
        #: Whether we were in touch with the API server once and are not any more.
        self.cut_off: Callable[[], bool] = lambda: False

    # Wiring

    def add_listener(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def ready_when(self, ready: Callable[[], bool]) -> None:
        self._ready = ready

    @property
    def synced(self) -> bool:
        """Whether the whole cluster has been read, and what is answered from it may be relied upon."""
        return self._ready()

    def assume_bind_passes(self, sure: Callable[[str], bool] = lambda _queue: False) -> None:
        """Take it that each member that could be bound now was let through by somebody who is gone.

        `sure`: whether nothing of a queue can have been.
        """
        for queue in self.members.queues():
            if sure(queue):
                continue
            for member in self.members.waiting_in(queue):
                if member.bindable and member.marked:
                    self.bind_passes.assume_pass(
                        namespace=member.namespace, name=member.name, queue=queue, uid=member.uid
                    )

    def stopped_queues_with_passes(self) -> tuple[str, ...]:
        """The queues that do not schedule and have passes open."""
        board = self.snapshot
        queues = {one.queue for one in self.bind_passes.open_passes()}
        return tuple(sorted(queue for queue in queues if not board.decision(queue).schedules))

    def stopped_queues_with_binds(self) -> tuple[str, ...]:
        """Those of them where a bind that the guard let pass may still land."""
        board = self.snapshot
        queues = {each.queue for each in self.bind_passes.open_passes() if each.bind}
        return tuple(sorted(queue for queue in queues if not board.decision(queue).schedules))

    def list_open_passes(
        self, queues: Container[str], *, most: int
    ) -> tuple[tuple[str, str, str], ...] | None:
        """Queue, namespace and name of each open pass of these queues; None if they are more than `most`."""
        passes = {
            (each.queue, *each.key) for each in islice(self.bind_passes.open_passes_of(queues), most + 1)
        }
        return tuple(sorted(passes)) if len(passes) <= most else None

    def record_write(self, at: float, version: int) -> None:
        """A write of ours that was begun at this time, in monotonic seconds, was stored as this version."""
        self._moments = (*self._moments[1 - MAX_WRITES :], (version, at))

    def drop_settled_passes(self) -> None:
        """Drop the passes of pods that do not wait, as far as all pods are known that could have been passed.

        Whatever was passed before a write of ours was begun existed before the version of that write.
        """
        known, at = self.progress.applied("pods"), None
        for version, begun in self._moments:
            if version <= known:
                at = begun
        if at is not None:
            self.bind_passes.drop_settled(before=at, waits=self._waits)

    def _waits(self, each: BindPass) -> bool:
        member = self.members.get(each.namespace, each.name)
        return member is not None and member.bindable and each.uid in {"", member.uid}

    def closed_queues_with_admissions(self) -> tuple[str, ...]:
        """The queues that do not accept and that something admitted before may still come to."""
        board = self.snapshot
        return tuple(sorted(q for q in self.admissions.queues() if not board.decision(q).accepts))

    def notify(self, queue: str, change: Change = QueueChange.SPEC) -> None:
        """Pass a change to each listener."""
        for listener in self._listeners:
            try:
                listener(queue, change)
            except Exception as exc:  # the object is taken all the same, and every other listener is told
                self.backoff.record_failure("listener", (queue, change), exc, queue=queue)

    # Questions

    def pod_membership(self, pod: Pod) -> Membership | None:
        """The membership of a stored pod."""
        if not pod.metadata.annotation(names.QUEUE):
            self._note_judged_early(pod.metadata.namespace)
        return stored_pod_membership(self.pod_facts(pod), rules=self.rules, group=self.queue_of_podgroup)

    def pod_facts(self, pod: Pod, *, namespace: str = "") -> PodFacts:
        """What membership asks of a pod; `namespace` where its metadata does not say it yet."""
        where = pod.metadata.namespace or namespace
        return PodFacts(
            namespace=where,
            labels=pod.metadata.labels or {},
            annotations=pod.metadata.annotations or {},
            scheduler=pod.spec.scheduler_name,
            namespace_queue=self.queue_of_namespace(where),
        )

    def queue_of_namespace(self, name: str) -> str:
        namespace = self.namespaces.get(name)
        return (
            namespace.metadata.annotation(VOLCANO_ANNOTATION)
            if namespace
            else self.pending_namespaces.queue_of(name)
        )

    def labels_of_namespace(self, name: str) -> Mapping[str, str] | None:
        """Its labels; None where they are not known."""
        namespace = self.namespaces.get(name)
        if namespace is not None:
            labels = namespace.metadata.labels
            return NO_LABELS if labels is None else labels
        return self.pending_namespaces.labels_of(name)

    def decision_for(self, queue: str, *, namespace: str) -> QueueDecision:
        """What a queue decides for the members of a namespace: one that it does not select it neither takes
        nor schedules. Where no selector is on its chain that is the queue's own ruling."""
        ruling = self.snapshot.decision(queue)
        if not ruling.restricted:
            return ruling
        labels = self.labels_of_namespace(namespace)
        return self._access.ruling_for(ruling, namespace=namespace, labels=labels)

    def refusal_text(self, ruling: QueueDecision) -> str:
        """What a pod is told that the ruling stops: what its queue's status says, if that is for the same
        specs.

        Replicas of different versions may word it differently; the status has one wording for all of them.
        """
        held = self.queues.get(ruling.queue)
        stop = held.status.stop if held is not None else None
        return (
            stop.refusal
            if stop is not None and stop.refusal and stop.revision == ruling.revision
            else ruling.text
        )

    def selects(self, queue: str, namespace: str) -> bool:
        """Whether the namespace may use the queue."""
        return self.decision_for(queue, namespace=namespace).selected

    def is_namespace_known(self, namespace: str) -> bool:
        """Whether it is known what queue the namespace names, if any."""
        return (
            namespace in self.namespaces
            or bool(self.pending_namespaces.queue_of(namespace))
            or namespace in self.rules.exempt_namespaces
        )

    def queue_of_podgroup(self, namespace: str, name: str) -> str | None:
        return self.podgroups.queue_of(namespace, name)

    def queue_of_pod(self, namespace: str, name: str) -> str | None:
        """The queue of a pod by name: what the store holds, else what was let through lately."""
        member = self.members.get(namespace, name)
        return member.queue if member else self.bind_passes.queue_of(namespace, name)

    def queue_of_unreadable(self, fault: UnreadableObject) -> str:
        """The queue of an object that cannot be read in full; empty where it has none."""
        match fault.kind:
            case "queues":
                return fault.name
            case "pods":
                member = self.members.by_uid(fault.uid)
                return member.queue if member is not None else ""
            case "podgroups":
                return self.podgroups.queue_of(fault.namespace, fault.name) or ""
        work = self.workloads.by_uid(fault.uid)
        return work.queue if work is not None else ""

    def live_members_below(self, queue: str, *, tree: Tree | None = None) -> int:
        """Live members of a queue and of those below it, as `live_in` counts them."""
        return sum(map(self.live_members_of, (tree or self.snapshot.tree).subtree(queue)))

    def live_members_of(self, queue: str) -> int:
        """Live members of a queue alone; those of namespaces that it does not select keep nobody waiting,
        and do not count."""
        if not self.snapshot.decision(queue).restricted:
            return self.members.live([queue]) + self.workloads.live([queue]) + self.podgroups.live([queue])
        return sum(self._selected(queue, live) for live in self._live_by_namespace(queue))

    def live_pods_of(self, queue: str) -> int:
        """Live pods of a queue alone, of the namespaces that it selects."""
        return self._selected(queue, self.members.counts(queue).live_by_namespace)

    def pods_not_selected_of(self, queue: str) -> int:
        """Live pods of a queue alone, of the namespaces that it does not select."""
        if not self.snapshot.decision(queue).restricted:
            return 0
        return self.members.counts(queue).live - self.live_pods_of(queue)

    def _selected(self, queue: str, by_namespace: dict[str, int]) -> int:
        """How many of them are in namespaces that the queue selects."""
        return sum(number for name, number in list(by_namespace.items()) if self.selects(queue, name))

    def workload_membership(
        self, kind: WorkloadKind, obj: WorkloadObject, *, namespace: str = ""
    ) -> Membership | QueueConflict | None:
        """The membership of a workload as it is submitted."""
        where = obj.metadata.namespace or namespace
        told = workload_facts(kind, obj, namespace=where, namespace_queue=self.queue_of_namespace(where))
        return workload_membership(told, rules=self.rules, group=self.queue_of_podgroup)

    def _queue_of_stored(self, kind: WorkloadKind, obj: WorkloadObject) -> str:
        """What was written down is the answer; of what we were not asked about, the rules' first word."""
        if obj.metadata.namespace in self.rules.exempt_namespaces:
            return ""
        self._note_judged_early(obj.metadata.namespace)
        found = self.workload_membership(kind, obj)
        if isinstance(found, QueueConflict):
            found = found.first
        return recorded_queue(obj) or (found.queue or "" if found else "")

    def _note_judged_early(self, namespace: str) -> None:
        """Before the namespace is looked up: whoever stores it meanwhile looks here afterwards."""
        if namespace in self.namespaces:
            return
        if len(self._judged_early) >= MAX_EARLY_NAMESPACES:
            self._judged_early.clear()
            self.relist_members()
        self._judged_early.add(namespace)

    def take_judged_early(self, namespace: str) -> bool:
        """Whether something in it was judged before it was known; asking forgets it."""
        if namespace not in self._judged_early:
            return False
        self._judged_early.discard(namespace)
        return True

    # The board

    def publish_snapshot(self, changed: Collection[str] | None = None) -> None:
        """Publish a board of the queues held and of this moment; any thread may call.

        `changed`: the queues that may differ from the board there is; None for all.
        """
        with self._board_lock:
            tree, now = Tree(dict(self._values)), self.clock.now()
            if changed is None:
                self.snapshot = QueueSnapshot(tree, now=now, resource_version=self._coming)
            else:
                self.snapshot = QueueSnapshot.updated(
                    self.snapshot, tree, changed=changed, now=now, resource_version=self._coming
                )

    def _publish(self, changed: Collection[str] | None) -> None:
        """As `refresh`; a board that could not be made is made as a whole with the next change."""
        whole, self._unpublished = self._unpublished, True
        self.publish_snapshot(None if whole else changed)
        self._unpublished = False

    def set_queue(self, obj: QueueObject) -> bool:
        """Take a queue; False if it is older than the one held. Queue reflector's thread alone."""
        return self.set_queues([obj]) > 0

    def set_queues(self, objects: Iterable[QueueObject]) -> int:
        """Take several at once, publishing at most one board; how many were not of the past."""
        taken = [obj for obj in objects if not self._is_past(obj)]
        values = {obj.metadata.name: queue_from_object(obj) for obj in taken}
        self._coming = max([self._coming, *(obj.metadata.version for obj in taken)])
        changed = [name for name, value in values.items() if self._values.get(name) != value]
        if changed or self._unpublished:
            self._values.update(values)
            self._publish(changed)
        # After the board: who finds this generation here finds a board that has it.
        self.queues.update({obj.metadata.name: obj for obj in taken})
        self.snapshot_version = self._coming
        return len(taken)

    def replace_queues(self, objects: Iterable[QueueObject]) -> list[str]:
        """These are all there are: one board for the whole; the names of those that are gone."""
        listed = {obj.metadata.name: obj for obj in objects}
        present = {name: self.queues[name] if self._is_past(obj) else obj for name, obj in listed.items()}
        gone = [name for name in self.queues if name not in present]
        for name in gone:
            del self.queues[name]
        values = {name: queue_from_object(obj) for name, obj in present.items()}
        self._coming = max([self._coming, *(obj.metadata.version for obj in present.values())])
        if values != self._values or self._unpublished:
            self._values = values
            self._publish(None)
        self.queues.update(present)
        self.snapshot_version = self._coming
        return gone

    def _is_past(self, obj: QueueObject) -> bool:
        held = self.queues.get(obj.metadata.name)
        return held is not None and obj.metadata.older_than(held.metadata)

    def drop_queue(self, name: str, *, version: int = 0) -> None:
        """`version`: the resource version of the deletion, where it is known."""
        self._coming = max(self._coming, version)
        self.queues.pop(name, None)
        self.selection_changes.pop(name, None)
        if self._values.pop(name, None) is not None or self._unpublished:
            self._publish([name])
        self.snapshot_version = self._coming

    # What reflectors hear

    def labels_changed(self, namespace: str, before: Mapping[str, str] | None) -> None:
        """Tell of the queues that have something live in a namespace, and that select it no more, or again.

        `before`: its labels until now; None where they were not known. Namespace reflector's thread alone.
        """
        board, labels = self.snapshot, self.labels_of_namespace(namespace)
        if not board.restricted_queues or _asked_for(before) == _asked_for(labels):
            return
        for queue in board.restricted_queues:
            if not self._is_used_by(queue, namespace):
                continue
            was = decision_for_namespace(board.decision(queue), namespace=namespace, labels=before).selected
            if self.selects(queue, namespace) is not was:
                self.selection_changes[queue] = self.selection_changes.get(queue, 0) + 1
                self.notify(queue)

    def _is_used_by(self, queue: str, namespace: str) -> bool:
        """Whether something live of the namespace is in the queue."""
        counts = (self.members.counts(queue), self.podgroups.counts(queue))
        return any(namespace in count.live_by_namespace for count in counts) or (
            self.workloads.is_live_in(queue, namespace)
        )

    def _live_by_namespace(self, queue: str) -> tuple[dict[str, int], ...]:
        """Live pods, PodGroups and workloads of a queue alone."""
        return (
            self.members.counts(queue).live_by_namespace,
            self.podgroups.counts(queue).live_by_namespace,
            self.workloads.live_by_namespace(queue),
        )

    def _stranger_gone(self, pod: Pod) -> None:
        """Somebody waits for what each replica knows of the pods (`cluster.cache.marker_pods`)."""
        if pod.metadata.name == MARKER and pod.metadata.namespace in self.rules.exempt_namespaces:
            self.marker_seen()

    def _podgroup_changed(self, group: PodGroup) -> None:
        key = GroupKey(group.metadata.namespace, group.metadata.name)
        self.notify(queue_of_podgroup(group), PodGroupChange(key))

    def _uid_of_group(self, namespace: str, name: str) -> str:
        found = self.podgroups.get(namespace, name)
        return found.metadata.uid if found is not None else ""

    def _member_heard(self, before: Member | None, after: Member | None) -> None:
        latest = after or before
        if latest is None:
            return
        if after is None or after.node or not after.live or after.leaving:  # bound then, or never
            self.bind_passes.close(latest.namespace, latest.name, latest.uid)
        elif before is not None and has_retry_mark(before.condition) and not has_retry_mark(after.condition):
            self.bind_passes.end_attempt(latest.namespace, latest.name)
        if before is not None and before.queue != latest.queue:
            self.notify(before.queue, PodChange(before.uid))
        if latest.group:
            self.notify(latest.queue, PodGroupChange(GroupKey(latest.namespace, latest.group)))
        self.notify(latest.queue, PodChange(latest.uid))


def _asked_for(labels: Mapping[str, str] | None) -> dict[str, str] | None:
    """Those that a selector may ask for: the guard comes and goes with each stop."""
    if labels is None:
        return None
    return {key: value for key, value in labels.items() if not is_reserved_label(key)}


def queue_from_object(obj: QueueObject) -> Queue:
    """A stored Queue as the rules see it. An unknown word stops: it cannot be what was meant."""
    meta, spec = obj.metadata, obj.spec
    return Queue(
        name=meta.name,
        uid=meta.uid,
        generation=meta.generation,
        parent=None if meta.name == ROOT else (spec.parent or ROOT),
        desired=_desired(spec.state or Desired.OPEN),
        stop_policy=_stop_policy(spec.stop_policy or StopPolicy.NONE),
        resume_at=spec.resume_at,
        reason=spec.reason or "",
        namespace_selector=None
        if spec.namespace_selector is None
        else compile_selector(spec.namespace_selector),
    )


def _desired(word: str) -> Desired:
    try:
        return Desired(word)
    except ValueError:
        return Desired.SUSPENDED


def _stop_policy(word: str) -> StopPolicy:
    try:
        return StopPolicy(word)
    except ValueError:
        return StopPolicy.HOLD
