"""Evicts pods of queues that borrow, so that waiting pods get what their queues deserve.

kube-scheduler never sees a pod with our gate, so it evicts nothing for it. The leader does, if the
scheduling policy of the queue has action `reclaim` or `preempt`. A pod may name a policy of its own. Then
both policies must have the action: users cannot give themselves what an admin has not given the queue.
Which pods are evicted, and in which order, is decided by `queues.quota.giving_back`.

A look follows each pass that leaves pods without room. Its steps:

1. Pods that are being deleted do not count as used, nor do pods that were deleted by force and may still
   run; while a drain waits for them, for at most the setting `drain_grace_limit`. After that they count as
   staying.
2. Each waiting pod asks for room. Pods with room set aside ask first, then queue by queue in the order of
   their shares. After `LOOK_SECONDS` no more pods ask. The next look goes on with the pods that have not
   asked yet (`queues.quota.asking_round`).
3. If the disruption budgets of the victims' namespaces are not known, they are read, and the pod asks again
   later.
4. One pod of each class that was denied is told why, the oldest text first, for `LOOK_SECONDS` more.
5. Room is set aside for the pods that were granted victims (`queues.quota.reservations`), and the victims
   are evicted.

| the answer to an eviction    | then                                                                        |
|------------------------------|-----------------------------------------------------------------------------|
| granted, or the pod is gone  | the pod counts as leaving until the watch shows its deletion, for at most   |
|                              | `LATE_SECONDS`                                                              |
| the pod has changed          | the next look reads it again                                                |
| refused, by a budget or else | the pod is no victim for `REFUSED_SECONDS`, twice as long each time, up to  |
|                              | `LONGEST_REFUSED`; the next look chooses other victims                      |
| none, or the API server is   | the same for `BUSY_SECONDS`                                                 |
| busy                         |                                                                             |
| not there yet, for           | the pod counts as staying, and is no victim; the answer is recorded all the |
| `LATE_SECONDS`               | same, and if it is granted, the pod counts as leaving from then on          |

A gang that would lose a part of its minimum is evicted whole (`queues.quota.started_gangs`). Before its
first eviction it is checked once whether the pod that asked still waits. After the first pod has gone, the
evictions of the others are repeated until they succeed, or until the minimum of the gang runs again. A pod
that refuses to go frees no room until it is gone.

If no pod can be evicted for a class of waiting pods, the condition of one of them says which pods could go
and which rules keep them (`queues.quota.kept_victims`).

Invariants
- Nothing is released here. A pod is released once the watch shows that there is room.
- Room stays set aside only while victims make it, and only for pods that asked. It is given up when all
  waiting pods have asked again.
- A pod of a workload that gave back and was let in again is no victim for `SAFE_SECONDS`. A new leader
  spares all pods that may be of this kind (`queues.quota.let_in_again`).
- A pod that is being deleted when a term begins may be a victim of the former leader. So is one that is
  deleted soon after, and not by this leader. The room of such pods is set aside for the pods that could
  have had them evicted.
- While this replica leads, its evictions leave no gang with a part of its minimum. A new leader does not
  know of evictions that a former leader had planned and not sent.
- The UID is a precondition of each eviction. A pod without a node is deleted at the resourceVersion without
  one.
- Before each eviction it is checked whether this replica still leads, and whether the pod that asked still
  waits.
- If no policy has one of the two actions, nothing is done.
- Owner: the controller's thread. The writers of drains send.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial

import msgspec

from cluster.backoff import Backoff
from cluster.cache.changes import NO_QUEUE, PodChange, QueueChange, StoreChange
from cluster.cache.members import Member
from cluster.cache.podgroups import PodGroupKey
from cluster.exceptions import ClusterError
from cluster.recorder import REPEAT_SECONDS
from cluster.write_ranks import WriteRank
from controller.context import ControllerContext, pod_subject, workload_subject
from controller.evictions.answers import EvictionAnswer, EvictionOutcome, answer_to
from controller.evictions.budget_reader import list_budgets
from controller.evictions.granted import EvictionRequest, Granted, GrantedEvent, ask
from controller.evictions.pods import send_away
from controller.quota.given_back_lines import GivenBackLines
from controller.quota.waiting_pods import WaitingPods
from controller.requests import RequestState, is_open
from queues.apimachinery.pod_requests import Requests
from queues.drain.disruption_budgets import BudgetIndex, BudgetKey
from queues.drain.terminating_pods import counts_as_in_flight
from queues.policies.policy_set import PolicySet
from queues.policies.victims import PREEMPT, RECLAIM, asked_by, is_critical
from queues.quota.asking_round import AskingRound
from queues.quota.giving_back import AllowedTaking, Borrowed, GivingBack
from queues.quota.kept_by import KeptBy
from queues.quota.kept_victims import kept_victims
from queues.quota.lack import Lack, LackKind
from queues.quota.let_in_again import LATE_SECONDS, SAFE_SECONDS, ReadPod
from queues.quota.pod_classes import WaitingPod
from queues.quota.reclaim_preview import MOST_ASKING
from queues.quota.report import amounts_text
from queues.quota.reservations import ReservationKey
from queues.quota.started_gangs import StartedGang
from queues.quota.usage import PODS, negative
from queues.text import quoted
from queues.world.running_pods import termination_of

#: Maximum number of evictions under way.
MOST_LEAVING = 500
#: Time in which pods ask in one look. Pause before the next look, as a multiple of the time that the look
#: took.
LOOK_SECONDS, REST = 0.05, 2.0
#: Pause before the next look if nothing has changed, in seconds. It doubles each time, up to the second
#: number.
PAUSE, LONGEST_PAUSE = 0.5, 30.0
REFUSED_SECONDS, LONGEST_REFUSED, BUSY_SECONDS = 10.0, 1800.0, 2.0
REFUSED = Backoff(REFUSED_SECONDS, LONGEST_REFUSED)
#: Seconds before a class of pods is told again which pods could go.
KEPT_SECONDS = 10.0
#: How long workloads that gave back are remembered, and how many.
REMEMBERED_SECONDS, MOST_REMEMBERED = 3600.0, 10_000
#: How long the budgets of a namespace are used after they were read, and how many are read.
BUDGETS_SECONDS, MOST_BUDGETS = 2.0, 1000

RECLAIMED, PREEMPTED = "Reclaimed", "Preempted"

log = logging.getLogger(__name__)


class _Departure:
    """Victims that go together. Before the first eviction it is checked once whether they go. For any
    thread.
    """

    def __init__(self, *, is_gang: bool = False) -> None:
        """`is_gang`: whether it is all of a gang."""
        self.is_gang = is_gang
        self._goes: bool | None = None
        self._lock = threading.Lock()

    def goes(self, asks: Callable[[], bool]) -> bool:
        """Whether it goes: the first answer of `asks`."""
        with self._lock:
            if self._goes is None:
                self._goes = asks()
            return self._goes

    @property
    def is_off(self) -> bool:
        """Whether it was decided that it does not go."""
        return self._goes is False


class _Victim(msgspec.Struct, frozen=True):
    """A pod that is to be evicted. `claimant`: the waiting pod that gets its room. `departure`: with which
    others.
    """

    member: Member
    requests: Requests
    claimant: WaitingPod
    departure: _Departure
    budget: BudgetKey | None = None

    @property
    def reason(self) -> str:
        return PREEMPTED if self.member.queue == self.claimant.queue else RECLAIMED

    @property
    def action(self) -> str:
        """Of the policy."""
        return PREEMPT if self.reason == PREEMPTED else RECLAIM


class _Eviction(RequestState, kw_only=True):
    """The eviction of a victim. `sent_at`: when it was sent first or again; if it was granted late, when it
    was granted. `is_late`: the writers have it since `LATE_SECONDS`, so it counts as going no more.

    `rest`: its victim, where others of its gang have gone, and `rest_at` when it is repeated. `is_repeated`:
    it is under way again.
    """

    member: Member | None = None
    sent_at: float = math.inf
    is_late: bool = False
    rest: _Victim | None = None
    rest_at: float = math.inf
    is_repeated: bool = False


class _KeptText(msgspec.Struct, frozen=True):
    """What was told to one pod of a class: which pods could go, and which rules keep them. `at`: monotonic
    seconds.
    """

    pod: str
    text: str
    at: float


class _Slice:
    """The pods that ask in one look, until its time slice is over; at least one pod that has not asked in
    this round, and the first of those that ask again.

    `is_cut`: whether pods that have not asked are left for the next look. `is_late`: whether any pods are.
    """

    def __init__(
        self,
        claimants: Iterable[tuple[WaitingPod, AllowedTaking]],
        round_: AskingRound,
        monotonic: Callable[[], float],
    ) -> None:
        self._claimants = claimants
        self._round = round_
        self._monotonic = monotonic
        self.is_cut = self.is_late = False

    def __iter__(self) -> Iterator[tuple[WaitingPod, AllowedTaking]]:
        ends_at = self._monotonic() + LOOK_SECONDS
        has_asked = has_asked_again = False
        for claimant, asked in self._claimants:
            is_again = self._round.is_deferred(claimant)
            if self._monotonic() > ends_at and (has_asked or (is_again and has_asked_again)):
                self.is_late = True
                if has_asked and not is_again:
                    self.is_cut = True
                    return
                continue
            has_asked, has_asked_again = has_asked or not is_again, has_asked_again or is_again
            self._round.ask(claimant)
            yield claimant, asked


class _Budgets(msgspec.Struct, frozen=True):
    index: BudgetIndex
    read_at: float


class GiveBacks:
    """Owner: the controller's thread."""

    def __init__(
        self, context: ControllerContext, waiting: WaitingPods, *, told: Callable[[Member, Lack], object]
    ) -> None:
        """`told`: called for each pod that is told something new of why it waits."""
        self._context = context
        self._store = context.store
        self._waiting = waiting
        self._told = told
        self._askers: tuple[PolicySet, bool] | None = None
        self.lines = GivenBackLines(context.store)
        self._kept: dict[ReservationKey, _KeptText] = {}
        #: The same texts by the UID of the pod; without empty ones.
        self._kept_texts: dict[str, str] = {}
        #: Evictions that were sent and are not in the cache yet, or were refused, or are repeated.
        self._evictions = context.requests.table("Pod", "give back", _Eviction, backoff=REFUSED)
        self.forget()

    def forget(self) -> None:
        """Forget everything: a term begins or ends."""
        self._term_began = self._store.clock.now()
        #: Members that are being deleted; None until all members were read. And UIDs that are read again.
        self._leaving: dict[str, Member] | None = None
        self._changed: set[str] = set()
        #: Those of them that a former leader may have evicted, until their room is set aside.
        self._inherited: dict[str, Member] = {}
        #: The PodGroups of candidates, by their UID.
        self._gang_keys: dict[str, PodGroupKey] = {}
        #: When workloads gave back, and when pods of them were released again, in monotonic seconds.
        self._gave: dict[str, float] = {}
        self._let_in: dict[str, float] = {}
        #: Which pods have asked, in looks and in takeovers of a former leader's victims.
        self._round, self._taking_over = AskingRound(), AskingRound()
        self._budgets: dict[str, _Budgets] = {}
        self._reading: set[str] = set()
        self._waiting.sent_away.clear()
        self.lines.forget()
        self._kept.clear()
        self._kept_texts.clear()
        self._is_wanted = False
        self._next_at, self._pause = math.inf, PAUSE
        self._rests_until = -math.inf

    # What happens

    def record(self, changes: Mapping[str, Iterable[StoreChange]]) -> None:
        if self._leaving is None:
            return
        for queue, changes_of_queue in changes.items():
            for change in changes_of_queue:
                if isinstance(change, PodChange):
                    self._changed.add(change.uid)
                elif change is QueueChange.RESYNC and queue != NO_QUEUE:
                    self._changed.update(self._leaving, self._evictions.unshown)

    def passed(self) -> None:
        """A pass has ended: other pods may lack room."""
        if self._is_asked:
            self._is_wanted = True

    def released(self, member: Member) -> None:
        """The pod was released."""
        if not self._is_asked:
            return
        if _workload_of(member) in self._gave or self._as_read(member).is_of_former(self._term_began):
            self._let_in[member.uid] = self._store.clock.monotonic()

    @property
    def due(self) -> float:
        """When the next look is due, in monotonic seconds."""
        rests = min((each.rest_at for _, each in self._evictions.items()), default=math.inf)
        if not self._is_asked and not self._waiting.reservations:
            return (
                -math.inf if self._kept else rests
            )  # what was told of those who could go is not so any more
        return max(self._rests_until, min(rests, -math.inf if self._is_wanted else self._next_at))

    @property
    def _is_asked(self) -> bool:
        """Whether a policy has one of the two actions."""
        policies = self._store.policies.policies
        if self._askers is None or self._askers[0] is not policies:
            entries = policies.entries.values()
            self._askers = (
                policies,
                any(entry.policy is not None and asked_by(entry.policy).is_any for entry in entries),
            )
        return self._askers[1]

    # A look

    def step(self) -> None:
        began = self._store.clock.monotonic()
        if began < self.due:
            return
        is_new, self._is_wanted = self._is_wanted, False
        self._read_leaving()
        self._forget_old(began)
        self._go_on_with_gangs(began)
        try:
            victims, is_asked = self._look(began)
        except BaseException:
            self._round, self._taking_over = AskingRound(), AskingRound()
            raise
        for victim in victims:
            self._evict(victim)
        self._pause = PAUSE if victims or is_new else min(LONGEST_PAUSE, 2 * self._pause)
        ended = self._store.clock.monotonic()
        self._next_at = ended + self._pause if is_asked else math.inf
        self._rests_until = ended + REST * (ended - began)

    def _look(self, now: float) -> tuple[list[_Victim], bool]:
        """The victims, and whether any pod has asked. Sets room aside anew."""
        before = dict(self._waiting.reservations.numbers)
        self._take_over(before)
        victims: list[_Victim] = []
        #: Gangs of which something goes with a later look.
        deferred: set[str] = set()
        self._gang_keys.clear()
        with self._waiting.look(
            pods=partial(self._candidates, now=now), allowed=self._allowed(now), gangs=self._started_gang
        ) as look:
            self._count_leaving(look)
            round_ = self._round
            asking = _Slice(self._claimants(look, before, round_), round_, self._store.clock.monotonic)
            for claimant, asked in asking:
                found = look.ask(claimant, asked)
                if found is None:
                    round_.deny(claimant, asked)
                elif not found:
                    round_.retain(claimant, before)
                elif deferred.isdisjoint(_gangs_of(found)) and self._may_evict(found, victims):
                    round_.give(claimant)
                    victims += self._victims(look, found, claimant)
                else:
                    deferred |= _gangs_of(found)
                    round_.retain(claimant, before)
                    round_.defer(claimant)
            self._withdraw_kept(round_, is_over=not asking.is_cut)
            self._tell_kept(look, round_)
        is_asked = round_.has_asked or bool(before)
        self._set_aside(round_.numbers(before, is_over=not asking.is_cut))
        if not asking.is_cut:
            self._round = AskingRound()
        if asking.is_late:
            self._is_wanted = True  # the next look goes on
        return victims, is_asked

    # Which rules keep those who could go

    def kept_text(self, uid: str) -> str:
        """What this pod is told of the pods that could go for it; "" for nothing."""
        return self._kept_texts.get(uid, "")

    def _tell_kept(self, look: GivingBack, round_: AskingRound) -> None:
        """Tell the first pod of each denied class which pods could go for it, the class with the oldest
        text first.

        A class is told every `KEPT_SECONDS` at most. It ends after `LOOK_SECONDS`, with one class told at
        least.
        """
        clock = self._store.clock
        began = clock.monotonic()

        def told_at(key: ReservationKey) -> float:
            told = self._kept.get(key)
            return told.at if told is not None and told.pod in round_.denied[key][0].uids else -math.inf

        def lacks_room(key: ReservationKey) -> bool:
            """False since a pass has not come to it again; it is told once that has."""
            return self._waiting.lack_of_pod(round_.denied[key][0].uids[0]) is not None

        due = [key for key in round_.denied if told_at(key) + KEPT_SECONDS <= began and lacks_room(key)]
        for key in sorted(due, key=told_at):
            self._tell_class(look, key, *round_.denied[key])
            if clock.monotonic() - began > LOOK_SECONDS:
                return

    def _tell_class(
        self, look: GivingBack, key: ReservationKey, claimant: WaitingPod, asked: AllowedTaking
    ) -> None:
        """Tell the first pod of the class, if the text or that pod is another one than before."""
        before = self._kept.get(key)
        text, pod = kept_victims(look, claimant, asked).brief, claimant.uids[0]
        self._kept[key] = _KeptText(pod, text, self._store.clock.monotonic())
        if before is not None:
            self._kept_texts.pop(before.pod, None)
        if text:
            self._kept_texts[pod] = text
        if before is not None and before.text and before.pod != pod:
            self._tell(before.pod)
        if (before.pod, before.text) != (pod, text) if before is not None else text:
            self._tell(pod)

    def _withdraw_kept(self, round_: AskingRound, *, is_over: bool) -> None:
        """Withdraw the texts of classes that were granted victims, and, if the round is over, of classes
        that did not ask in it.
        """
        for key in [key for key in self._kept if key not in round_.denied]:
            if is_over or round_.was_served(key):
                told = self._kept.pop(key)
                if self._kept_texts.pop(told.pod, ""):
                    self._tell(told.pod)

    def _tell(self, uid: str) -> None:
        """Tell the pod again why it waits, if it lacks room."""
        member, lack = self._store.members.by_uid(uid), self._waiting.lack_of_pod(uid)
        if member is not None and lack is not None:
            self._told(member, msgspec.structs.replace(lack, missing=0, kept=self.kept_text(uid)))

    def _count_leaving(self, look: GivingBack, *, but: Collection[str] = ()) -> None:
        """Count pods that are being deleted or evicted as gone; `but`: except these UIDs."""
        leaving = filter(self._is_going, (self._leaving or {}).values())
        for member in (*leaving, *self._going.values()):
            if member.uid not in but:
                look.count(member.queue, negative(self._waiting.rules.requests(member)))
        for queue in self._store.force_deleted.queues():
            look.count(queue, negative(self._store.force_deleted.going(queue).items()))

    def _is_going(self, member: Member) -> bool:
        """Whether a drain would wait for it: users write grace periods, and finalizers."""
        termination, longest = termination_of(member), self._context.drain_grace_limit
        now = self._store.clock.now()
        return termination is None or counts_as_in_flight(termination, now=now, longest=longest)

    @property
    def _going(self) -> Mapping[str, Member]:
        """By UID: the pods whose first eviction is under way. They count as gone until the answer says
        otherwise, or is late.
        """
        return {
            uid: each.member
            for uid, each in self._evictions.items()
            if is_open(each) and not (each.is_repeated or each.is_late) and each.member is not None
        }

    def _is_requested(self, uid: str) -> bool:
        eviction = self._evictions.get(uid)
        return eviction is not None and is_open(eviction)

    def _take_over(self, before: dict[ReservationKey, int]) -> None:
        """Add to `before` the pods that get the room of what a former leader may have evicted."""
        self._inherited = {
            uid: member
            for uid, member in self._inherited.items()
            if uid in (self._leaving or {}) and self._is_going(member)
        }
        if not self._inherited:
            return

        def leaving_in(queue: str) -> Iterator[Borrowed]:
            of_queue = (member for member in self._inherited.values() if member.queue == queue)
            return map(self._borrowed, of_queue)

        with self._waiting.look(pods=leaving_in, allowed={}) as look:
            self._count_leaving(look, but=set(self._inherited))
            round_ = self._taking_over
            asking = _Slice(self._claimants(look, before, round_), round_, self._store.clock.monotonic)
            for claimant, asked in asking:
                key = claimant.queue, claimant.requests
                found = look.ask(claimant, asked)
                if found is None:
                    round_.deny(claimant, asked)
                elif found:
                    round_.give(claimant)
                    before[key] = before.get(key, 0) + 1
                    self._round = AskingRound()  # who was denied may have room now
                    for pod in found:
                        del self._inherited[pod.uid]
            if not asking.is_cut:
                self._taking_over = AskingRound()

    def _claimants(
        self, look: GivingBack, before: Mapping[ReservationKey, int], round_: AskingRound
    ) -> Iterator[tuple[WaitingPod, AllowedTaking]]:
        """The pods that may still ask in this round, in order. In a fifo queue none follows a pod that was
        denied.

        Room that is set aside for classes that are not known to lack room is kept.
        """
        reserved = {queue for queue, _ in before}
        queues = self._waiting.order_of_queues(first=reserved)
        given = round_.resume(before, queues=set(queues), number_of=lambda key: self._waiting.number_of(*key))
        for key, number in given.items():
            _count_times(look, key, number)
        for queue in queues:
            if queue not in reserved and round_.is_over(queue):
                continue
            blocked = self._waiting.blocked_in(queue, most=MOST_ASKING)
            lacking = {pod.requests for pod in blocked}
            for key, number in before.items():
                if key[0] == queue and key[1] not in lacking:
                    kept = min(number, self._waiting.number_of(*key))
                    _count_times(look, key, round_.keep(key, kept))
            is_fifo = self._waiting.is_fifo(queue)
            for pod in blocked:
                key = queue, pod.requests
                asked = self._asked(pod)
                if (
                    asked is not None
                    and key not in round_.denied
                    and round_.asks(pod, again=not self._reading)
                ):
                    yield pod, asked
                if is_fifo and key in round_.denied:
                    break
            round_.finish(queue)

    def _asked(self, pod: WaitingPod) -> AllowedTaking | None:
        """What the policies of its queue and of the pod let it take; None for nothing. A PodGroup without
        pods has the policy of its queue.
        """
        policies, member = self._store.pod_policies, self._store.members.by_uid(pod.uids[0])
        of_queue = own = policies.of_queue(pod.queue).policy
        if member is not None:
            own = policies.of_member(member, member.queue).policy
        elif not self._waiting.is_reservation(pod.uid):
            return None
        if of_queue is None or own is None:
            return None
        asked = asked_by(of_queue) if own is of_queue else asked_by(of_queue).within(asked_by(own))
        return asked if asked.is_any else None

    def _set_aside(self, numbers: Mapping[ReservationKey, int]) -> None:
        before = dict(self._waiting.reservations.numbers)
        self._waiting.set_aside(numbers)
        for key, number in numbers.items():
            if number > before.get(key, 0):
                for pod in self._waiting.blocked_in(key[0], most=MOST_ASKING):
                    lack = Lack(key[0], kind=LackKind.GIVEN_BACK, together=len(pod.uids))
                    for member in map(self._store.members.by_uid, pod.uids if pod.requests == key[1] else ()):
                        if member is not None:
                            self._told(member, lack)

    # Who might go

    def _candidates(self, queue: str, *, now: float) -> Iterator[Borrowed]:
        for member in self._store.members.in_queue(queue):
            if not member.uses_quota or member.leaving or self._is_requested(member.uid):
                continue
            budgets = self._budgets_of(member)
            yield self._borrowed(
                member,
                budgets=budgets,
                gang=self._gang_of(member),
                kept=self._kept_by(member, budgets, now),
            )

    def _kept_by(self, member: Member, budgets: tuple[str, ...], now: float) -> KeptBy | None:
        """The rule by which it is never a victim; None where it may be one."""
        if not self._store.is_preemptable(member):
            return KeptBy.NOT_PREEMPTABLE
        if self._is_daemon(member):
            return KeptBy.DAEMON
        if self._waiting.keeps_room_of(member):
            return KeptBy.KEPT_ROOM
        if self._evictions.is_postponed(member.uid, now=now):
            return KeptBy.REFUSED
        if len(budgets) > 1:
            return KeptBy.BUDGET  # the API server evicts no pod that two of them select
        return KeptBy.LET_IN if self._is_safe(member, now) else None

    def _gang_of(self, member: Member) -> str:
        """The UID of its PodGroup; "" if it is of no gang."""
        gang = self._store.podgroups.gang(member.namespace, member.podgroup) if member.podgroup else None
        if gang is None:
            return ""
        self._gang_keys[gang.uid] = PodGroupKey(member.namespace, member.podgroup)
        return gang.uid

    def _started_gang(self, uid: str) -> StartedGang | None:
        """The gang without the pods whose first eviction is under way; None if there is none of this UID."""
        key = self._gang_keys.get(uid)
        gang = self._store.started_gang(*key) if key is not None else None
        going = self._going
        if gang is None or not going:
            return gang
        running = {pod: task for pod, task in gang.running.items() if pod not in going}
        return msgspec.structs.replace(gang, running=running)

    def _borrowed(
        self, member: Member, *, budgets: tuple[str, ...] = (), gang: str = "", kept: KeptBy | None = None
    ) -> Borrowed:
        return Borrowed(
            gang=gang,
            kept=kept,
            uid=member.uid,
            queue=member.queue,
            requests=self._waiting.rules.requests(member),
            priority=self._waiting.rules.priority(member),
            since=member.created,
            is_placed=bool(member.node),
            is_critical=is_critical(member.namespace, member.priority_class, member.priority),
            budgets=budgets,
        )

    def _is_safe(self, member: Member, now: float) -> bool:
        let_in = self._let_in.get(member.uid)
        if let_in is not None and now < let_in + SAFE_SECONDS:
            return True
        wall = self._store.clock.now()
        if wall >= self._term_began + timedelta(seconds=LATE_SECONDS + SAFE_SECONDS):
            return False
        return self._as_read(member).is_safe_in(self._term_began, now=wall)

    def _as_read(self, member: Member) -> ReadPod:
        owner = self._store.workloads.by_uid(member.owner_uid) if member.owner_uid else None
        return ReadPod(
            created=member.created,
            bound=member.bound,
            is_placed=bool(member.node),
            is_made_again=bool(member.owner_uid),
            workload=owner.created if owner is not None and owner.namespace == member.namespace else None,
        )

    def _is_daemon(self, member: Member) -> bool:
        """It would be made again on its node, whatever a queue says; a mirror of a static pod runs anyway."""
        if member.owner_kind == "Node":
            return True
        owner = self._store.workloads.of_kind["daemonsets"].by_uid(member.owner_uid)
        return owner is not None and owner.namespace == member.namespace

    # Budgets

    def _budgets_of(self, member: Member) -> tuple[str, ...]:
        if not member.node:
            return ()  # it is deleted: no budget counts it
        known = self._budgets.get(member.namespace)
        if known is None:
            return ()
        if known.index.excess(member.namespace, member.labels):
            return (_unknown(member.namespace),)
        selecting = known.index.selecting(member.namespace, member.labels)
        return tuple(f"{budget.namespace}/{budget.name}" for budget in selecting)

    def _allowed(self, now: float) -> dict[str, int]:
        """How many pods each budget lets go; those that were read too long ago are dropped."""
        allowed: dict[str, int] = {}
        for namespace, known in list(self._budgets.items()):
            if known.read_at + BUDGETS_SECONDS < now:
                del self._budgets[namespace]
                continue
            allowed[_unknown(namespace)] = 0
            for budget in known.index.budgets:
                allowed[f"{budget.namespace}/{budget.name}"] = budget.allowed
        return allowed

    def _may_evict(self, found: Sequence[Borrowed], victims: Sequence[_Victim]) -> bool:
        """Whether all of them may be evicted now. Budgets that are not known are read. A set that is larger
        than `MOST_LEAVING` goes when no other eviction is under way.
        """
        leaving = len(self._evictions.unshown) + len(victims)
        if leaving and leaving + len(found) > MOST_LEAVING:
            return False
        unknown = set()
        for pod in found:
            member = self._store.members.by_uid(pod.uid)
            if member is None:
                return False
            if member.node and member.namespace not in self._budgets:
                unknown.add(member.namespace)
        for namespace in unknown - self._reading:
            self._read_budgets(namespace)
        return not unknown

    def _read_budgets(self, namespace: str) -> None:
        client, clock = self._context.client, self._store.clock

        def send() -> _Budgets | None:
            try:
                listed = list_budgets(client, namespace=namespace, most=MOST_BUDGETS)
            except ClusterError as exc:
                log.warning("the PodDisruptionBudgets of namespace %s cannot be read: %s", namespace, exc)
                return None
            excess = {namespace: listed.excess} if listed.excess else None
            return _Budgets(BudgetIndex(listed.budgets, excess=excess), clock.monotonic())

        def receive(found: _Budgets | None) -> None:
            self._reading.discard(namespace)
            if found is not None:
                self._budgets[namespace] = found
                self._is_wanted = True

        if self._context.submit(
            self._context.drain_writers, ("give-back-budgets", namespace), send, receive, rank=WriteRank.STOP
        ):
            self._reading.add(namespace)

    # Evictions

    def _victims(self, look: GivingBack, found: Sequence[Borrowed], claimant: WaitingPod) -> list[_Victim]:
        whole = {
            uid: _Departure(is_gang=True)
            for uid in _gangs_of(found)
            if (gang := look.started(uid)) is not None and gang.is_whole(look.gone)
        }
        members = ((self._store.members.by_uid(pod.uid), pod) for pod in found)
        return [
            _Victim(member, pod.requests, claimant, whole.get(pod.gang) or _Departure(), _budget_key(pod))
            for member, pod in members
            if member is not None
        ]

    def _go_on_with_gangs(self, now: float) -> None:
        """Repeat the evictions of pods of gangs of which others have gone."""
        going = self._going
        counted: dict[PodGroupKey, bool] = {}

        def goes_on(key: PodGroupKey) -> bool:
            """Whether a part of its minimum is gone."""
            if key not in counted:
                gang = self._store.started_gang(*key)
                counted[key] = gang is not None and not gang.keeps_minimum(going)
            return counted[key]

        for uid, eviction in list(self._evictions.items()):
            victim, is_asked = eviction.rest, is_open(eviction)
            if victim is None or eviction.rest_at > now:
                continue
            eviction.rest, eviction.rest_at = None, math.inf
            member = self._store.members.by_uid(uid)
            if member is None or not member.uses_quota or member.leaving or is_asked:
                continue
            if not goes_on(PodGroupKey(member.namespace, member.podgroup)):
                self._waiting.sent_away.discard(member)
                continue
            eviction.is_repeated = True
            self._evict(msgspec.structs.replace(victim, member=member))

    def _evict(self, victim: _Victim) -> None:
        member, client = victim.member, self._context.client
        eviction = self._evictions.send(member.uid)
        eviction.member, eviction.sent_at = member, self._store.clock.monotonic()
        self._waiting.sent_away.add(member)
        self._budgets.pop(member.namespace, None)  # it allows fewer now

        def answer() -> EvictionAnswer:
            if not victim.departure.goes(partial(self._still_asks, victim.claimant)):
                return EvictionAnswer(EvictionOutcome.DROPPED)
            if not self._context.leading():
                return EvictionAnswer(EvictionOutcome.DROPPED)
            return answer_to(partial(send_away, client, member))

        request = EvictionRequest(
            purpose="give-back",
            uid=member.uid,
            namespace=member.namespace,
            answer=answer,
            granted=partial(self._granted, victim),
            budget=victim.budget,
        )
        record = partial(self._receive, victim)
        if not ask(self._context, request, record):
            record(EvictionAnswer(EvictionOutcome.OVERLOADED))

    def _still_asks(self, claimant: WaitingPod) -> bool:
        if self._waiting.is_reservation(claimant.uid):
            return self._context.leading()
        members = list(map(self._store.members.by_uid, claimant.uids))
        return self._context.leading() and all(
            member is not None and self._waiting.rules.waits(member) and self._waiting.rules.may_start(member)
            for member in members
        )

    def _receive(self, victim: _Victim, answer: EvictionAnswer) -> None:
        """On the controller's thread, in the term that asked."""
        member, now, evictions = victim.member, self._store.clock.monotonic(), self._evictions
        is_of_rest = victim.departure.is_gang and not victim.departure.is_off and self._context.leading()
        match answer.outcome:
            case EvictionOutcome.GRANTED | EvictionOutcome.ABSENT:
                if answer.outcome is EvictionOutcome.GRANTED:
                    workload = _workload_of(member)
                    self._gave.pop(workload, None)  # they stand in the order in which they gave
                    self._gave[workload] = now
                if member.uid in evictions:  # else the cache shows it
                    eviction = evictions.drop(member.uid)
                    if eviction.is_late:
                        eviction.sent_at = now
                    eviction.granted_at, eviction.is_repeated, eviction.is_late = now, False, False
                self._changed.add(member.uid)
                return
            case _ if member.uid not in evictions:
                self._is_wanted = True  # it is gone for another reason
                if not is_of_rest:
                    self._waiting.sent_away.discard(member)
                return
            case EvictionOutcome.OVERLOADED:
                until = now + max(BUSY_SECONDS, answer.retry_after)
                eviction = evictions.drop(member.uid, until=until)
            case EvictionOutcome.DROPPED:
                eviction = evictions.drop(member.uid)
            case _:
                eviction = evictions.refuse(member.uid, now=now)
        eviction.granted_at, eviction.is_repeated, eviction.is_late = None, False, False
        self._is_wanted = True
        if is_of_rest:
            eviction.rest, eviction.rest_at = victim, max(now + BUSY_SECONDS, eviction.not_before)
            log.warning(
                "pod %s/%s stays of a gang that goes whole (%s); it is asked again in %.0f s",
                member.namespace,
                member.name,
                answer.outcome.value,
                eviction.rest_at - now,
            )
        elif eviction.rest is None:
            self._waiting.sent_away.discard(member)

    def _granted(self, victim: _Victim) -> Granted:
        """Add it to the lines of the statuses. Returns what is said on the pod: for which queue, and by which
        rule; and on the workload that the user created, since the pod is gone when somebody asks. The
        recorder drops the same message of the next pods for a while.
        """
        member, message = victim.member, _reason_text(victim)
        self.lines.record(from_=member.queue, to=victim.claimant.queue, action=victim.action)
        on_pod = GrantedEvent(
            subject=pod_subject(member),
            reason=victim.reason,
            message=message,
            rate_limit_key=f"give-backs/{member.queue}",
        )
        events = [on_pod]
        work = self._store.workloads.top_of(member.owner_uid, namespace=member.namespace)
        if work is not None:
            on_owner = GrantedEvent(
                subject=workload_subject(work),
                reason=victim.reason,
                message=f"a pod of it was {message}",
                rate_limit_key=f"workloads/{member.queue}",
                repeat_after=REPEAT_SECONDS,
            )
            events.append(on_owner)
        return Granted(
            reason=victim.reason,
            how="Evict" if member.node else "Delete",
            events=tuple(events),
            target=member if member.node else None,  # else it is gone
            message=message,
        )

    # What is remembered

    def _read_leaving(self) -> None:
        members = self._store.members
        if self._leaving is None:
            self._leaving = {
                member.uid: member
                for queue in members.queues()
                for member in members.in_queue(queue)
                if member.leaving and member.uses_quota
            }
            self._inherited = dict(self._leaving)
            return
        changed, self._changed = self._changed, set()
        is_new = self._store.clock.now() < self._term_began + timedelta(seconds=LATE_SECONDS)
        for uid in changed:
            member, is_requested = members.by_uid(uid), self._is_requested(uid)
            if member is None or member.leaving or not member.uses_quota:
                self._settle(uid)
            if member is not None and member.leaving and member.uses_quota:
                if is_new and not is_requested and uid not in self._leaving:
                    self._inherited[uid] = member
                self._leaving[uid] = member
            else:
                self._leaving.pop(uid, None)

    def _settle(self, uid: str) -> None:
        """The cache shows what became of its eviction, or nothing does: it is not under way any more."""
        eviction = self._evictions.get(uid)
        if eviction is not None:
            eviction.is_sent, eviction.granted_at, eviction.is_repeated = False, None, False
            eviction.sent_at, eviction.is_late = math.inf, False

    def _forget_old(self, now: float) -> None:
        for uid, eviction in list(self._evictions.items()):
            if eviction.sent_at + LATE_SECONDS <= now:
                if eviction.is_sent:
                    eviction.is_late = True  # what it is answered is still to be known
                else:
                    self._settle(uid)
            if not (is_open(eviction) or eviction.rest or eviction.failures or eviction.not_before > now):
                self._evictions.forget(uid)
        if len(self._gave) > MOST_REMEMBERED:
            self._gave = {key: at for key, at in self._gave.items() if at + SAFE_SECONDS > now}
        for key, at in list(self._gave.items()):
            if at + REMEMBERED_SECONDS > now:
                break
            del self._gave[key]
        for uid, at in list(self._let_in.items()):
            if at + SAFE_SECONDS > now:
                break
            del self._let_in[uid]


def _gangs_of(pods: Iterable[Borrowed]) -> set[str]:
    return {pod.gang for pod in pods if pod.gang}


def _count_times(look: GivingBack, key: ReservationKey, number: int) -> None:
    """Count so many pods of a class as used for the rest of the look."""
    queue, requests = key
    for _ in range(number):
        look.count(queue, requests)


def _workload_of(member: Member) -> str:
    """What makes a pod like this one again."""
    return member.owner_uid or f"{member.namespace}/{member.name}"


def _budget_key(pod: Borrowed) -> BudgetKey | None:
    namespace, _, name = pod.budgets[0].partition("/") if pod.budgets else ("", "", "")
    return (namespace, name) if name else None


def _unknown(namespace: str) -> str:
    """Stands for the budgets of a namespace that are too many to be read."""
    return f"{namespace}/"


def _reason_text(victim: _Victim) -> str:
    queue, claimant = quoted(victim.member.queue), quoted(victim.claimant.queue)
    gave = amounts_text({name: amount for name, amount in victim.requests if amount and name != PODS})
    gave = f" ({gave})" if gave else ""
    if victim.departure.is_gang:
        gave += ", with all of its gang"
    if victim.reason == PREEMPTED:
        return f"evicted: a pod of higher priority of its queue {queue} takes its room{gave}; action preempt"
    return (
        f"evicted: queue {queue} uses more than it deserves, and gives back to queue {claimant} what that "
        f"deserves{gave}; action reclaim"
    )
