"""Writes both edges of change windows into `spec.inWindow` (`queues.windows`).

Verdicts read that and no clock, so a window stops and lets go of its queue by these writes, as any edit does.

| the queue, at this moment                                 | what the leader does                         |
|-----------------------------------------------------------|----------------------------------------------|
| a window begins or ends                                   | writes which are on, over the version read   |
| several do, or one ends where another begins              | one write                                    |
| a window is on and ends within a minute                   | event WindowMissed, once                     |
| an occurrence would begin that an override leaves out     | event WindowSkipped                          |
| a window begins within setting `window_soon`              | event WindowSoon, once                       |
| a write met a conflict                                    | looks again, at the newer queue              |
| shows other windows than before, whoever wrote them       | events WindowStarted and WindowEnded         |

Invariants
- A queue is looked at when its spec has changed, and at the next moment at which something may change: a
  thousand queues cost nothing in between. The calendars of a thousand queues that are new are read in
  slices, so that no other part of the controller waits for them.
- A calendar is read again only where its windows or overrides have changed: what was worked out of it
  (`queues.windows.window.Known`) is kept over edges and other edits.
- As many edges as `writers` has threads are under way at once, one of each queue. One that is refused backs
  off by itself, and looks again. Statuses of queues with an edge give way to them (`edge_hold`).
- What is remembered says only when to look. A restart, or another leader, writes the same.
- A replica that does not lead writes nothing and keeps the times: `overdue` counts what a leader should have
  written by now. Without one a window stays as it is.
- An edge is a write by field manager `well_known.EDGES`, which our webhooks are not asked about: it changes
  `inWindow` and nothing else, over the version that it was decided by, and has its line of history. To ask
  them, and to judge it, would take as long as the write itself.
- Times are the API server's.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from cluster.cache.changes import NO_QUEUE, QueueChange, StoreChange
from cluster.cache.queues import queue_from_object
from cluster.objects import QueueObject, QueueSpec
from cluster.write_ranks import WriteRank
from controller.context import QUEUES, ControllerContext, queue_subject
from controller.parts import Part
from controller.requests import RequestState
from controller.stops.edge_hold import EdgeHold
from queues import well_known
from queues.apimachinery.timestamps import rfc3339
from queues.status.changes import changes_between, history_text, parse_history
from queues.text import printable
from queues.windows.edges import Calendar, next_look, read_calendar, settle, skipped_between
from queues.windows.entries import CurrentWindow, read_entries, to_wire
from queues.windows.in_window import Happened, WindowChange, overdue
from queues.windows.rules import windows_on
from queues.windows.soon import next_soon, soon
from queues.windows.stops import WindowStop, read_stops, what_it_sets
from queues.windows.texts import author, length

#: The events for an occurrence that is left out, and for one that begins soon.
SKIPPED, SOON = "WindowSkipped", "WindowSoon"
#: How soon a queue is looked at again after a write that met a conflict.
RETRY_SECONDS = 0.5
#: For so long calendars are read in one sync, and edges are looked for; the others follow in the next one, at
#: once. A thousand queues that begin together are more urgent than a thousand that are new.
READ_SECONDS, LOOK_SECONDS = 0.05, 0.5
#: A heap has so many outdated entries at least before it is built again.
_MIN_OUTDATED = 64


class _Queue(msgspec.Struct, kw_only=True):
    """What is remembered of a queue that has windows. `looked_at`: None before the first look."""

    revision: tuple[str, int]
    #: Of the fields that the calendar was read from.
    digest: bytes
    calendar: Calendar
    written: tuple[CurrentWindow, ...]
    stops: Mapping[str, WindowStop]
    looked_at: datetime | None = None
    missed: frozenset[tuple[str, datetime]] = frozenset()
    #: Of which beginnings it was said that they come soon.
    soon: frozenset[tuple[str, datetime]] = frozenset()


class ChangeWindows(Part):
    """Owner: the controller's thread."""

    name = "windows"

    def __init__(self, context: ControllerContext, *, hold: EdgeHold) -> None:
        """`hold`: is told of the edges."""
        self._context = context
        self._store = context.store
        self._hold = hold
        self._queues: dict[str, _Queue] = {}
        #: When each queue is to be looked at, and the heap of these; what differs from it is outdated.
        self._due: dict[str, datetime] = {}
        self._heap: list[tuple[datetime, int, str]] = []
        self._numbers = itertools.count()
        #: Queues whose spec is to be read anew, in the order of their changes.
        self._changed: dict[str, None] = {}
        #: The edges that are written, by queue.
        self._edges = context.requests.table("Queue", "edge", RequestState)

    def record(self, changes: Mapping[str, Iterable[StoreChange]]) -> None:
        """The specs of some of these queues may have changed."""
        for queue, of_queue in changes.items():
            if queue != NO_QUEUE and (QueueChange.SPEC in of_queue or QueueChange.RESYNC in of_queue):
                self._changed[queue] = None

    @property
    def due(self) -> float:
        """When the next step is due, in monotonic seconds."""
        clock = self._store.clock
        if self._changed:
            return clock.monotonic()
        self._drop_outdated()
        if not self._heap:
            return math.inf
        return clock.monotonic() + max(0.0, (self._heap[0][0] - clock.now()).total_seconds())

    def stand_by(self, changes: Mapping[str, Iterable[StoreChange]]) -> None:
        """Read what has changed, so that the edges of a lost leader are known to be overdue."""
        self.record(changes)
        self._read_changed(leads=False)

    def step(self) -> None:
        """Read what has changed, and write the edges that are due; some of both, where they are many."""
        self._read_changed(leads=True)
        clock = self._store.clock
        until = clock.monotonic() + LOOK_SECONDS
        self._drop_outdated()
        while self._heap and self._heap[0][0] <= clock.now() and clock.monotonic() < until:
            _, _, queue = heapq.heappop(self._heap)
            self._due.pop(queue, None)
            self._attempt(queue, partial(self._look, queue))
            self._drop_outdated()

    def _read_changed(self, *, leads: bool) -> None:
        clock = self._store.clock
        until = clock.monotonic() + READ_SECONDS
        while self._changed and clock.monotonic() < until:
            queue = next(iter(self._changed))
            del self._changed[queue]
            self._attempt(queue, partial(self._read, queue, leads=leads))

    def _attempt(self, queue: str, work: Callable[[], object]) -> None:
        """A queue that fails holds up no other: it is looked at again after a back-off."""
        self._store.backoff.attempt("windows", queue, work, queue=queue)

    def overdue(self) -> int:
        """How many windows should have been begun or ended by now, and were not."""
        now = self._store.clock.now()
        late = [queue for queue, at in self._due.items() if at <= now]
        known = (self._queues[queue] for queue in late if queue in self._queues)
        return sum(overdue(each.calendar.given, each.written, now) for each in known)

    def begin_term(self) -> None:
        """Look at all queues: another leader may have written edges, and said what was left out."""
        now = self._store.clock.now()
        for queue, known in self._queues.items():
            known.looked_at = None
            self._schedule(queue, now)

    # Reading

    def _read(self, queue: str, *, leads: bool) -> None:
        obj = self._store.queues.get(queue)
        if obj is None or not (obj.spec.windows or obj.spec.in_window):
            self._forget(queue, obj, leads=leads)
            return
        known = self._queues.get(queue)
        revision = obj.metadata.uid, obj.metadata.generation
        if known is not None and known.revision == revision:
            if queue not in self._due and not self._edges.is_sent(queue):
                self._schedule(queue, self._store.clock.now())
            return
        spec = windows_in_wire_form(obj.spec)
        digest = _digest(spec)
        is_same = known is not None and known.digest == digest
        read = _Queue(
            revision=revision,
            digest=digest,
            calendar=known.calendar if known is not None and is_same else read_calendar(spec),
            written=read_entries(obj.spec.in_window),
            stops={stop.name: stop for stop in read_stops(obj.spec.windows)},
        )
        if known is not None and known.revision[0] == revision[0]:
            read.looked_at, read.missed, read.soon = known.looked_at, known.missed, known.soon
            if leads:
                self._record_edges(obj, known, read)
        self._queues[queue] = read
        self._schedule(queue, self._store.clock.now())

    def _forget(self, queue: str, obj: QueueObject | None, *, leads: bool) -> None:
        known = self._queues.pop(queue, None)
        self._due.pop(queue, None)
        if known is not None and obj is not None and leads and known.revision[0] == obj.metadata.uid:
            none = msgspec.structs.replace(known, written=(), stops={})
            self._record_edges(obj, known, none)

    def _record_edges(self, obj: QueueObject, before: _Queue, after: _Queue) -> None:
        """The events of what is on now and was not before, and the other way round."""
        was = {(each.name, each.start): each for each in before.written}
        now_on = {(each.name, each.start): each for each in after.written}
        for key in was.keys() - now_on.keys():
            text = f"window {printable(key[0])} has ended"
            if was[key].until > self._store.clock.now():
                text += f" before its time, which was {rfc3339(was[key].until)}"
            self._record(obj, Happened.ENDED, text)
        for key in now_on.keys() - was.keys():
            stop = after.stops.get(key[0])
            sets = what_it_sets(stop) if stop is not None else "nothing"
            why = f" ({stop.reason})" if stop is not None and stop.reason else ""
            text = f"window {printable(key[0])} is on until {rfc3339(now_on[key].until)}: {sets}{why}"
            self._record(obj, Happened.STARTED, text)

    # Writing

    def _look(self, queue: str) -> None:
        obj, known = self._store.queues.get(queue), self._queues.get(queue)
        if obj is None or known is None or self._edges.is_sent(queue):
            return
        if known.revision != (obj.metadata.uid, obj.metadata.generation):
            return  # its change is on its way
        now = self._store.clock.now()
        found = settle(known.calendar, known.written, now)
        self._record_missed(obj, known, found.changes, now)
        self._record_skipped(obj, known, now)
        self._record_soon(obj, known, now)
        known.looked_at = now
        if found.entries != known.written:
            self._write(obj, found.entries, found.changes)
        elif (at := self._next_look(known, now)) is not None:
            self._schedule(queue, at)

    def _next_look(self, known: _Queue, now: datetime) -> datetime | None:
        times = [next_look(known.calendar, known.written, now)]
        if self._context.window_soon:
            times.append(next_soon(known.calendar.given, now, self._context.window_soon))
        return min((at for at in times if at is not None), default=None)

    def _write(
        self, obj: QueueObject, entries: tuple[CurrentWindow, ...], changes: tuple[WindowChange, ...]
    ) -> None:
        queue = obj.metadata.name
        ended = self._context.requests.of_term(self._end_write)

        def receive(written: bool | None) -> None:
            if not written:
                self._hold.refused(queue)
            ended(queue)

        body = edge_patch(obj, entries, changes, now=self._store.clock.now())
        self._hold.submitted(obj)
        taken = self._context.submit(
            self._context.writers,
            ("windows", obj.metadata.uid),
            partial(self._send, queue, body),
            receive,
            rank=WriteRank.STOP,
            queue=queue,
            subject=queue_subject(obj),
            batched=True,
        )
        if taken:
            self._edges.send(queue)
        else:
            self._hold.refused(queue)
            self._schedule(queue, self._store.clock.now(), seconds=RETRY_SECONDS)

    def _send(self, queue: str, body: dict[str, Any]) -> bool:
        self._hold.sent(queue)
        self._context.client.patch(f"{QUEUES}/{queue}", body, fieldManager=well_known.EDGES)
        return True

    def _end_write(self, queue: str) -> None:
        """Written or not, the queue is looked at again: a stored edge comes back as a change of the spec."""
        self._edges.forget(queue)
        self._schedule(queue, self._store.clock.now(), seconds=RETRY_SECONDS)

    def _record_missed(
        self, obj: QueueObject, known: _Queue, changes: tuple[WindowChange, ...], now: datetime
    ) -> None:
        names = {change.window for change in changes if change.what == Happened.MISSED}
        if not names:
            return
        for on in windows_on(known.calendar.given, now):
            key = on.window.name, on.until
            if on.window.name in names and key not in known.missed:
                known.missed = frozenset({*(each for each in known.missed if each[1] > now), key})
                text = (
                    f"window {printable(on.window.name)} began at {rfc3339(on.since)} and ends at "
                    f"{rfc3339(on.until)}: nobody wrote that in time, and it stops nothing any more"
                )
                self._record(obj, Happened.MISSED, text, warning=True)

    def _record_skipped(self, obj: QueueObject, known: _Queue, now: datetime) -> None:
        if known.looked_at is None:
            return
        for override in skipped_between(known.calendar, known.looked_at, now):
            why = f" ({printable(override.reason)})" if override.reason else ""
            text = f"window {printable(override.window)} does not begin at {rfc3339(override.start)}, as "
            self._record(obj, SKIPPED, f"{text}spec.windowOverrides says{why}")

    def _record_soon(self, obj: QueueObject, known: _Queue, now: datetime) -> None:
        within = self._context.window_soon
        if not within:
            return
        known.soon = frozenset(each for each in known.soon if each[1] > now)
        for occurrence in soon(known.calendar.given, now, within):
            key = occurrence.window, occurrence.start
            if key in known.soon:
                continue
            known.soon |= {key}
            stop = known.stops.get(occurrence.window)
            sets = what_it_sets(stop) if stop is not None else "nothing"
            why = f" ({stop.reason})" if stop is not None and stop.reason else ""
            text = f"window {printable(occurrence.window)} begins at {rfc3339(occurrence.start)}, in "
            text += f"{length(occurrence.start - now)}, until {rfc3339(occurrence.end)}: {sets}{why}"
            self._record(obj, SOON, text)

    def _record(self, obj: QueueObject, reason: str, message: str, *, warning: bool = False) -> None:
        self._context.recorder.record(
            queue_subject(obj), reason=reason, message=message, warning=warning, repeat_after=0.0
        )

    # Times

    def _schedule(self, queue: str, at: datetime, *, seconds: float = 0.0) -> None:
        when = at + timedelta(seconds=seconds)
        self._due[queue] = when
        heapq.heappush(self._heap, (when, next(self._numbers), queue))
        if len(self._heap) > 2 * len(self._due) + _MIN_OUTDATED:
            self._heap = [(each, next(self._numbers), name) for name, each in self._due.items()]
            heapq.heapify(self._heap)

    def _drop_outdated(self) -> None:
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)


def edge_patch(
    obj: QueueObject, entries: tuple[CurrentWindow, ...], changes: tuple[WindowChange, ...], *, now: datetime
) -> dict[str, Any]:
    """Which windows are on, for the Queue of this resource version only; with the history, which names the
    windows, as the webhook writes it for other edits.
    """
    names = dict.fromkeys(change.window for change in changes if change.what != Happened.MISSED)
    in_window = to_wire(entries) or None
    was = queue_from_object(obj)
    after = queue_from_object(
        msgspec.structs.replace(obj, spec=msgspec.structs.replace(obj.spec, in_window=in_window))
    )
    lines = changes_between(was, after, by=author(", ".join(names)), reason=after.reason, at=now)
    history = [*parse_history(obj.metadata.annotation(well_known.CHANGES)), *lines]
    return {
        "metadata": {
            "resourceVersion": obj.metadata.resource_version,
            "annotations": {well_known.CHANGES: history_text(history)},
        },
        "spec": {"inWindow": in_window},
    }


def windows_in_wire_form(spec: QueueSpec) -> dict[str, Any]:
    """What `read_calendar` takes."""
    return {"windows": spec.windows, "windowOverrides": spec.window_overrides}


def _digest(spec: Mapping[str, Any]) -> bytes:
    """Of text that may be anything: half of a surrogate pair, too."""
    return hashlib.blake2s(repr(spec).encode("utf-8", "backslashreplace"), digest_size=16).digest()
