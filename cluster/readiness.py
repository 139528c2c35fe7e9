"""Whether answers from the store may be relied upon.

They may while three conditions hold: every kind has been listed and is watched, the definitions of our own
kinds serve the fields that we need, and the Lease of this replica is valid. Each condition is reported here:
the reflectors set the events of their kinds, `cluster.informers.crd_fields` writes the faults of definitions,
`cluster.coordination.replicas` extends the Lease. The store reads them.

Threads: any may read. One thread reports each condition.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Protocol


class Readiness(Protocol):
    """The part of the readiness that the store reads."""

    @property
    def synced(self) -> bool:
        """Whether answers may be relied upon now; read for every request."""

    @property
    def cut_off(self) -> bool:
        """Whether answers could be relied upon once and no longer can."""


class LeaseValidity:
    """Until when the Lease of this replica is valid, in monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until = 0.0
        #: Set once this replica has held its Lease for the first time.
        self.held = threading.Event()

    @property
    def valid(self) -> bool:
        return self._clock() < self._until

    def extend(self, until: float) -> None:
        self._until = until

    def end(self) -> None:
        self._until = 0.0


class ClusterReadiness:
    """The readiness of a server. Owner: the server."""

    def __init__(self, kinds: Iterable[str], *, clock: Callable[[], float]) -> None:
        #: By kind: set while the kind has been listed and is watched.
        self.kinds = {kind: threading.Event() for kind in kinds}
        #: The faults of the definitions of our own kinds, by the definition's name.
        self.definition_faults: dict[str, str] = {}
        self.lease = LeaseValidity(clock)
        self._are_synced = tuple(event.is_set for event in self.kinds.values())

    @property
    def reflected(self) -> bool:
        """Whether every kind is in sync and every definition serves the fields that we need."""
        return not self.definition_faults and all(is_set() for is_set in self._are_synced)

    @property
    def synced(self) -> bool:
        return self.reflected and self.lease.valid

    @property
    def cut_off(self) -> bool:
        return self.lease.held.is_set() and (not self.lease.valid or bool(self.definition_faults))

    def missing(self) -> list[str]:
        """Return one line for each condition that does not hold yet."""
        lines = [f"{kind} have not been read yet" for kind, event in self.kinds.items() if not event.is_set()]
        lines += [self.definition_faults[name] for name in sorted(self.definition_faults.copy())]
        return lines if self.lease.valid else [*lines, "our Lease is not held"]
