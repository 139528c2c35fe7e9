"""Reads what `queues.why.room` needs of a pod that waits for room: those that wait with it, and all queues.

Promise: where pods of all namespaces may not be listed, those of its own are; where queues may not be listed,
its chain is enough. What may not be read is not in the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from urllib.parse import quote

import msgspec

from kubectl_queue.access.client import ApiClient
from kubectl_queue.errors import ForbiddenError
from kubectl_queue.objects.fields import (
    Object,
    annotations_of,
    labels_of,
    name_of,
    spec_of,
    status_of,
    value_at,
)
from kubectl_queue.why.devices import ObservedDevices
from queues import well_known
from queues.apimachinery.conversion import Converter
from queues.apimachinery.pod_requests import pod_requests
from queues.membership import GROUP_ANNOTATION, label_value
from queues.quota.devices import ClaimRef, Devices, claim_refs, with_devices
from queues.quota.pod_classes import WaitingPod
from queues.quota.usage import quota_requests
from queues.why.room import ObservedLine

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
    """Whether the leader has yet to release the pod, if its queue has a quota."""
    uid = str(value_at(pod, "metadata.uid") or "")
    return (
        not spec_of(pod).get("nodeName")
        and status_of(pod).get("phase") not in _FINISHED
        and not value_at(pod, "metadata.deletionTimestamp")
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
        since=_time(str(value_at(pod, "metadata.creationTimestamp") or "")),
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


def read_line(
    client: ApiClient, queue: str, *, namespace: str, devices: ObservedDevices | None = None
) -> ObservedLine | None:
    """The pods that wait for room in the queue; None where none may be listed."""
    query = {"labelSelector": f"{well_known.QUEUE}={label_value(queue)}", "fieldSelector": _OF_NO_NODE}
    places = (("/api/v1/pods", True), (f"/api/v1/namespaces/{quote(namespace, safe='')}/pods", False))
    for path, whole in places:
        with suppress(ForbiddenError):
            return _line(client.list(path, query=query, kind="pods").items, queue, devices, whole=whole)
    return None


def _line(
    pods: Sequence[Object], queue: str, devices: ObservedDevices | None, *, whole: bool
) -> ObservedLine:
    waiting = [pod for pod in pods if waits_for_room(pod)]
    names = {str(value_at(pod, "metadata.uid")): _name(pod) for pod in waiting}
    released = (claims_of(pod) for pod in pods if not waits_for_room(pod))
    taken = {claim for claims in released for claim in claims if not claim.owner}
    return ObservedLine(
        pods=[waiting_pod(pod, queue, devices) for pod in waiting],
        names=names,
        groups={str(value_at(pod, "metadata.uid")): group for pod in waiting if (group := _group(pod))},
        whole=whole,
        taken=frozenset(taken | devices.in_use) if devices is not None else frozenset(),
    )


def _group(pod: Object) -> str:
    """The PodGroup that it names, NAMESPACE/NAME; "" for none."""
    name = annotations_of(pod).get(GROUP_ANNOTATION)
    return f"{value_at(pod, 'metadata.namespace')}/{name}" if name else ""


def _name(pod: Object) -> str:
    return f"{value_at(pod, 'metadata.namespace')}/{name_of(pod)}"


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
