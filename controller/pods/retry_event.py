"""Makes kube-scheduler retry many pods by one event.

kube-scheduler retries a pod that an extender refused at any event in the cluster, since it cannot know what
the extender waits for ("ExtenderName" in its schedule_one.go). It retries a pod that lacks room when a pod
that was assigned to a node is deleted. So the controller creates such a pod, on a node that does not exist,
and deletes it at once (`RetryEvents`).

`RefusedPods` retries the pods that filter refused while their queue was stopped: two requests in place of one
for each pod. kube-scheduler tries them in its own order, by priority, then by when it tried them last. It
treats pods that back off as after a change of the pod itself.

Invariants
- An event serves all who asked for it before it began.
- A pod that kube-scheduler does not try after the event is changed itself (`controller.pods.ungating`): when
  the event cannot be made, when for `STALL_SECONDS` none of the pods was tried, or after `LONGEST_SECONDS`.
- The event is made once for a resume. A pod that is refused later than that is changed itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from cluster.cache.changes import QueueChange
from cluster.cache.marker_pods import idle_pod
from cluster.cache.members import Member
from controller.context import ControllerContext

PREFIX = "sluice-retry-"
NO_NODE = "sluice-no-such-node"
#: A change of each pod takes no more requests than the event.
FEW = 2
#: kube-scheduler tries hundreds of pods in this time.
STALL_SECONDS, LONGEST_SECONDS = 2.0, 60.0

_KEY = ("retry_all", "")

#: Is given whether the event was made; on the controller's thread.
Done = Callable[[bool], object]


class RetryEvents:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._path = f"/api/v1/namespaces/{context.namespace}/pods"
        self._is_under_way = False
        #: Those whom the next event serves.
        self._waiting: list[Done] = []

    def trigger(self, done: Done = lambda _ok: None) -> None:
        """Make kube-scheduler retry all pods that lack room or that an extender refused until now."""
        self._waiting.append(done)
        self._begin()

    def _begin(self) -> None:
        if self._is_under_way or not self._waiting:
            return
        served, self._waiting = self._waiting, []
        receive = partial(self._receive, served)
        self._is_under_way = self._context.submit(
            self._context.writers, _KEY, self._create_and_delete_pod, receive, rank=(0,)
        )
        if not self._is_under_way:  # it backs off
            self._context.work_queue.deliver(partial(receive, None))

    def _receive(self, served: list[Done], made: bool | None) -> None:
        self._is_under_way = False
        for done in served:
            done(made is not None)
        self._begin()

    def _create_and_delete_pod(self) -> bool:
        name = f"{PREFIX}{secrets.token_hex(4)}"
        self._context.client.create(self._path, idle_pod(name, nodeName=NO_NODE))
        self._context.client.delete(f"{self._path}/{name}", {"gracePeriodSeconds": 0})
        return True


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
