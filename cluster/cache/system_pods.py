"""The system-critical pods that are no members, which plugin `conformance` protects from preemption.

kube-scheduler names victims by their UID alone (`nodeCacheCapable`), and pods of no queue are not stored. So
the UIDs of those that may not be evicted are kept, while some policy has the plugin.

Invariants
- Without such a policy nothing is kept. When one comes, the pods are listed again.
- Until that list has come every pod that is no member counts as protected. Pods that were denied victims
  meanwhile are retried then (`controller.pods.retry`).
- Pods: `queues.policies.victims.is_critical`.

Threads: the reflector of pods writes, the one of the ConfigMap calls `follow`; any thread may ask.
"""

from __future__ import annotations

from collections.abc import Iterable

from cluster.objects import Pod
from queues.policies.policy_set import PolicySet
from queues.policies.victims import is_critical


class SystemPods:
    """Owner: the store."""

    def __init__(self) -> None:
        self._wanted = False
        #: None until a list of the pods has come since they are wanted.
        self._uids: set[str] | None = None
        #: How often they have come to be known.
        self.first_lists = 0

    def follow(self, policies: PolicySet) -> bool:
        """Keep the pods or not, as these policies need them; returns whether to list the pods again."""
        was, self._wanted = self._wanted, policies.protects_system_pods
        if not self._wanted:
            self._uids = None
        return self._wanted and not was

    def listed(self, pods: Iterable[Pod]) -> bool:
        """`pods`: all there are, members too. Returns whether it is the first list since they are wanted."""
        if not self._wanted:
            return False
        is_first = self._uids is None
        self._uids = {pod.metadata.uid for pod in pods if _is_critical(pod)}
        self.first_lists += is_first
        return is_first

    def upsert(self, pod: Pod) -> None:
        """`pod`: it is no member."""
        if self._uids is not None and _is_critical(pod):
            self._uids.add(pod.metadata.uid)

    def remove(self, pod: Pod) -> None:
        if self._uids is not None:
            self._uids.discard(pod.metadata.uid)

    def is_protected(self, uid: str) -> bool:
        """Whether a pod that is no member is system-critical, or may be."""
        uids = self._uids
        return uids is None or uid in uids


def _is_critical(pod: Pod) -> bool:
    spec = pod.spec
    return is_critical(pod.metadata.namespace, spec.priority_class_name or "", spec.priority or 0)
