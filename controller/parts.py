"""What the controller's thread runs: parts, one after the other (`controller.controller`).

Invariants
- All that the controller calls of a part is here. A part that is in the tuple has its changes recorded, its
  due time considered, its steps taken, and its memory of a former term dropped: no second list says so.
- All methods run on the controller's thread. None of them waits for an answer of the API server.
- `record` comes before `step` in each sync in which this replica leads, whether the step backs off or not. If
  it fails, the whole sync is tried again: what later parts rely on is begun there.
- A step that raises stops no other part. It is tried again after a back-off, or once `due` comes later.
- `begin_term` comes before the first step of a term, and when a term ends: whatever another leader may have
  changed meanwhile is not remembered any more. Requests are forgotten for all parts in one place
  (`controller.requests`). What belongs to this replica and not to its term is kept:
  admissions, binds, the probes of other parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping

from cluster.cache.changes import NO_QUEUE, StoreChange
from cluster.cache.store import Store
from cluster.object_reference import ObjectReference


class Part:
    """A part of the controller. Each method does nothing unless the part says otherwise."""

    #: What back-offs, failures and metrics call its steps.
    name = ""

    @property
    def due(self) -> float:
        """When `step` is due though nothing changes, in monotonic seconds; infinity: never."""
        return math.inf

    def record(self, changes: Mapping[str, Iterable[StoreChange]]) -> None:
        """What has changed by queue, before each step: the changes of this sync, and what earlier parts have
        added to them.
        """

    def step(self) -> Collection[str] | None:
        """Do what is due while this replica leads. Returns queues whose status is to be looked at in this
        sync, by the parts after this one.
        """

    def stand_by(self, changes: Mapping[str, Iterable[StoreChange]]) -> None:
        """In place of `record` and `step` while another replica leads."""

    def begin_term(self) -> None:
        """Forget what another leader may have changed: a term begins, or has ended."""

    def forget_queue(self, queue: str) -> None:
        """Forget a queue that does not exist any more."""

    def resync(self) -> None:
        """Every `RESYNC_SECONDS`, on each replica: forget objects that do not exist any more."""


def attempt(
    store: Store,
    name: str,
    work: Callable[[], object],
    *,
    queue: str = NO_QUEUE,
    subject: ObjectReference | None = None,
) -> bool:
    """Do a step, of a queue or of none, unless it backs off. Returns whether it was done without a failure.

    Once the specs that concern the queue have changed, it is tried at once. `subject`: has the event of a
    failure.
    """
    snapshot = store.snapshot
    version = snapshot.decision(queue).revision if queue in snapshot.tree else ""
    return store.backoff.attempt(name, queue, work, version=version, queue=queue, subject=subject)
