"""Passes of filter and of the bind guard (`cluster.inflight.binds`), settled by what is stored of the pods.

A pass is open from the answer that lets a pod go until its bind is stored, or can no longer be. A stop is not
acknowledged while one of its queue is open.

Threads: any; no I/O. The passes have a lock, which is held for moments (`cluster.inflight.binds`).
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.cache.members import Members
from cluster.cache.own_writes import OwnWrites
from cluster.cache.watch_progress import WatchProgress
from cluster.inflight.binds import BindPass, BindPasses


class SettlingBinds:
    """Owner: the store."""

    def __init__(
        self, *, passes: BindPasses, members: Members, writes: OwnWrites, progress: WatchProgress
    ) -> None:
        self._passes = passes
        self._members = members
        self._writes = writes
        self._progress = progress

    def assume(self, sure: Callable[[str], bool] = lambda _queue: False, *, binds: bool = True) -> None:
        """Assume that a replica that is gone let through each member that could be bound now.

        `sure`: returns whether no member of a queue can have been let through. `binds`: whether its guard may
        have allowed binds that are under way, of members that no scheduler calls filter for. A filtered
        member's assumed pass stands for its bind, too.
        """
        for queue in self._members.queues():
            if sure(queue):
                continue
            for member in self._members.waiting_in(queue):
                if not member.bindable:
                    continue
                if member.filtered:
                    self._passes.assume_pass(
                        namespace=member.namespace, name=member.name, queue=queue, uid=member.uid
                    )
                elif binds:
                    self._passes.assume_bind(namespace=member.namespace, name=member.name, queue=queue)

    def has_unfiltered(self) -> bool:
        """Return whether a bind that our own guard allowed may still be stored, of a pod that no scheduler
        calls filter for.

        Other replicas assume a pass for each pod that filter is called for, once we are gone.
        """
        for each in self._passes.open_passes():
            if each.bind and not each.assumed:
                member = self._members.get(each.namespace, each.name)
                if member is None or not member.filtered:
                    return True
        return False

    def drop_settled(self) -> None:
        """Drop the passes of pods that do not wait, up to the last write whose version the pod cache has.

        A pod that was passed before that write was begun existed before its version, so the cache knows it.
        """
        at = self._writes.begun_up_to(self._progress.applied("pods"))
        if at is not None:
            self._passes.drop_settled(before=at, waits=self._waits)

    def queue_of(self, namespace: str, name: str) -> str | None:
        """Return the queue of a pod by name, from the store, else from a recent pass."""
        member = self._members.get(namespace, name)
        return member.queue if member else self._passes.queue_of(namespace, name)

    def _waits(self, each: BindPass) -> bool:
        member = self._members.get(each.namespace, each.name)
        return member is not None and member.bindable and each.uid in {"", member.uid}
