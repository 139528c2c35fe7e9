"""What the server knows of the cluster, and the listeners that it notifies of changes.

Invariants
- Readers, request handlers above all, take no lock: `snapshot` is replaced by one assignment and never
  changed; other questions are single look-ups in dicts.
- Each kind has one writer: the thread of its reflector. Commands alone have two, and a lock: the controller
  removes those that it has deleted (`cluster.cache.commands`). What requests leave behind (passes,
  admissions, questions asked early) has owners and locks of its own (`cluster.inflight`,
  `cluster.cache.namespaces`). Some changes touch several kinds, as when a PodGroup or a namespace gives pods
  their queue. Then the pods are listed again, or the controller acts; no thread writes what belongs to
  another one.
- `synced` is True only while every kind has been listed and is being watched.
- An object older than the stored one is dropped.

The store holds one object for each kind and each question. Questions that touch several kinds have a module
of their own beside this one: `memberships` (which queue is this in?), `decisions` (may it start?),
`pod_policies` (which scheduling policy counts?), `live_members` (what does a close wait for?),
`settling_binds` (may a bind still come?), `refused_members` (what may let a refused pod go?).

`add_listener` adds a callback for changes. It gets the name of the queue concerned, or `NO_QUEUE`, and the
change (`cluster.cache.changes`). It runs in a reflector's thread, so it must only record the
change and return. An exception of one callback affects neither the other callbacks nor the changed object.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from itertools import chain

from cluster.cache.changes import NO_QUEUE, ClusterChange, PodChange, PodGroupChange, QueueChange, StoreChange
from cluster.cache.commands import Commands
from cluster.cache.decisions import Decisions
from cluster.cache.device_claims import DeviceClaims
from cluster.cache.force_deleted_pods import ForceDeletedPods
from cluster.cache.label_changes import LabelChanges
from cluster.cache.live_members import LiveMembers
from cluster.cache.marker_pods import MARKER_POD as MARKER
from cluster.cache.members import Member, Members
from cluster.cache.memberships import Memberships
from cluster.cache.missing_owners import MissingOwners
from cluster.cache.namespaces import Namespaces
from cluster.cache.node_totals import NodeTotals
from cluster.cache.own_writes import OwnWrites
from cluster.cache.pod_policies import PodPolicies
from cluster.cache.podgroups import PodGroupKey, PodGroups
from cluster.cache.priority_classes import PriorityClasses
from cluster.cache.queue_shares import QueueShares
from cluster.cache.queues import QueueCache
from cluster.cache.refused_members import RefusedMembers
from cluster.cache.registrations import Registrations
from cluster.cache.scheduling_policies import SchedulingPolicies
from cluster.cache.settling_binds import SettlingBinds
from cluster.cache.system_pods import SystemPods
from cluster.cache.unreadable_objects import UnreadableObject, UnreadableObjects
from cluster.cache.watch_progress import WatchProgress
from cluster.cache.workloads import AllWorkloads
from cluster.debounce import Trigger
from cluster.inflight.admissions import PendingAdmissions
from cluster.inflight.binds import (
    REQUEST_SECONDS,
    BindPasses,
)
from cluster.inflight.policy_edits import PendingPolicies
from cluster.inflight.queue_edits import PendingQueueEdits
from cluster.inflight.victims import GivenVictims
from cluster.key_backoff import KeyBackoff
from cluster.objects import Pod, PodGroup, QueueObject
from cluster.readiness import ClusterReadiness, Readiness
from cluster.retries import Retries
from queues import well_known
from queues.apimachinery.quantities import Amount
from queues.drain.terminating_pods import GRACE_LIMIT
from queues.membership import Membership, MembershipSettings
from queues.messages import has_retry_mark
from queues.policies.policy_set import PolicySet
from queues.policies.preemptable import preemptable_in
from queues.quota.force_deletion import ended_until, seconds_counted
from queues.quota.started_gangs import StartedGang, started_gang
from queues.quota.usage import PODS, quota_requests
from queues.snapshot import QueueSnapshot
from queues.world.podgroups import queue_of as queue_of_podgroup

ChangeListener = Callable[[str, StoreChange], None]


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
        retries: Retries | None = None,
        readiness: Readiness | None = None,
        drain_grace_limit: float = GRACE_LIMIT,
        member_relists: Trigger | None = None,
    ) -> None:
        """`request_seconds`: the API server's request time-out. `failed`: counts failures by step.
        `retries`: is told of loops that retry. `drain_grace_limit`: the setting of that name.
        """
        self.membership_settings = membership_settings
        self.clock = clock
        #: Without one, answers are never reliable.
        self._readiness = readiness or ClusterReadiness((), clock=clock.monotonic)
        #: Fired to make the reflectors list again every kind that may have members.
        self.member_relists = member_relists or Trigger(clock=clock.monotonic)
        self._listeners: list[ChangeListener] = []
        self._marker_listeners: list[Callable[[], object]] = []
        self.backoff = KeyBackoff(clock=clock.monotonic, counted=failed)
        self.bind_passes = BindPasses(clock=clock.monotonic, request_seconds=request_seconds)
        self.own_writes = OwnWrites()
        self.watch_progress = WatchProgress(
            clock=clock.monotonic, written=self.own_writes.record, retries=retries
        )
        self.queue_edits = PendingQueueEdits(clock=clock.monotonic)
        self.admissions = PendingAdmissions(clock=clock.monotonic, request_seconds=request_seconds)
        self.queue_cache = QueueCache(now=clock.now)
        self.namespaces = Namespaces(
            exempt=membership_settings.exempt_namespaces,
            clock=clock.monotonic,
            relist_members=self.member_relists.fire,
            binding=membership_settings.binding_namespaces,
        )
        self.unreadable = UnreadableObjects()
        #: Whether the API server asks us about all that it has to.
        self.registrations = Registrations(clock=clock.monotonic)
        self.system_pods = SystemPods(on_known=self._retry_refused_members)
        #: Labels of members that somebody changed; for the leader.
        self.label_changes = LabelChanges(clock=clock.monotonic, members=lambda: len(self.members))
        self.given_victims = GivenVictims(clock=clock.monotonic)
        #: Owners of members that are in no watch, as far as is known.
        self.missing_owners = MissingOwners(clock=clock.monotonic)
        arrived = self.admissions.close
        self.priority_classes = PriorityClasses(self._classes_changed)
        self.podgroups = PodGroups(
            value_of=self.priority_classes.value,
            on_queue_change=self._podgroup_queue_changed,
            on_change=self._podgroup_changed,
            on_policy_change=self._policy_of_podgroup_changed,
            arrived=arrived,
            is_seen=self._may_have_members,
        )
        self.podgroups.add_class_listener(lambda needed: self.priority_classes.follow(needed=needed))
        self.memberships = Memberships(
            settings=membership_settings,
            namespaces=self.namespaces,
            podgroups=self.podgroups,
            queues=self.queue_cache,
        )
        self.members = Members(self, calling_schedulers=membership_settings.calling_schedulers)
        self.force_deleted = ForceDeletedPods(clock=clock.monotonic, grace_limit=drain_grace_limit)
        self.workloads = AllWorkloads(
            queue_of=self.memberships.queue_of_workload,
            counts_in=lambda namespace: self.memberships.is_managed(namespace) is not False,
            on_change=self._workloads_changed,
            arrived=arrived,
        )
        self.commands = Commands(on_change=self._commands_changed)
        self.node_totals = NodeTotals(lambda: self.notify(NO_QUEUE, ClusterChange.NODES))
        self.device_claims = DeviceClaims(
            changed=self._claim_changed,
            all_changed=lambda: self.notify(NO_QUEUE, ClusterChange.DEVICES),
            is_named=self._has_claim,
        )
        self.queue_cache.add_devices_listener(lambda needed: self.device_claims.follow(needed=needed))
        self.queue_cache.add_quotas_listener(lambda needed: self.node_totals.follow_names(needed=needed))
        self.policies = SchedulingPolicies()
        self.policies.add_listener(self._policies_changed)
        self.pod_policies = PodPolicies(
            policies=self.policies, queues=self.queue_cache, podgroups=self.podgroups
        )
        self.decisions = Decisions(
            queues=self.queue_cache, namespaces=self.namespaces, policies=self.pod_policies
        )
        self.pending_policies = PendingPolicies(clock=clock.monotonic)
        self.live_members = LiveMembers(
            queues=self.queue_cache,
            members=self.members,
            podgroups=self.podgroups,
            workloads=self.workloads,
            decisions=self.decisions,
            memberships=self.memberships,
        )
        self.queue_cache.ask_for_use(self._is_in_use)
        self.settling_binds = SettlingBinds(
            passes=self.bind_passes,
            members=self.members,
            writes=self.own_writes,
            progress=self.watch_progress,
        )
        self.refused_members = RefusedMembers(
            members=self.members,
            policies=self.policies,
            look_at=lambda member: self.notify(member.queue, PodChange(member.uid)),
        )

    # Listeners

    def add_listener(self, listener: ChangeListener) -> None:
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

    def demand_relist(self, version: int) -> bool:
        """Whether members have been judged by the queues that namespaces named at this version; else it is
        done soon, however often namespaces change later.
        """
        if not self.member_relists.pending_up_to(version):
            return True
        self.member_relists.end_burst()
        return False

    def relist_members(self, version: int = 0) -> None:
        """Have every kind that may have members listed and judged again; returns at once.

        `version`: of the namespace that has come to name another queue; 0 if that may be an older change.
        """
        self.member_relists.fire(version)

    def notify(self, queue: str, change: StoreChange) -> None:
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

    def follow_ended_pods(self, obj: QueueObject) -> None:
        """As far as the annotation of this queue says, what was deleted by force in it and below it counts no
        longer.
        """
        text, now = obj.metadata.annotation(well_known.FORCE_DELETED_ENDED), self.clock.now()
        until = ended_until(text, now=now) if text else None
        if until is None:
            return
        at, tree = self.clock.monotonic() - (now - until).total_seconds(), self.snapshot.tree
        for queue in self.force_deleted.queues():
            is_below = obj.metadata.name in tree.counting_chain(queue)
            if is_below and self.force_deleted.have_ended(queue, until=at):
                self.notify(queue, QueueChange.MEMBERS)

    # Questions

    def queue_shares(self, *, asks: str) -> QueueShares:
        """Return what each queue uses and may keep now, for the pod with this UID, which asks for victims."""
        taken = self.given_victims.taken(asks=asks, nominated=self._nominated_node, leaves=self._leaves)
        return QueueShares(queues=self.queue_cache, members=self.members, taken=taken)

    def given_to_others(self, *, asks: str) -> frozenset[str]:
        """Return the UIDs of the victims of gangs that other pods than this one were given, and that may stay
        yet.
        """
        return self.given_victims.uids_of_gangs(asks=asks, nominated=self._nominated_node)

    def started_gang(self, namespace: str, podgroup: str) -> StartedGang | None:
        """Return what runs of a gang; None where there is no such PodGroup, or its pods go by themselves."""
        gang = self.podgroups.gang(namespace, podgroup)
        if gang is None:
            return None
        members = self.members.in_podgroup(namespace, podgroup)
        return started_gang(
            gang,
            running={each.uid: each.task for each in members if each.uses_quota and not each.leaving},
            ended=[each.task for each in members if each.phase == "Succeeded"],
        )

    def is_preemptable(self, member: Member) -> bool:
        """Return whether the member may be evicted for others, as it says itself, or else its PodGroup."""
        if member.preemptable is not None:
            return member.preemptable
        group = self.podgroups.get(member.namespace, member.podgroup) if member.podgroup else None
        said = group and preemptable_in(group.metadata.annotations, group.metadata.labels)
        return said is not False

    def _nominated_node(self, uid: str) -> str | None:
        member = self.members.by_uid(uid)
        if member is None:  # kube-scheduler knows a new pod before we do
            return ""
        return member.nominated if member.waiting else None

    def _leaves(self, uid: str) -> bool:
        member = self.members.by_uid(uid)
        return member is None or member.leaving or not member.live

    def quota_use(self, queue: str) -> dict[str, Amount]:
        """Return what pods of this queue alone take of quotas, `PODS` among it. Too much for a moment while
        they change, and never too little.
        """
        used, forced = self.quota_parts(queue)
        for resource, amount in forced.items():
            used[resource] = used.get(resource, 0) + amount
        return used

    def quota_parts(self, queue: str) -> tuple[dict[str, Amount], dict[str, Amount]]:
        """The parts of that: of pods that are there, and of pods that were deleted by force."""
        counts = self.members.counts(queue)
        # The number first: a pod that comes meanwhile has not been released. Copied in one step: the pod
        # reflector's thread writes meanwhile. What was deleted by force last: it is recorded before it goes.
        number = counts.using
        used = {**counts.used.copy(), PODS: number}
        return used, self.force_deleted.used(queue)

    def _is_in_use(self, queue: str) -> bool:
        """Whether anything of the queue, or of one below it, is live or counts in a quota."""
        below = self.snapshot.tree.subtree(queue)
        return any(self.live_members.of(name) or any(self.quota_use(name).values()) for name in below)

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

    def owner_uids(self) -> frozenset[str]:
        """Return the UIDs of the owners of members, and of the owners of the workloads that are stored."""
        missing = (owner.uid for owner in self.missing_owners.pending())
        return frozenset((*self.members.owner_uids(), *self.workloads.owner_uids(), *missing))

    def record_owner(self, *, kind: str, namespace: str, name: str, uid: str) -> None:
        """Have the owner of a member looked up, if the cache does not have it."""
        if uid and self.workloads.by_uid(uid) is None:
            self.missing_owners.record(kind=kind, namespace=namespace, name=name, uid=uid)

    def _policies_changed(self, before: PolicySet, after: PolicySet) -> None:
        """Notify of the pods that a policy may have held back; `controller.status` sees to the statuses."""
        self.system_pods.follow(after)
        self.node_totals.follow(needed=after.needs_totals)
        self.queue_cache.follow_policies(after)
        self._retry_refused_members()

    def _retry_refused_members(self) -> None:
        self.refused_members.retry_all()

    def _policy_of_podgroup_changed(self, group: PodGroup) -> None:
        self.refused_members.policy_of_podgroup_changed(group)

    def _may_have_members(self, group: PodGroup) -> bool:
        return self.memberships.may_have_members(group)

    def _podgroup_queue_changed(self) -> None:
        self.notify(NO_QUEUE, QueueChange.MEMBERS)

    def _workloads_changed(self, queue: str) -> None:
        self.notify(queue, QueueChange.STATUS)

    def _commands_changed(self, queue: str) -> None:
        self.notify(queue, QueueChange.COMMANDS)

    def _has_claim(self, namespace: str, name: str, owner: str) -> bool:
        made_for = self.members.by_uid(owner) if owner else None
        return bool(self.members.with_claim(namespace, name)) or (made_for is not None and made_for.live)

    def _claim_changed(self, namespace: str, name: str, owner: str) -> None:
        made_for = self.members.by_uid(owner) if owner else None
        for member in (*self.members.with_claim(namespace, name), *([made_for] if made_for else [])):
            self.notify(member.queue, PodChange(member.uid))

    def _classes_changed(self, names: Collection[str]) -> None:
        self.podgroups.classes_changed(names)

    def _podgroup_changed(self, group: PodGroup) -> None:
        key = PodGroupKey(group.metadata.namespace, group.metadata.name)
        self.notify(queue_of_podgroup(group), PodGroupChange(key))

    # Events of members (`MemberEvents`)

    def unknown_pod_removed(self, pod: Pod) -> None:
        """Call the marker listeners: by a marker a replica asks the others to report their pods."""
        if (
            pod.metadata.name == MARKER
            and pod.metadata.namespace in self.membership_settings.exempt_namespaces
        ):
            for listener in self._marker_listeners:
                listener()

    def pod_membership(self, pod: Pod) -> Membership | None:
        return self.memberships.of_pod(pod)

    def podgroup_uid(self, namespace: str, name: str) -> str:
        group = self.podgroups.get(namespace, name)
        return group.metadata.uid if group is not None else ""

    def member_arrived(self, admission: str) -> None:
        self.admissions.close(admission)

    def will_store_member(self, before: Member | None, after: Member | None) -> None:
        self.label_changes.record_state(before, after)

    def will_remove_member(self, member: Member, version: int) -> None:
        self.label_changes.record_left(member, version)

    def will_delete_member(self, member: Member) -> None:
        seconds = seconds_counted(
            node=member.node, is_finished=not member.live, grace_seconds=member.own_grace
        )
        if seconds:
            devices = (self.device_claims.count(claim).amounts for claim in member.claims if claim.owner)
            requests = (*quota_requests(member.requests), *chain.from_iterable(devices))
            self.force_deleted.record(member.queue, requests, seconds=seconds)

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
