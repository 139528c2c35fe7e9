"""The scheduling policies of a ConfigMap that was admitted and that we have not seen stored yet.

One manifest may contain policies and the queues that name them: these follow a few milliseconds later.

Invariants
- The latest admitted ConfigMap counts until the watch brings a change of the policies (that one, as a rule),
  but for `SECONDS` at most: one that another webhook denied is never stored.
- Only the names are kept: they spare a user a warning. What is stored decides which policy counts.
- A dry run is never recorded.
- A ConfigMap that another replica admitted is not known here.

Threads: only request handlers write, by one assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from cluster.inflight.queue_edits import SECONDS


class _Admitted(msgspec.Struct, frozen=True):
    """The names. `changes`: how often the policies had changed here by then; `at`: monotonic seconds."""

    names: frozenset[str]
    changes: int
    at: float


class PendingPolicies:
    """The names of the policies that are about to be stored. See the invariants above."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._latest: _Admitted | None = None

    def record(self, names: Iterable[str], *, changes: int) -> None:
        """Record that a ConfigMap with policies of these names, and no others, is about to be stored."""
        self._latest = _Admitted(frozenset(names), changes, self._clock())

    def is_coming(self, name: str, *, changes: int) -> bool:
        """Whether such a policy is about to be stored. `changes`: how often they have changed here by now."""
        latest = self._latest
        return (
            latest is not None
            and latest.changes == changes
            and self._clock() < latest.at + SECONDS
            and name in latest.names
        )
