"""The system-critical pods that are no members, which plugin `conformance` protects from preemption.

kube-scheduler names victims by their UID alone (`nodeCacheCapable`), and pods of no queue are not watched
otherwise. So the UIDs of those that may not be evicted are kept, while some policy has the plugin
(`cluster.informers.informers`).

Invariants
- Without such a policy nothing is kept. When one comes, the pods are listed.
- Until that list has come every pod that is no member counts as protected. Pods that were denied victims
  meanwhile are retried then (`controller.pods.retry`).
- A pod that is not watched any more since it has got its label (`controller.pods.member_labels`) stays
  protected: the watch of members may bring it later.
- Pods: `queues.policies.victims.is_critical`.

Threads: the reflector of these pods writes, the one of the ConfigMap calls `follow`; any thread may ask.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from cluster.objects import Metadata
from queues.policies.policy_set import PolicySet
from queues.policies.victims import is_critical


class SystemPodSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    priority: int | None = None
    priority_class_name: str | None = None


class SystemPod(msgspec.Struct, frozen=True, gc=False):
    """A pod without our label: the fields that say whether it is system-critical."""

    metadata: Metadata
    spec: SystemPodSpec = SystemPodSpec()


class SystemPods:
    """Owner: the store; the event handler of their reflector."""

    def __init__(self, *, on_known: Callable[[], object] = lambda: None) -> None:
        """`on_known`: called after the first list since the pods are wanted."""
        self._on_known = on_known
        self._wanted = False
        #: None until a list of the pods has come since they are wanted.
        self._uids: set[str] | None = None
        #: How often they have come to be known.
        self.first_lists = 0

    def follow(self, policies: PolicySet) -> None:
        """Keep the pods or not, as these policies need them."""
        self._wanted = policies.protects_system_pods
        if not self._wanted:
            self._uids = None

    def replace(self, objects: list[SystemPod]) -> None:
        if not self._wanted:
            return
        is_first = self._uids is None
        self._uids = {pod.metadata.uid for pod in objects if _is_critical(pod)}
        self.first_lists += is_first
        if is_first:
            self._on_known()

    def upsert(self, obj: SystemPod) -> None:
        if self._uids is not None and _is_critical(obj):
            self._uids.add(obj.metadata.uid)

    def remove(self, obj: SystemPod) -> None:
        if self._uids is not None and obj.metadata.deletion_timestamp is not None:
            self._uids.discard(obj.metadata.uid)

    @property
    def known(self) -> bool:
        """Whether a list of the pods has come since they are wanted."""
        return self._uids is not None

    def is_protected(self, uid: str) -> bool:
        """Whether a pod that is no member is system-critical, or may be."""
        uids = self._uids
        return uids is None or uid in uids


def _is_critical(pod: SystemPod) -> bool:
    spec = pod.spec
    return is_critical(pod.metadata.namespace, spec.priority_class_name or "", spec.priority or 0)
