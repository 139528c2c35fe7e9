"""The resource requests of a pod, as kube-scheduler counts them.

For each resource: the sum of its containers and sidecars (init containers that always restart), or the peak
of its init containers if that is greater. The pod's own requests replace both. The overhead is added.
At most `RESOURCES` resources are kept, a node's own first. The claims that a pod names (DRA) are one
resource, by their number, in the words of ResourceQuota: what they claim is not known here.
Source: `k8s.io/component-helpers/resource`, `PodRequests`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from queues import well_known
from queues.apimachinery.quantities import Amount, BadQuantity, parse_quantity

#: Sorted by resource. Equal requests are one object: many pods have the same few requests.
Requests = tuple[tuple[str, Amount], ...]
_Amounts = dict[str, Amount]

#: How many claims a pod names.
CLAIMS = "count/resourceclaims.resource.k8s.io"
#: Our own marker resources, which no node has.
_MARKERS = frozenset({well_known.MARKER, well_known.SCORED})


#: The requests of one container, of the pod, or of its overhead, as they are written.
_Written = tuple[tuple[str, str | int | float], ...]
#: Those of the containers, of the init containers (and whether each always restarts), of the pod, of its
#: overhead.
WrittenRequests = tuple[tuple[_Written, ...], tuple[tuple[bool, _Written], ...], _Written, _Written]


#: The most containers and requests of a pod whose result is cached. Larger pods are counted each time, so
#: that users cannot fill the memory with them.
MAX_SHARED = 100
#: Resources of a pod, and characters of a name or an amount, that are kept.
RESOURCES, LENGTH = 128, 320


class Needs(Protocol):
    """The resources of a container, or of the pod itself."""

    @property
    def requests(self) -> Mapping[str, str | int | float] | None: ...


class _Container(Protocol):
    @property
    def resources(self) -> Needs | None: ...
    @property
    def restart_policy(self) -> str | None: ...


class NodeSpec(Protocol):
    """The part of a pod's spec that says what it requests of its node."""

    @property
    def containers(self) -> Sequence[_Container] | None: ...
    @property
    def init_containers(self) -> Sequence[_Container] | None: ...
    @property
    def resources(self) -> Needs | None: ...
    @property
    def overhead(self) -> Mapping[str, str | int | float] | None: ...


class PodRequestSpec(NodeSpec, Protocol):
    """The same, and the claims that it names."""

    @property
    def resource_claims(self) -> Sequence[object] | None: ...


def pod_requests(spec: PodRequestSpec) -> Requests:
    """Return the requests of a pod, without our markers and without zeros."""
    requests = count_written(written_requests(spec))
    return limited((*requests, (CLAIMS, len(spec.resource_claims)))) if spec.resource_claims else requests


def written_requests(spec: NodeSpec) -> WrittenRequests:
    """Return what a pod's spec says of its requests: equal values of it mean equal requests."""
    containers = tuple([_written_needs(container.resources) for container in spec.containers or ()])
    init_containers: tuple[tuple[bool, _Written], ...] = ()
    if spec.init_containers:
        init_containers = tuple(
            [
                (container.restart_policy == "Always", _written_needs(container.resources))
                for container in spec.init_containers
            ]
        )
    overhead = _written(spec.overhead)
    return containers, init_containers, _written_needs(spec.resources), overhead


def is_shared(written: WrittenRequests) -> bool:
    """Return whether what is computed from these requests may be cached."""
    containers, init_containers, of_the_pod, overhead = written
    size = len(containers) + len(init_containers) + 2 + len(of_the_pod) + len(overhead)
    size += sum(map(len, containers)) + sum(len(requests) for _, requests in init_containers)
    return size <= MAX_SHARED


def count_written(written: WrittenRequests) -> Requests:
    """Return the sum of written requests."""
    return _cached_requests(written) if is_shared(written) else _count_requests(*written)


def count_with_missing(written: WrittenRequests, missing: _Written) -> Requests:
    """Return the sum, with `missing` for each container that requests nothing of such a resource."""
    containers, init_containers, of_the_pod, overhead = written
    return _count_requests(
        tuple([_completed(requests, missing) for requests in containers]),
        tuple([(always, _completed(requests, missing)) for always, requests in init_containers]),
        of_the_pod,
        overhead,
    )


def _written_needs(needs: Needs | None) -> _Written:
    return _written(needs.requests) if needs is not None else ()


def _completed(written: _Written, missing: _Written) -> _Written:
    return (*written, *(each for each in missing if all(key != each[0] for key, _ in written)))


def _written(requests: Mapping[str, str | int | float] | None) -> _Written:
    """What is requested, without what the API server lets through for no pod: calls may be made up."""
    if not requests:
        return ()
    return tuple(
        [
            (key, text)
            for key, text in requests.items()
            if len(key) <= LENGTH and (not isinstance(text, str) or len(text) <= LENGTH)
        ]
    )


@lru_cache(maxsize=4096)
def _cached_requests(written: WrittenRequests) -> Requests:
    """Cache `_count_requests`, by the written requests: many pods share them."""
    return _interned(_count_requests(*written))


@lru_cache(maxsize=4096)
def _interned(requests: Requests) -> Requests:
    return requests


def _count_requests(
    containers: tuple[_Written, ...],
    init_containers: tuple[tuple[bool, _Written], ...],
    of_the_pod: _Written,
    overhead: _Written,
) -> Requests:
    steady = _sum(map(_amounts, containers))
    peak: _Amounts = {}
    sidecars: _Amounts = {}
    for always, written in init_containers:
        if always:
            sidecars = _sum((sidecars, _amounts(written)))
            peak = _most(peak, sidecars)
        else:
            peak = _most(peak, _sum((sidecars, _amounts(written))))
    whole = _most(_sum((steady, sidecars)), peak)
    whole.update(_amounts(of_the_pod))
    whole = _sum((whole, _amounts(overhead)))
    return limited((key, value) for key, value in whole.items() if value)


def _amounts(written: _Written) -> _Amounts:
    amounts: _Amounts = {}
    for key, text in written:
        if key not in _MARKERS:
            try:
                amounts[key] = parse_quantity(text)
            except BadQuantity:  # the API server accepted it, but we cannot count it
                continue
    return amounts


def limited(requests: Iterable[tuple[str, Amount]]) -> Requests:
    """Sort by resource and limit the number. A node's own resources, which have no domain, go first."""
    kept = sorted(requests)
    if len(kept) > RESOURCES:
        kept = sorted(sorted(kept, key=lambda request: ("/" in request[0], request[0]))[:RESOURCES])
    return tuple(kept)


def _sum(several: Iterable[_Amounts]) -> _Amounts:
    total: _Amounts = {}
    for amounts in several:
        for key, value in amounts.items():
            total[key] = total.get(key, 0) + value
    return total


def _most(first: _Amounts, second: _Amounts) -> _Amounts:
    return {
        key: max(first.get(key, 0), second.get(key, 0))
        for key in (*first, *(k for k in second if k not in first))
    }
