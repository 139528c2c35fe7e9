"""One queue's status, derived and written.

Invariants
- What is written follows from the object, the snapshot and the members alone; nothing is remembered
  that a restart would miss.
- Conditions, state and history are written as soon as they are looked at (see `workqueue`), or with
  what all replicas have to see first where that comes within `YOUNG_SECONDS`; counts alone at most once in
  `COUNT_SECONDS` a queue; what does not differ is not written.
- Nothing that users size delays an acknowledgement: what is counted is written apart where it is large, or
  was refused.
- The past is refused: while the store holds an older object than the one last written, the
  queue waits for its event.
- `Closed` is written only after the API server, asked anew, knows of no live member (`closing`); that it is
  stored already is believed of nobody, for status is written by hand too.
- An event is recorded only after the write that it tells of succeeded.
- Writes are sent by other threads, at most one a queue at a time; what came of them is received on the
  controller's thread.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import msgspec

from cluster.api.client import decode_response
from cluster.cache.changes import QueueChange
from cluster.objects import ChainLink, QueueObject, StopStatus
from controller.context import (
    QUEUES,
    ControllerContext,
    queue_subject,
)
from controller.drain.controller import DrainController
from controller.events import QueueEvents
from controller.status.closing import Close, ClosingChecks, closing_blocker
from controller.status.queue_status import (
    Counted,
    Drain,
    Known,
    current_status,
    desired_status,
    is_urgent,
    may_share,
    split_essential,
    status_patch,
)
from controller.status.status_conflicts import StatusConflicts
from controller.stops.acknowledgement import SpecsSeen, StopAcknowledgement
from controller.stops.pending_stops import Pending, PendingStops
from controller.stops.resume_at import resume_if_due
from queues.apimachinery.timestamps import rfc3339
from queues.drain.progress import drain_status as drained_status
from queues.drain.progress import drained_condition
from queues.states import State
from queues.status.acknowledgement import Obstacle
from queues.status.conditions import ACTIVE
from queues.text import truncated
from queues.verdict import Verdict

COUNT_SECONDS = 1.0
#: Two kinds of writes of one status: what is essential, alone; and what is counted, which may bring it along.
#: Each backs off by itself where the API server refuses it.
STATUS, COUNTS = "status", "counts"
#: How soon a stop that is not acknowledged yet, or a queue that is not empty yet, is looked at again.
ACKNOWLEDGE_SECONDS = 0.02
#: A stop this young is looked at more often, and that it does not hold yet is not worth a write: the other
#: replicas have seen it by then, and guards are on.
YOUNG_SECONDS, SOON_SECONDS = 0.05, 0.005
#: A stop that waits for longer than this says for what.
WAITING_SECONDS, WAITING_LIMIT = 2.0, 300
#: A status that could not be written over the object that we hold is not tried again over that one sooner.
FAILED_SECONDS = 0.2
EMPTY_SECONDS = 0.5

log = logging.getLogger(__name__)

_queue = msgspec.json.Decoder(QueueObject)


class QueueReconciler:
    """Owner: the controller's thread."""

    def __init__(
        self,
        context: ControllerContext,
        *,
        acknowledgement: StopAcknowledgement,
        draining: DrainController,
        pending_stops: PendingStops,
    ) -> None:
        self._context = context
        #: Queues with a write of their status under way.
        self._under_way: set[str] = set()
        self._acknowledgement = acknowledgement
        self._draining = draining
        self._queue_events = QueueEvents(context)
        self._conflicts = StatusConflicts(context)
        self._closing = ClosingChecks(context)
        self._uids: dict[str, str] = {}
        #: The state that we wrote last, by UID.
        self._states: dict[str, str] = {}
        self._written: dict[str, int] = {}
        #: Queues of which a write failed: the version that it was derived from, and when to try that one
        #: again.
        self._failed: dict[str, tuple[int, float]] = {}
        self._counted_at: dict[str, float] = {}
        #: Stops not acknowledged yet.
        self._pending_stops = pending_stops
        #: Queues of which somebody wanted something else while a status of theirs was being written.
        self._held_up: set[str] = set()
        #: The specs that a stop is acknowledged for, by queue (`QueueSnapshot.scope`).
        self._acknowledged: dict[str, str] = {}
        #: What a stop waits for, by queue.
        self._waiting_for: dict[str, str] = {}

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody waits for what becomes of a queue's members, or of the status being written."""
        return bool(self._pending_stops or self._held_up)

    def reconcile(self, queue: str, *, spec_changed: bool = False) -> float | None:
        """Derive and write; the seconds after which another look is wanted, if one is.

        `spec_changed`: what the queue is to be may have changed.
        """
        obj = self._context.store.queues.get(queue)
        if obj is None:
            self.forget(queue)
            return None
        self._uids[queue] = obj.metadata.uid
        failed, again_at = self._failed.get(queue, (0, 0.0))
        if failed == obj.metadata.version and (left := again_at - self._context.store.clock.monotonic()) > 0:
            return left
        if queue in self._under_way or obj.metadata.version < self._written.get(queue, 0):
            if spec_changed:
                self._held_up.add(queue)
            return None
        self._held_up.discard(queue)
        resume_if_due(obj, context=self._context)
        specs = self._acknowledgement.specs_seen(queue)
        verdict, again = self._verdict(obj)
        acknowledged = verdict.schedules or self._is_acknowledged(queue)
        if verdict.schedules:
            self._forget_stop(queue)
        seen = self._acknowledgement.all_have_seen(queue)
        if not (acknowledged and seen) and self._is_young(queue, specs):
            return SOON_SECONDS
        checked = verdict.accepts or self._is_checked(queue)
        if not (acknowledged and seen and checked):
            again = ACKNOWLEDGE_SECONDS
        status = desired_status(
            obj,
            verdict,
            self._counted(queue),
            known=Known(
                stop=acknowledged,
                told=self._stop(obj, verdict, acknowledged=acknowledged),
                scope="" if verdict.schedules else self._context.store.snapshot.scope(queue),
                seen=seen,
                below=checked,
            ),
            now=self._context.store.clock.now(),
            kept_by=closing_blocker(self._context.store, verdict),
            drain=self._drain(queue),
        )
        before = current_status(obj.status)
        difference = status_patch(status, before)
        if is_urgent(difference, before) and (held := self._conflicts.seconds_to_wait(obj, status)):
            return min(held, again) if again else held
        return self._write(obj, difference, again, at_once=is_urgent(difference, before))

    def _drain(self, queue: str) -> Drain | None:
        """How far its drain is; None where it does not drain, or not everybody below has been looked at."""
        own = self._draining.progress(queue)
        if own is None:
            return None
        found = [self._draining.progress(one) for one in self._context.store.snapshot.tree.subtree(queue)]
        known = [both[1] for both in found if both is not None]
        if len(known) < len(found):
            return None
        tally, report = own
        told = drained_status(tally, report, since=rfc3339(tally.since))
        return Drain(finding=drained_condition(queue, known), told=told)

    def _verdict(self, obj: QueueObject) -> tuple[Verdict, float | None]:
        store, queue = self._context.store, obj.metadata.name
        live = store.live_members_below(queue) > 0
        verdict = store.snapshot.verdict(queue, live=live)
        if verdict.state is not State.CLOSED:
            self._closing.forget(obj.metadata.uid)
            return verdict, None
        close = self._close(obj)
        empty = self._closing.is_empty(close)
        if empty:
            return verdict, None
        is_settled = self._acknowledgement.nothing_pending(queue)
        if is_settled is not False:
            if is_settled and self._acknowledgement.all_have_seen(queue):
                self._closing.request(close)
            if empty is None and self._is_said_to_be_closed(obj):
                return verdict, EMPTY_SECONDS
        again = max(EMPTY_SECONDS, self._closing.seconds_left(close))
        return store.snapshot.verdict(queue, live=True), again

    def _is_said_to_be_closed(self, obj: QueueObject) -> bool:
        """Whether it shows Closed by our own word, or that of who led before us: it stays until we know."""
        return obj.status.state == State.CLOSED == self._states.get(obj.metadata.uid, State.CLOSED)

    def _close(self, obj: QueueObject) -> Close:
        queue, snapshot = obj.metadata.name, self._context.store.snapshot
        below = snapshot.tree.subtree(queue)
        return Close(queue, obj.metadata.uid, snapshot.decision(queue).revision, below)

    def _is_checked(self, queue: str) -> bool:
        """Whether neither it nor a queue below shows the Closed of a former close, or of somebody else."""
        store = self._context.store
        held = [store.queues.get(name) for name in store.snapshot.tree.subtree(queue)]
        closed = [obj for obj in held if obj is not None and obj.status.state == State.CLOSED]
        return all(self._closing.is_empty(self._close(obj)) is not None for obj in closed)

    def _is_young(self, queue: str, specs: SpecsSeen) -> bool:
        stop = self._pending_stops.get(queue)
        at = specs.at if stop is None else max(specs.at, stop.at)
        return self._context.store.clock.monotonic() < at + YOUNG_SECONDS

    def _is_acknowledged(self, queue: str) -> bool:
        store = self._context.store
        snapshot, now = store.snapshot, store.clock.monotonic()
        scope = snapshot.scope(queue)
        if self._acknowledged.get(queue) == scope:
            return True
        self._acknowledged.pop(queue, None)
        stop = self._pending_stops.get(queue)
        if stop is None or stop.scope != scope:
            known_at = self._acknowledgement.known_at(snapshot.resource_version)
            stop = self._pending_stops[queue] = Pending(scope, snapshot.resource_version, known_at)
        obstacle = self._acknowledgement.obstacle(queue, since=stop.seen, at=stop.at)
        if obstacle is not None:
            self._wait_for(queue, obstacle, since=stop.at)
            return False
        self._pending_stops.pop(queue)
        self._waiting_for.pop(queue, None)
        self._acknowledged[queue] = scope
        self._context.metrics.acknowledgement.observe(now - stop.at)
        return True

    def _was_acknowledged(self, obj: QueueObject) -> bool:
        """Whether its status says so for the specs that there are now, by whoever led before us."""
        status = obj.status
        held, scope = status.condition(ACTIVE), self._context.store.snapshot.scope(obj.metadata.name)
        said = held is not None and held.status == "False" and status.stop is not None
        return said and status.stop is not None and status.stop.scope == scope

    def outdated_stops(self) -> set[str]:
        """The queues whose stop is acknowledged for other specs than there are now."""
        snapshot = self._context.store.snapshot
        return {queue for queue, scope in self._acknowledged.items() if snapshot.scope(queue) != scope}

    def _wait_for(self, queue: str, obstacle: Obstacle, *, since: float) -> None:
        """Say what a stop waits for, once it has waited for a while."""
        if self._context.store.clock.monotonic() < since + WAITING_SECONDS:
            return
        text = truncated(f"{obstacle.reason}: {obstacle.text}", limit=WAITING_LIMIT)
        if self._waiting_for.get(queue) != text:
            self._waiting_for[queue] = text
            log.warning("the stop of queue %s waits: %s", queue, text)

    def _stop(self, obj: QueueObject, verdict: Verdict, *, acknowledged: bool) -> StopStatus | None:
        """A text that is there already stays while it is of the same specs, whoever worded it."""
        if verdict.schedules:
            return None
        snapshot, queue = self._context.store.snapshot, obj.metadata.name
        decision = snapshot.decision(queue)
        chain = snapshot.tree.chain(queue).queues
        return StopStatus(
            revision=decision.revision,
            scope=snapshot.scope(queue) if acknowledged or self._was_acknowledged(obj) else "",
            queues=len(snapshot.tree.subtree(queue)),
            chain=[ChainLink(name=one.name, generation=one.generation) for one in chain],
            refusal=self._context.store.filter_message(decision),
            waiting_for="" if acknowledged else self._waiting_for.get(queue, ""),
        )

    def _write(
        self, obj: QueueObject, difference: dict[str, Any], again: float | None, *, at_once: bool
    ) -> float | None:
        if not difference:
            return again
        queue, now = obj.metadata.name, self._context.store.clock.monotonic()
        due = self._counted_at.get(queue, 0.0) + COUNT_SECONDS
        if not at_once and now < due:
            return _sooner(due - now, again)
        essential, counted = split_essential(difference)
        resting = self._context.writers.wait((COUNTS, queue)) if counted else 0.0
        if not essential and resting:
            return _sooner(resting, again)
        if essential and counted and (resting or not may_share(counted)):
            difference, again = essential, _sooner(resting or COUNT_SECONDS, again)
        what = STATUS if difference is essential or not counted else COUNTS
        if not self._submit(obj, difference, what=what, fenced=bool(essential)):
            return max(ACKNOWLEDGE_SECONDS, self._context.writers.wait((what, queue)))
        self._counted_at[queue] = now
        self._under_way.add(queue)
        return again

    def _submit(self, obj: QueueObject, difference: dict[str, Any], *, what: str, fenced: bool) -> bool:
        """Have it written; False if a former write of this queue is still under way, or was just refused.

        `fenced`: only over the object that it was derived from, for whoever derived it may lead no more.
        """
        queue = obj.metadata.name
        meta = {"uid": obj.metadata.uid}
        if fenced:
            meta["resourceVersion"] = obj.metadata.resource_version
        body = {"metadata": meta, "status": difference}
        path = f"{QUEUES}/{queue}/status"
        return self._context.submit(
            self._context.writers,
            (what, queue),
            lambda: decode_response(self._context.client.patch(path, body), _queue),
            partial(self._received, obj),
            rank=(0,),
            subject=queue_subject(obj),
            batched=True,
        )

    def send_questions(self) -> None:
        """Send the questions that the looks of this round came to."""
        self._closing.send()

    def _received(self, before: QueueObject, after: QueueObject | None) -> None:
        """The status was written over `before`; `after` is None if that failed."""
        queue, version = before.metadata.name, before.metadata.version
        self._under_way.discard(queue)
        self._context.work_queue.add_batched(queue, QueueChange.STATUS)
        if after is None:
            self._failed[queue] = (version, self._context.store.clock.monotonic() + FAILED_SECONDS)
            return
        self._failed.pop(queue, None)
        self._written[queue] = version = after.metadata.version
        self._states[after.metadata.uid] = after.status.state
        announce = partial(self._announce, before, after)
        self._context.store.backoff.attempt("announce", queue, announce, version=version)

    def _announce(self, before: QueueObject, after: QueueObject) -> None:
        self._conflicts.record_write(after)
        self._queue_events.record_changes(before, after)

    def _counted(self, queue: str) -> Counted:
        store = self._context.store
        groups = store.podgroups.counts(queue).by_phase()
        return Counted(
            pods=store.members.counts(queue), groups=groups, not_selected=store.pods_not_selected_of(queue)
        )

    def forget(self, queue: str) -> None:
        """It is gone."""
        self._forget_stop(queue)
        self._held_up.discard(queue)
        self._conflicts.forget(queue)
        uid = self._uids.pop(queue, "")
        self._closing.forget(uid)
        self._states.pop(uid, None)
        for memory in (self._written, self._counted_at, self._failed):
            memory.pop(queue, None)

    def _forget_stop(self, queue: str) -> None:
        self._acknowledgement.forget(queue)
        for memory in (self._pending_stops, self._acknowledged, self._waiting_for):
            memory.pop(queue, None)


def _sooner(seconds: float, again: float | None) -> float:
    return seconds if again is None else min(seconds, again)
