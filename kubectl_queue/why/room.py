"""A pod that waits for room, as `queues.why.room` takes it: what it requests, and its claims of devices.

It is what it is to the leader (`queues.world.members`). Whether its queue has a quota is not asked here.
"""

from __future__ import annotations

from kubectl_queue.objects.fields import Object
from kubectl_queue.objects.members import member_of
from queues.quota.devices import Devices, with_devices
from queues.quota.pod_classes import WaitingPod
from queues.quota.usage import quota_requests
from queues.world.members import Member
from queues.world.pod_rules import is_gated


def waits_for_room(pod: Object) -> bool:
    """Whether the leader has yet to release the pod, if its queue has a quota. One that no scheduler takes is
    not asked for (`queues.untaken`).
    """
    return is_waiting_for_room(member_of(pod, queue=""))


def is_waiting_for_room(member: Member) -> bool:
    is_ungated = member.unreleased and not member.given_up
    return not member.leaving and (is_gated(member) or is_ungated)


def has_left_its_room(pod: Object) -> bool:
    """Whether the room of the pod is left to others, since no scheduler takes it (`queues.untaken`)."""
    member = member_of(pod, queue="")
    return bool(member.given_up) and not (member.holds_room or is_gated(member))


def waiting_pod(pod: Object, queue: str, devices: Devices | None = None) -> WaitingPod:
    """The pod as the rules take it. `devices`: where a capability of its chain names a class of devices."""
    member = member_of(pod, queue=queue)
    requests = quota_requests(member.requests)
    return WaitingPod(
        uid=member.uid,
        queue=queue,
        requests=with_devices(requests, member.claims, devices) if devices is not None else requests,
        priority=member.priority,
        since=member.created,
    )


def hindering_claims(pod: Object, devices: Devices) -> tuple[str, ...]:
    """The claims with which the pod is not released, by name; "" for one that was not made yet."""
    claims = member_of(pod, queue="").claims if devices.fault is None else ()
    return tuple(claim.name for claim in claims if devices.count(claim).fault is not None)
