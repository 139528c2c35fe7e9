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
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from queues.policies.policy_set import PolicySet

if TYPE_CHECKING:  # numpy comes with it
    from cluster.scoring.node_scoring import NodeScoring

NODES, ASSIGNED_PODS = "nodes", "assigned-pods"
#: A field selector: pods with a node that have not ended.
ASSIGNED = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


#: 5,000 nodes and 100,000 pods are listed in less.
READING_SECONDS = 30.0


class WatchedKind(msgspec.Struct, frozen=True):
    """What a reflector is made of. `synced`: to be set while the kind has been listed and is watched."""

    kind: str
    path: str
    selector: str
    handler: Any
    synced: threading.Event


class StartedReflector(Protocol):
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def retry_now(self) -> None: ...
    @property
    def has_died(self) -> bool: ...


class ScoringReflectors:
    """Owner: the informers. `new_scoring` and `new_reflector` make what is needed, when it is."""

    def __init__(
        self,
        *,
        new_scoring: Callable[[], NodeScoring],
        new_reflector: Callable[[WatchedKind], StartedReflector],
        monotonic: Callable[[], float],
    ) -> None:
        self._monotonic = monotonic
        self._new_scoring = new_scoring
        self._new_reflector = new_reflector
        self._lock = threading.Lock()
        self._stopped = False
        self._running: _Running | None = None
        #: When the first policy scored, in monotonic seconds; None while none does.
        self._since: float | None = None

    def is_reading(self) -> bool:
        """Whether nodes and pods are being read for policies that have begun to score."""
        since = self._since
        if since is None or self._monotonic() - since >= READING_SECONDS:
            return False
        return self.scoring() is None

    def scoring(self) -> NodeScoring | None:
        """What scores nodes now; None: nothing does, or the cluster has not been read for it yet."""
        running = self._running
        return running.scoring if running is not None and running.synced else None

    def follow(self, policies: PolicySet) -> None:
        """Start or stop the watches, as these policies need them."""
        with self._lock:
            if policies.scores and self._running is None and not self._stopped:
                self._since = self._monotonic()
                self._running = self._start()
            elif not policies.scores:
                self._stop()

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            self._stop()

    def retry_now(self) -> None:
        """End the back-offs that are under way: the API server answers again."""
        running = self._running
        for reflector in running.reflectors.values() if running is not None else ():
            reflector.retry_now()

    def dead(self) -> list[str]:
        """The names of the threads that were started and have ended."""
        running = self._running
        if running is None:
            return []
        return [f"reflector-{kind}" for kind, reflector in running.reflectors.items() if reflector.has_died]

    def _start(self) -> _Running:
        # loads numpy
        from cluster.scoring.event_handlers import (  # noqa: PLC0415
            AssignedPodEventHandler,
            NodeEventHandler,
        )

        scoring = self._new_scoring()
        kinds = (
            WatchedKind(NODES, "/api/v1/nodes", "", NodeEventHandler(scoring.table), threading.Event()),
            WatchedKind(
                ASSIGNED_PODS,
                "/api/v1/pods",
                ASSIGNED,
                AssignedPodEventHandler(scoring.table),
                threading.Event(),
            ),
        )
        reflectors = {kind.kind: self._new_reflector(kind) for kind in kinds}
        for reflector in reflectors.values():
            reflector.start()
        return _Running(scoring, reflectors, tuple(kind.synced for kind in kinds))

    def _stop(self) -> None:
        running, self._running, self._since = self._running, None, None
        for reflector in running.reflectors.values() if running is not None else ():
            reflector.stop()


class _Running(msgspec.Struct, frozen=True):
    scoring: Any
    reflectors: dict[str, StartedReflector]
    events: tuple[threading.Event, ...]

    @property
    def synced(self) -> bool:
        return all(event.is_set() for event in self.events)
