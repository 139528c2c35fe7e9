"""Releases pods of queues with a quota, once there is room: takes our gates off, in the order of
`queues.quota.release_order`.

A release goes through these steps, and a crash after any of them loses nothing:

1. the pod is chosen, and counts from now on;
2. it is in the book, with its resource version;
3. its gates are taken off, and `sluice.dev/released` is written on it, at that very version;
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

Invariants
- No release takes a queue, or one above it, over its capability: every pod that may yet lose its gates by
  what any leader has begun counts, and so does every pod without them.
- Use falls only by what the watch shows. A late watch delays a release, and allows none.
- Where the book is new, the cache knows all pods as of the time when it was opened, and each pod that waits
  gets a version that no earlier book can have named, before one is released.
- A pod whose queue does not schedule is not released. One of a queue without a quota, which has the gate of
  quotas nevertheless, is released whatever is used.
- Nothing is read or written while no queue has a quota, and no pod has its gate.
- Owner: the controller's thread. The writers send.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from cluster.api.client import MERGE_PATCH, decode_response
from cluster.cache.changes import NO_QUEUE
from cluster.cache.members import Member
from cluster.exceptions import Conflict, NotFound
from cluster.objects import Metadata
from controller.context import ControllerContext, pod_path, pod_subject
from controller.pods.ungating import gate_removal
from controller.quota.book_writes import BookWrites
from queues import well_known
from queues.causes import StartReason
from queues.quota.book import MAX_INTENTS
from queues.quota.lack import Lack
from queues.quota.release_order import ReleasePass, WaitingPod
from queues.quota.usage import PODS, Usage, quota_requests

#: After a book that could not be opened or written.
RETRY_SECONDS = 0.5
#: A pass follows the last one after so many times what that took.
REST = 2.0


class _Intent(msgspec.Struct):
    """A release that was begun. `version`: the pod's, in the book. `is_sent`: its patch is under way, or was
    answered.
    """

    uid: str
    version: int
    is_written: bool = False
    is_sent: bool = False


class _Answer(msgspec.Struct, frozen=True):
    metadata: Metadata


_answer = msgspec.json.Decoder(_Answer)


class QuotaReleases:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext, *, blocked: Callable[[Member, Lack], object]) -> None:
        """`blocked`: called for each pod that has no room, once for each version and reason."""
        self._context = context
        self._store = context.store
        self._blocked = blocked
        self._book = BookWrites(context)
        self.forget()

    def forget(self) -> None:
        """Forget everything: a term begins or ends."""
        self._book.forget()
        self._intents: dict[str, _Intent] = {}
        #: Pods that must change before the first release, since the book is new; and the least version that
        #: each pod so changed has.
        self._to_touch: set[str] | None = None
        self._touched: dict[str, int] = {}
        #: Whether what is written in the book at its opening was looked at.
        self._is_ready = False
        self._is_due = True
        self._retry_at = -math.inf
        #: Where thousands wait, not before this time: other work of this thread has its turn.
        self._next_pass_at = -math.inf
        #: What was last said of each pod that has no room, by UID.
        self._said: dict[str, tuple[int, Lack]] = {}

    @property
    def due(self) -> float:
        """When the next step is to be taken though nothing changes, in monotonic seconds."""
        if self._book.is_under_way:
            return math.inf
        if self._book.stored is None:
            return self._retry_at if self._is_needed() else math.inf
        return self._next_pass_at if self._is_due and self._is_ready else math.inf

    def queues_changed(self, queues: Iterable[str]) -> None:
        """Members or specs of these queues have changed."""
        if not self._is_due:
            self._is_due = any(queue == NO_QUEUE or self._concerns(queue) for queue in queues)

    def step(self) -> None:
        """Take the steps that can be taken now; each goes on when its answer, or the watch, comes."""
        if not self._is_needed():
            self._is_due = False
            return
        if self._book.is_under_way:
            return
        if self._book.stored is None:
            self._open()
            return
        if not self._is_ready and not self._make_ready(self._book.stored.version):
            return
        self._settle()
        self._send()
        began = self._store.clock.monotonic()
        if self._is_due and began >= self._next_pass_at:
            self._is_due = False
            self._release()
            ended = self._store.clock.monotonic()
            self._next_pass_at = ended + REST * (ended - began)

    # Opening

    def _open(self) -> None:
        now = self._store.clock.monotonic()
        if now >= self._retry_at:
            self._retry_at = now + RETRY_SECONDS
            self._book.open(self._opened)

    def _opened(self) -> None:
        stored = self._book.stored
        if stored is None:
            return
        self._intents = {
            uid: _Intent(uid, version, is_written=True) for uid, version in stored.book.intents.items()
        }
        self._to_touch = None
        self._is_ready, self._is_due, self._retry_at = False, True, -math.inf

    def _make_ready(self, version: int) -> bool:
        """Whether all pods are known as of the opening of the book, and have changed since if it is new."""
        if not self._store.watch_progress.demand("pods", version):
            return False
        if self._to_touch is None:
            is_new = self._book.stored is not None and self._book.stored.is_new
            self._to_touch = {member.uid for member in self._unreleased()} if is_new else set()
        for uid in list(self._to_touch):
            member = self._store.members.by_uid(uid)
            if (
                member is None
                or not self._waits(member)
                or member.version >= self._touched.get(uid, math.inf)
            ):
                self._to_touch.discard(uid)
            elif uid not in self._touched:
                self._touch(member)
        self._is_ready = not self._to_touch
        return self._is_ready

    def _touch(self, member: Member) -> None:
        """Change the pod: what was begun at its present version can happen no more."""
        token = secrets.token_hex(8)
        body = {"metadata": {"uid": member.uid, "annotations": {well_known.QUOTA_TERM: token}}}

        def send() -> int:
            try:
                answer = self._context.client.patch(pod_path(member), body)
            except (NotFound, Conflict):
                return 0  # it is gone
            return decode_response(answer, _answer).metadata.version

        def receive(version: int | None) -> None:
            if version is not None and version > member.version:
                self._touched[member.uid] = version
            self._is_due = True

        self._context.submit(
            self._context.writers, ("quota-touch", member.uid), send, receive, rank=(0,), queue=member.queue
        )

    # Releases

    def _settle(self) -> None:
        """Drop the intents of which it is known what became."""
        for uid, intent in list(self._intents.items()):
            member = self._store.members.by_uid(uid)
            if member is None or not _may_be_released(member) or member.version != intent.version:
                del self._intents[uid]
                self._is_due = True

    def _send(self) -> None:
        """Take off the gates of what is in the book. Of a queue that was stopped since, once it schedules."""
        for intent in self._intents.values():
            member = self._store.members.by_uid(intent.uid)
            if member is not None and intent.is_written and not intent.is_sent and self._may_start(member):
                self._send_release(member, intent)

    def _may_start(self, member: Member) -> bool:
        """Whether nothing but its quota keeps it waiting."""
        start = self._store.decisions.of_member(member)
        return start.may_start or start.reason is StartReason.NO_ROOM

    def _send_release(self, member: Member, intent: _Intent) -> None:
        metadata: dict[str, Any] = {"uid": member.uid, "resourceVersion": str(intent.version)}
        body, content_type = {"metadata": metadata}, MERGE_PATCH
        is_gated = _is_gated(member)
        if not is_gated or self._store.snapshot.decision(member.queue).has_quota:
            metadata["annotations"] = {well_known.RELEASED: member.uid}
        if is_gated:
            body["spec"], content_type = gate_removal(member, of_quota=True)

        def send() -> bool:
            """Whether it was answered. A stop that has come meanwhile is heeded."""
            if not self._may_start(member):
                return False
            # Else it changed, or an earlier try has succeeded: the watch will show which.
            with suppress(Conflict, NotFound):
                self._context.client.patch(pod_path(member), body, content_type=content_type)
            return True

        def receive(answered: bool | None) -> None:
            if not answered and self._intents.get(intent.uid) is intent:
                intent.is_sent, self._is_due = False, True  # it may still happen

        rank = (1, -member.priority, member.created, member.owner_uid)
        intent.is_sent = self._context.submit(
            self._context.writers,
            ("quota-release", member.uid),
            send,
            receive,
            rank=rank,
            queue=member.queue,
            subject=pod_subject(member),
        )

    def _release(self) -> None:
        """Choose pods, and write them into the book."""
        room = MAX_INTENTS - len(self._intents)
        waiting = {uid: member for member in self._waiting() if (uid := member.uid) not in self._intents}
        if not waiting or not room:
            self._forget_said(waiting)
            return
        chosen = self._choose(waiting, room)
        if not chosen:
            return
        intents = {member.uid: _Intent(member.uid, member.version) for member in chosen}
        self._intents.update(intents)
        self._book.write(
            {uid: intent.version for uid, intent in self._intents.items()}, partial(self._written, intents)
        )

    def _choose(self, waiting: dict[str, Member], room: int) -> list[Member]:
        """The next pods that have room, at most so many. Those without a gate first."""
        usage, blocked, chosen = self._usage(), dict[str, Lack](), list[Member]()
        gated = [member for member in waiting.values() if _is_gated(member)]
        for members in ([member for member in waiting.values() if not _is_gated(member)], gated):
            release = ReleasePass(self._store.snapshot.tree, _by_queue(members), usage=usage)
            for pod in release:
                if len(chosen) == room:
                    self._is_due = True
                    break
                chosen.append(waiting[pod.uid])
            blocked.update(release.blocked)
            for uid, lack in release.blocked.items():
                if not lack.never:  # one that never has room may not keep all others from going
                    usage.add(waiting[uid].queue, quota_requests(waiting[uid].requests))
        self._say({uid: blocked[uid] for uid in blocked if _is_gated(waiting[uid])}, waiting)
        return chosen

    def _written(self, intents: dict[str, _Intent], is_stored: bool) -> None:
        self._is_due = True
        if not is_stored:  # the book is opened again, and says what is to be finished
            return
        for intent in intents.values():
            intent.is_written = True

    # Values

    def _is_needed(self) -> bool:
        if self._intents:
            return True
        is_possible = self._store.snapshot.has_quotas or self._store.members.quota_gated > 0
        return is_possible and next(self._queues(), None) is not None

    def _queues(self) -> Iterator[str]:
        """The queues whose pods we release."""
        return (queue for queue in self._store.members.queues() if self._concerns(queue))

    def _concerns(self, queue: str) -> bool:
        counts = self._store.members.counts(queue)
        return self._store.snapshot.decision(queue).has_quota or counts.quota_gated > 0

    def _unreleased(self) -> Iterator[Member]:
        return (
            member
            for queue in self._queues()
            for member in self._store.members.waiting_in(queue)
            if self._waits(member)
        )

    def _waits(self, member: Member) -> bool:
        """Whether it waits for us: it has a gate of ours, or its quota was not asked whether it has room."""
        if _is_gated(member):
            return True
        return member.unreleased and self._store.snapshot.decision(member.queue).has_quota

    def _waiting(self) -> Iterator[Member]:
        """The pods that may be released now."""
        for member in self._unreleased():
            if not member.leaving and self._may_start(member):
                yield member

    def _usage(self) -> Usage:
        """What is used, and may be by what was begun. The latter is looked at first: a pod whose gates go
        meanwhile counts twice, and never not at all.
        """
        usage, members = Usage(self._store.snapshot.tree), self._store.members
        for uid in self._intents:
            member = members.by_uid(uid)
            if member is not None and not member.uses_quota:
                usage.add(member.queue, quota_requests(member.requests))
        for queue in self._queues():
            counts = members.counts(queue)
            # The number first: a pod that comes meanwhile has not been released.
            usage.add(queue, ((PODS, counts.using),))
            usage.add(queue, counts.used.copy().items())
        return usage

    def _say(self, blocked: dict[str, Lack], waiting: dict[str, Member]) -> None:
        self._forget_said(waiting)
        for uid, lack in blocked.items():
            member, shown = waiting[uid], msgspec.structs.replace(lack, missing=0)
            if self._said.get(uid) != (member.version, shown):
                self._said[uid] = member.version, shown
                self._blocked(member, shown)

    def _forget_said(self, waiting: dict[str, Member]) -> None:
        for uid in self._said.keys() - waiting.keys():
            del self._said[uid]


def _may_be_released(member: Member) -> bool:
    return member.unreleased or _is_gated(member)


def _is_gated(member: Member) -> bool:
    return member.waiting and (member.gated or member.quota_gated)


def _by_queue(members: Iterable[Member]) -> dict[str, list[WaitingPod]]:
    pods: dict[str, list[WaitingPod]] = {}
    for member in members:
        pod = WaitingPod(
            uid=member.uid,
            queue=member.queue,
            requests=quota_requests(member.requests),
            priority=member.priority,
            since=member.created,
        )
        pods.setdefault(member.queue, []).append(pod)
    return pods
