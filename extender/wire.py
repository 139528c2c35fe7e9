"""The bodies of `k8s.io/kube-scheduler/extender/v1`.

Keys are Go field names; every field of an answer is present. What is only sent back stays bytes.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cluster.objects import Pod
from cluster.scoring.objects import ScoredPod

_NULL = msgspec.Raw(b"null")


class FilterArgs(msgspec.Struct, frozen=True, gc=False):
    """`ExtenderArgs`: a pod and the names of the nodes that fit it so far."""

    Pod: Pod
    NodeNames: list[str] | None = None
    Nodes: msgspec.Raw = _NULL


class FilterResult(msgspec.Struct, frozen=True, gc=False):
    """`ExtenderFilterResult`."""

    Nodes: None = None
    NodeNames: list[str] = []
    FailedNodes: dict[str, str] = {}
    FailedAndUnresolvableNodes: dict[str, str] = {}
    Error: str = ""


class MetaPod(msgspec.Struct, frozen=True, gc=False):
    """`MetaPod`: a victim by UID."""

    UID: str


class MetaVictims(msgspec.Struct, frozen=True, gc=False):
    """`MetaVictims`: the victims on one node."""

    Pods: list[MetaPod] | None = None
    NumPDBViolations: int = 0


class Victims(msgspec.Struct, frozen=True, gc=False):
    """`Victims`: the same as whole pods, which a scheduler without node cache sends."""

    Pods: list[Pod] | None = None
    NumPDBViolations: int = 0

    def meta(self) -> MetaVictims:
        pods = [MetaPod(pod.metadata.uid) for pod in self.Pods or ()]
        return MetaVictims(pods, self.NumPDBViolations)


class PreemptArgs(msgspec.Struct, frozen=True, gc=False):
    """`ExtenderPreemptionArgs`."""

    Pod: Pod
    NodeNameToVictims: dict[str, Victims] | None = None
    NodeNameToMetaVictims: dict[str, MetaVictims] | None = None

    def victims(self) -> dict[str, MetaVictims]:
        if self.NodeNameToMetaVictims:
            return self.NodeNameToMetaVictims
        return {node: victims.meta() for node, victims in (self.NodeNameToVictims or {}).items()}


class PreemptResult(msgspec.Struct, frozen=True, gc=False):
    """`ExtenderPreemptionResult`; a node that is left out is no candidate."""

    NodeNameToMetaVictims: dict[str, MetaVictims]


class PrioritizeArgs(msgspec.Struct, frozen=True, gc=False):
    """`ExtenderArgs` as prioritize reads it: the pod with what it prefers."""

    Pod: ScoredPod
    NodeNames: list[str] | None = None
    Nodes: msgspec.Raw = _NULL


class HostPriority(msgspec.Struct, frozen=True, gc=False):
    """`HostPriority`: a level from 0 to 10."""

    Host: str
    Score: int


filter_decoder = msgspec.json.Decoder(FilterArgs)
prioritize_decoder = msgspec.json.Decoder(PrioritizeArgs)
preempt_decoder = msgspec.json.Decoder(PreemptArgs)
_encoder = msgspec.json.Encoder()


def encode(answer: Any) -> bytes:
    return _encoder.encode(answer)
