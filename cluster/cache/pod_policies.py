"""Which scheduling policy counts for a pod, by what is stored of it, its PodGroup and its queue.

Threads: any; no lock, no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping

from cluster.cache.members import Member
from cluster.cache.podgroups import PodGroups
from cluster.cache.queues import QueueCache
from cluster.cache.scheduling_policies import SchedulingPolicies
from cluster.objects import Pod
from queues import well_known
from queues.apimachinery.pod_requests import pod_requests
from queues.causes import MissingAction
from queues.membership import GROUP_ANNOTATION
from queues.policies.actions import missing_action
from queues.policies.resolution import Resolution


class PodPolicies:
    """Owner: the store."""

    def __init__(self, *, policies: SchedulingPolicies, queues: QueueCache, podgroups: PodGroups) -> None:
        self._policies = policies
        self._queues = queues
        self._podgroups = podgroups

    def of_queue(self, queue: str) -> Resolution:
        """Return which scheduling policy counts for the jobs of a queue that name none themselves."""
        return self._policies.of_queue(self._queues.snapshot, queue)

    def of_pod(self, queue: str, *, namespace: str, annotations: Mapping[str, str] | None) -> Resolution:
        """Return which scheduling policy counts for a pod of the queue, by its own annotations."""
        own = annotations or {}
        job = own.get(well_known.SCHEDULER_POLICY) or self._of_podgroup(
            namespace, own.get(GROUP_ANNOTATION, "")
        )
        return self._of_job(queue, job)

    def of_member(self, member: Member, queue: str) -> Resolution:
        """Return which scheduling policy counts for a member of the queue, by what is stored of it."""
        return self._of_job(
            queue, member.scheduler_policy or self._of_podgroup(member.namespace, member.podgroup)
        )

    def missing_for_member(self, member: Member, queue: str) -> MissingAction | None:
        """Return the action that the member's policy lacks, so that filter refuses it."""
        if not self._policies.policies.entries:
            return None
        resolution = self.of_member(member, queue)
        return missing_action(resolution, queue=queue, has_requests=bool(member.requests))

    def missing_for_pod(self, pod: Pod, queue: str) -> MissingAction | None:
        """The same for a pod that is not stored, by what its caller says of it."""
        if not self._policies.policies.entries:
            return None
        meta = pod.metadata
        resolution = self.of_pod(queue, namespace=meta.namespace, annotations=meta.annotations)
        return missing_action(resolution, queue=queue, has_requests=bool(pod_requests(pod.spec)))

    def _of_job(self, queue: str, job: str) -> Resolution:
        return self._policies.of_job(self._queues.snapshot, queue, job) if job else self.of_queue(queue)

    def _of_podgroup(self, namespace: str, name: str) -> str:
        if not name:
            return ""
        group = self._podgroups.get(namespace, name)
        return group.metadata.annotation(well_known.SCHEDULER_POLICY) if group is not None else ""
