"""Releases pods of queues with a quota, once there is room: takes our gates off, in the order of
`queues.quota.release_order`.

A release goes through these steps, and a crash after any of them loses nothing:

1. the pod is chosen, and counts from now on;
2. it is in the book, with its resource version;
3. its gates are taken off, and label `sluice.dev/released` is written on it, at that very version;
4. the watch shows that: it counts as any pod, and is left out of the book with its next write.

A pod that pends without a gate of ours since before there was a quota goes the same way: filter and the guard
refuse it until it is released. It may have been let through before that, so it counts from the beginning, but
for the release of others like it: they would wait for each other for ever. So these go first.

What became of a release that was begun:

| the cache shows the pod              | then                                                                |
|--------------------------------------|---------------------------------------------------------------------|
| released, or finished                | it is done                                                          |
| waiting, at the version in the book  | it may still happen: it counts; without an answer it is sent again  |
| waiting, at another version          | it can happen no more: the API server refuses the former version    |
| not at all                           | it is gone: it was deleted                                          |

Where the API server refuses the patch itself, as an admission policy may have it, it has not happened: the
pod is asked for again after a time. Else it would keep its place in the book. If an earlier try had no
answer, or was another leader's, the pod is changed first.

Where it answers that the pod has changed or is gone, the watch shows that. If it does not, as where a webhook
of somebody else refuses by such an answer, the patch is sent again after a back-off (`RESEND`): it names the
version, so that it changes nothing that has happened. The pod keeps its place meanwhile.

Invariants
- No release takes a queue, or one above it, over its capability: every pod that may yet lose its gates by
  what any leader has begun counts, and so does every pod without them.
- None is released while members may run that are not known (`is_use_unknown`): the API server did not ask
  us about them.
- Use falls only by what the watch shows. A late watch delays a release, and allows none.
- Where the book is new, the cache knows all pods as of the time when it was opened, and each pod that waits
  gets a version that no earlier book can have named, before one is released: a later one than the book's
  first. The book says that it is new, and since when, until that is done: whoever opens it meanwhile goes on.
- Nobody waits for a pod that cannot be changed, as a policy may have it: it is in doubt. It counts, since an
  earlier leader may have begun its release, and is not released, until it has changed after all. So long the
  book stays new, whatever is written into it.
- Thousands of one queue hold up nobody else's: the patches of each queue have their turn.
- All pods of a gang's minimum are in one write of the book. One of them that changes meanwhile is released at
  its new version, once that is in the book, and counts in between.
- What was begun in a queue that does not schedule any more is voided: the pod is changed. Else it would take
  up the book.
- A pod whose queue does not schedule is not released. One of a queue without a quota, which has the gate of
  quotas nevertheless, is released whatever is used.
- Nothing is read or written while no queue has a quota, and no pod has its gate.
- While the book cannot be written nothing is released, and `book_fault` says why. The status of each queue
  with a quota says it at once; each pod that waits once it has lasted for `FAULT_SECONDS`.
- Owner: the controller's thread. The writers send.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from cluster.api.client import MERGE_PATCH, decode_response
from cluster.backoff import Backoff
from cluster.cache.changes import StoreChange
from cluster.cache.members import Member
from cluster.cache.podgroups import PodGroupKey
from cluster.exceptions import ClusterError, Conflict, NotFound, Overloaded, Refused
from cluster.objects import Metadata, PodGroup
from cluster.waiting_writes import WriteKey
from cluster.write_ranks import WriteRank
from controller.context import ControllerContext, pod_path, pod_subject, queue_subject
from controller.parts import Part
from controller.pods.ungating import gate_removal
from controller.quota.book_writes import BookWrites, StoredBook
from controller.quota.gang_placements import GangsInPlacement
from controller.quota.give_backs import GiveBacks
from controller.quota.voided import VoidedReleases
from controller.quota.waiting_pods import WaitingPods
from controller.slices import Slices
from queues import well_known
from queues.apimachinery.pod_requests import Requests
from queues.quota.book import MAX_INTENTS
from queues.quota.enforcement import book_fault_text
from queues.quota.given_back import GivenBack
from queues.quota.lack import Lack, LackKind
from queues.quota.report import CountedBeside
from queues.quota.turns import turns
from queues.status.podgroup_conditions import GangQuotaState
from queues.world.pod_rules import is_gated

#: After a pod that could not be changed.
RETRY_SECONDS = 0.5
#: After a release of which the answer was that the pod has changed or is gone, and nothing is heard of that.
RESEND = Backoff(1.0, 60.0)
#: Such an answer is said from this time in a row on.
SAID_CONFLICTS = 3
#: Each pod that waits, and then each that has come since, says that the book cannot be written after so long.
FAULT_SECONDS = 5.0
#: A pod of a gang that was begun is released at another version so many times; then what is missing of the
#: gang is asked for anew. One that changes for ever would keep a place in the book, and a gang that needs all
#: places would never go, nor anybody behind it.
MAX_RENEWALS = 5
#: A pass ends after so long, and the next one goes on: other work of this thread has its turn.
PASS_SECONDS = 0.02
#: A pass follows the last one after so many times what that took.
REST = 2.0


class _Intent(msgspec.Struct):
    """A release that was begun. `version`: the pod's, in the book. `is_sent`: its patch is under way, or was
    answered. `turn`: when it is sent (`queues.quota.turns`). `is_touched`: the pod is being changed, so that
    it can happen no more. `of_gang`: what the pod requests, if it goes with a gang. `is_in_doubt`: a patch
    was sent of which it is not known what became. `is_refused`: the API server has refused it, and none is
    in doubt. `conflicts`: how often the answer was that the pod has changed or is gone; `resend_at`: when it
    is sent again if nothing is heard of that.
    """

    uid: str
    version: int
    queue: str = ""
    turn: int = 0
    is_written: bool = False
    is_sent: bool = False
    is_touched: bool = False
    of_gang: Requests | None = None
    is_in_doubt: bool = False
    is_refused: bool = False
    conflicts: int = 0
    resend_at: float = math.inf


def _key_of_release(uid: str) -> WriteKey:
    return "quota-release", uid


class _Answer(msgspec.Struct, frozen=True):
    metadata: Metadata


_answer = msgspec.json.Decoder(_Answer)


class QuotaReleases(Part):
    """Owner: the controller's thread."""

    name = "quota"

    def __init__(
        self,
        context: ControllerContext,
        *,
        blocked: Callable[[Member, Lack], object],
        is_use_unknown: Callable[[], bool] = lambda: False,
    ) -> None:
        """`blocked`: called for each pod that has no room, once for each version and reason.
        `is_use_unknown`: whether pods may run that are not known, so that none is released beside them.
        """
        self._context = context
        self._store = context.store
        self._blocked = blocked
        self._is_use_unknown = is_use_unknown
        self._book = BookWrites(context)
        self._slices = Slices()
        self._voided = VoidedReleases()
        self._placements = GangsInPlacement(
            context, changed=self._record_gang, is_under_way=lambda uid: uid in self._intents
        )
        self._waiting = WaitingPods(
            context.store,
            pause=self._slices.pause,
            placements=self._placements,
        )
        self._give_backs = GiveBacks(context, self._waiting, told=blocked)
        self.begin_term()

    def begin_term(self) -> None:
        self._book.forget()
        self._intents: dict[str, _Intent] = {}
        #: Pods that must change before the first release, since the book is new; and those of them that have
        #: been changed, as the watch will show.
        self._to_touch: set[str] | None = None
        self._touched = set[str]()
        #: Those of which a try to change them came to nothing.
        self._unchangeable = set[str]()
        self._next_touch_at = -math.inf
        #: When the first release is sent again that was answered, and of which nothing is heard.
        self._resends_at = math.inf
        #: Whether what is written in the book at its opening was looked at.
        self._is_ready = False
        #: What was said of the book last, and when pods are told that.
        self._fault = ""
        self._tells_fault_at = math.inf
        #: Not before this time: other work of this thread has its turn.
        self._next_pass_at = -math.inf
        self._placements.forget()
        self._waiting.forget()
        self._give_backs.forget()

    @property
    def due(self) -> float:
        """When the next step is to be taken though nothing changes, in monotonic seconds."""
        if not self._is_needed():
            return math.inf
        return min(self._next_step_at, self._tells_fault_at, self._book.well_at)

    @property
    def _next_step_at(self) -> float:
        if self._book.is_under_way:
            return math.inf
        if self._book.stored is None:
            return self._book.retry_at
        if not self._is_ready:
            return math.inf
        touch_due = self._next_touch_at if self._in_doubt else math.inf
        sends_due = min(touch_due, self._resends_at)
        if len(self._intents) >= MAX_INTENTS:
            return min(self._renewal_due, sends_due)
        others = min(
            self._waiting.due, self._voided.due, self._give_backs.due, self._placements.due, sends_due
        )
        is_due = self._waiting.is_due(self._next_pass_at) and not self._is_use_unknown()
        return min(self._next_pass_at, others) if is_due else others

    @property
    def is_book_ready(self) -> bool:
        """Whether no release can happen that is not in the open book; also where there is none to be made."""
        stored = self._book.stored
        is_open = self._is_ready and stored is not None and not stored.book.is_new
        return is_open or not self._is_needed()

    @property
    def book_fault(self) -> str:
        """Why the book cannot be written, so that nothing is released; "" where it can, or none is needed."""
        return self._fault

    def claimant_of(self, queue: str) -> Member | None:
        """The pod for which others leave room in the queue (`queues.quota.claims`)."""
        return self._store.members.by_uid(self._waiting.claimants.get(queue, ""))

    def standing(self, podgroup: PodGroup) -> GangQuotaState | None:
        """How a PodGroup stands with the quotas; None if it was not looked at yet."""
        return self._waiting.standing(podgroup)

    def take_changed_groups(self) -> set[PodGroupKey]:
        """The PodGroups that may stand otherwise than when they were taken last."""
        return self._waiting.take_changed_groups()

    def _record_gang(self, key: PodGroupKey) -> None:
        self._waiting.record_gang(key)

    def is_held(self, workload: str) -> bool:
        """Whether the workload of this UID is suspended until its pods are gone: its gang gives back."""
        return self._placements.is_held(workload)

    def given_back(self, queue: str) -> Sequence[GivenBack]:
        """What the status of the queue says was given back by it, or to it."""
        return self._give_backs.lines.of(queue)

    def kept_below(self, queue: str) -> Mapping[PodGroupKey, Requests]:
        """What is kept for gangs of the queue and of those below it."""
        return self._waiting.kept_below(queue)

    def counted_beside(self, queue: str) -> CountedBeside:
        """What counts of the queue and of those below it, and is neither used nor kept for gangs."""
        return self._waiting.counted_beside(queue)

    def record(self, changes: Mapping[str, Iterable[StoreChange]]) -> None:
        """These changes are looked at with the next step, or when there is one."""
        self._waiting.record(changes)
        self._give_backs.record(changes)
        self._placements.record(changes)

    def step(self) -> None:
        """Take the steps that can be taken now; each goes on when its answer, or the watch, comes."""
        if not self._is_needed():
            self._rest()
            return
        self._follow_fault()
        if self._book.is_under_way:
            return
        if self._book.stored is None:
            self._open()
            return
        if not self._is_ready and not self._make_ready(self._book.stored):
            return
        if self._settle_doubt(self._book.stored):
            return
        self._settle()
        if self._renew():
            return
        self._send()
        began = self._store.clock.monotonic()
        for queue, uid in self._voided.take_due(began):
            self._waiting.record_pod(queue, uid)
        self._waiting.room = MAX_INTENTS - len(self._intents)
        if began >= self._next_pass_at and self._waiting.is_due(began) and not self._is_use_unknown():
            self._release()
            ended = self._store.clock.monotonic()
            self._next_pass_at = ended + REST * (ended - began)
        self._give_backs.step()
        self._placements.step()

    def _rest(self) -> None:
        """Nothing needs the book."""
        if self._waiting.has_begun:
            self._waiting.forget()
            self._placements.forget()
        if self._book.has_failed:  # that concerns nothing any more
            self._book.forget()
            self._fault, self._tells_fault_at = "", math.inf

    # Opening

    def _open(self) -> None:
        if self._store.clock.monotonic() >= self._book.retry_at:
            self._book.open(self._opened)

    def _follow_fault(self) -> None:
        """Say that the book cannot be written, or can be again."""
        now = self._store.clock.monotonic()
        fault = self._book.fault
        if fault != self._fault:
            self._fault = fault
            self._tells_fault_at = now + FAULT_SECONDS if fault else math.inf
            snapshot = self._store.snapshot
            queues = [queue for queue in snapshot.tree if snapshot.decision(queue).has_quota]
            self._context.work_queue.wake(queues)
            if fault:
                self._record_fault(queues)
        if now >= self._tells_fault_at:
            self._tells_fault_at = now + FAULT_SECONDS
            self._tell_pods_of_fault()

    def _record_fault(self, queues: Iterable[str]) -> None:
        for queue in queues:
            obj = self._store.queues.get(queue)
            if obj is not None and obj.spec.capability is not None:
                self._context.recorder.record(
                    queue_subject(obj),
                    reason="BookNotWritten",
                    message=book_fault_text(self._fault),
                    warning=True,
                    rate_limit_key="book",
                )

    def _tell_pods_of_fault(self) -> None:
        self._slices.begin()
        for member in list(self._waiting.unreleased()):
            self._blocked(member, Lack(member.queue, kind=LackKind.BOOK))
            self._slices.pause()

    def _opened(self) -> None:
        stored = self._book.stored
        if stored is None:
            return
        self._intents = {
            uid: _Intent(uid, version, is_written=True, is_in_doubt=True)
            for uid, version in stored.book.intents.items()
        }
        # What another leader has begun meanwhile may be at the versions of an earlier touch.
        self._to_touch, self._touched, self._unchangeable = None, set(), set()
        self._is_ready = False
        self._waiting.forget()

    def _make_ready(self, stored: StoredBook) -> bool:
        """Whether all pods are known as of the opening of the book. If it is new, they have changed since,
        and it is not new any more.
        """
        if not self._is_cache_current(stored):
            return False
        if self._to_touch is None:
            since = stored.new_since
            self._to_touch = {member.uid for member in self._waiting.unreleased() if member.version <= since}
        self._touch_all(self._to_touch, since=stored.new_since)
        if self._to_touch - self._unchangeable:
            return False
        if stored.book.is_new and not self._to_touch:
            self._write_book()
            return False
        self._is_ready = True
        for intent in self._intents.values():
            self._take_over(intent)
        return True

    def _touch_all(self, uids: set[str], *, since: int) -> None:
        """Change these pods; those that have changed, or do not wait any more, are taken out of the set."""
        for uid in list(uids):
            member = self._store.members.by_uid(uid)
            if member is None or not self._waiting.rules.waits(member) or member.version > since:
                uids.discard(uid)
                if member is not None:
                    self._waiting.record_pod(member.queue, uid)
            elif uid not in self._touched:
                self._touch(member)

    @property
    def _in_doubt(self) -> set[str]:
        """The pods of which an earlier leader may have begun the release, and that cannot be changed."""
        return self._to_touch or set()

    def _settle_doubt(self, stored: StoredBook) -> bool:
        """Try again to change what is in doubt. Returns whether the book is written, which is new no more."""
        now = self._store.clock.monotonic()
        if self._in_doubt and now >= self._next_touch_at:
            self._next_touch_at = now + RETRY_SECONDS
            self._touch_all(self._in_doubt, since=stored.new_since)
        is_settled = stored.book.is_new and not self._in_doubt
        if is_settled:
            self._write_book()
        return is_settled

    def _take_over(self, intent: _Intent) -> None:
        """What another leader has begun goes on as what is begun here. What the pod requests at this version
        has room; at another one it is asked for anew.
        """
        member = self._store.members.by_uid(intent.uid)
        if member is not None and member.version == intent.version:
            intent.queue = member.queue
            intent.of_gang = member.requests if self._waiting.is_of_gang(member) else None

    def _is_cache_current(self, stored: StoredBook) -> bool:
        return self._store.watch_progress.demand("pods", stored.version)

    def _touch(self, member: Member, intent: _Intent | None = None) -> bool:
        """Change the pod: what was begun at its present version can happen no more. Returns whether that is
        under way. `intent`: the one that is not to happen; else that it was touched is remembered.
        """
        token, touched, unchangeable = secrets.token_hex(8), self._touched, self._unchangeable
        body = {"metadata": {"uid": member.uid, "annotations": {well_known.QUOTA_TERM: token}}}

        def send() -> int:
            try:
                answer = self._context.client.patch(pod_path(member), body)
            except (NotFound, Conflict):
                return 0  # it is gone
            return decode_response(answer, _answer).metadata.version

        def receive(version: int | None) -> None:
            if intent is not None:
                intent.is_touched = bool(version)
            elif version is not None and version > member.version:
                touched.add(member.uid)
            elif version is None:
                unchangeable.add(member.uid)

        return self._context.submit(
            self._context.writers,
            ("quota-touch", member.uid),
            send,
            receive,
            rank=WriteRank.BOOK,
            queue=member.queue,
            subject=pod_subject(member),
        )

    # Releases

    def _settle(self) -> None:
        """Drop the intents of which it is known what became."""
        for uid, intent in list(self._intents.items()):
            member = self._store.members.by_uid(uid)
            if member is None or not (member.unreleased or is_gated(member)):
                self._voided.forget(uid)
            elif member.version != intent.version:
                self._waiting.record_pod(member.queue, uid)
                if intent.is_written and not intent.is_touched:
                    self._voided.record(uid, queue=member.queue, now=self._store.clock.monotonic())
                if self._goes_on_with_its_gang(member, intent):
                    self._intents[uid] = _Intent(
                        uid, member.version, member.queue, intent.turn, of_gang=intent.of_gang
                    )
                    continue
            elif intent.is_refused:
                seconds = self._context.writers.wait(_key_of_release(uid))
                self._voided.record(
                    uid, queue=member.queue, now=self._store.clock.monotonic(), seconds=seconds
                )
                self._waiting.record_pod(member.queue, uid)
            else:
                continue
            del self._intents[uid]

    def _goes_on_with_its_gang(self, member: Member, intent: _Intent) -> bool:
        """Whether it is released all the same, at its present version: its room is not left to others, since
        the rest of its gang has gone.
        """
        return (
            self._voided.times(member.uid) <= MAX_RENEWALS
            and intent.of_gang == member.requests
            and intent.queue == member.queue
            and not member.leaving
            and self._waiting.rules.may_start(member)
            and self._waiting.has_begun_with_gang(member, self._intents)
        )

    def _renew(self) -> bool:
        """Write down the releases that go on at another version. Returns whether there are some."""
        is_due = any(
            not intent.is_written and not self._is_postponed(intent.uid) for intent in self._intents.values()
        )
        if is_due:
            self._write_book()
        return is_due

    @property
    def _renewal_due(self) -> float:
        """When a release is written down that goes on at another version."""
        unwritten = [intent.uid for intent in self._intents.values() if not intent.is_written]
        if not unwritten:
            return math.inf
        return self._voided.due if all(map(self._is_postponed, unwritten)) else -math.inf

    def _send(self) -> None:
        """Take off the gates of what is in the book. What is of a queue that was stopped since is voided:
        else it would fill the book, and nobody else could go.
        """
        now = self._store.clock.monotonic()
        self._resends_at = math.inf
        for intent in self._intents.values():
            member = self._store.members.by_uid(intent.uid)
            if member is None or not intent.is_written or (intent.is_sent and now < intent.resend_at):
                self._resends_at = min(self._resends_at, intent.resend_at)
                continue
            intent.resend_at = math.inf
            if self._waiting.rules.may_start(member):
                self._send_release(member, intent)
            elif not intent.is_touched and member.version == intent.version:
                intent.is_touched = self._touch(member, intent)

    def _send_release(self, member: Member, intent: _Intent) -> None:
        metadata: dict[str, Any] = {"uid": member.uid, "resourceVersion": str(intent.version)}
        body, content_type = {"metadata": metadata}, MERGE_PATCH
        has_gate = is_gated(member)
        if not has_gate or self._store.snapshot.decision(member.queue).has_quota:
            metadata["labels"] = {well_known.RELEASED: member.uid}
        if has_gate:
            body["spec"], content_type = gate_removal(member, of_quota=True)

        conflicts: list[Refused] = []
        outcomes: set[bool] = set()  # whether it was refused, of each try that failed

        def send() -> bool:
            """Whether it was answered. A stop that has come meanwhile is heeded."""
            if not self._waiting.rules.may_start(member):
                return False
            try:
                self._context.client.patch(pod_path(member), body, content_type=content_type)
            except (Conflict, NotFound) as exc:
                # It has changed, or an earlier try has succeeded: the watch will show which.
                conflicts.append(exc)
            except ClusterError as exc:
                outcomes.add(isinstance(exc, Refused) and not isinstance(exc, Overloaded))
                raise
            return True

        def receive(answered: bool | None) -> None:
            if self._intents.get(intent.uid) is not intent:
                return
            if answered:
                if conflicts:
                    self._await_change(member, intent, conflicts[-1])
                return
            intent.is_sent = False  # it may still happen
            intent.is_in_doubt |= False in outcomes or (answered is None and not outcomes)
            if True not in outcomes:
                return
            if not intent.is_in_doubt:
                intent.is_refused = True
            elif not intent.is_touched and member.version == intent.version:
                intent.is_touched = self._touch(member, intent)

        intent.is_sent = self._context.submit(
            self._context.writers,
            _key_of_release(member.uid),
            send,
            receive,
            rank=WriteRank.RELEASE,
            order=(intent.turn,),
            queue=member.queue,
            subject=pod_subject(member),
        )

    def _await_change(self, member: Member, intent: _Intent, exc: Refused) -> None:
        """The watch is to show that the pod has changed or is gone; else its release is sent again."""
        intent.conflicts += 1
        intent.resend_at = self._store.clock.monotonic() + RESEND.seconds(intent.conflicts)
        self._resends_at = min(self._resends_at, intent.resend_at)
        if intent.conflicts >= SAID_CONFLICTS:
            self._store.backoff.record_failure("release", member.uid, exc, subject=pod_subject(member))

    def _release(self) -> None:
        """Choose pods, and write them into the book."""
        room = MAX_INTENTS - len(self._intents)
        self._slices.begin()
        try:
            in_doubt = self._in_doubt
            self._waiting.read(
                self._intents,
                in_doubt=in_doubt,
                postponed=in_doubt | self._voided.postponed(self._store.clock.monotonic()),
            )
            chosen = self._waiting.choose(room, goes_on=self._goes_on()) if room else []
            for member, lack in self._waiting.take_reasons():
                kept = self._give_backs.kept_text(member.uid)
                self._blocked(member, msgspec.structs.replace(lack, missing=0, kept=kept))
        except BaseException:
            self._waiting.forget()  # a pod that was chosen is in neither of the two
            raise
        for member in chosen:
            self._give_backs.released(member)
        self._give_backs.passed()
        pending = ((intent.queue, intent.turn) for intent in self._intents.values())
        for member, turn in zip(chosen, turns(pending, [each.queue for each in chosen]), strict=True):
            of_gang = member.requests if self._waiting.is_of_gang(member) else None
            self._intents[member.uid] = _Intent(
                member.uid, member.version, member.queue, turn, of_gang=of_gang
            )
        if chosen:
            self._write_book()

    def _goes_on(self) -> Callable[[], bool]:
        """Whether the pass may go on. It looks at one pod at least, however late it is."""
        clock = self._store.clock.monotonic
        until: float | None = None

        def goes_on() -> bool:
            nonlocal until
            if until is None:
                until = clock() + PASS_SECONDS
                return True
            self._slices.pause()
            return clock() < until

        return goes_on

    def _write_book(self) -> None:
        intents = dict(self._intents)
        versions = {uid: intent.version for uid, intent in intents.items()}
        self._book.write(versions, partial(self._written, intents), is_new=bool(self._in_doubt))

    def _written(self, intents: dict[str, _Intent], is_stored: bool) -> None:
        if not is_stored:  # the book is opened again, and says what is to be finished
            return
        for intent in intents.values():
            intent.is_written = True

    # Values

    def _is_needed(self) -> bool:
        """From when there is a quota on, so that the first pod does not wait until the book is open."""
        return bool(self._intents) or self._store.snapshot.has_quotas or self._store.members.quota_gated > 0

    def _is_postponed(self, uid: str) -> bool:
        return uid in self._in_doubt or self._voided.is_postponed(uid, now=self._store.clock.monotonic())
