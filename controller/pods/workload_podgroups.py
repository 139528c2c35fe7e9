"""Makes the PodGroups of workloads that ask for a gang by an annotation of Volcano (`queues.workload_gangs`).

Invariants
- A PodGroup is made for a pod that waits for it, and whose owner is a workload that the cache has: a user
  can write any owner reference, and the garbage collector removes what has an owner that is not there.
- One request for the pods of an owner is under way at a time. What exists already stays as it is.
- The garbage collector removes the PodGroup with its owner.
- Owner: the controller's thread. The writers send.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from urllib.parse import quote

from cluster.backoff import Backoff
from cluster.cache.changes import NO_QUEUE, QueueChange
from cluster.cache.members import Member
from cluster.exceptions import Conflict
from cluster.write_ranks import WriteRank
from controller.context import ControllerContext, pod_subject
from queues.workload_gangs import KEYS, parse_gang, podgroup_of_gang
from queues.world.members import is_podgroup_made

#: The cache may show the owner a little later than its pod. An owner that does not exist never comes.
LOOK_AGAIN = Backoff(0.5, 60.0)
#: Owners that are looked for at a time; when there are more, all of them are looked for as if anew.
MAX_REMEMBERED = 10_000


class WorkloadPodGroups:
    """Owner: `Ungating`."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        #: By the UID of an owner: how often it was looked for in vain, and when it is looked for again.
        self._looks: dict[str, tuple[int, float]] = {}

    def make(self, member: Member) -> None:
        """Have the PodGroup of the pod made, if its workload asks for one; it does not exist now."""
        gang = parse_gang(member.gang)
        if gang is None or not is_podgroup_made(member) or member.leaving:
            return
        owner = self._context.store.workloads.by_uid(member.owner_uid)
        if owner is None:
            self._look_again(member.owner_uid)
            return
        self._looks.pop(owner.uid, None)
        is_owner = (owner.namespace, owner.kind.kind) == (member.namespace, member.owner_kind)
        if not is_owner or owner.kind.key not in KEYS:
            return
        body = podgroup_of_gang(
            gang,
            namespace=member.namespace,
            kind=owner.kind.kind,
            name=owner.name,
            uid=owner.uid,
            priority_class=member.priority_class,
        )
        self._context.writers.submit(
            ("workload-podgroup", owner.uid),
            partial(self._create, member.namespace, body),
            rank=WriteRank.RELEASE,
            queue=NO_QUEUE,  # what was refused is submitted again after its back-off
            subject=pod_subject(member),
        )

    def _look_again(self, uid: str) -> None:
        if len(self._looks) >= MAX_REMEMBERED:
            self._looks.clear()
        now = self._context.store.clock.monotonic()
        times, at = self._looks.get(uid, (0, now))
        if now < at:
            return  # for another pod of it
        seconds = LOOK_AGAIN.seconds(times + 1)
        self._looks[uid] = times + 1, now + seconds
        self._context.work_queue.add_after(NO_QUEUE, QueueChange.MEMBERS, seconds=seconds)

    def _create(self, namespace: str, body: dict[str, object]) -> None:
        path = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{quote(namespace, safe='')}/podgroups"
        with suppress(Conflict):  # it exists: the watch will show it
            self._context.client.create(path, body)
