"""Ends the assumption of a pod that was scored and will never be bound.

| a pod that was scored                                  | counts on the node until                          |
|--------------------------------------------------------|---------------------------------------------------|
| is bound                                               | it is seen on a node, and then there              |
| is tried again                                         | the next attempt begins                           |
| is deleted, or has failed, without having had a node   | the watch of members shows that                   |
| is not known to the watch of members                   | the time has passed that prioritize sets          |

A pod that is being deleted and is on a node counts there until it is gone.

Threads: changes come from the reflectors of members; the node table has a lock of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cluster.cache.changes import PodChange, StoreChange
from cluster.cache.members import Member
from cluster.cache.store import Store

if TYPE_CHECKING:  # numpy comes with it
    from cluster.scoring.node_scoring import NodeScoring


def follow_departures(store: Store, scoring: Callable[[], NodeScoring | None]) -> None:
    """Have the pods forgotten that will never be bound, as the store learns of them."""

    def member_changed(_queue: str, change: StoreChange) -> None:
        if isinstance(change, PodChange):
            forget_departed(change.uid, store.members.by_uid(change.uid), scoring=scoring())

    store.add_listener(member_changed)


def forget_departed(uid: str, member: Member | None, *, scoring: NodeScoring | None) -> None:
    """Drop the assumption of a pod that is no longer to be bound. `member`: as it is known now."""
    if scoring is not None and (member is None or _is_never_bound(member)):
        scoring.drop_assumption(uid)


def _is_never_bound(member: Member) -> bool:
    """The API server refuses to bind a pod that is being deleted."""
    return not member.node and (member.leaving or not member.live)
