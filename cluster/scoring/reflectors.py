"""Watches nodes and assigned pods while some scheduling policy scores, and only then.

Invariants
- `scoring()` is None unless some policy scores and both kinds have been listed since one does.
- `is_reading()` is true from the first policy that scores until both kinds have been listed, for
  `READING_SECONDS` at most: pods of a scoring policy wait as long, and not for what cannot be read.
- numpy is loaded, and the table made, when the first policy scores; the table goes when none does any more.
- `follow` is called by one thread at a time; `scoring()` may be called by any, and waits for nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from cluster.on_demand_reflectors import OnDemandReflectors, StartedReflector
from queues.policies.policy_set import PolicySet

if TYPE_CHECKING:  # numpy comes with it
    from cluster.scoring.node_scoring import NodeScoring

NODES, ASSIGNED_PODS = "nodes", "assigned-pods"
#: A field selector: pods with a node that have not ended.
ASSIGNED = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
#: 5,000 nodes and 100,000 pods are listed in less.
READING_SECONDS = 30.0


class ScoredKind(msgspec.Struct, frozen=True):
    """What a reflector is made of. `synced`: to be set while the kind has been listed and is watched."""

    kind: str
    path: str
    selector: str
    handler: Any
    synced: threading.Event


class _Scoring(msgspec.Struct, frozen=True):
    """What scores nodes, and what is set while nodes and pods have been listed for it."""

    scoring: Any
    events: tuple[threading.Event, ...]

    @property
    def synced(self) -> bool:
        return all(event.is_set() for event in self.events)


class ScoringReflectors:
    """Owner: the informers. `new_scoring` and `new_reflector` make what is needed, when it is.

    `reflectors`: starts and stops the watches.
    """

    def __init__(
        self,
        *,
        new_scoring: Callable[[], NodeScoring],
        new_reflector: Callable[[ScoredKind], StartedReflector],
        monotonic: Callable[[], float],
    ) -> None:
        self._monotonic = monotonic
        self._new_scoring = new_scoring
        self._new_reflector = new_reflector
        self._current: _Scoring | None = None
        #: When the first policy scored, in monotonic seconds; None while none does.
        self._since: float | None = None
        self.reflectors = OnDemandReflectors(self._new_reflectors)

    def is_reading(self) -> bool:
        """Whether nodes and pods are being read for policies that have begun to score."""
        since = self._since
        if since is None or self._monotonic() - since >= READING_SECONDS:
            return False
        return self.scoring() is None

    def scoring(self) -> NodeScoring | None:
        """What scores nodes now; None: nothing does, or the cluster has not been read for it yet."""
        current = self._current
        return current.scoring if current is not None and current.synced else None

    def follow(self, policies: PolicySet) -> None:
        """Start or stop the watches, as these policies need them."""
        if not policies.scores:
            self._current, self._since = None, None
        self.reflectors.follow(needed=policies.scores)

    def _new_reflectors(self) -> dict[str, StartedReflector]:
        if self._since is None:  # else the last try failed
            self._since = self._monotonic()
        # loads numpy
        from cluster.scoring.event_handlers import (  # noqa: PLC0415
            AssignedPodEventHandler,
            NodeEventHandler,
        )

        scoring = self._new_scoring()
        kinds = (
            ScoredKind(NODES, "/api/v1/nodes", "", NodeEventHandler(scoring.table), threading.Event()),
            ScoredKind(
                ASSIGNED_PODS,
                "/api/v1/pods",
                ASSIGNED,
                AssignedPodEventHandler(scoring.table),
                threading.Event(),
            ),
        )
        self._current = _Scoring(scoring, tuple(kind.synced for kind in kinds))
        return {kind.kind: self._new_reflector(kind) for kind in kinds}
