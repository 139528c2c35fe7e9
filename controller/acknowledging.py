"""Whether a stop is known to hold: from then on not one pod of the queue or below is bound.

A stop is acknowledged when
1. every live replica answers from a board that has it (`cluster.presence`; this one does: the controller
   reads the same board);
2. the guard is known to be on in each namespace where a member could be bound;
3. no pass of the queue or below, on any of them, can land any more: whatever was let through before has
   shown up as bound or gone, or has been refused since; or the guard has been on in its namespace for
   longer than the API server lets a request take, so that its bind, if it comes, meets the guard;
4. no pod that names its node is on its way to the queue or below (`cluster.admissions`): it meets no guard.

The order matters: the guard is asked before the passes. The Leases are read anew from the API server; a
replica that comes later lists the queues after it has its Lease, and finds the stop. Where one is found
gone, or we have only just begun, what it may have let through counts as open (`Store.assume_passes`), but for
queues that it had said to have stopped, with nothing open; and kube-scheduler is asked again about those
pods (`recalling`), which shows that nothing of them is under way any more.

Members that kube-scheduler does not ask us about leave no pass; for their binds the guard must have
been on for `UNASKED_SECONDS`, longer than a bind takes from admission to storage. (Not longer than
the API server would allow it to take: a slow webhook behind ours, for a pod of another scheduler,
bound in the very second of the stop, is what this does not cover.)
"""

from __future__ import annotations

from collections.abc import Iterable

from cluster.exceptions import ClusterError
from cluster.passes import Pass
from cluster.presence import Others, View
from controller.guarding import Guards
from controller.parts import Parts
from controller.recalling import Recalling

UNASKED_SECONDS = 2.0
#: For what every replica had seen already the Leases are not read more often.
READ_SECONDS = 1.0


class Acknowledging:
    """Owner: the controller's thread."""

    def __init__(self, parts: Parts, *, guards: Guards, others: Others, recalling: Recalling) -> None:
        self._store = parts.store
        self._recalling = recalling
        self._guards = guards
        self._others = others
        self._views: list[View] | None = None
        #: Whether they could not be read in this look: asked once is enough, however many want to know.
        self._failed = False
        self._read_at = float("-inf")
        #: Up to which version every replica had seen the queues; whoever comes later lists them later.
        self._agreed = -1

    def begin(self) -> None:
        """A new look at the cluster: the Leases are read again when they are asked for."""
        self._views, self._failed = None, False

    def holds(self, queue: str, *, since: int) -> bool:
        """Whether the stop that boards of version `since` have is known to hold now."""
        below = self._store.board.tree.below(queue)
        if not self._guarded(below) or not below.isdisjoint(self._store.admissions.placing()):
            return False
        views = self._read()
        if views is None or any(view.seen < since or below & set(view.placing) for view in views):
            return False
        if any(self._can_land(one) for one in self._store.passes.open_in(below)):
            self._recalling.recall(below)
            return False
        return self._guarded_long(below) or not any(below & set(view.open) for view in views)

    def seen_by_all(self, since: int) -> bool:
        """Whether every live replica answers from a board of version `since` or later."""
        if since <= self._agreed and self._store.clock.monotonic() < self._read_at + READ_SECONDS:
            return True
        views = self._read()
        if views is None or any(view.seen < since for view in views):
            return False
        self._agreed = max(since, self._agreed)
        return True

    def nothing_comes(self, queue: str) -> bool:
        """Whether nothing that any live replica admitted to it or below can come any more."""
        below, views = self._store.board.tree.below(queue), self._read()
        if views is None or self._store.admissions.open_in(below):
            return False
        return not any(below & set(view.admitting) for view in views)

    def _read(self) -> list[View] | None:
        """What the other live replicas have seen, read once a look; None if it cannot be read."""
        if self._views is None and not self._failed:
            try:
                reading = self._others.read()
            except ClusterError:
                self._failed = True
                return None
            self._views = reading.views
            self._read_at = self._store.clock.monotonic()
            if reading.left:
                self._store.assume_passes(lambda queue: self._had_stopped(queue, reading.lost))
            if reading.vanished:
                self._store.admissions.assume()
        return self._views

    def _had_stopped(self, queue: str, lost: list[View] | None) -> bool:
        """Whether all that are gone had said that this queue, as it is now, does not schedule any more."""
        board = self._store.board
        if lost is None or queue not in board.tree or board.ruling(queue).schedules:
            return False
        above = [self._store.queues.get(one.name) for one in board.tree.chain(queue).queues]
        version = max((obj.metadata.version for obj in above if obj is not None), default=0)
        return all(view.seen >= version and queue not in view.open for view in lost)

    def _guarded(self, queues: Iterable[str]) -> bool:
        members, now = self._store.members, self._store.clock.monotonic()
        for queue in queues:
            if any(name not in self._guards.on for name in members.bindable_namespaces(queue)):
                return False
            for name in members.unmarked_namespaces(queue):
                if self._guards.on.get(name, now) > now - UNASKED_SECONDS:
                    return False
        return True

    def _guarded_long(self, queues: Iterable[str]) -> bool:
        """Whether whatever another replica let through would have landed, or meets the guard."""
        longest = self._store.clock.monotonic() - self._store.passes.request_seconds
        return all(
            self._guards.on.get(name, longest + 1) <= longest
            for queue in queues
            for name in self._store.members.bindable_namespaces(queue)
        )

    def _can_land(self, one: Pass) -> bool:
        if one.bind:
            return True
        since = self._guards.on.get(one.namespace)
        return since is None or since > self._store.clock.monotonic() - self._store.passes.request_seconds
