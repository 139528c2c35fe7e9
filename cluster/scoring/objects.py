"""The fields of nodes and pods that scores read, and what they become in `queues.scoring`.

An amount that cannot be read counts as none. Of a pod's labels those count that the cache of members keeps
too (`cluster.cache.trimming`). Sources: `core/v1`; for what a container without requests
counts, `k8s.io/kubernetes/pkg/scheduler/util` (`DefaultMilliCPURequest`, `DefaultMemoryRequest`).
"""

from __future__ import annotations

import sys
from functools import lru_cache

import msgspec

from cluster.objects import Metadata, ResourceNeeds
from queues.apimachinery.pod_requests import (
    Requests,
    WrittenRequests,
    count_with_missing,
    count_written,
    is_shared,
    written_requests,
)
from queues.apimachinery.quantities import BadQuantity, parse_quantity
from queues.scoring.preferences import Affinity, NodeFacts, PodPlacement, SpreadConstraint, Taint, Toleration
from queues.scoring.requests import AMOUNT_LIMIT, ScoringRequest, request_of, whole_units
from queues.world.trimming import NAME, trim_labels

#: Images of a node that count. A kubelet reports the 50 largest unless it is told otherwise.
IMAGES_LIMIT = 1_000
#: Owners whose pods kube-scheduler spreads without being asked.
_SPREAD_OWNERS = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})
_DEFAULTS = (("cpu", "100m"), ("memory", "200Mi"))

WrittenAmounts = dict[str, str | int | float]


class _Wire(msgspec.Struct, frozen=True, rename="camel", kw_only=True, gc=False):
    """The common shape: camelCase on the wire, immutable here."""


class NodeTaints(_Wire, frozen=True):
    taints: tuple[Taint, ...] | None = None


class NodeImage(_Wire, frozen=True):
    names: list[str] | None = None
    size_bytes: int = 0


class NodeStatus(_Wire, frozen=True):
    allocatable: WrittenAmounts | None = None
    images: list[NodeImage] | None = None


class Node(_Wire, frozen=True):
    metadata: Metadata
    spec: NodeTaints = NodeTaints()
    status: NodeStatus = NodeStatus()

    def allocatable(self) -> dict[str, int]:
        """Whole units by resource."""
        units: dict[str, int] = {}
        for resource, text in (self.status.allocatable or {}).items():
            try:
                units[resource] = whole_units(resource, parse_quantity(text))
            except BadQuantity:
                continue
        return units

    def facts(self) -> NodeFacts:
        images: dict[str, int] = {}
        for image in (self.status.images or ())[:IMAGES_LIMIT]:
            for name in image.names or ():
                images[sys.intern(name)] = max(0, min(image.size_bytes, AMOUNT_LIMIT))
        return NodeFacts(
            labels=self.metadata.labels or {}, taints=tuple(self.spec.taints or ()), images=images
        )


class ScoredContainer(_Wire, frozen=True):
    image: str = ""
    resources: ResourceNeeds | None = None
    restart_policy: str | None = None


class ScoredPodSpec(_Wire, frozen=True):
    node_name: str = ""
    node_selector: dict[str, str] | None = None
    containers: list[ScoredContainer] | None = None
    init_containers: list[ScoredContainer] | None = None
    resources: ResourceNeeds | None = None
    overhead: WrittenAmounts | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    topology_spread_constraints: tuple[SpreadConstraint, ...] | None = None


class ScoredPodStatus(_Wire, frozen=True):
    phase: str = "Pending"


class ScoredPod(_Wire, frozen=True):
    metadata: Metadata
    spec: ScoredPodSpec = ScoredPodSpec()
    status: ScoredPodStatus = ScoredPodStatus()

    @property
    def ended(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    def requests(self) -> Requests:
        """Exactly, as the cache of members has them."""
        return self.amounts()[0]

    def request(self) -> ScoringRequest:
        return self.amounts()[1]

    def amounts(self) -> tuple[Requests, ScoringRequest]:
        """Both."""
        written = written_requests(self.spec)
        return _cached_amounts(written) if is_shared(written) else _amounts(written)

    def placement(self) -> PodPlacement:
        spec, meta = self.spec, self.metadata
        owner = None
        if meta.owner_references:
            owner = next((one for one in meta.owner_references if one.controller), None)
        return PodPlacement(
            namespace=meta.namespace,
            labels=trim_labels(meta.labels),
            spread_by=owner.uid[:NAME] if owner is not None and owner.kind in _SPREAD_OWNERS else "",
            node_selector=spec.node_selector or {},
            affinity=spec.affinity or Affinity(),
            tolerations=spec.tolerations or (),
            images=tuple(
                [container.image for container in (*(spec.init_containers or ()), *(spec.containers or ()))]
            ),
            spread=spec.topology_spread_constraints or (),
        )


def _amounts(written: WrittenRequests) -> tuple[Requests, ScoringRequest]:
    exact, padded = count_written(written), count_with_missing(written, _DEFAULTS)
    return exact, _request(exact, padded)


@lru_cache(maxsize=4096)
def _cached_amounts(written: WrittenRequests) -> tuple[Requests, ScoringRequest]:
    """Many pods are written alike."""
    return _amounts(written)


@lru_cache(maxsize=4096)
def _request(amounts: Requests, padded: Requests) -> ScoringRequest:
    """Many pods have the same requests, and share one object. Each is one of its node's `pods`, too."""
    return request_of((*amounts, ("pods", 1)), padded)
