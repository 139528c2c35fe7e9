"""Evicts pods of queues that borrow, so that pods that wait get what their queues deserve.

kube-scheduler never sees a pod with our gate, so it evicts nothing for it: the leader does, where the policy
of its queue has action `reclaim` or `preempt`, and so has that of the pod, where it names another. Users name
the policy of a pod, and may not give themselves what an admin has not given the queue. Who may take what, and
in which order, is decided by `queues.quota.giving_back`.

A look follows each pass that leaves pods without room, and goes through these steps:

1. room is counted as if what is being deleted were gone, or what was deleted by force and may still run;
2. each pod that waits asks in turn: first those for which room is set aside, then queue by queue in the order
   of their shares;
3. the disruption budgets of the victims' namespaces are read, if they were not: then the next look goes on;
4. room is set aside for those that get it (`queues.quota.reservations`), and their victims are evicted.

| the answer to an eviction | then                                                                      |
|---------------------------|---------------------------------------------------------------------------|
| granted, or gone already  | it counts as leaving until the watch shows that it is, or is gone; for    |
|                           | `LATE_SECONDS` at most                                                    |
| it has changed            | it is looked at as it is now                                              |
| refused by a budget,      | it is left alone for `REFUSED_SECONDS`; others are looked for             |
| or by anything else       |                                                                           |
| none; the API server is   | the same for `BUSY_SECONDS`                                               |
| busy                      |                                                                           |

Invariants
- Nothing is released by this: who gets the room goes once the watch shows that it is there.
- Room is set aside only while somebody gives it, and for those that asked: where nobody does any more, the
  next look gives it up.
- A pod whose workload gave back, and that was let in again, is not taken within `SAFE_SECONDS`. A new leader
  leaves alone those that may be such pods (`queues.quota.let_in_again`).
- What is being deleted as a term begins, or soon after and not by this leader, makes room for those that
  might have it evicted: for them room is set aside, as the former leader has done.
- The UID is a precondition: another pod of that name is left alone. A pod without a node is deleted at the
  version that has none.
- Before each eviction it is asked again whether this replica leads, and whether the pod that is to get the
  room still waits.
- Nothing is done while no policy has one of the two actions.
- Owner: the controller's thread. The drains' writers send.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial

import msgspec

from cluster.api.client import STRATEGIC_MERGE_PATCH
from cluster.cache.changes import NO_QUEUE, Change, PodChange, QueueChange
from cluster.cache.members import Member
from cluster.exceptions import ClusterError, Conflict, NotFound
from controller.context import ControllerContext, pod_path, pod_subject
from controller.drain.budget_reader import list_budgets
from controller.drain.eviction import Answer, answer_to, lane_of, send_away
from controller.drain.request_states import Outcome
from controller.quota.given_back_lines import GivenBackLines
from controller.quota.waiting_pods import WaitingPods
from queues.drain.disruption_budgets import BudgetIndex, BudgetKey
from queues.policies.policy_set import PolicySet
from queues.policies.victims import PREEMPT, RECLAIM, asked_by, is_critical
from queues.quota.giving_back import Asked, Borrowed, GivingBack
from queues.quota.lack import Lack, LackKind
from queues.quota.let_in_again import LATE_SECONDS, SAFE_SECONDS, ReadPod
from queues.quota.pod_classes import WaitingPod
from queues.quota.reclaim_preview import MOST_ASKING
from queues.quota.report import amounts_text
from queues.quota.reservations import Key
from queues.quota.usage import PODS, Requests, negative
from queues.text import quoted

#: Evictions that are under way at a time.
MOST_LEAVING = 500
#: A look ends after so long; the next one follows after so many times what it took.
LOOK_SECONDS, REST = 0.05, 2.0
#: Without anything new the next look follows after so long, and after twice as long each time.
PAUSE, LONGEST_PAUSE = 0.5, 30.0
REFUSED_SECONDS, BUSY_SECONDS = 10.0, 2.0
#: Workloads that gave back are remembered for so long, and so many of them.
REMEMBERED_SECONDS, MOST_REMEMBERED = 3600.0, 10_000
#: Budgets of one namespace are good for so long; so many of them are read.
BUDGETS_SECONDS, MOST_BUDGETS = 2.0, 1000

RECLAIMED, PREEMPTED = "Reclaimed", "Preempted"

log = logging.getLogger(__name__)


class _Victim(msgspec.Struct, frozen=True):
    """A pod that is to go, and for whom."""

    member: Member
    requests: Requests
    claimant: WaitingPod
    budget: BudgetKey | None = None

    @property
    def reason(self) -> str:
        return PREEMPTED if self.member.queue == self.claimant.queue else RECLAIMED

    @property
    def action(self) -> str:
        """Of the policy."""
        return PREEMPT if self.reason == PREEMPTED else RECLAIM


class _Budgets(msgspec.Struct, frozen=True):
    index: BudgetIndex
    read_at: float


class GiveBacks:
    """Owner: the controller's thread."""

    def __init__(
        self, context: ControllerContext, waiting: WaitingPods, *, told: Callable[[Member, Lack], object]
    ) -> None:
        """`told`: called for each pod that others make room for."""
        self._context = context
        self._store = context.store
        self._waiting = waiting
        self._told = told
        self._askers: tuple[PolicySet, bool] | None = None
        self.lines = GivenBackLines(context.store)
        self.forget()

    def forget(self) -> None:
        """Forget everything: a term begins or ends."""
        self._term_began = self._store.clock.now()
        #: Members that are being deleted; None until all were looked at. And those to be looked at again.
        self._leaving: dict[str, Member] | None = None
        self._changed: set[str] = set()
        #: Of these, what a former leader may have evicted, until its room is set aside.
        self._inherited: dict[str, Member] = {}
        #: Victims with an eviction that was sent and is not shown by the cache yet, and since when.
        self._requested: dict[str, tuple[Member, float]] = {}
        self._left_alone: dict[str, float] = {}
        #: When workloads gave back, and when pods of them were let in again.
        self._gave: dict[str, float] = {}
        self._let_in: dict[str, float] = {}
        self._budgets: dict[str, _Budgets] = {}
        self._reading: set[str] = set()
        self.lines.forget()
        self._is_wanted = False
        self._next_at, self._pause = math.inf, PAUSE
        self._rests_until = -math.inf

    # What happens

    def record(self, changes: Mapping[str, Iterable[Change]]) -> None:
        if self._leaving is None:
            return
        for queue, changes_of_queue in changes.items():
            for change in changes_of_queue:
                if isinstance(change, PodChange):
                    self._changed.add(change.uid)
                elif change is QueueChange.RESYNC and queue != NO_QUEUE:
                    self._changed.update(self._leaving, self._requested)

    def passed(self) -> None:
        """A pass has ended: what lacks room may be other pods."""
        if self._is_asked:
            self._is_wanted = True

    def released(self, member: Member) -> None:
        """It was let in."""
        if not self._is_asked:
            return
        if _workload_of(member) in self._gave or self._as_read(member).is_of_former(self._term_began):
            self._let_in[member.uid] = self._store.clock.monotonic()

    @property
    def due(self) -> float:
        """When the next look is due, in monotonic seconds."""
        if not self._is_asked and not self._waiting.reservations:
            return math.inf
        return max(self._rests_until, -math.inf if self._is_wanted else self._next_at)

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
        victims, is_asked = self._look(began)
        for victim in victims:
            self._evict(victim)
        self._pause = PAUSE if victims or is_new else min(LONGEST_PAUSE, 2 * self._pause)
        ended = self._store.clock.monotonic()
        self._next_at = ended + self._pause if is_asked else math.inf
        self._rests_until = ended + REST * (ended - began)

    def _look(self, now: float) -> tuple[list[_Victim], bool]:
        """The victims, and whether anybody has asked. Room is set aside anew."""
        before = dict(self._waiting.reservations.numbers)
        self._take_over(before, now)
        kept: dict[Key, int] = {}
        victims: list[_Victim] = []
        is_asked = False
        with self._waiting.look(pods=partial(self._candidates, now=now), allowed=self._allowed(now)) as look:
            self._count_leaving(look)
            denied: set[Key] = set()
            for claimant, asked in self._claimants(look, before, kept=kept, denied=denied):
                is_asked = True
                if self._store.clock.monotonic() - now > LOOK_SECONDS:
                    self._is_wanted = True  # the next look goes on; who was not asked keeps what it has
                    kept = {key: number for key, number in before.items() if key not in denied} | kept
                    break
                key = claimant.queue, claimant.requests
                found = look.ask(claimant, asked)
                if found is None:
                    denied.add(key)
                elif found and self._may_evict(found, victims):
                    kept[key] = kept.get(key, 0) + 1
                    victims += self._victims(found, claimant)
                else:  # it has room by now, or its victims go with a later look: it keeps what it has
                    kept[key] = min(kept.get(key, 0) + 1, before.get(key, 0))
        self._set_aside({key: number for key, number in kept.items() if number})
        return victims, is_asked or bool(before)

    def _count_leaving(self, look: GivingBack, *, but: Collection[str] = ()) -> None:
        """What is being deleted counts no longer, nor does what is asked to go; but for these."""
        requested = (member for member, _ in self._requested.values())
        for member in (*(self._leaving or {}).values(), *requested):
            if member.uid not in but:
                look.count(member.queue, negative(self._waiting.rules.requests(member)))
        for queue in self._store.force_deleted.queues():
            look.count(queue, negative(self._store.force_deleted.used(queue).items()))

    def _take_over(self, before: dict[Key, int], now: float) -> None:
        """Add to `before` those for which what a former leader may have evicted would go now."""
        self._inherited = {
            uid: member for uid, member in self._inherited.items() if uid in (self._leaving or {})
        }
        if not self._inherited:
            return

        def leaving_in(queue: str) -> Iterator[Borrowed]:
            of_queue = (member for member in self._inherited.values() if member.queue == queue)
            return map(self._borrowed, of_queue)

        with self._waiting.look(pods=leaving_in, allowed={}) as look:
            self._count_leaving(look, but=set(self._inherited))
            denied: set[Key] = set()
            for claimant, asked in self._claimants(look, before, kept={}, denied=denied):
                if self._store.clock.monotonic() - now > LOOK_SECONDS:
                    break
                key = claimant.queue, claimant.requests
                found = look.ask(claimant, asked)
                if found is None:
                    denied.add(key)
                elif found:
                    before[key] = before.get(key, 0) + 1
                    for pod in found:
                        del self._inherited[pod.uid]

    def _claimants(
        self, look: GivingBack, before: Mapping[Key, int], *, kept: dict[Key, int], denied: set[Key]
    ) -> Iterator[tuple[WaitingPod, Asked]]:
        """Those that may ask, in order. What is set aside for pods that are not known to lack room is `kept`.
        `denied`: those like these are not asked again; where the queue is fifo, none after them is.
        """
        for queue in self._waiting.order_of_queues(first={queue for queue, _ in before}):
            blocked = self._waiting.blocked_in(queue, most=MOST_ASKING)
            lacking = {pod.requests for pod in blocked}
            for key, number in before.items():
                if key[0] == queue and key[1] not in lacking:
                    kept[key] = min(number, self._waiting.number_of(*key))
                    for _ in range(kept[key]):
                        look.count(queue, key[1])
            for pod in blocked:
                asked = self._asked(pod)
                if asked is None or (queue, pod.requests) in denied:
                    continue
                yield pod, asked
                if (queue, pod.requests) in denied and self._waiting.is_fifo(queue):
                    break

    def _asked(self, pod: WaitingPod) -> Asked | None:
        """What its queue's policy and its own let it take; None for nothing. A PodGroup whose pods do not
        exist yet has that of its queue.
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

    def _set_aside(self, numbers: Mapping[Key, int]) -> None:
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
            if not member.uses_quota or member.leaving or member.uid in self._requested:
                continue
            if member.uid in self._left_alone or self._is_safe(member, now) or self._is_daemon(member):
                continue
            if self._waiting.keeps_room_of(member):
                continue
            yield self._borrowed(member, budgets=self._budgets_of(member))

    def _borrowed(self, member: Member, budgets: tuple[str, ...] = ()) -> Borrowed:
        return Borrowed(
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
        """Whether all of them may be evicted now; the budgets that are not known are read."""
        if len(self._requested) + len(victims) + len(found) > MOST_LEAVING:
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
            self._context.drain_writers, ("give-back-budgets", namespace), send, receive, rank=(0,)
        ):
            self._reading.add(namespace)

    # Evictions

    def _victims(self, found: Iterable[Borrowed], claimant: WaitingPod) -> list[_Victim]:
        members = ((self._store.members.by_uid(pod.uid), pod) for pod in found)
        return [
            _Victim(member, pod.requests, claimant, _budget_key(pod))
            for member, pod in members
            if member is not None
        ]

    def _evict(self, victim: _Victim) -> None:
        member, client = victim.member, self._context.client
        self._requested[member.uid] = member, self._store.clock.monotonic()
        self._budgets.pop(member.namespace, None)  # it allows fewer now

        def send() -> Answer:
            if not self._still_asks(victim.claimant):
                return Answer(Outcome.DROPPED)
            return answer_to(partial(send_away, client, member))

        def receive(answer: Answer | None) -> None:
            self._receive(victim, answer or Answer(Outcome.OVERLOADED))

        if not self._context.submit(
            self._context.drain_writers,
            ("give-back", member.uid),
            send,
            receive,
            rank=(1,),
            lane=lane_of(member.namespace, uid=member.uid, budget=victim.budget),
            batched=True,
        ):
            self._receive(victim, Answer(Outcome.OVERLOADED))

    def _still_asks(self, claimant: WaitingPod) -> bool:
        if self._waiting.is_reservation(claimant.uid):
            return self._context.leading()
        members = list(map(self._store.members.by_uid, claimant.uids))
        return self._context.leading() and all(
            member is not None and self._waiting.rules.waits(member) and self._waiting.rules.may_start(member)
            for member in members
        )

    def _receive(self, victim: _Victim, answer: Answer) -> None:
        """On the controller's thread."""
        member, now = victim.member, self._store.clock.monotonic()
        match answer.outcome:
            case Outcome.GRANTED:
                workload = _workload_of(member)
                self._gave.pop(workload, None)  # they stand in the order in which they gave
                self._gave[workload] = now
                self._record(victim)
                self._changed.add(member.uid)
                return
            case Outcome.ABSENT:
                self._changed.add(member.uid)
                return
            case Outcome.OVERLOADED:
                self._left_alone[member.uid] = now + max(BUSY_SECONDS, answer.retry_after)
            case Outcome.DROPPED:
                pass
            case _:
                self._left_alone[member.uid] = now + REFUSED_SECONDS
        self._requested.pop(member.uid, None)
        self._is_wanted = True

    def _record(self, victim: _Victim) -> None:
        """Count it, and say on the pod who asked and by which rule."""
        member, how = victim.member, "Evict" if victim.member.node else "Delete"
        self._context.metrics.evicted(victim.reason, how)
        self.lines.record(from_=member.queue, to=victim.claimant.queue, action=victim.action)
        message = _reason_text(victim)
        self._context.recorder.record(
            pod_subject(member),
            reason=victim.reason,
            message=message,
            rate_limit_key=f"give-backs/{member.queue}",
            repeat_after=0.0,
        )
        if not member.node:
            return  # it is gone
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": victim.reason,
            "message": message,
        }
        body = {"metadata": {"uid": member.uid}, "status": {"conditions": [condition]}}

        def write() -> bool:
            try:
                path = f"{pod_path(member)}/status"
                self._context.client.patch(path, body, content_type=STRATEGIC_MERGE_PATCH)
            except (NotFound, Conflict):
                return False
            return True

        self._context.submit_write(
            ("give-back-condition", member.uid),
            write,
            lambda _failed: None,
            rank=(8,),
            subject=pod_subject(member),
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
            member, is_requested = members.by_uid(uid), uid in self._requested
            if member is None or member.leaving or not member.uses_quota:
                self._requested.pop(uid, None)
            if member is not None and member.leaving and member.uses_quota:
                if is_new and not is_requested and uid not in self._leaving:
                    self._inherited[uid] = member
                self._leaving[uid] = member
            else:
                self._leaving.pop(uid, None)

    def _forget_old(self, now: float) -> None:
        for uid, (_, at) in list(self._requested.items()):
            if at + LATE_SECONDS <= now:
                del self._requested[uid]
        for uid, until in list(self._left_alone.items()):
            if until <= now:
                del self._left_alone[uid]
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
    if victim.reason == PREEMPTED:
        return f"evicted: a pod of higher priority of its queue {queue} takes its room{gave}; action preempt"
    return (
        f"evicted: queue {queue} uses more than it deserves, and gives back to queue {claimant} what that "
        f"deserves{gave}; action reclaim"
    )
