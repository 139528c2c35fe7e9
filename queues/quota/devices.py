"""What claims of devices (DRA) take of a quota: so many devices of a class, as resource `deviceclass/NAME`.

What a claim counts is what its own spec says, which never changes while the claim exists:

| a request of the claim                       | counts                                                      |
|----------------------------------------------|-------------------------------------------------------------|
| `exactly`, `count: n` (1 where it is absent) | n of its class; a part of a device (`capacity`) is one      |
| `firstAvailable`                             | of each class the most that one of the alternatives asks    |
| `adminAccess: true`                          | nothing: it takes no device away from others                |
| `allocationMode: All`; any form not known    | cannot be counted: a pod with such a claim is not released  |

And a pod counts by its claims:

| a claim of the pod                           | counts                                                      |
|----------------------------------------------|-------------------------------------------------------------|
| that it names (`resourceClaimName`)          | once for a queue, and once for each queue above it, however |
|                                              | many pods share it                                          |
| made for it from a template                  | for this pod alone, as what was made says: it is made while |
|                                              | the pod waits with its gate. It has to be the pod's own     |
| not there, or not made yet                   | the pod is not released before it is there                  |
| of a pod that was released, and now gone     | what it said last                                           |
| made again with another spec                 | what it says now                                            |
| not named: a request of the resource         | so many devices of the class: these are other names for it. |
| `deviceclass.resource.kubernetes.io/NAME`,   | The claim that kube-scheduler makes for that pod counts     |
| or of a class's `extendedResourceName`       | nothing more                                                |

Invariants
- Numbers are integers. A pod that has room is released only if each of its claims was counted.
- Among the requests of a pod (`quota.usage.Requests`), a claim that may be shared is a resource of its own,
  `resourceclaim/NAMESPACE/NAME`, and what hinders counting is `resourceclaim//FAULT`. Both have two slashes,
  which no resource of a container has. They are of no amount in themselves: `quota.usage` knows what to do.
- A pod of whose claims nothing was looked up, is not taken for one without claims: it lacks `COUNTED`.

Sources: `k8s.io/kubernetes` 1.36, `pkg/quota/v1/evaluator/core/resource_claims.go`, which counts `All` as 32
and `adminAccess` as any request, and counts each claim when it is made; `k8s.io/api/resource/v1`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Protocol

import msgspec

from queues.apimachinery.pod_requests import CLAIMS, Requests
from queues.apimachinery.quantities import Amount

#: How a capability names devices of a class.
DEVICES_PREFIX = "deviceclass/"
#: How a pod requests devices of a class as a resource.
IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
#: How many claims of a pod were looked up.
COUNTED = "resourceclaim//counted"
_CLAIM, _FAULT = "resourceclaim/", "resourceclaim//"


class ClaimFault(StrEnum):
    """Why a pod's claims cannot be counted now. The order is that in which they are told."""

    #: This cluster does not serve `resource.k8s.io/v1`.
    NO_API = "no-api"
    #: Claims and classes have not been read.
    UNREAD = "unread"
    #: A request of it has no number.
    UNCOUNTABLE = "uncountable"
    #: The claim does not exist, or was not made yet.
    ABSENT = "absent"


class ClaimCount(msgspec.Struct, frozen=True, gc=False):
    """What a claim counts, as far as that is known. `fault`: why a pod is not released with it."""

    amounts: Requests = ()
    fault: ClaimFault | None = None


ABSENT = ClaimCount(fault=ClaimFault.ABSENT)


class ClaimRef(msgspec.Struct, frozen=True, gc=False):
    """A claim of a pod. `owner`: the UID of the pod for which it was made from a template; "" where any pod
    may name it. `name`: "" where it was not made yet.
    """

    namespace: str
    name: str
    owner: str = ""


class Devices(Protocol):
    """What is known of claims and classes."""

    @property
    def fault(self) -> ClaimFault | None:
        """Why nothing is known: `NO_API` or `UNREAD`."""

    def count(self, claim: ClaimRef) -> ClaimCount: ...

    def classes_of(self, resource: str) -> Collection[str]:
        """The classes whose `extendedResourceName` this is."""


def device_class_in(capability: Iterable[tuple[str, Amount]] | None) -> str:
    """A resource of a capability that is a class of devices; "" without one."""
    return next((resource for resource, _ in capability or () if resource.startswith(DEVICES_PREFIX)), "")


# The spec of a claim


class DeviceSubRequest(msgspec.Struct, frozen=True, rename="camel"):
    """`exactly`, or one of the alternatives."""

    device_class_name: str = ""
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool | None = None


class DeviceRequest(msgspec.Struct, frozen=True, rename="camel"):
    exactly: DeviceSubRequest | None = None
    first_available: list[DeviceSubRequest] | None = None


class DeviceRequests(msgspec.Struct, frozen=True):
    requests: list[DeviceRequest] | None = None


class ClaimSpec(msgspec.Struct, frozen=True):
    devices: DeviceRequests | None = None


def claim_count(spec: ClaimSpec | None) -> ClaimCount:
    """By the first table. What cannot be counted beside the rest is left out, and said."""
    if spec is None or spec.devices is None:
        return ClaimCount(fault=ClaimFault.UNCOUNTABLE)
    total: dict[str, Amount] = {}
    is_counted = True
    for request in spec.devices.requests or ():
        alternatives = request.first_available or ([request.exactly] if request.exactly else [])
        most = _most(alternatives)
        is_counted = is_counted and bool(alternatives) and most is not None
        for resource, amount in (most or {}).items():
            total[resource] = total.get(resource, 0) + amount
    return ClaimCount(tuple(sorted(total.items())), fault=None if is_counted else ClaimFault.UNCOUNTABLE)


def _most(alternatives: Iterable[DeviceSubRequest]) -> Mapping[str, Amount] | None:
    most: dict[str, Amount] = {}
    for each in alternatives:
        if each.admin_access:
            continue
        if each.allocation_mode != "ExactCount" or not each.device_class_name:
            return None
        resource = DEVICES_PREFIX + each.device_class_name
        most[resource] = max(each.count, most.get(resource, 0))
    return most


# The claims of a pod


class PodClaim(Protocol):
    """An entry of a pod's `spec.resourceClaims`, and one of its `status.resourceClaimStatuses`."""

    @property
    def name(self) -> str: ...
    @property
    def resource_claim_name(self) -> str | None: ...


def claim_refs(
    claims: Sequence[PodClaim] | None, *, namespace: str, uid: str, made: Sequence[PodClaim] | None
) -> tuple[ClaimRef, ...]:
    """The claims of a pod. `made`: those that were made for it, by its status; one without a name there is
    not needed.
    """
    if not claims:
        return ()
    names = {each.name: each.resource_claim_name for each in made or ()}
    refs = []
    for claim in claims:
        if claim.resource_claim_name:
            refs.append(ClaimRef(namespace, claim.resource_claim_name))
        elif (name := names.get(claim.name, "")) is not None:
            refs.append(ClaimRef(namespace, name, owner=uid))
    return tuple(refs)


def with_devices(requests: Requests, claims: Sequence[ClaimRef], devices: Devices) -> Requests:
    """The requests of a pod, and what it takes by its claims."""
    amounts = dict(requests)
    add_classes(amounts, requests, devices)
    fault = devices.fault
    if fault is ClaimFault.UNREAD and any("/" in resource for resource, _ in requests):
        amounts[_FAULT + fault] = 1  # each resource may be another name of a class
    if CLAIMS in amounts:
        amounts[COUNTED] = amounts[CLAIMS]
        if fault is not None:
            amounts[_FAULT + fault] = 1
    for claim in claims:
        if not claim.owner:
            amounts[shared_claim(claim)] = 1
            continue
        count = devices.count(claim)
        _add(amounts, count.amounts)
        if count.fault is not None:
            amounts[_FAULT + count.fault] = 1
    return tuple(sorted(amounts.items()))


def add_claims(amounts: dict[str, Amount], claims: Iterable[tuple[ClaimRef, int]], devices: Devices) -> None:
    """Add to what pods take what they take by these claims, each with the number of pods that have it."""
    for claim, pods in claims:
        if claim.owner:
            _add(amounts, devices.count(claim).amounts)
        else:
            resource = shared_claim(claim)
            amounts[resource] = amounts.get(resource, 0) + pods


def add_classes(amounts: dict[str, Amount], requests: Iterable[tuple[str, Amount]], devices: Devices) -> None:
    """Add the devices that are requested by another name of their class."""
    for resource, amount in requests:
        if "/" not in resource:
            continue
        if resource.startswith(IMPLICIT_PREFIX):
            _add(amounts, ((DEVICES_PREFIX + resource.removeprefix(IMPLICIT_PREFIX), amount),))
        else:
            for name in devices.classes_of(resource):
                _add(amounts, ((DEVICES_PREFIX + name, amount),))


# What is in requests


class ClaimedDevices(msgspec.Struct, frozen=True):
    """The claims in the requests of a pod. `shared`: as resources. `fault`: the first that hinders."""

    shared: tuple[str, ...] = ()
    fault: ClaimFault | None = None


def is_of_claims(resource: str) -> bool:
    """Whether it stands for a claim, or for what hinders counting one, and has no amount."""
    return resource.startswith(_CLAIM) and resource.count("/") > 1


def is_shared_claim(resource: str) -> bool:
    return is_of_claims(resource) and not resource.startswith(_FAULT)


@lru_cache(maxsize=4096)
def has_shared_claim(requests: Requests) -> bool:
    return any(is_shared_claim(resource) for resource, _ in requests)


@lru_cache(maxsize=4096)
def claimed_devices(requests: Requests) -> ClaimedDevices:
    """What these requests say of claims."""
    amounts = dict(requests)
    shared = tuple(resource for resource in amounts if is_shared_claim(resource))
    faults = [fault for fault in ClaimFault if _FAULT + fault in amounts]
    if amounts.get(CLAIMS, 0) != amounts.get(COUNTED, 0):
        return ClaimedDevices(shared, ClaimFault.UNREAD)
    return ClaimedDevices(shared, faults[0] if faults else None)


#: Says what a claim that may be shared counts, by its resource.
SharedCounts = Callable[[str], ClaimCount]


def shared_counts(devices: Devices) -> SharedCounts:
    def count(resource: str) -> ClaimCount:
        _, namespace, name = resource.split("/", maxsplit=2)
        return devices.count(ClaimRef(namespace, name))

    return count


def with_claims_counted(amounts: Mapping[str, Amount], count: SharedCounts) -> dict[str, Amount]:
    """What is taken together: each claim that may be shared counts once, and is no resource of its own."""
    counted = {resource: amount for resource, amount in amounts.items() if not is_of_claims(resource)}
    for claim, pods in amounts.items():
        if pods and is_shared_claim(claim):
            _add(counted, count(claim).amounts)
    return counted


def no_claims(_resource: str) -> ClaimCount:
    """Where nothing is known of claims."""
    return ABSENT


def shared_claim(claim: ClaimRef) -> str:
    """The resource that stands for a claim that may be shared."""
    return f"{_CLAIM}{claim.namespace}/{claim.name}"


def _add(amounts: dict[str, Amount], more: Iterable[tuple[str, Amount]]) -> None:
    for resource, amount in more:
        amounts[resource] = amounts.get(resource, 0) + amount
