"""Queue objects of the API: what their status says, and what the rules in `queues` decide on them.

Read in this order: functions of one object (status, conditions, history); `QueueObjects`, all queues that
were read at one moment, with the decisions of the rules on them. `access.queue_reader` reads them.

Promises
- A spec is read as the server reads it (`queues.fields.reading`).
- Where the user may not list queues, a `QueueObjects` is not `complete`: ancestors that were not read count
  as Open in its decisions, and are not `is_known`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from copy import copy
from datetime import datetime
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from kubectl_queue.objects.fields import Object, condition_of, generation_of, name_of, spec_of, status_of
from queues import well_known
from queues.apimachinery.conversion import Converter
from queues.fields.reading import READ, read_queue
from queues.queue import ROOT, Queue
from queues.quota.given_back import GivenBack
from queues.snapshot import QueueSnapshot
from queues.states import Desired, State, own_state
from queues.status.changes import HistoryLine
from queues.status.closing import read_closing
from queues.status.conditions import ACTIVE
from queues.status.stop_status import (
    Acknowledgement,
    ObservedChain,
    QueueGeneration,
    read_acknowledgement,
)
from queues.tree import Tree
from queues.volcano_close import is_closed_by_volcano

_change = Converter[HistoryLine](HistoryLine)
_given_back = Converter[GivenBack](GivenBack)


def may_be_live(item: Object) -> bool:
    """Whether a member of the queue or of a queue below it may be live.

    No member is live if the status says Closed, or says Closing and that no live member is known.
    """
    state = status_of(item).get("state")
    if state != State.CLOSING:
        return state != State.CLOSED
    closing = read_closing(status_of(item).get("closing"))
    return closing is None or bool(closing.name)


class ParkedCounts(NamedTuple):
    """The pods of a queue that wait for it. `ungated`: without our gate, also those that wait for other
    reasons; `recreating`: those of them that are to be created again with it.
    """

    gated: int
    ungated: int
    recreating: int


def parked_counts(item: Object) -> ParkedCounts:
    """Those of the queue itself, by its status, which may be a second late. Of one that schedules: those that
    a stop would park.
    """
    pods = status_of(item).get("pods") or {}
    pending, gated, recreating = (int(pods.get(key) or 0) for key in ("pending", "gated", "recreating"))
    return ParkedCounts(gated, max(0, pending - gated), recreating)


def is_observed(item: Object) -> bool:
    """Whether the status is of the present spec."""
    return int(status_of(item).get("observedGeneration") or 0) >= generation_of(item)


def stop_acknowledgement(item: Object, *, chain: ObservedChain) -> Acknowledgement:
    """Whether the status says that the stop of the queue is acknowledged for the specs that were read.

    Only for a queue that does not schedule.
    """
    active = condition_of(item, ACTIVE)
    is_of_spec = int(active.get("observedGeneration") or 0) >= generation_of(item)
    return read_acknowledgement(
        stop=status_of(item).get("stop"),
        active_is_false=active.get("status") == "False" and is_of_spec,
        chain=chain,
    )


def changes_of(item: Object) -> tuple[HistoryLine, ...]:
    """The history of the queue, oldest change first; a line that cannot be read is left out.

    Admission writes the annotation with the edit, and the controller writes `status.changes` afterwards: so
    the annotation counts while the status is of an older spec.
    """
    in_status = _changes(status_of(item).get("changes"))
    if in_status and is_observed(item):
        return in_status
    return _changes(_annotated(item)) or in_status


def _annotated(item: Object) -> Any:
    text = (item["metadata"].get("annotations") or {}).get(well_known.CHANGES)
    try:
        return json.loads(text) if text else []
    except ValueError:
        return []


def _changes(lines: Any) -> tuple[HistoryLine, ...]:
    stored = lines if isinstance(lines, list) else []
    return tuple(change for line in stored for change in _readable(line))


def _readable(line: Any) -> tuple[HistoryLine, ...]:
    try:
        return (_change(line),)
    except msgspec.ValidationError:
        return ()


def given_back_of(item: Object) -> tuple[GivenBack, ...]:
    """What its pods gave back, or got, oldest line first; a line that cannot be read is left out."""
    quota = status_of(item).get("quota")
    stored = quota.get("givenBack") if isinstance(quota, dict) else None
    read = []
    for line in stored if isinstance(stored, list) else ():
        with suppress(msgspec.ValidationError):
            read.append(_given_back(line))
    return tuple(read)


class QueueObjects:
    """Queue objects by name as they were read at `now`, and `decisions`: what the rules decide on them."""

    def __init__(self, items: Iterable[Object], *, now: datetime, complete: bool = True) -> None:
        self.items: dict[str, Object] = {name_of(item): item for item in items}
        self.complete = complete
        self.now = now
        queues = {name: queue_of(item) for name, item in self.items.items()}
        self.tree = Tree(queues if complete else {**_unread_parents(queues), **queues})
        self.decisions = QueueSnapshot(self.tree, now=now)

    def with_item(self, item: Object, *, now: datetime) -> QueueObjects:
        """The same with `item` instead of the queue of its name."""
        name = name_of(item)
        return self.with_changes({**self.items, name: item}, (name,), now=now)

    def with_changes(
        self, items: Mapping[str, Object], changed: Collection[str], *, now: datetime
    ) -> QueueObjects:
        """The same as made anew of `items`, which differ from those that were read by `changed` alone.

        What was read and decided of the others is kept, where all queues were read.
        """
        if not self.complete:
            return QueueObjects(items.values(), now=now, complete=False)
        read = {name: queue_of(items[name]) for name in changed if name in items}
        gone = {name for name in changed if name not in items and name in self.items}
        newer = copy(self)
        newer.now, newer.items = now, dict(items)
        differing = gone | {name for name, queue in read.items() if self.tree.get(name) != queue}
        if differing:
            kept = {name: queue for name, queue in self.tree.queues.items() if name not in gone}
            newer.tree = Tree({**kept, **read})
        valid_until = self.decisions.valid_until
        if differing or (valid_until is not None and valid_until <= now):
            newer.decisions = QueueSnapshot.updated(self.decisions, newer.tree, changed=differing, now=now)
        return newer

    def at(self, now: datetime) -> QueueObjects:
        """The same at a later time, before which no stop ends by itself."""
        later = copy(self)
        later.now = now
        return later

    def branch(self, name: str) -> list[Object]:
        """The queue and all queues below it, as far as they were read, by name."""
        return [self.items[each] for each in sorted(self.tree.subtree(name)) if each in self.items]

    def from_top(self, name: str) -> list[Object]:
        """The branch with the queue itself first; it must have been read."""
        return [self.items[name], *(item for item in self.branch(name) if name_of(item) != name)]

    def chain(self, name: str) -> ObservedChain:
        """The generations of the specs on the queue's chain, as far as they were read."""
        queues = self.tree.chain(name).queues
        read = list(takewhile(self.is_known, queues))
        return ObservedChain(
            tuple(QueueGeneration(each.name, each.generation) for each in read), whole=read == list(queues)
        )

    def is_known(self, queue: Queue) -> bool:
        """Whether what the tree says of the queue was read."""
        return queue.name in self.items or (self.complete and queue.name == ROOT)

    def own_state(self, name: str) -> State:
        """The state that the queue would have without its ancestors: the column of the table of actions."""
        chain, live = self.tree.chain(name), may_be_live(self.items[name])
        queue, broken = chain.queues[0], chain.broken is not None
        desired = queue.own_desired_at(self.now)
        return own_state(desired, broken=broken, live=live, terminating=queue.terminating)


def queue_of(item: Object) -> Queue:
    """The queue as the rules take it; a field that cannot be read counts as absent, as on the server."""
    metadata = item["metadata"]
    spec, status = spec_of(item), status_of(item)
    if is_closed_by_volcano(
        name_of(item),
        spec_state=spec.get("state"),
        status_state=status.get("state"),
        is_ours=bool(status.get("conditions") or status.get("observedGeneration")),
        annotations=metadata.get("annotations"),
    ):
        spec = {**spec, "state": Desired.CLOSED}
    values = map(spec.get, READ)
    return read_queue(
        name_of(item),
        uid=str(metadata.get("uid", "")),
        generation=generation_of(item),
        values=values,
        terminating=bool(metadata.get("deletionTimestamp")),
        contact=(metadata.get("annotations") or {}).get(well_known.CONTACT),
    )


def _unread_parents(queues: Mapping[str, Queue]) -> dict[str, Queue]:
    return {queue.parent: Queue(name=queue.parent) for queue in queues.values() if queue.parent}
