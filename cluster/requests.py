"""What a pod asks of a node: as kube-scheduler counts it.

Per resource: what its containers and its sidecars (init containers that are restarted always) need together,
or what its init containers need at their worst moment, if that is more; what the pod says for itself in
place of both; and its overhead on top. Source: `k8s.io/component-helpers/resource`, `PodRequests`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from cluster.objects import Container, PodSpec, ResourceNeeds
from queues import names
from queues.quantities import Amount, BadQuantity, parse

#: Sorted by resource; equal ones are one object, for there are many pods and few shapes of them.
Requests = tuple[tuple[str, Amount], ...]
Amounts = dict[str, Amount]

#: Of our own, said of no node.
_MARKERS = frozenset({names.MARKER, "sluice.dev/scored"})


def requests(spec: PodSpec) -> Requests:
    """The pod's requests, without our markers and what is nought."""
    steady = _sum(map(_of, spec.containers or ()))
    peak: Amounts = {}
    sidecars: Amounts = {}
    for one in spec.init_containers or ():
        if one.restart_policy == "Always":
            sidecars = _sum((sidecars, _of(one)))
            peak = _most(peak, sidecars)
        else:
            peak = _most(peak, _sum((sidecars, _of(one))))
    whole = _most(_sum((steady, sidecars)), peak)
    whole.update(_amounts(spec.resources.requests if spec.resources else None))
    whole = _sum((whole, _amounts(spec.overhead)))
    return _shared(tuple(sorted((key, value) for key, value in whole.items() if value)))


@lru_cache(maxsize=4096)
def _shared(found: Requests) -> Requests:
    return found


def _of(container: Container) -> Amounts:
    needs: ResourceNeeds | None = container.resources
    return _amounts(needs.requests if needs else None)


def _amounts(held: Mapping[str, str | int | float] | None) -> Amounts:
    found: Amounts = {}
    for key, text in (held or {}).items():
        if key not in _MARKERS:
            try:
                found[key] = parse(text)
            except BadQuantity:  # the API server took it, so it will count it somehow; we cannot
                continue
    return found


def _sum(several: Iterable[Amounts]) -> Amounts:
    found: Amounts = {}
    for one in several:
        for key, value in one.items():
            found[key] = found.get(key, 0) + value
    return found


def _most(first: Amounts, second: Amounts) -> Amounts:
    return {
        key: max(first.get(key, 0), second.get(key, 0))
        for key in (*first, *(k for k in second if k not in first))
    }
