"""Which queue an object is a member of, by what is stored (`queues.membership` has the rules).

Threads: any; no lock, no I/O. To ask of an object before its namespace is known counts as a question asked
early: the kinds concerned are listed again once the namespace is there (`cluster.cache.namespaces`).
"""

from __future__ import annotations

from cluster.cache.namespaces import Namespaces
from cluster.cache.podgroups import PodGroups
from cluster.cache.queues import QueueCache
from cluster.objects import Pod, PodGroup, WorkloadObject
from queues import well_known
from queues.managed_namespaces import manages
from queues.membership import (
    Membership,
    MembershipSettings,
    NamingMetadata,
    PodFacts,
    QueueConflict,
    fits_label,
    overruled_name,
    stored_pod_membership,
    workload_membership,
)
from queues.workload_kinds import WorkloadKind
from queues.world.workloads import recorded_queue, workload_facts


class Memberships:
    """Owner: the store."""

    def __init__(
        self,
        *,
        settings: MembershipSettings,
        namespaces: Namespaces,
        podgroups: PodGroups,
        queues: QueueCache,
    ) -> None:
        self.settings = settings
        self._namespaces = namespaces
        self._podgroups = podgroups
        self._queues = queues

    def of_pod(self, pod: Pod) -> Membership | None:
        """Return the membership of a stored pod."""
        if not pod.metadata.label(well_known.QUEUE) and (
            not pod.metadata.annotation(well_known.QUEUE) or self.settings.managed_namespaces is not None
        ):
            self._namespaces.note_early(pod.metadata.namespace)
        return stored_pod_membership(
            self.pod_facts(pod),
            rules=self.settings,
            podgroup=self._podgroups.queue_of,
            queue_of_label=self.queue_of_label,
        )

    def pod_facts(self, pod: Pod, *, submitted_to: str = "") -> PodFacts:
        """Return the facts from which the membership of a pod is decided.

        `submitted_to`: the namespace of a pod that is not stored yet, whose metadata may lack it.
        """
        where = pod.metadata.namespace or submitted_to
        names = self._namespaces.queue_for_submission if submitted_to else self._namespaces.queue_of
        return PodFacts(
            namespace=where,
            labels=pod.metadata.labels or {},
            annotations=pod.metadata.annotations or {},
            scheduler=pod.spec.scheduler_name,
            namespace_queue=names(where),
            managed=self.settings.managed_namespaces is None or bool(self.is_managed(where)),
        )

    def queue_of_label(self, label: str) -> str:
        """Return the queue whose label this is; the label itself if no such queue exists."""
        if "_" not in label:  # only the labels of long names have one
            return label
        return next((name for name in self._queues.snapshot.tree if fits_label(name, label)), label)

    def is_managed(self, namespace: str) -> bool | None:
        """Return whether the namespace is ours at all (`queues.managed_namespaces`); None if unknown."""
        selector = self.settings.managed_namespaces
        return True if selector is None else manages(selector, self._namespaces.labels_of(namespace))

    def judged_by(self, namespace: str) -> tuple[str, bool | None]:
        """Return what of the namespace decides who is a member in it."""
        return self._namespaces.queue_of(namespace), self.is_managed(namespace)

    def may_have_members(self, group: PodGroup) -> bool:
        """Return whether a PodGroup is stored at all: whether it, or pods of it, may be in a queue."""
        namespace = group.metadata.namespace
        if namespace in self.settings.exempt_namespaces:
            return False
        if self.settings.managed_namespaces is None or group.metadata.label(well_known.QUEUE):
            return True
        self._namespaces.note_early(namespace)
        return bool(self.is_managed(namespace))

    def of_workload(
        self, kind: WorkloadKind, obj: WorkloadObject, *, namespace: str = ""
    ) -> Membership | QueueConflict | None:
        """Return the membership of a submitted workload."""
        where = obj.metadata.namespace or namespace
        facts = workload_facts(kind, obj, namespace=where, namespace_queue=self._namespaces.queue_of(where))
        return workload_membership(facts, rules=self.settings, podgroup=self._podgroups.queue_of)

    def overruled_name(self, metadata: NamingMetadata, *, namespace: str) -> QueueConflict | None:
        """Return the name of one submitted object that counts, and one that differs; None where none does."""
        return overruled_name(metadata, namespace, rules=self.settings, podgroup=self._podgroups.queue_of)

    def is_member(self, kind: WorkloadKind, obj: WorkloadObject) -> bool:
        """Return whether a stored workload is in a queue, or will be when its PodGroup exists."""
        if obj.metadata.namespace in self.settings.exempt_namespaces:
            return False
        self._namespaces.note_early(obj.metadata.namespace)
        if not self.is_managed(obj.metadata.namespace):
            return bool(self.queue_of_workload(kind, obj))
        return bool(recorded_queue(obj)) or self.of_workload(kind, obj) is not None

    def queue_of_workload(self, kind: WorkloadKind, obj: WorkloadObject) -> str:
        """Return the queue that admission recorded; without a record, the first one that the rules name.

        In a namespace that is not managed only what a drain suspended has one.
        """
        if obj.metadata.namespace in self.settings.exempt_namespaces:
            return ""
        self._namespaces.note_early(obj.metadata.namespace)
        is_managed = self.is_managed(obj.metadata.namespace)
        if not is_managed:
            is_kept = is_managed is None or obj.metadata.annotation(well_known.SUSPENDED)
            return recorded_queue(obj) if is_kept else ""
        membership = self.of_workload(kind, obj)
        if isinstance(membership, QueueConflict):
            membership = membership.first
        return recorded_queue(obj) or (membership.queue or "" if membership else "")
