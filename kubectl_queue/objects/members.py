"""Pods as the members that they are to the leader (`queues.world.members`)."""

from __future__ import annotations

from kubectl_queue.objects.fields import Object
from queues.membership import Membership, MembershipSettings, Source
from queues.world.members import Member, is_filtered, read_member
from queues.world.reading import as_pod

_RULES = MembershipSettings()


def member_of(pod: Object, *, queue: str) -> Member:
    """`queue`: its own, "" for none yet. The settings of the server count as their defaults."""
    read = as_pod(pod)
    return read_member(
        read,
        Membership(queue, Source.WRITTEN),
        filtered=is_filtered(read, _RULES.calling_schedulers),
    )
