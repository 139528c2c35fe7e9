"""What the server knows of the cluster, and the listeners that it notifies of changes.

Invariants
- Readers, request handlers above all, take no lock: `snapshot` is replaced by one assignment and never
  changed; other questions are single look-ups in dicts.
- Each kind has one writer: the thread of its reflector. Commands alone have two, and a lock: the controller
  removes those that it has deleted (`cluster.cache.commands`). Some changes touch several kinds, as when a
  PodGroup or a namespace gives pods their queue. Then the pods are listed again, or the controller acts; no
  thread writes what belongs to another one.
- `synced` is True only while every kind has been listed and is being watched.
- An object older than the stored one is dropped.

`add_listener` adds a callback for changes. It gets the name of the queue concerned ("" for pods without a
queue) and the change (`cluster.cache.changes`). It runs in a reflector's thread, so it must only record the
change and return. An exception of one callback affects neither the other callbacks nor the changed object.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from cluster.cache.changes import Change, PodChange, PodGroupChange, QueueChange
from cluster.cache.commands import Commands
from cluster.cache.decisions import Decisions
from cluster.cache.label_changes import LabelChanges
from cluster.cache.marker_pods import MARKER_POD as MARKER
from cluster.cache.members import Member, Members
from cluster.cache.missing_owners import MissingOwners
from cluster.cache.namespaces import Namespaces
from cluster.cache.pod_policies import PodPolicies
from cluster.cache.podgroups import PodGroupKey, PodGroups
from cluster.cache.podgroups import queue_of as queue_of_podgroup
from cluster.cache.queue_shares import QueueShares
from cluster.cache.queues import QueueCache
from cluster.cache.scheduling_policies import SchedulingPolicies
from cluster.cache.system_pods import SystemPods
from cluster.cache.unreadable_objects import UnreadableObject, UnreadableObjects
from cluster.cache.watch_progress import WatchProgress
from cluster.cache.workloads import (
    AllWorkloads,
    recorded_queue,
    workload_facts,
)
from cluster.debounce import Trigger
from cluster.inflight.admissions import PendingAdmissions
from cluster.inflight.binds import (
    REQUEST_SECONDS,
    BindPass,
    BindPasses,
)
from cluster.inflight.policy_edits import PendingPolicies
from cluster.inflight.queue_edits import PendingQueueEdits
from cluster.inflight.victims import GivenVictims
from cluster.key_backoff import KeyBackoff
from cluster.objects import Pod, PodGroup, QueueObject, WorkloadObject
from cluster.readiness import ClusterReadiness, Readiness
from queues import well_known
from queues.managed_namespaces import manages
from queues.membership import (
    Membership,
    MembershipSettings,
    PodFacts,
    QueueConflict,
    fits_label,
    stored_pod_membership,
    workload_membership,
)
from queues.messages import has_retry_mark
from queues.policies.policy_set import PolicySet
from queues.snapshot import (
    QueueSnapshot,
)
from queues.tree import Tree
from queues.workload_kinds import WorkloadKind

#: Writes of ours that are remembered. A Lease is renewed every second or two; a pod event arrives sooner.
MAX_WRITES = 64

Listener = Callable[[str, Change], None]


class Clock:
    """The present time by the API server's clock, as its answers tell it."""

    def __init__(self, clock_skew: Callable[[], float] = lambda: 0.0) -> None:
        self._clock_skew = clock_skew

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self._clock_skew())

    def monotonic(self) -> float:
        return time.monotonic()


class Store:
    """The caches of all kinds. See the invariants above."""

    def __init__(
        self,
        *,
        membership_settings: MembershipSettings,
        clock: Clock,
        request_seconds: float = REQUEST_SECONDS,
        failed: Callable[[str], None] = lambda _step: None,
        readiness: Readiness | None = None,
        member_relists: Trigger | None = None,
    ) -> None:
        """`request_seconds`: the API server's request time-out. `failed`: counts failures by step."""
        self.membership_settings = membership_settings
        self.clock = clock
        #: Without one, answers are never reliable.
        self._readiness = readiness or ClusterReadiness((), clock=clock.monotonic)
        #: Fired to make the reflectors list again every kind that may have members.
        self.member_relists = member_relists or Trigger(clock=clock.monotonic)
        self._listeners: list[Listener] = []
        self._marker_listeners: list[Callable[[], object]] = []
        self.backoff = KeyBackoff(clock=clock.monotonic, counted=failed)
        self.bind_passes = BindPasses(clock=clock.monotonic, request_seconds=request_seconds)
        self.watch_progress = WatchProgress(clock=clock.monotonic, written=self.record_write)
        self.queue_edits = PendingQueueEdits(clock=clock.monotonic)
        self.admissions = PendingAdmissions(clock=clock.monotonic, request_seconds=request_seconds)
        self.queue_cache = QueueCache(now=clock.now)
        self.namespaces = Namespaces(
            exempt=membership_settings.exempt_namespaces,
            clock=clock.monotonic,
            relist_members=self.member_relists.fire,
        )
        self.unreadable = UnreadableObjects()
        #: The versions of our own writes, and when each was begun; replaced under the lock, never changed.
        self._writes: tuple[tuple[int, float], ...] = ()
        self._writes_lock = threading.Lock()
        self.system_pods = SystemPods(on_known=self._notify_of_refused_members)
        #: Labels of members that somebody changed; for the leader.
        self.label_changes = LabelChanges(clock=clock.monotonic)
        self.given_victims = GivenVictims(clock=clock.monotonic)
        #: Owners of members that are in no watch, as far as is known.
        self.missing_owners = MissingOwners(clock=clock.monotonic)
        arrived = self.admissions.close
        self.members = Members(self, calling_schedulers=membership_settings.calling_schedulers)
        self.podgroups = PodGroups(
            on_queue_change=self._podgroup_queue_changed,
            on_change=self._podgroup_changed,
            on_policy_change=self._policy_of_podgroup_changed,
            arrived=arrived,
            is_seen=self._is_seen_podgroup,
        )
        self.workloads = AllWorkloads(
            queue_of=self.queue_of_workload,
            counts_in=lambda namespace: self.is_managed(namespace) is not False,
            on_change=self._workloads_changed,
            arrived=arrived,
        )
        self.commands = Commands(on_change=self._commands_changed)
        self.policies = SchedulingPolicies()
        self.policies.add_listener(self._policies_changed)
        self.pod_policies = PodPolicies(
            policies=self.policies, queues=self.queue_cache, podgroups=self.podgroups
        )
        self.decisions = Decisions(
            queues=self.queue_cache, namespaces=self.namespaces, policies=self.pod_policies
        )
        self.pending_policies = PendingPolicies(clock=clock.monotonic)

    # Listeners

    def add_listener(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def add_marker_listener(self, listener: Callable[[], object]) -> None:
        """`listener` is called in the pod reflector's thread when a marker has passed (`watch_progress`)."""
        self._marker_listeners.append(listener)

    @property
    def synced(self) -> bool:
        """Whether the whole cluster has been read and answers from the store may be relied upon."""
        return self._readiness.synced

    @property
    def cut_off(self) -> bool:
        """Whether the API server was reachable once and is no longer."""
        return self._readiness.cut_off

    @property
    def membership_relist_pending(self) -> bool:
        """Whether members are about to be judged again, by the queues that namespaces name now."""
        return self.member_relists.pending

    def relist_pending_up_to(self, version: int) -> bool:
        """The same, by the queues that namespaces named at this version. If so, it is done soon, however
        often namespaces change later.
        """
        if not self.member_relists.pending_up_to(version):
            return False
        self.member_relists.end_burst()
        return True

    def relist_members(self, version: int = 0) -> None:
        """Have every kind that may have members listed and judged again; returns at once.

        `version`: of the namespace that has come to name another queue; 0 if that may be an older change.
        """
        self.member_relists.fire(version)

    def assume_bind_passes(
        self, sure: Callable[[str], bool] = lambda _queue: False, *, binds: bool = True
    ) -> None:
        """Assume that a replica that is gone let through each member that could be bound now.

        `sure`: returns whether no member of a queue can have been let through. `binds`: whether its guard may
        have allowed binds that are under way, of members that no scheduler calls filter for. A filtered
        member's assumed pass stands for its bind, too.
        """
        for queue in self.members.queues():
            if sure(queue):
                continue
            for member in self.members.waiting_in(queue):
                if not member.bindable:
                    continue
                if member.filtered:
                    self.bind_passes.assume_pass(
                        namespace=member.namespace, name=member.name, queue=queue, uid=member.uid
                    )
                elif binds:
                    self.bind_passes.assume_bind(namespace=member.namespace, name=member.name, queue=queue)

    def has_unfiltered_binds(self) -> bool:
        """Return whether a bind that our own guard allowed may still be stored, of a pod that no scheduler
        calls filter for.

        Other replicas assume a pass for each pod that filter is called for, once we are gone.
        """
        for each in self.bind_passes.open_passes():
            if each.bind and not each.assumed:
                member = self.members.get(each.namespace, each.name)
                if member is None or not member.filtered:
                    return True
        return False

    def record_write(self, at: float, version: int) -> None:
        """Record that a write of ours was stored as this version, begun at `at` (monotonic seconds) or later.

        From any thread: Leases and markers are written by different ones.
        """
        with self._writes_lock:
            self._writes = (*self._writes[1 - MAX_WRITES :], (version, at))

    @property
    def last_write(self) -> int:
        """The highest version of our own writes; passes from before it are settled once the pods have it."""
        return max((version for version, _ in self._writes), default=0)

    def drop_settled_passes(self) -> None:
        """Drop the passes of pods that do not wait, up to the last write whose version the pod cache has.

        A pod that was passed before that write was begun existed before its version, so the cache knows it.
        """
        known = self.watch_progress.applied("pods")
        at = max((begun for version, begun in self._writes if version <= known), default=None)
        if at is not None:
            self.bind_passes.drop_settled(before=at, waits=self._waits)

    def _waits(self, each: BindPass) -> bool:
        member = self.members.get(each.namespace, each.name)
        return member is not None and member.bindable and each.uid in {"", member.uid}

    def notify(self, queue: str, change: Change) -> None:
        """Pass a change to each listener."""
        for listener in self._listeners:
            try:
                listener(queue, change)
            except Exception as exc:  # the object is stored all the same, and the other listeners are called
                self.backoff.record_failure("listener", (queue, change), exc, queue=queue)

    # Queues

    @property
    def queues(self) -> dict[str, QueueObject]:
        """The stored queues by name."""
        return self.queue_cache.objects

    @property
    def snapshot(self) -> QueueSnapshot:
        """What each queue decides, as published last; never changed."""
        return self.queue_cache.snapshot

    @property
    def snapshot_version(self) -> int:
        """Up to which resource version `snapshot` has the changes of queues."""
        return self.queue_cache.version

    # Questions

    def pod_membership(self, pod: Pod) -> Membership | None:
        """Return the membership of a stored pod."""
        if not pod.metadata.label(well_known.QUEUE) and (
            not pod.metadata.annotation(well_known.QUEUE)
            or self.membership_settings.managed_namespaces is not None
        ):
            self.namespaces.note_early(pod.metadata.namespace)
        return stored_pod_membership(
            self.pod_facts(pod),
            rules=self.membership_settings,
            podgroup=self.queue_of_podgroup,
            queue_of_label=self.queue_of_label,
        )

    def pod_facts(self, pod: Pod, *, namespace: str = "") -> PodFacts:
        """Return the facts from which the membership of a pod is decided.

        `namespace`: used if the pod's metadata does not have one yet.
        """
        where = pod.metadata.namespace or namespace
        return PodFacts(
            namespace=where,
            labels=pod.metadata.labels or {},
            annotations=pod.metadata.annotations or {},
            scheduler=pod.spec.scheduler_name,
            namespace_queue=self.namespaces.queue_of(where),
            managed=bool(self.is_managed(where)),
        )

    def is_managed(self, namespace: str) -> bool | None:
        """Return whether the namespace is ours at all (`queues.managed_namespaces`); None if unknown."""
        selector = self.membership_settings.managed_namespaces
        return True if selector is None else manages(selector, self.namespaces.labels_of(namespace))

    def judged_by(self, namespace: str) -> tuple[str, bool | None]:
        """Return what of the namespace decides who is a member in it."""
        return self.namespaces.queue_of(namespace), self.is_managed(namespace)

    def _is_seen_podgroup(self, group: PodGroup) -> bool:
        namespace = group.metadata.namespace
        if namespace in self.membership_settings.exempt_namespaces:
            return False
        if self.membership_settings.managed_namespaces is None or group.metadata.label(well_known.QUEUE):
            return True
        self.namespaces.note_early(namespace)
        return bool(self.is_managed(namespace))

    def queue_shares(self, *, asks: str) -> QueueShares:
        """Return what each queue uses and may keep now, for the pod with this UID, which asks for victims."""
        taken = self.given_victims.taken(asks=asks, nominated=self._nominated_node, leaves=self._leaves)
        return QueueShares(queues=self.queue_cache, members=self.members, taken=taken)

    def _nominated_node(self, uid: str) -> str | None:
        member = self.members.by_uid(uid)
        if member is None:  # kube-scheduler knows a new pod before we do
            return ""
        return member.nominated if member.waiting else None

    def _leaves(self, uid: str) -> bool:
        member = self.members.by_uid(uid)
        return member is None or member.leaving or not member.live

    def queue_of_label(self, label: str) -> str:
        """Return the queue whose label this is; the label itself if no such queue exists."""
        if "_" not in label:  # only the labels of long names have one
            return label
        return next((name for name in self.snapshot.tree if fits_label(name, label)), label)

    def queue_of_podgroup(self, namespace: str, name: str) -> str | None:
        return self.podgroups.queue_of(namespace, name)

    def queue_of_pod(self, namespace: str, name: str) -> str | None:
        """Return the queue of a pod by name, from the store, else from a recent pass."""
        member = self.members.get(namespace, name)
        return member.queue if member else self.bind_passes.queue_of(namespace, name)

    def queue_of_unreadable(self, fault: UnreadableObject) -> str:
        """Return the queue of an object that cannot be read in full; empty if it has none."""
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
        """Return the live members of a queue and of those below it, as `live_members_of` counts them."""
        return sum(map(self.live_members_of, (tree or self.snapshot.tree).subtree(queue)))

    def live_members_of(self, queue: str) -> int:
        """Return the live members of a queue alone. Members in namespaces that it does not select do not
        count: no close waits for them."""
        if not self.snapshot.decision(queue).restricted:
            return self.members.live([queue]) + self.workloads.live([queue]) + self.podgroups.live([queue])
        return sum(self._selected(queue, live) for live in self._live_by_namespace(queue))

    def live_pods_of(self, queue: str) -> int:
        """Return the live pods of a queue alone, in the namespaces that it selects."""
        return self._selected(queue, self.members.counts(queue).live_by_namespace)

    def live_pods_in(self, namespace: str) -> dict[str, int]:
        """Return the live pods of a namespace by queue."""
        counts = {queue: self.members.counts(queue).live_by_namespace for queue in self.members.queues()}
        return {queue: count[namespace] for queue, count in counts.items() if namespace in count}

    def unmanaged_pods_of(self, queue: str) -> int:
        """Return the live pods of a queue alone, in namespaces that are not managed."""
        if self.membership_settings.managed_namespaces is None:
            return 0
        counts = list(self.members.counts(queue).live_by_namespace.items())
        return sum(number for name, number in counts if self.is_managed(name) is False)

    def pods_not_selected_of(self, queue: str) -> int:
        """Return the live pods of a queue alone, in the namespaces that it does not select."""
        if not self.snapshot.decision(queue).restricted:
            return 0
        return self.members.counts(queue).live - self.live_pods_of(queue)

    def _selected(self, queue: str, by_namespace: dict[str, int]) -> int:
        """Return how many of them are in namespaces that the queue selects."""
        return sum(
            number for name, number in list(by_namespace.items()) if self.decisions.selects(queue, name)
        )

    def workload_membership(
        self, kind: WorkloadKind, obj: WorkloadObject, *, namespace: str = ""
    ) -> Membership | QueueConflict | None:
        """Return the membership of a submitted workload."""
        where = obj.metadata.namespace or namespace
        facts = workload_facts(kind, obj, namespace=where, namespace_queue=self.namespaces.queue_of(where))
        return workload_membership(facts, rules=self.membership_settings, podgroup=self.queue_of_podgroup)

    def is_member_workload(self, kind: WorkloadKind, obj: WorkloadObject) -> bool:
        """Return whether a stored workload is in a queue, or will be when its PodGroup exists."""
        if obj.metadata.namespace in self.membership_settings.exempt_namespaces:
            return False
        self.namespaces.note_early(obj.metadata.namespace)
        if not self.is_managed(obj.metadata.namespace):
            return bool(self.queue_of_workload(kind, obj))
        return bool(recorded_queue(obj)) or self.workload_membership(kind, obj) is not None

    def owner_uids(self) -> frozenset[str]:
        """Return the UIDs of the owners of members, and of the owners of the workloads that are stored."""
        missing = (owner.uid for owner in self.missing_owners.pending())
        return frozenset((*self.members.owner_uids(), *self.workloads.owner_uids(), *missing))

    def record_owner(self, *, kind: str, namespace: str, name: str, uid: str) -> None:
        """Have the owner of a member looked up, if the cache does not have it."""
        if uid and self.workloads.by_uid(uid) is None:
            self.missing_owners.record(kind=kind, namespace=namespace, name=name, uid=uid)

    def queue_of_workload(self, kind: WorkloadKind, obj: WorkloadObject) -> str:
        """Return the queue that admission recorded; without a record, the first one that the rules name.

        In a namespace that is not managed only what a drain suspended has one.
        """
        if obj.metadata.namespace in self.membership_settings.exempt_namespaces:
            return ""
        self.namespaces.note_early(obj.metadata.namespace)
        is_managed = self.is_managed(obj.metadata.namespace)
        if not is_managed:
            is_kept = is_managed is None or obj.metadata.annotation(well_known.SUSPENDED)
            return recorded_queue(obj) if is_kept else ""
        membership = self.workload_membership(kind, obj)
        if isinstance(membership, QueueConflict):
            membership = membership.first
        return recorded_queue(obj) or (membership.queue or "" if membership else "")

    # Called by the event handlers

    def is_used_by(self, queue: str, namespace: str) -> bool:
        """Return whether the queue has a live object in the namespace."""
        counts = (self.members.counts(queue), self.podgroups.counts(queue))
        return any(namespace in count.live_by_namespace for count in counts) or (
            self.workloads.is_live_in(queue, namespace)
        )

    def _live_by_namespace(self, queue: str) -> tuple[dict[str, int], ...]:
        """Return the live pods, PodGroups and workloads of a queue alone, each by namespace."""
        return (
            self.members.counts(queue).live_by_namespace,
            self.podgroups.counts(queue).live_by_namespace,
            self.workloads.live_by_namespace(queue),
        )

    def unknown_pod_removed(self, pod: Pod) -> None:
        """Call the marker listeners: by a marker a replica asks the others to report their pods."""
        if (
            pod.metadata.name == MARKER
            and pod.metadata.namespace in self.membership_settings.exempt_namespaces
        ):
            for listener in self._marker_listeners:
                listener()

    def _policies_changed(self, before: PolicySet, after: PolicySet) -> None:
        """Notify of the pods that a policy may have held back; `controller.status` sees to the statuses."""
        self.system_pods.follow(after)
        self._notify_of_refused_members()

    def replica_reported_policies(self, version: int) -> None:
        """Notify of the pods that another replica may have held back; it answers by policies of this version.

        It may have been without its Lease for a while, so that nobody waited for its report.
        """
        if self.policies.policies.entries and version == self.policies.version:
            self.policies.reports += 1
            self._notify_of_refused_members()

    def lending_changed(self) -> None:
        """Notify of the pods that may have been denied the victims that another queue lends now."""
        if self.policies.policies.entries:
            self._notify_of_refused_members()

    def _notify_of_refused_members(self) -> None:
        for queue in self.members.queues():
            self._notify_of_refused(self.members.waiting_in(queue))

    def _policy_of_podgroup_changed(self, group: PodGroup) -> None:
        if self.policies.policies.entries:
            self._notify_of_refused(self.members.in_podgroup(group.metadata.namespace, group.metadata.name))

    def _notify_of_refused(self, members: Iterable[Member]) -> None:
        """Notify of those that were refused a node or victims: they may go now."""
        for member in members:
            if member.bindable and member.condition:
                self.notify(member.queue, PodChange(member.uid))

    def _podgroup_queue_changed(self) -> None:
        self.notify("", QueueChange.MEMBERS)

    def _workloads_changed(self, queue: str) -> None:
        self.notify(queue, QueueChange.STATUS)

    def _commands_changed(self, queue: str) -> None:
        self.notify(queue, QueueChange.COMMANDS)

    def _podgroup_changed(self, group: PodGroup) -> None:
        key = PodGroupKey(group.metadata.namespace, group.metadata.name)
        self.notify(queue_of_podgroup(group), PodGroupChange(key))

    def podgroup_uid(self, namespace: str, name: str) -> str:
        group = self.podgroups.get(namespace, name)
        return group.metadata.uid if group is not None else ""

    def member_arrived(self, admission: str) -> None:
        self.admissions.close(admission)

    def will_store_member(self, before: Member | None, after: Member | None) -> None:
        self.label_changes.record_state(before, after)

    def will_remove_member(self, member: Member, version: int) -> None:
        self.label_changes.record_left(member, version)

    def member_changed(self, before: Member | None, after: Member | None) -> None:
        latest = after or before
        if latest is None:
            return
        if before is None and after is not None:
            self.record_owner(
                kind=after.owner_kind,
                namespace=after.namespace,
                name=after.owner_name,
                uid=after.owner_uid,
            )
        if after is None or after.node or not after.live or after.leaving:  # bound, or never to be bound
            self.bind_passes.close(latest.namespace, latest.name, latest.uid)
        elif before is not None and has_retry_mark(before.condition) and not has_retry_mark(after.condition):
            self.bind_passes.end_attempt(latest.namespace, latest.name)
        if before is not None and before.queue != latest.queue:
            self.notify(before.queue, PodChange(before.uid))
        if latest.podgroup:
            self.notify(latest.queue, PodGroupChange(PodGroupKey(latest.namespace, latest.podgroup)))
        self.notify(latest.queue, PodChange(latest.uid))
