"""Reads what claims of devices count, for a pod that waits for room where a capability names a class of them.

Promise: what may not be read is not guessed. Without the right to list claims, the pod's claims are unread;
of claims in other namespaces nothing is known. Without the right to list device classes, no resource is
another name of a class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import quote

import msgspec

from kubectl_queue.access.client import ApiClient
from kubectl_queue.errors import ForbiddenError, KindMissingError, NotFoundError
from kubectl_queue.objects.fields import Object, name_of, spec_of, value_at
from queues.apimachinery.conversion import Converter
from queues.quota.devices import ABSENT, ClaimCount, ClaimFault, ClaimRef, ClaimSpec, claim_count

_API = "/apis/resource.k8s.io/v1"
_spec = Converter[ClaimSpec](ClaimSpec)


class ObservedDevices:
    """The claims of one namespace, and the device classes. Implements `queues.quota.devices.Devices`.

    `in_use`: the claims that are reserved for a pod.
    """

    def __init__(
        self,
        namespace: str,
        *,
        claims: Iterable[Object] = (),
        classes: Iterable[Object] = (),
        fault: ClaimFault | None = None,
    ) -> None:
        self.fault = fault
        self._namespace = namespace
        self._claims = {name_of(claim): claim for claim in claims}
        self._classes: Mapping[str, list[str]] = _by_resource(classes)
        self.in_use = {
            ClaimRef(namespace, name)
            for name, claim in self._claims.items()
            if value_at(claim, "status.reservedFor")
        }

    def count(self, claim: ClaimRef) -> ClaimCount:
        if self.fault is not None:
            return ClaimCount(fault=self.fault)
        found = self._claims.get(claim.name) if claim.namespace == self._namespace else None
        if found is None or (claim.owner and claim.owner != _owner(found)):
            return ABSENT
        try:
            return claim_count(_spec(dict(spec_of(found))))
        except msgspec.ValidationError:
            return claim_count(None)

    def classes_of(self, resource: str) -> list[str]:
        return self._classes.get(resource, [])


def read_devices(client: ApiClient, namespace: str) -> ObservedDevices:
    path = f"{_API}/namespaces/{quote(namespace, safe='')}/resourceclaims"
    try:
        claims = client.list(path, query={}, kind="resourceclaims.resource.k8s.io").items
    except ForbiddenError:
        return ObservedDevices(namespace, fault=ClaimFault.UNREAD)
    except (NotFoundError, KindMissingError):
        return ObservedDevices(namespace, fault=ClaimFault.NO_API)
    try:
        classes = client.list(f"{_API}/deviceclasses", query={}, kind="deviceclasses.resource.k8s.io").items
    except (ForbiddenError, NotFoundError, KindMissingError):
        classes = []
    return ObservedDevices(namespace, claims=claims, classes=classes)


def _owner(claim: Object) -> str:
    references = value_at(claim, "metadata.ownerReferences") or ()
    return next((str(each.get("uid", "")) for each in references if each.get("controller")), "")


def _by_resource(classes: Iterable[Object]) -> Mapping[str, list[str]]:
    by_resource: dict[str, list[str]] = {}
    for each in classes:
        resource = spec_of(each).get("extendedResourceName")
        if isinstance(resource, str) and resource:
            by_resource.setdefault(resource, []).append(name_of(each))
    return by_resource
