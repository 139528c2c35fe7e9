"""Retries the pods that filter refused while their queue was stopped, by one event for all of them.

Two requests in place of one for each pod (`controller.pods.retry_event`). kube-scheduler tries them in its
own order, by priority, then by when it tried them last. It treats pods that back off as after a change of the
pod itself.

Invariants
- A pod that kube-scheduler does not try after the event is changed itself (`controller.pods.ungating`): when
  the event cannot be made, when for `STALL_SECONDS` none of the pods was tried, or after `LONGEST_SECONDS`.
- The event is made once for a resume. A pod that is refused later than that is changed itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec

from cluster.cache.changes import QueueChange
from cluster.cache.members import Member
from controller.context import ControllerContext
from controller.pods.retry_event import RetryEvents

#: A change of each pod takes no more requests than the event.
FEW = 2
#: kube-scheduler tries hundreds of pods in this time.
STALL_SECONDS, LONGEST_SECONDS = 2.0, 60.0


class _Wave(msgspec.Struct):
    """The pods that one event is for. `left`: how many of them were still refused at the last look.

    Times are in monotonic seconds; `look_at` is None once its pods are changed themselves.
    """

    revision: str
    uids: set[str]
    left: int
    ends_at: float
    look_at: float | None


class RefusedPods:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext, *, events: RetryEvents) -> None:
        self._context = context
        self._events = events
        self._waves: dict[str, _Wave] = {}

    def retry(self, queue: str, refused: list[Member], *, revision: str) -> list[Member]:
        """Have these members of a queue that schedules retried. Returns those that are to be changed."""
        wave = self._waves.get(queue)
        if wave is None or wave.revision != revision:
            if len(refused) <= FEW:
                return refused
            self._begin(queue, refused, revision=revision)
            return []
        if self._is_left_to_scheduler(queue, wave):
            return [member for member in refused if member.uid not in wave.uids]
        return refused

    def forget_absent_queues(self, queues: Iterable[str]) -> None:
        """Forget the queues that are not among these."""
        for queue in self._waves.keys() - set(queues):
            del self._waves[queue]

    def _begin(self, queue: str, refused: list[Member], *, revision: str) -> None:
        now = self._context.store.clock.monotonic()
        wave = self._waves[queue] = _Wave(
            revision=revision,
            uids={member.uid for member in refused},
            left=len(refused),
            ends_at=now + LONGEST_SECONDS,
            look_at=now + STALL_SECONDS,
        )
        self._look_again(queue, STALL_SECONDS)
        self._events.trigger(partial(self._receive, queue, wave))

    def _receive(self, queue: str, wave: _Wave, ok: bool) -> None:
        if not ok:
            wave.look_at = None
            self._look_again(queue, 0.0)

    def _is_left_to_scheduler(self, queue: str, wave: _Wave) -> bool:
        """Whether kube-scheduler is at work on the pods. Each `STALL_SECONDS` it must have tried one."""
        now = self._context.store.clock.monotonic()
        if wave.look_at is None:
            return False
        if now < wave.look_at:
            # Another look at the members, due sooner, may have taken the place of the one for these.
            self._look_again(queue, wave.look_at - now)
            return True
        found = map(self._context.store.members.by_uid, wave.uids)
        left = sum(1 for member in found if member is not None and member.refusal is not None)
        is_at_work = left < wave.left and now < wave.ends_at
        wave.left, wave.look_at = left, now + STALL_SECONDS if is_at_work else None
        if not left or not is_at_work:
            wave.uids.clear()
        if is_at_work and left:
            self._look_again(queue, STALL_SECONDS)
        return is_at_work

    def _look_again(self, queue: str, seconds: float) -> None:
        self._context.work_queue.add_after(queue, QueueChange.MEMBERS, seconds=seconds)
