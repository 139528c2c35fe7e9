"""Pods as the members that they are to the leader (`queues.world.members`).

Promise: the settings of the server are not known: they count as their defaults.
"""

from __future__ import annotations

from kubectl_queue.objects.fields import Object
from queues.membership import (
    Membership,
    MembershipSettings,
    PodFacts,
    PodGroupQueueLookup,
    Source,
    fits_label,
    stored_pod_membership,
)
from queues.world.members import Member, is_filtered, read_member
from queues.world.objects import Pod
from queues.world.reading import as_pod

_RULES = MembershipSettings()


def member_of(pod: Object, *, queue: str) -> Member:
    """`queue`: its own, as it was found; "" for none yet."""
    return _member(as_pod(pod), Membership(queue, Source.WRITTEN))


def labelled_member(
    pod: Object, *, queue: str = "", podgroup: PodGroupQueueLookup = lambda _namespace, _name: None
) -> Member | None:
    """A pod that was listed by our label; None where it is no member, or of another queue than this one, ""
    for any. `podgroup`: the queue of a PodGroup, of which a pod with an empty label is.
    """
    read = as_pod(pod)
    facts = PodFacts(
        namespace=read.metadata.namespace,
        labels=read.metadata.labels or {},
        annotations=read.metadata.annotations or {},
        scheduler=read.spec.scheduler_name,
        namespace_queue="",
    )
    membership = stored_pod_membership(
        facts,
        rules=_RULES,
        podgroup=podgroup,
        queue_of_label=lambda label: queue if fits_label(queue, label) else label,
    )
    if membership is None or (queue and membership.queue != queue):
        return None
    return _member(read, membership)


def _member(pod: Pod, membership: Membership) -> Member:
    return read_member(pod, membership, filtered=is_filtered(pod, _RULES.calling_schedulers))
