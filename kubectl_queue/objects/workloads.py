"""Workloads of the API as `queues.drain.owners` takes them.

Promise: a kind that could not be read (`assumed`) counts as its pods' references say, for what can be
suspended by its spec: the workload is there, of the pod's queue and unfinished.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kubectl_queue.objects.fields import Object, annotations_of, controller_of, spec_of, status_of, value_at
from queues import well_known
from queues.scale_record import kept_at_zero
from queues.workload_kinds import Suspension, WorkloadKind, find_kind_of_owner
from queues.workload_life import WorkloadFields, is_live, is_paused, names_true, replicas_kept_at_zero


class ReadWorkload(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One workload (`queues.drain.owners.DrainOwner`). `owner`: the reference to its controller.

    `started`: a controller of its kind has seen it, as far as its status can say so.
    """

    kind: WorkloadKind
    namespace: str
    name: str
    uid: str
    queue: str
    live: bool = True
    owner: OwnerReference | None = None
    paused: bool = False
    delegated: bool = False
    leaving: bool = False
    kept_at_zero: int = 0
    started: bool = True

    @property
    def owner_uid(self) -> str:
        return self.owner.uid if self.owner is not None else ""


class OwnerReference(msgspec.Struct, frozen=True, gc=False):
    """A reference to a controller. `kind` is None for one of no kind that makes members."""

    kind: WorkloadKind | None
    name: str
    uid: str


def owner_reference(item: Object) -> OwnerReference | None:
    """The controller that an object names; None where none does."""
    reference = controller_of(item)
    if not reference:
        return None
    kind = find_kind_of_owner(_text(reference, "apiVersion"), _text(reference, "kind"))
    return OwnerReference(kind, _text(reference, "name"), _text(reference, "uid"))


def _text(item: Mapping[str, Any], key: str) -> str:
    return str(item.get(key) or "")


def read_workload(kind: WorkloadKind, item: Object, *, queue: str) -> ReadWorkload:
    """`queue`: the one that it is in, "" for none."""
    fields = _fields(item)
    return ReadWorkload(
        kind=kind,
        namespace=str(value_at(item, "metadata.namespace") or ""),
        name=str(value_at(item, "metadata.name") or ""),
        uid=str(value_at(item, "metadata.uid") or ""),
        queue=queue,
        live=is_live(kind, fields),
        owner=owner_reference(item),
        paused=is_paused(kind, fields),
        delegated=kind.is_delegated(spec_of(item).get("managedBy")),
        leaving=bool(value_at(item, "metadata.deletionTimestamp")),
        kept_at_zero=replicas_kept_at_zero(kind, fields),
        started=kind.suspension is not Suspension.COMMAND or bool(fields.phase),
    )


def kept_replicas(item: Object) -> int:
    """The replicas that a workload gets back, while a drain keeps it at zero; 0 if none does."""
    fields = _fields(item)
    return kept_at_zero(fields.mark, replicas=fields.replicas, controlled=fields.controlled)


def assumed_workload(reference: OwnerReference, *, namespace: str, queue: str) -> ReadWorkload | None:
    """One of a kind that could not be read; None where its pods are evicted for all that is known."""
    kind = reference.kind
    if kind is None or not (kind.suspension is Suspension.SPEC or kind.key == "daemonsets"):
        return None
    return ReadWorkload(kind=kind, namespace=namespace, name=reference.name, uid=reference.uid, queue=queue)


def _fields(item: Object) -> WorkloadFields:
    replicas = spec_of(item).get("replicas")
    return WorkloadFields(
        replicas=replicas if isinstance(replicas, int) else None,
        suspend=bool(spec_of(item).get("suspend")),
        phase=str(value_at(item, "status.state.phase") or ""),
        terminal_state=str(status_of(item).get("terminalState") or ""),
        true_conditions=names_true(
            (str(each.get("type")), str(each.get("status")))
            for each in status_of(item).get("conditions") or ()
        ),
        mark=str(annotations_of(item).get(well_known.SUSPENDED) or ""),
        controlled=bool(controller_of(item)),
    )
