"""The pods that wait for room, and what queues use, kept in step with the cache.

What has changed is read again, and nothing else: a pod that ends costs its queue.

| what has changed                                    | what is read                                   |
|-----------------------------------------------------|------------------------------------------------|
| a pod                                               | that pod, and what its queue uses              |
| a PodGroup, or a pod of it                          | what is asked for of it as a gang, from all    |
|                                                     | its pods, and once however many have changed   |
| a queue's spec, or one above it; what it selects    | the pods that wait in it, and what it uses     |
| the tree                                            | what each queue uses; all classes are open     |
| the scheduling policies                             | all pods that wait                             |
| what a claim of devices counts                      | the pods that have it, and what their queues   |
|                                                     | use                                            |
| classes of devices; whether claims are known        | all                                            |
| pods deleted by force count no longer               | what their queue uses                          |

Invariants
- What a queue uses is read from its counts, after what was begun for it: a pod whose gates go meanwhile
  counts twice, and never not at all. It is read again with each change of a pod of the queue.
- A pod is chosen as the cache has it at that moment: it still waits, and requests what the index has. So a
  pass may last while the cache changes. What was chosen counts; who has changed is left out and read again;
  use that falls meanwhile is read by the next pass. Use that rises meanwhile is of pods that nobody released
  here (made with a node, or without a gate): the watch may always be that late.
- A pod whose release was begun, or may have been, is in no index.
- The minimum of a gang is chosen whole or not at all: where one of its pods has changed since it was asked
  for, none of them is. Only pods of queues with a quota are asked for as gangs.
- A gang of which a part was released as this replica came to lead goes first, once what is missing of its
  minimum has room: the former leader had begun it. So do pods in the place of those that a gang has lost.
- A pod with our gate and one of somebody else is not asked for: it would hold room, and could not use it.
- Pods that pend without a gate of ours go one by one, those of gangs too: they may have been let through.
- All amounts are in the ledger (`queues.quota.ledger`). What is set aside does not count while it is looked
  at who may have it.
- A pod that pends without a gate of ours may have been let through before there was a quota. Such pods go
  first, and do not count for each other. For all others they count, but for those that have never room.

Owner: the controller's thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager

import msgspec

from cluster.cache.changes import NO_QUEUE, PodChange, PodGroupChange, QueueChange, StoreChange
from cluster.cache.members import Member
from cluster.cache.podgroups import PodGroupKey, phase_of
from cluster.cache.queues import NO_LENDING
from cluster.cache.store import Store
from cluster.objects import PodGroup
from controller.quota.gang_placements import GangsInPlacement
from controller.quota.gang_reading import GangReading
from controller.quota.lost_pods import SentAway
from controller.quota.rules_in_force import rules_in_force
from controller.quota.waiting_gangs import GangState, WaitingGangs
from queues.apimachinery.pod_requests import Requests
from queues.apimachinery.quantities import Amount, add_amounts
from queues.messages import other_gate_text
from queues.queue import DequeueStrategy
from queues.quota.book import MAX_INTENTS
from queues.quota.devices import (
    add_claims,
    add_classes,
    has_shared_claim,
    shared_counts,
)
from queues.quota.gang_turns import GangTurns
from queues.quota.giving_back import Borrowed, GivingBack
from queues.quota.lack import Lack, LackKind
from queues.quota.ledger import ALL_PODS, AmountReason, Ledger
from queues.quota.pod_classes import WaitingPod
from queues.quota.release_order import ReleasePass, whole_of
from queues.quota.report import CountedBeside
from queues.quota.reservations import Reservations
from queues.quota.shares import RankKey, Shares
from queues.quota.started_gangs import StartedGang
from queues.quota.usage import TURN, asks_for_turn
from queues.quota.waiting_index import WaitingIndex
from queues.snapshot import QueueSnapshot
from queues.status.gang_standing import standing_of
from queues.status.podgroup_conditions import FREE, GangQuotaState
from queues.status.podgroup_phases import Phase
from queues.tree import Tree
from queues.world.pod_rules import PodRules, is_gated

#: The changes after which all pods that wait in a queue are read.
_OF_ALL = frozenset[StoreChange]({QueueChange.SPEC, QueueChange.RESYNC, QueueChange.MEMBERS})


#: So many pods are read between two pauses.
PODS_OF_A_STEP = 8


class WaitingPods:
    """Owner: `QuotaReleases`."""

    def __init__(
        self,
        store: Store,
        *,
        pause: Callable[[], object],
        placements: GangsInPlacement,
    ) -> None:
        """`pause`: called between two steps of a long computation. `placements`: the gangs that were
        released, and are not on nodes.
        """
        self._store = store
        self._placements = placements
        self._pause = pause
        #: How quotas take pods.
        self.rules = PodRules(
            store,
            counts_devices=self._counts_devices,
        )
        #: Not forgotten with the rest: their evictions are under way whatever is read anew.
        self.sent_away = SentAway()
        self.forget()

    def forget(self) -> None:
        """Read everything again with the next pass."""
        tree = Tree({})
        #: None: nothing was read yet.
        self._tree: Tree | None = None
        self._gated = WaitingIndex(tree)
        #: Those without a gate of ours, and whether they are others than before.
        self._ungated = WaitingIndex(tree)
        self._ungated_changed = False
        self._turns = GangTurns()
        #: What queues use, and why.
        self.ledger = Ledger(tree, turns=self._turns)
        #: Room that is set aside for pods that wait; and whether there may be room for one of them.
        self.reservations = Reservations(self.ledger)
        self._reserved_due = False
        #: Whether pods are to be told another reason, since no room is set aside for them any more.
        self._tells_again = False
        #: Of which the tree and the rules are.
        self._snapshot: QueueSnapshot | None = None
        #: By queue, when some of that ends though nothing changes: of pods that were deleted by force.
        self._ends: dict[str, float] = {}
        self._policies = -1
        self._devices = -1
        #: The pods that have a claim, by the queue up to which that holds.
        self.claimants: dict[str, str] = {}
        #: What is to be read: pods by queue, and the queues of which all is.
        self._pods: dict[str, set[str]] = {}
        self._queues: set[str] = set()
        self._gangs = WaitingGangs(self.ledger)
        self._gang_reading = GangReading(
            self._store,
            rules=self.rules,
            placements=self._placements,
            gangs=self._gangs,
            ledger=self.ledger,
            sent_away=self.sent_away,
        )
        #: The gangs of which something goes before all others.
        self._first_gangs: set[PodGroupKey] = set()
        #: Pods that are to be told that a gate of somebody else comes first, by UID.
        self._gated_by_others: dict[str, None] = {}
        #: How many pods may be chosen next; and how many the entry has for which that was too few.
        self.room = MAX_INTENTS
        self._awaits = 0
        #: The PodGroups of which the status may be another.
        self._changed_groups: set[PodGroupKey] = set()
        #: Whom to ask about each queue of the chain, by queue: what pods are told names them.
        self._contacts: dict[str, tuple[str, ...]] = {}

    # What is to be read

    def record(self, changes: Mapping[str, Iterable[StoreChange]]) -> None:
        if self._tree is None:
            return  # everything is read
        for queue, of_queue in changes.items():
            for change in of_queue:
                if isinstance(change, PodGroupChange):
                    self._gangs.record(change.key)
                elif queue == NO_QUEUE:
                    continue
                elif isinstance(change, PodChange):
                    self.record_pod(queue, change.uid)
                elif change in _OF_ALL:
                    self._queues.add(queue)

    def record_pod(self, queue: str, uid: str) -> None:
        self._pods.setdefault(queue, set()).add(uid)

    @property
    def has_begun(self) -> bool:
        """Whether something was read since all was forgotten."""
        return self._tree is not None

    def is_due(self, now: float) -> bool:
        """Whether there is something to read, or a pod that may have room."""
        is_changed = (
            self._has_changes or self._ungated_changed or min(self._ends.values(), default=now + 1) <= now
        )
        is_told = self._reserved_due or self._tells_again or self._gangs.tells_at <= now
        is_told = is_told or bool(self._gated_by_others)
        is_changed = is_changed or self._turns.taken != self._taken_turns()
        return is_changed or is_told or _is_due(self._ungated, now) or self._is_gated_due(now)

    def _is_gated_due(self, now: float) -> bool:
        """Not while the first entry waits for more of the book than there is: no other one passes it."""
        return self.room >= self._awaits and _is_due(self._gated, now)

    @property
    def due(self) -> float:
        """When there may be room though nothing changes."""
        ends = self._gated.claims.ends_at, self._ungated.claims.ends_at
        of_gangs = self._gangs.tells_at, self._gangs.rests_until, self._gang_reading.lost.due
        return min(*ends, *of_gangs, *self._ends.values())

    @property
    def _has_changes(self) -> bool:
        return bool(
            self._pods
            or self._queues
            or self._gangs.has_changed(self._store.clock.monotonic())
            or self._gang_reading.lost.due <= self._store.clock.monotonic()
            or self._snapshot is not self._store.snapshot
            or self.ledger.usage.rules.nodes != self._nodes
            or self._policies != self._store.policies.changes
            or self._devices != self._store.device_claims.version
        )

    @property
    def _nodes(self) -> Mapping[str, Amount] | None:
        """What nodes have, where a rule asks."""
        return self._store.node_totals.amounts if self.ledger.usage.rules.needs_nodes else None

    def concerned(self) -> Iterator[str]:
        """The queues whose pods we release."""
        return (queue for queue in self._store.members.queues() if self.rules.concerns(queue))

    def unreleased(self) -> Iterator[Member]:
        """All pods that we may release in the end."""
        for queue in self.concerned():
            yield from filter(self.rules.waits, self._store.members.waiting_in(queue))

    # Reading

    def read(
        self,
        begun: Collection[str],
        *,
        in_doubt: Set[str] = frozenset(),
        postponed: Collection[str] = (),
    ) -> None:
        """Read what has changed.

        `begun`: the pods whose release was begun, by UID. `in_doubt`: those of which it may have been. They
        count, too, and are in no index; and they are postponed, so that their gangs wait for them.
        `postponed`: all that are not to be released now.
        """
        ended = self._ended(self._store.clock.monotonic())
        if not (self._has_changes or ended):
            return
        snapshot, policies = self._store.snapshot, self._store.policies.changes
        devices = self._store.device_claims.version
        tree, rules = snapshot.tree, self.ledger.usage.rules
        if snapshot is not self._snapshot or rules.nodes != self._nodes:
            rules, self._snapshot = rules_in_force(self._store, snapshot), snapshot
        pods, queues = self._pods, self._queues
        self._pods, self._queues, self._awaits = {}, set(), 0
        counted = {*begun, *in_doubt} if in_doubt else begun
        self.rules.begin_reading(postponed=postponed)
        for key in self._gang_reading.lost.take_due(self._store.clock.monotonic()):
            self._gangs.record(key)
        if policies != self._policies or self._tree is None:
            self._policies = policies
            queues.update(self._store.members.queues())
        is_other = tree is not self._tree or rules != self.ledger.usage.rules
        if devices != self._devices:
            self._devices, is_other = devices, True
            queues.update(self._store.members.queues())
        if is_other:
            claims = shared_counts(self._store.device_claims)
            self.ledger.begin_anew(tree, rules=rules, claims=claims)
            self._reserved_due = bool(self.reservations)
            self._gated.look_at_all(tree)
            self._ungated.look_at_all(tree)
        if self._tree is None:
            by_uid = self._store.members.by_uid
            self.sent_away.forget_gone(lambda uid: by_uid(uid) is None)
        with self.ledger.together():
            for queue in queues.union(self._store.podgroups.queues() if self._tree is None else ()):
                self._record_kept_gangs(queue)
                self._read_queue(queue, counted)
                self._follow_contacts(queue, tree)
            for uids in pods.values():
                for uid in uids:
                    self._read_pod(uid, counted, has_changed=True)
            of_gangs = self._read_gangs(begun)
            changed = {*pods, *queues, *ended, *of_gangs}
            if is_other:
                self._tree, self._ends = tree, {}
                changed.update(self._store.members.queues(), self._store.force_deleted.queues())
                changed.update(self.ledger.queues())
            self._count(changed, counted)
        if self.ledger.usage.rules.overcommit:
            self._count_unplaced(counted)
        self._record_falls()

    def _read_queue(self, queue: str, begun: Collection[str]) -> None:
        """The pods that wait in it, or that are in an index. Those that are new and go by themselves, and
        those of one PodGroup, are read together: what they have in common is asked once.
        """
        left = {*self._gated.in_queue(queue), *self._ungated.in_queue(queue)}
        alike: dict[tuple[object, ...], list[Member]] = {}
        of_groups: dict[tuple[str, str], list[Member]] = {}
        for number, member in enumerate(self._store.members.waiting_in(queue)):
            if not number % PODS_OF_A_STEP:
                self._pause()
            uid = member.uid
            if not (member.gated or member.quota_gated) or (self._tree is not None and self._is_known(uid)):
                left.add(uid)
            elif member.podgroup:
                of_groups.setdefault((member.namespace, member.podgroup), []).append(member)
            elif member.claims or member.leaving or not member.written or member.other_gate or uid in begun:
                left.add(uid)
            else:
                key = id(member.requests), member.namespace, member.scheduler_policy, member.quota_gated
                alike.setdefault(key, []).append(member)
        for members in alike.values():
            if self.rules.may_go(members[0]):
                self._put_alike([each for each in members if not self.rules.is_postponed(each.uid)])
                self._pause()
        for uid in left.union(*self._read_groups(of_groups)):
            self._read_pod(uid, begun)
            self._pause()

    def _follow_contacts(self, queue: str, tree: Tree) -> None:
        """Have its pods told their reasons again where these name somebody else now."""
        contacts = tree.contacts_of(queue)
        before = self._contacts.get(queue, ())
        if contacts:
            self._contacts[queue] = contacts
        else:
            self._contacts.pop(queue, None)
        if contacts != before:
            self._gated.tell_all_again(queue)
            self._tells_again = True

    def _is_known(self, uid: str) -> bool:
        """Whether it is in an index, or was asked for with a gang."""
        in_index = self._gated.get(uid) is not None or self._ungated.get(uid) is not None
        return in_index or self._gangs.key_of_entry(uid) is not None

    def _put_alike(self, members: list[Member]) -> None:
        """Put these pods of one queue with the same requests, and no claims, into the index."""
        if members:
            requests = self.rules.requests(members[0])
            self._gated.put_alike(
                [WaitingPod(each.uid, each.queue, requests, each.priority, each.created) for each in members]
            )

    def _read_groups(self, of_groups: Mapping[tuple[str, str], list[Member]]) -> Iterator[list[str]]:
        """Have gangs read, of which these pods wait; yields the pods that are to be read by themselves."""
        for (namespace, name), members in of_groups.items():
            uids = [member.uid for member in members]
            if self.rules.is_asked_with_gang(members[0]):
                self._gangs.record(PodGroupKey(namespace, name), *uids)
            else:
                yield uids

    def _read_pod(self, uid: str, begun: Collection[str], *, has_changed: bool = False) -> None:
        stored = self._store.members.by_uid(uid)
        is_of_gang = self._record_gang_of(uid, stored)
        if is_of_gang and stored is not None and is_gated(stored) and self._ungated.get(uid) is None:
            return  # it is read with its gang
        member = None if uid in begun else stored
        if member is not None and not self.rules.may_be_released(member):
            member = None
        if stored is not None and self.rules.awaits_other_gate(stored):
            self._gated_by_others[uid] = None
        gated = member if member is not None and is_gated(member) else None
        ungated = member if gated is None else None
        if ungated is not None or self._ungated.get(uid) is not None:
            self._ungated_changed = True
            self._put(self._ungated, uid, ungated, has_changed=has_changed)
        if not is_of_gang:
            self._put(
                self._gated, uid, None if self.rules.is_postponed(uid) else gated, has_changed=has_changed
            )

    # Gangs

    def _record_gang_of(self, uid: str, member: Member | None) -> bool:
        """Have its gang read, if it is asked for with one, or was. Returns whether it is not to be put into
        the index by itself. `uid`: the pod's; or of the entry of a gang.
        """
        of_entry = self._gangs.key_of_entry(uid)
        if of_entry is not None:
            self._gangs.record(of_entry, uid)
        if member is None or not member.podgroup:
            return of_entry is not None
        key = PodGroupKey(member.namespace, member.podgroup)
        is_asked = self.rules.is_asked_with_gang(member)
        if (is_asked and self.rules.waits(member)) or self._gangs.get(key) is not None:
            self._gangs.record(key, uid)
        return is_asked or of_entry is not None

    def _record_kept_gangs(self, queue: str) -> None:
        """Those for which something may be kept: they are read though no pod of them waits, nor changes. At
        first all are: those that run may lose pods.
        """
        for group in self._store.podgroups.in_queue(queue):
            key = PodGroupKey(group.metadata.namespace, group.metadata.name)
            gang = self._store.podgroups.gang(*key)
            if gang is not None and (gang.asks_before or self._tree is None):
                self._gangs.record(key)

    def _read_gangs(self, begun: Collection[str]) -> set[str]:
        """Read those that have changed. Returns the queues in which another amount is kept for them."""
        now, queues = self._store.clock.monotonic(), set[str]()
        for key, changed in self._gangs.take_changed(now).items():
            before = self._gangs.get(key)
            is_first = self._tree is None
            state = self._gang_reading.read(key, begun, is_first=is_first)
            while self._gang_reading.ended:
                self._placements.cancel(self._gang_reading.ended.pop())
            if state is not None and (state.first or (is_first and state.is_begun)):
                self._first_gangs.add(key)
            self._changed_groups.add(key)
            if state is not None:
                self._put_gang(before, state, changed=changed)
                self._gangs.set(key, state, changed=changed, now=now)
                self._gangs.rest(key, pods=len(state.waiting), now=now)
            elif before is not None:
                self._gangs.pop(key)
                for uid in before.entries:
                    self._gated.remove(uid)
            if state is None:  # those that wait go by themselves from now on
                self._read_singly(changed.union(before.waiting if before is not None else ()), begun)
            kept = [each.counted if each is not None else () for each in (before, state)]
            if kept[0] != kept[1]:
                queues.update(each.queue for each in (before, state) if each is not None)
            self._pause()
        queues.discard("")
        for queue in queues:
            self._store.notify(queue, QueueChange.STATUS)  # which says what is kept
        return queues

    def _read_singly(self, uids: Iterable[str], begun: Collection[str]) -> None:
        for uid in uids:
            member = self._store.members.by_uid(uid)
            if member is not None and not self.rules.is_asked_with_gang(member):
                self._read_pod(uid, begun)

    def _put_gang(self, before: GangState | None, state: GangState, *, changed: set[str]) -> None:
        """Put what is asked for of it into the index, and take out what was."""
        former = before.entries if before is not None else {}
        # Those that wait, and are no entries, went by themselves before.
        self._gated.remove_all((state.waiting | former.keys()) - state.entries.keys())
        for uid, entry in state.entries.items():
            if entry != self._gated.get(uid) or not changed.isdisjoint((uid, *entry.uids)):
                self._gated.put(entry)
                if has_shared_claim(entry.requests):
                    self._gated.reopen(uid)

    def is_of_gang(self, member: Member) -> bool:
        """Whether it goes with a gang, as far as is known now."""
        return self._store.podgroups.gang(member.namespace, member.podgroup) is not None

    def has_begun_with_gang(self, member: Member, begun: Collection[str]) -> bool:
        """Whether others of its gang were released, or are being released, and it does not give back."""
        gang = self._store.podgroups.gang(member.namespace, member.podgroup)
        if gang is None or not self._placements.is_asked_for(gang.uid):
            return False
        others = self._store.members.in_podgroup(member.namespace, member.podgroup)
        return any(
            each.uid in begun or each.uses_quota
            for each in others
            if each.uid != member.uid and each.queue == member.queue
        )

    def keeps_room_of(self, member: Member) -> bool:
        """Whether what it uses would be kept for its gang once it is gone: nobody else could have it."""
        state = self._gangs.get(PodGroupKey(member.namespace, member.podgroup)) if member.podgroup else None
        return state is not None and bool(state.kept)

    def kept_below(self, queue: str) -> Mapping[PodGroupKey, Requests]:
        """What is kept for gangs of the queue and of those below it: it counts as used."""
        kept: dict[PodGroupKey, Requests] = {}
        for entries in self.ledger.entries_below(queue, AmountReason.KEPT, tree=self._store.snapshot.tree):
            kept.update((key, requests) for key, requests in entries.items() if isinstance(key, PodGroupKey))
        return kept

    def counted_beside(self, queue: str) -> CountedBeside:
        """What counts of the queue and of those below it beside what the watch shows, and is not kept for
        gangs.
        """
        tree, ledger, by_uid = self._store.snapshot.tree, self.ledger, self._store.members.by_uid
        releasing: dict[str, Amount] = {}
        for entries in ledger.entries_below(queue, AmountReason.RELEASING, tree=tree):
            for uid, requests in entries.items():
                member = by_uid(str(uid))
                if member is None or not member.uses_quota:
                    add_amounts(releasing, requests)
        return CountedBeside(
            releasing=releasing,
            ungated=ledger.amounts_below(queue, AmountReason.UNGATED, tree=tree),
            set_aside=ledger.amounts_below(queue, AmountReason.SET_ASIDE, tree=tree),
            guaranteed_below=ledger.usage.guaranteed_below(queue),
            claimed=dict(self._gated.claims.claimed(queue)),
        )

    def gang_state(self, namespace: str, name: str) -> GangState | None:
        """What is asked for of a PodGroup, as it was read last; None where nothing of it waits, and nothing
        is kept for it, or its pods go by themselves.
        """
        return self._gangs.get(PodGroupKey(namespace, name))

    def record_gang(self, key: PodGroupKey) -> None:
        """What may be asked for of it is another than before, though neither it nor its pods have changed."""
        self._gangs.record(key)

    def take_changed_groups(self) -> set[PodGroupKey]:
        """The PodGroups that may stand otherwise than when they were taken last."""
        changed, self._changed_groups = self._changed_groups, set()
        return changed

    def standing(self, podgroup: PodGroup) -> GangQuotaState | None:
        """How it stands with the quotas, for its status. None: that is to be said once it was looked at."""
        key = PodGroupKey(podgroup.metadata.namespace, podgroup.metadata.name)
        gang, state = self._store.podgroups.gang(*key), self._gangs.get(key)
        if gang is None or not self.rules.has_quota(gang.queue):
            return FREE
        until = self._placements.until(gang.uid)
        if not self.has_begun or self._gangs.is_unread(key):
            if not podgroup.status.phase:
                return None
            return GangQuotaState(has_room=phase_of(podgroup) is not Phase.PENDING, until=until)
        return standing_of(
            gang,
            not_asked=self._placements.not_asked(gang) or (state.not_asked if state is not None else None),
            asks=state is not None and gang.uid in state.entries,
            lack=self._gated.lack_of(gang.uid),
            is_reserved=self._placements.is_reserved(gang.uid),
            until=until,
        )

    def is_reservation(self, uid: str) -> bool:
        """Whether the entry is of a PodGroup whose pods do not exist yet, and waits."""
        state = self._gangs.state_of_entry(uid)
        return state is not None and state.reservation is not None and self._gated.get(uid) is not None

    def lack_of(self, uid: str) -> Lack | None:
        """What the pod lacks that waits by itself, or the gang whose PodGroup has this UID; None: nothing, or
        it was not looked at yet.
        """
        return self._gated.lack_of(uid)

    def lack_of_pod(self, uid: str) -> Lack | None:
        """What the pod lacks, by itself or with its gang; None: nothing, or it was not looked at yet."""
        found = self._gated.lack_of(uid)
        member = self._store.members.by_uid(uid) if found is None else None
        if member is None or not member.podgroup:
            return found
        state = self._gangs.get(PodGroupKey(member.namespace, member.podgroup))
        entry = state.minimum if state is not None else None
        if entry is None or uid not in entry.uids or (found := self._gated.lack_of(entry.uid)) is None:
            return None
        return msgspec.structs.replace(found, together=entry.size)

    def _count(self, queues: Iterable[str], begun: Collection[str]) -> None:
        """Count what these queues use, and may use by what was begun."""
        members, ledger = self._store.members, self.ledger
        releasing: dict[str, dict[str, Requests]] = {queue: {} for queue in queues}
        for uid in begun:
            member = members.by_uid(uid)
            if member is not None and member.queue in releasing and not member.uses_quota:
                releasing[member.queue][uid] = self.rules.requests(member)
        counts_all = ledger.usage.rules.needs_nodes
        for queue, of_queue in releasing.items():
            self._ends.pop(queue, None)
            used, forced = dict[str, Amount](), dict[str, Amount]()
            if counts_all or self.rules.is_counted(queue):
                # Asked first: what ends meanwhile counts until then.
                if (end := self._store.force_deleted.next_end(queue)) < math.inf:
                    self._ends[queue] = end
                claims = members.counts(queue).claims.copy().items()
                used, forced = self._store.quota_parts(queue)
                if ledger.usage.counts_devices(queue):
                    for amounts in (used, forced):
                        add_classes(amounts, tuple(amounts.items()), self._store.device_claims)
                    add_claims(used, claims, self._store.device_claims)
                    begun_ones = (name for requests in of_queue.values() for name, _ in requests)
                    ledger.recount({*used, *forced, *begun_ones})
            if not of_queue and ledger.entries(queue, AmountReason.RELEASING):
                self._store.notify(queue, QueueChange.STATUS)  # which says what is being released
            ledger.set_all(queue, AmountReason.RELEASING, of_queue)
            ledger.set_all(queue, AmountReason.USED, {ALL_PODS: used.items()})
            ledger.set_all(queue, AmountReason.FORCE_DELETED, {ALL_PODS: forced.items()} if forced else {})

    def _ended(self, now: float) -> list[str]:
        """The queues in which what pods deleted by force used counts no longer. Their statuses say so."""
        ended = [queue for queue, end in self._ends.items() if end <= now]
        for queue in ended:
            self._store.notify(queue, QueueChange.STATUS)
        return ended

    def _count_unplaced(self, begun: Collection[str]) -> None:
        """Count the pods that were released and have no node. Once there is none, one more may go."""
        members = self._store.members
        of_queues = (members.counts(queue) for queue in members.queues())
        found = [members.by_uid(uid) for uid in begun]
        begun_ones = sum(member is not None and not member.uses_quota for member in found)
        unplaced = begun_ones + sum(max(0, each.using - each.running) for each in of_queues)
        resources = () if unplaced else self.ledger.usage.whole or self._gated.requested
        self.ledger.set_unplaced(unplaced, resources=resources)

    def _record_falls(self) -> None:
        """Where less is used, there may be room."""
        falls = self.ledger.take_falls()
        self._reserved_due = self._reserved_due or bool(falls and self.reservations)
        for queue, resource in falls:
            self._gated.fell(queue, resource)
            self._ungated.fell(queue, resource)

    def _counts_devices(self, queue: str) -> bool:
        return self.ledger.usage.counts_devices(queue)

    # Choosing

    def choose(self, most: int, *, goes_on: Callable[[], bool]) -> list[Member]:
        """The pods that are released next. They count from now on, and are in no index any more.

        `goes_on`: asked before each pod is looked at; the pass ends where it says no.
        """
        chosen, now = list[Member](), self._store.clock.monotonic()
        self._follow_turns()
        if self._ungated_changed or _is_due(self._ungated, now):
            chosen += self._choose_ungated(most, goes_on)
        if len(chosen) < most and self._first_gangs:
            chosen += self._choose_first(most - len(chosen))
        if len(chosen) < most and self._reserved_due:
            chosen += self._choose_reserved(most - len(chosen), goes_on)
        if len(chosen) < most and self._is_gated_due(now):
            chosen += self._choose_from(self._gated, most - len(chosen), goes_on)
        self._notify_of_claims()
        return chosen

    def _taken_turns(self) -> frozenset[str]:
        """The scopes in which a gang that got no nodes before is tried now."""
        found = self._placements.turns()
        return frozenset(
            scope for queue, of_nodes in found for scope in (self.ledger.usage.scope(queue), *of_nodes)
        )

    def _follow_turns(self) -> None:
        before, self._turns.taken = self._turns.taken, self._taken_turns()
        for scope in before - self._turns.taken:
            self._gated.fell(scope, TURN)

    def _notify_of_claims(self) -> None:
        """The statuses of queues say who has a claim in them."""
        before = self.claimants
        self.claimants = {queue: pod.uids[0] for queue, pod in self._gated.claims.claimants.items()}
        for queue in before.keys() | self.claimants.keys():
            if before.get(queue) != self.claimants.get(queue):
                self._store.notify(queue, QueueChange.STATUS)

    def _choose_ungated(self, most: int, goes_on: Callable[[], bool]) -> list[Member]:
        """Those that pend without a gate. What they may use is counted anew."""
        self._ungated_changed = False
        ledger = self.ledger
        with ledger.without(AmountReason.UNGATED):
            chosen = self._choose_from(self._ungated, most, goes_on)
            self._ungated.take_untold()  # filter tells them
            amounts = self._ungated.requested_by_queue()
            for queue in {*ledger.queues(AmountReason.UNGATED), *amounts}:
                version = ledger.version
                ledger.set_all(queue, AmountReason.UNGATED, {ALL_PODS: amounts.get(queue, {}).items()})
                if ledger.version != version:
                    self._store.notify(queue, QueueChange.STATUS)
        self._record_falls()
        return chosen

    def _choose_first(self, most: int) -> list[Member]:
        """What goes before all others, where there is room (`GangState.goes_first`)."""
        chosen = list[Member]()
        for key in list(self._first_gangs):
            state = self._gangs.get(key)
            entries = state.goes_first if state is not None else []
            if not entries:
                self._first_gangs.discard(key)
            for entry in entries:
                if entry.size > most - len(chosen) or self._gated.get(entry.uid) != entry:
                    continue
                if self.ledger.usage.lack(entry.queue, entry.requests):
                    continue
                self._gated.release(entry)
                self.ledger.begin(entry)
                chosen += self._taken(entry)
        return chosen

    def _choose_reserved(self, most: int, goes_on: Callable[[], bool]) -> list[Member]:
        """Those for which room was set aside, and is there by now."""
        self._reserved_due, is_over = False, False

        def may_go_on() -> bool:
            nonlocal is_over
            is_over = is_over or not goes_on()
            return not is_over

        before = dict(self.reservations.numbers)
        # All of them before any is looked at: until then what is set aside does not count.
        pods = self.reservations.release(self._gated, most=most, goes_on=may_go_on)
        self._reserved_due = bool(self.reservations) and (is_over or len(pods) == most)
        self._tell_again(before)
        return [member for pod in pods for member in self._taken(pod)]

    def _tell_again(self, before: Mapping[tuple[str, Requests], int]) -> None:
        """Those for which no room is set aside any more."""
        for queue, requests in before.keys() - self.reservations.numbers.keys():
            self._tells_again = True
            self._gated.tell_again(queue, requests)

    def _taken(self, pod: WaitingPod) -> list[Member]:
        """The members of what was chosen, all of them or none. Where one has changed since, or the gang has
        begun to give back, none is released, and they are read again.
        """
        key = self._gangs.key_of_entry(pod.uid)
        if key is not None:
            self._gangs.record(key)
        state = self._gangs.get(key) if key is not None else None
        gang = state.gang if state is not None else None
        is_asked_for = gang is None or self._placements.is_asked_for(gang.uid)
        if is_asked_for and key is not None and state is not None and state.reservation is not None:
            self._keep_for(key, pod)
            self._begin_placement(key, pod, is_reserved=True)
            return []
        members = self._current_members(pod, state) if is_asked_for else []
        if members:
            if key is not None and pod.pods:
                self._begin_placement(key, pod)
            if key is None and members[0].podgroup:
                self._record_gang_of(pod.uid, members[0])
            return members
        self.ledger.take_back(pod)
        self._record_falls()
        for uid in pod.uids:
            self.record_pod(pod.queue, uid)
        return []

    def _keep_for(self, key: PodGroupKey, entry: WaitingPod) -> None:
        """What the gang asked for before its pods exist is kept for it."""
        with self.ledger.together():
            self.ledger.take_back(entry)
            kept = dict(self.ledger.entries(entry.queue, AmountReason.KEPT).get(key, ()))
            add_amounts(kept, entry.requests)
            self.ledger.set_one(entry.queue, AmountReason.KEPT, key, kept.items())

    def _begin_placement(self, key: PodGroupKey, entry: WaitingPod, *, is_reserved: bool = False) -> None:
        self._placements.begin(key, is_reserved=is_reserved)
        self._changed_groups.add(key)
        if asks_for_turn(entry.requests):
            self._turns.take(self.ledger.usage.turn_scopes(entry.queue, entry.requests), entry.queue)

    def _current_members(self, pod: WaitingPod, state: GangState | None) -> list[Member]:
        """None where one of them does not wait as the index has it, or its gang is another one by now.
        Whether they may start is asked before their patches are sent.
        """
        found: list[Member] = []
        for uid in pod.uids:
            member = self._store.members.by_uid(uid)
            if member is None or member.leaving or member.queue != pod.queue or not self.rules.waits(member):
                return []
            asked = state.requests.get(uid) if state is not None else pod.requests
            if self.rules.requests(member) != asked:
                return []
            found.append(member)
        if state is not None:
            gang = self._store.podgroups.gang(found[0].namespace, found[0].podgroup)
            return found if gang is state.gang else []
        return found

    def _choose_from(self, index: WaitingIndex, most: int, goes_on: Callable[[], bool]) -> list[Member]:
        chosen: list[Member] = []
        if self._tree is None:
            return chosen
        now = self._store.clock.monotonic()
        release_pass = ReleasePass(
            self._tree, index, ledger=self.ledger, now=now, most=most, goes_on=goes_on, pause=self._pause
        )
        for pod in release_pass:
            chosen += self._taken(pod)
            if len(chosen) == most:
                break
        self._awaits = release_pass.awaits
        return chosen

    def take_reasons(self) -> Iterator[tuple[Member, Lack]]:
        """The pods that have no room, if they were not returned with this reason, or have changed since."""
        self._tells_again = False
        members = self._store.members
        for uid, lack in self._gangs.take_reasons(self._store.clock.monotonic()):
            member = members.by_uid(uid)
            if member is not None and member.queue:
                yield member, msgspec.structs.replace(lack, queue=member.queue)
            self._pause()
        others, self._gated_by_others = self._gated_by_others, {}
        for uid in others:
            member = members.by_uid(uid)
            if member is not None and self.rules.awaits_other_gate(member):
                yield member, Lack(member.queue, kind=LackKind.GATE, why=other_gate_text(member.other_gate))
        for entry_uid, found in self._gated.take_untold().items():
            pod = self._gated.get(entry_uid)
            if pod is None:
                continue
            if (key := self._gangs.key_of_entry(entry_uid)) is not None:
                self._changed_groups.add(key)
            is_made_for = self.reservations and self.reservations.numbers.get((pod.queue, pod.requests), 0)
            lack = Lack(found.queue, kind=LackKind.GIVEN_BACK) if is_made_for else found
            if lack.together != pod.size:
                lack = msgspec.structs.replace(lack, together=pod.size)
            for uid in pod.uids:
                if (member := members.by_uid(uid)) is not None:
                    yield member, lack
            self._pause()

    # Pods that ask for room of others

    @contextmanager
    def look(
        self,
        *,
        pods: Callable[[str], Iterable[Borrowed]],
        allowed: Mapping[str, int],
        gangs: Callable[[str], StartedGang | None] = lambda _uid: None,
    ) -> Iterator[GivingBack]:
        """A look at who asks. Meanwhile nothing that is set aside counts, and nothing else may be asked."""
        tree, lending = self._tree or Tree({}), self._store.queue_cache.lending
        with self.ledger.without(AmountReason.SET_ASIDE):
            look = GivingBack(
                tree,
                self.ledger,
                pods=pods,
                queues=[queue for queue in self._store.members.queues() if queue in tree],
                deserved=self._shares().deserved,
                reclaimable=lambda name: lending.get(name, NO_LENDING).reclaimable,
                allowed=allowed,
                gangs=gangs,
            )
            try:
                yield look
            finally:
                look.close()

    def _shares(self) -> Shares:
        whole, waiting = whole_of(self.ledger.usage, self._gated), self._gated.requested_by_queue
        return Shares(self._tree or Tree({}), self.ledger.usage, whole=whole, waiting=waiting)

    def order_of_queues(self, *, first: Collection[str]) -> list[str]:
        """Those with pods that wait: as their pods go, but for these, which are before all others."""
        if self._tree is None:
            return []
        tree, shares = self._tree, self._shares()

        def key(queue: str) -> tuple[bool, list[RankKey]]:
            return queue not in first, [shares.key(each.name) for each in reversed(tree.chain(queue).queues)]

        known = (name for name in self._gated.queues if name in tree and tree.chain(name).broken is None)
        return sorted(known, key=key)

    def blocked_in(self, queue: str, *, most: int) -> list[WaitingPod]:
        """The first pods of a queue that lack room."""
        return self._gated.blocked_in(queue, most=most)

    def number_of(self, queue: str, requests: Requests) -> int:
        """How many of its pods wait with these requests."""
        return self._gated.number_of(queue, requests)

    def is_fifo(self, queue: str) -> bool:
        own = self._tree.get(queue) if self._tree is not None else None
        return own is not None and own.dequeue is DequeueStrategy.FIFO

    def set_aside(self, numbers: Mapping[tuple[str, Requests], int]) -> None:
        """Set room aside for so many pods of each class, and for no others."""
        if dict(self.reservations.numbers) == dict(numbers):
            return
        before = dict(self.reservations.numbers)
        self.reservations.replace(numbers)
        self._record_falls()
        for queue in {queue for queue, _ in before.keys() | numbers.keys()}:
            self._store.notify(queue, QueueChange.STATUS)
        self._tell_again(before)
        self._reserved_due = bool(self.reservations)

    def _put(self, index: WaitingIndex, uid: str, member: Member | None, *, has_changed: bool) -> None:
        """Put the pod into the index, or take it out. One that has changed, and shares claims, is looked at
        again: what these count may have changed.
        """
        pod = self.rules.waiting_pod(member) if member is not None else None
        if pod is None:
            index.remove(uid)
        elif has_changed or pod != index.get(uid):
            index.put(pod)
            if has_shared_claim(pod.requests):
                index.reopen(uid)


def _is_due(index: WaitingIndex, now: float) -> bool:
    return index.is_due or index.claims.ends_at <= now
