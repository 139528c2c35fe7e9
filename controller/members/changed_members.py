"""Which members a sync looks at after a change.

=======================================  =================================================
what changed                             the members
=======================================  =================================================
the spec of the queue, or all of it      all that wait
the members are due                      all that wait
a member                                 that one, while it is a member of the queue
nothing that concerns members            none
=======================================  =================================================

Of no queue (`NO_QUEUE`) it is all of its members and not only those that wait: the others are those whose
PodGroup was not there, and pods that run while their queue is not written on them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from cluster.cache.changes import NO_QUEUE, PodChange, QueueChange, StoreChange
from cluster.cache.members import Member
from cluster.cache.store import Store

#: The changes after which all of a queue is synced.
OF_ALL = frozenset[StoreChange]({QueueChange.SPEC, QueueChange.RESYNC})


def concern_all_members(changes: Collection[StoreChange]) -> bool:
    """Whether all waiting members of the queue are looked at, and not only those that changed."""
    return QueueChange.MEMBERS in changes or not OF_ALL.isdisjoint(changes)


class ChangedMembers:
    """Owner: the controller's thread."""

    def __init__(
        self,
        store: Store,
        *,
        is_restoring: Callable[[str], bool],
    ) -> None:
        """`is_restoring`: by UID, whether the queue of a pod is being written back. It waits for that."""
        self._members = store.members
        self._is_restoring = is_restoring

    def of(self, queue: str, changes: Collection[StoreChange]) -> list[Member]:
        """The members of the queue that these changes of it concern."""
        members = []
        for change in changes:
            if not isinstance(change, PodChange):
                continue
            member = self._members.by_uid(change.uid)
            if member is not None and member.queue == queue:
                members.append(member)
        if concern_all_members(changes):
            members_in = self._members.in_queue if queue == NO_QUEUE else self._members.waiting_in
            members = list(members_in(queue))
        return [member for member in members if not self._is_restoring(member.uid)]
