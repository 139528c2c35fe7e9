"""Pods that were let through and have not been seen bound yet.

A pod that passed filter, or whose bind the guard allowed, may be bound at any later moment. A stop is
acknowledged only when no pod of its queue can be bound any more.

- A pass by filter is open until the pod is bound or gone, filter refuses the pod, or the guard refuses its
  scheduler's bind. It never expires by itself: a volume may take minutes before the bind is even sent.
- A pass by the guard is open until the pod is bound or gone, or filter refuses the pod (if its scheduler sent
  the bind). It lasts no longer than the API server lets a request take (`request_seconds`).

kube-scheduler makes one attempt for a pod at a time. So a new filter call means that the former attempt, its
bind included, has ended. A bind by another client says nothing about the scheduler's.

What a replica that is gone had let through is unknown, also after a restart of this one. So each pod that it
could have let through is assumed to have passed filter (`assume_pass`). The assumption ends when its
scheduler has ended that attempt: it was asked to try again (`record_retry`) and has done so (`end_attempt`).
That may take minutes: kube-scheduler retries a pod that only its node affinity keeps back when a node changes
so that the pod fits, else after five minutes.

For a pod that no scheduler calls filter for, what such a replica let through is a bind that its guard let
pass. Where a replica was killed, such a bind is assumed for each of these pods that could be bound
(`assume_bind`). One that ends in order has waited for these binds (`SettlingBinds.has_unfiltered`).

Callers can name pods that do not exist. `drop_settled` drops the passes of pods that do not wait, once the
store has every pod that could have been named (`cluster.cache.watch_progress`). At most `MAX_UNKNOWN_PODS`
passes of pods that the store does not know are kept; beyond, callers are told to come back later.

Invariants
- A pass is recorded before the snapshot that decides the answer is read. So a thread that publishes a stop
  and then sees no open pass knows that no answer from the former snapshot is still on its way.
- A retry that was requested and not made yet is remembered while filter's pass from before it is open, or an
  assumed one (`_retried_at`). The time of the first request counts until the retry is made: a later request
  changes nothing on the pod, so it cannot be told which of them the scheduler has answered.
- Threads: request handlers record passes and refusals, the pod reflector's thread closes, the controller and
  the replica's Lease read. What filter does is one operation on a dict, which the interpreter does in one
  step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterator

import msgspec

#: The API server's default `--request-timeout`: no admitted request is stored later.
REQUEST_SECONDS = 60.0
#: The age at which a pass of a pod that is unknown is dropped.
FORGOTTEN_SECONDS = 60.0

#: kube-scheduler retries every pod that waits after 5 minutes, which it checks every 30 s
#: (its backend/queue/scheduling_queue.go).
RETRIED_SECONDS = 360.0

#: Stands for the UID of the request of an assumed bind.
ASSUMED = "assumed"

#: Passes of pods that the store does not know: an honest scheduler is ahead of our watch by a few.
MAX_UNKNOWN_PODS = 5_000

PassKey = tuple[str, str]


class BindPass(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One pod let through. `at`: monotonic seconds. `bind`: it is the guard's pass, else filter's.

    `by_scheduler`: for its scheduler, not for another client. `assumed`: a replica that is gone may have let
    it through.
    """

    namespace: str
    name: str
    queue: str
    at: float
    uid: str = ""
    bind: bool = False
    by_scheduler: bool = True
    assumed: bool = False

    @property
    def key(self) -> PassKey:
        return self.namespace, self.name


class BindPasses:
    """The open passes, by pod."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        """`clock`: monotonic seconds."""
        self._clock = clock
        self.request_seconds = request_seconds
        self._filter_passes: dict[PassKey, BindPass] = {}
        self._binds: dict[PassKey, dict[str, BindPass]] = {}
        #: When the scheduler of a pod was first asked to try it again, until it has.
        self._retried_at: dict[PassKey, float] = {}
        #: Held briefly for each use of `_binds`; filter touches `_binds` only during a stop.
        self._lock = threading.Lock()

    # Request handlers

    def record_filter_pass(self, *, namespace: str, name: str, queue: str, uid: str = "") -> None:
        """Record that filter is about to let through a pod that the store knows."""
        self._filter_passes[namespace, name] = BindPass(
            namespace=namespace, name=name, queue=queue, uid=uid, at=self._clock()
        )

    def record_unknown_filter_pass(self, *, namespace: str, name: str, queue: str, uid: str) -> bool:
        """Record that filter is about to let through a pod that the store does not know.

        The caller names pod and queue, which cannot be verified yet. Returns False, and records nothing, if
        there is a pass with another UID or queue for this name.
        """
        new_pass = BindPass(namespace=namespace, name=name, queue=queue, uid=uid, at=self._clock())
        known = self._filter_passes.setdefault((namespace, name), new_pass)
        if known is new_pass:
            return True
        if (known.uid, known.queue) != (uid, queue):
            return False
        self._filter_passes[namespace, name] = new_pass
        return True

    def is_full(self, members: int) -> bool:
        """Return whether no more passes of unknown pods are kept; each of `members` pods may have one too."""
        return len(self._filter_passes) >= MAX_UNKNOWN_PODS + members

    def record_filter_refusal(self, namespace: str, name: str) -> None:
        """Record that filter refuses the pod, so its scheduler's former attempt has ended."""
        key = (namespace, name)
        self._filter_passes.pop(key, None)
        if key in self._binds:
            with self._lock:
                binds = self._binds.get(key, {})
                if all(each.by_scheduler for each in binds.values()):
                    self._binds.pop(key, None)

    def record_bind_pass(
        self,
        *,
        request: str,
        namespace: str,
        name: str,
        queue: str,
        by_scheduler: bool,
        assumed: bool = False,
    ) -> None:
        """Record that the guard is about to allow a bind; `request` is the UID of its request. `assumed`: the
        guard of a replica that is gone may have allowed it (`assume_bind`).
        """
        bind = BindPass(
            namespace=namespace,
            name=name,
            queue=queue,
            at=self._clock(),
            bind=True,
            by_scheduler=by_scheduler,
            assumed=assumed,
        )
        with self._lock:
            self._binds.setdefault((namespace, name), {})[request] = bind

    def assume_pass(self, *, namespace: str, name: str, queue: str, uid: str = "") -> None:
        """Assume that a replica that is gone let this pod through, in filter and in the guard."""
        self._filter_passes[namespace, name] = BindPass(
            namespace=namespace, name=name, queue=queue, uid=uid, at=self._clock(), assumed=True
        )

    def assume_bind(self, *, namespace: str, name: str, queue: str) -> None:
        """Assume that the guard of a replica that is gone allowed a bind of this pod.

        The assumption ends as any pass by the guard does. It is for a pod that no scheduler calls filter for,
        and whoever binds it need not make one attempt at a time.
        """
        self.record_bind_pass(
            request=ASSUMED, namespace=namespace, name=name, queue=queue, by_scheduler=False, assumed=True
        )

    def end_attempt(self, namespace: str, name: str) -> None:
        """Record that the attempt that was under way when a retry was requested has ended."""
        key = (namespace, name)
        asked_at = self._retried_at.pop(key, None)
        if asked_at is None:
            return
        with self._lock:
            binds = self._binds.get(key, {})
            for request, bind in list(binds.items()):
                if bind.by_scheduler and bind.at <= asked_at:
                    del binds[request]
        filter_pass = self._filter_passes.get(key)
        if filter_pass is not None and filter_pass.at <= asked_at:
            self._drop(key, filter_pass)

    def open_longer_than(self, *, seconds: float) -> list[BindPass]:
        """Return the passes for schedulers that were let through so long ago and are still open."""
        before = self._clock() - seconds
        return [each for each in self.open_passes() if each.by_scheduler and each.at <= before]

    def record_retry(self, namespace: str, name: str) -> float:
        """Record that the pod's scheduler is about to be asked to try it again.

        Return when it was first, in monotonic seconds, as long as it has not.
        """
        return self._retried_at.setdefault((namespace, name), self._clock())

    def namespaces_awaiting_retry(self) -> set[str]:
        """Return the namespaces of assumed passes whose scheduler was asked for a retry and is about to make
        it: until `RETRIED_SECONDS` after the request. A pass may have been assumed once more since then.
        """
        since = self._clock() - RETRIED_SECONDS
        passes = ((self._filter_passes.get(key), at) for key, at in list(self._retried_at.items()))
        return {each.namespace for each, at in passes if each is not None and each.assumed and since < at}

    def drop_settled(self, *, before: float, waits: Callable[[BindPass], bool]) -> None:
        """Drop the passes recorded up to `before`, in monotonic seconds, whose pod does not wait.

        `waits`: whether the pod of a pass waits. Every pod that existed at `before` must be known.
        """
        for key, each in list(self._filter_passes.items()):
            if each.at <= before and not waits(each):
                self._drop(key, each)
        with self._lock:
            for key, binds in list(self._binds.items()):
                left = {request: bind for request, bind in binds.items() if bind.at > before or waits(bind)}
                if left:
                    self._binds[key] = left
                else:
                    del self._binds[key]

    def record_bind_refusal(
        self, request: str, namespace: str, name: str, *, by_scheduler: bool, uid: str = ""
    ) -> None:
        """Record that the guard refuses this bind; another bind of the same pod may still be on its way.

        `uid`: the pod's UID in the bind. kube-scheduler always names it. A client that does not name it is
        not taken for the scheduler whose attempt has ended.
        """
        with self._lock:
            binds = self._binds.get((namespace, name))
            if binds is not None:
                binds.pop(request, None)
        filter_pass = self._filter_passes.get((namespace, name))
        if by_scheduler and filter_pass is not None and filter_pass.uid == uid:
            self._drop((namespace, name), filter_pass)

    def filter_pass(self, namespace: str, name: str) -> BindPass | None:
        """Return the open pass that filter gave a pod."""
        return self._filter_passes.get((namespace, name))

    def queue_of(self, namespace: str, name: str) -> str | None:
        """Return the queue of a pod that the store may not know yet."""
        filter_pass = self._filter_passes.get((namespace, name))
        return filter_pass.queue if filter_pass else None

    # The pod reflector

    def close(self, namespace: str, name: str, uid: str = "") -> None:
        """Record that the pod is bound or gone. A pass of another pod of that name, by UID, stays open."""
        key = (namespace, name)
        self._retried_at.pop(key, None)
        filter_pass = self._filter_passes.get(key)
        if filter_pass is not None and (not uid or not filter_pass.uid or filter_pass.uid == uid):
            self._filter_passes.pop(key, None)
        if key in self._binds:
            with self._lock:
                self._binds.pop(key, None)

    # The controller and the replica's Lease

    def open_passes(self) -> Iterator[BindPass]:
        yield from list(self._filter_passes.values())
        oldest = self._clock() - self.request_seconds
        with self._lock:
            binds = [each for by_request in self._binds.values() for each in by_request.values()]
        yield from (each for each in binds if each.at > oldest)

    def open_passes_of(self, queues: Container[str]) -> list[BindPass]:
        """Return the open passes of these queues."""
        return [each for each in self.open_passes() if each.queue in queues]

    def drop_expired(self, known: Callable[[str, str], object]) -> None:
        """Drop expired passes: binds that cannot be stored any more, and old passes of unknown pods."""
        now = self._clock()
        for key, at in list(self._retried_at.items()):
            filter_pass = self._filter_passes.get(key)
            is_needed = filter_pass is not None and (filter_pass.assumed or filter_pass.at <= at)
            if at <= now - self.request_seconds and not is_needed:
                self._retried_at.pop(key, None)
        for key, each in list(self._filter_passes.items()):
            if each.at < now - FORGOTTEN_SECONDS and known(*key) is None:
                self._drop(key, each)
        with self._lock:
            for key, binds in list(self._binds.items()):
                if all(each.at <= now - self.request_seconds for each in binds.values()):
                    del self._binds[key]

    def _drop(self, key: PassKey, expected: BindPass) -> None:
        dropped = self._filter_passes.pop(key, None)
        if dropped is not None and dropped is not expected:  # recorded again just now
            self._filter_passes.setdefault(key, dropped)

    def __len__(self) -> int:
        return sum(1 for _ in self.open_passes())
