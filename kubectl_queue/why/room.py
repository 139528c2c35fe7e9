"""A pod that waits for room, as `queues.why.room` takes it: what it requests, and its claims of devices.

Promise: what of it cannot be read counts as nothing.
"""

from __future__ import annotations

import msgspec

from kubectl_queue.objects.fields import (
    Object,
    annotations_of,
    creation_time,
    labels_of,
    spec_of,
    status_of,
    value_at,
)
from queues import well_known
from queues.apimachinery.conversion import Converter
from queues.apimachinery.pod_requests import pod_requests
from queues.quota.devices import ClaimRef, Devices, claim_refs, with_devices
from queues.quota.pod_classes import WaitingPod
from queues.quota.usage import quota_requests

_FINISHED = frozenset({"Succeeded", "Failed"})
_OF_NO_NODE = "spec.nodeName="


class _Needs(msgspec.Struct, frozen=True):
    requests: dict[str, str | int | float] | None = None


class _Container(msgspec.Struct, frozen=True, rename="camel"):
    resources: _Needs | None = None
    restart_policy: str | None = None


class _Claim(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    resource_claim_name: str | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    resource_claim_statuses: list[_Claim] | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    resources: _Needs | None = None
    overhead: dict[str, str | int | float] | None = None
    priority: int | None = None
    resource_claims: list[_Claim] | None = None


_spec = Converter[_Spec](_Spec)
_status = Converter[_Status](_Status)


def waits_for_room(pod: Object) -> bool:
    """Whether the leader has yet to release the pod, if its queue has a quota. One that no scheduler takes is
    not asked for (`queues.untaken`).
    """
    uid = str(value_at(pod, "metadata.uid") or "")
    return (
        not spec_of(pod).get("nodeName")
        and status_of(pod).get("phase") not in _FINISHED
        and not value_at(pod, "metadata.deletionTimestamp")
        and labels_of(pod).get(well_known.RELEASED) != uid
        and not annotations_of(pod).get(well_known.UNTAKEN)
    )


def has_left_its_room(pod: Object) -> bool:
    """Whether the room of the pod is left to others, since no scheduler takes it (`queues.untaken`)."""
    uid = str(value_at(pod, "metadata.uid") or "")
    return (
        not spec_of(pod).get("nodeName")
        and bool(annotations_of(pod).get(well_known.UNTAKEN))
        and labels_of(pod).get(well_known.RELEASED) != uid
    )


def waiting_pod(pod: Object, queue: str, devices: Devices | None = None) -> WaitingPod:
    """The pod as the rules take it. What of its spec cannot be read counts as nothing. `devices`: where a
    capability of its chain names a class of devices.
    """
    try:
        spec = _spec(dict(spec_of(pod)))
    except msgspec.ValidationError:
        spec = _Spec()
    requests = quota_requests(pod_requests(spec))
    return WaitingPod(
        uid=str(value_at(pod, "metadata.uid") or ""),
        queue=queue,
        requests=with_devices(requests, claims_of(pod), devices) if devices is not None else requests,
        priority=spec.priority or 0,
        since=creation_time(pod),
    )


def claims_of(pod: Object) -> tuple[ClaimRef, ...]:
    """Its claims of devices; none where they cannot be read."""
    try:
        spec, status = _spec(dict(spec_of(pod))), _status(dict(status_of(pod)))
    except msgspec.ValidationError:
        return ()
    return claim_refs(
        spec.resource_claims,
        namespace=str(value_at(pod, "metadata.namespace") or ""),
        uid=str(value_at(pod, "metadata.uid") or ""),
        made=status.resource_claim_statuses,
    )


def hindering_claims(pod: Object, devices: Devices) -> tuple[str, ...]:
    """The claims with which the pod is not released, by name; "" for one that was not made yet."""
    claims = claims_of(pod) if devices.fault is None else ()
    return tuple(claim.name for claim in claims if devices.count(claim).fault is not None)
