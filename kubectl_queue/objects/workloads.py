"""Workloads of the API that could not be read, and replicas that a drain keeps.

Promise: a kind that could not be read (`assumed_workload`) counts as its pods' references say, for what can
be suspended by its spec: the workload is there, of the pod's queue and unfinished.
"""

from __future__ import annotations

from kubectl_queue.objects.fields import Object
from queues import well_known
from queues.scale_record import kept_at_zero
from queues.workload_kinds import Suspension, WorkloadKind, find_kind_of_owner
from queues.world.members import controller_reference
from queues.world.objects import EPOCH, OwnerReference
from queues.world.reading import as_workload
from queues.world.workloads import Workload


def kind_of(reference: OwnerReference) -> WorkloadKind | None:
    """None for one that makes no members."""
    return find_kind_of_owner(reference.api_version, reference.kind)


def kept_replicas(item: Object) -> int:
    """The replicas that a workload gets back, while a drain keeps it at zero; 0 if none does."""
    obj = as_workload(item)
    return kept_at_zero(
        obj.metadata.annotation(well_known.SUSPENDED),
        replicas=obj.spec.replicas,
        controlled=controller_reference(obj.metadata.owner_references) is not None,
    )


def assumed_workload(reference: OwnerReference, *, namespace: str, queue: str) -> Workload | None:
    """One of a kind that could not be read; None where its pods are evicted for all that is known."""
    kind = kind_of(reference)
    if kind is None or not (kind.suspension is Suspension.SPEC or kind.key == "daemonsets"):
        return None
    return Workload(
        kind=kind,
        namespace=namespace,
        name=reference.name,
        uid=reference.uid,
        version=0,
        queue=queue,
        live=True,
        created=EPOCH,
    )
