"""Detects other writers of a queue's status: names them in an event, and has the status written again.

The controller derives a status, and overwrites what others write there. If a client writes once, the event
says what to do instead. If a client writes again and again, it is a second queue controller, most likely
Volcano's own, and the event says how to switch it off.

Invariants
- A conflict needs a status that we wrote, and a later version of the same object with another one. So a
  start, a change of leader and a queue that is created again raise no alarm.
- A status that says something new waits for the other writer's name alone, for at most `AUTHOR_SECONDS`.
  Writing the same status again waits with a back-off (`REWRITE`), and for the name for at most
  `SAME_AUTHOR_SECONDS`, so that a slow API server can still name the writer.
- Differences in counts are ignored.
- A conflict ends after `QUIET_SECONDS` without a foreign write.
"""

from __future__ import annotations

import logging
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from cluster.api.client import decode_response
from cluster.backoff import Backoff
from cluster.cache.changes import QueueChange
from cluster.exceptions import ClusterError
from cluster.objects import EPOCH, QueueObject
from cluster.write_ranks import WriteRank
from controller.context import (
    QUEUES,
    ControllerContext,
    queue_subject,
)
from controller.status.queue_status import current_status

#: What the API server calls us in `managedFields`: the start of our User-Agent.
OURSELVES = "sluice"
SOMEBODY = "somebody"
#: From this number of foreign writes in a row on, it is a second controller.
RIVALRY = 3
#: From the second time in a row, the wait before our status is written again.
REWRITE = Backoff(0.5, 30.0)
#: Well above the longest wait, or every conflict would seem to end.
QUIET_SECONDS = 120.0
#: Seconds between two log lines of one manager.
LOG_AGAIN_SECONDS = 300.0
#: Our next write hides the previous writer, so it waits for that name: these seconds at most.
AUTHOR_SECONDS, SAME_AUTHOR_SECONDS = 0.5, 5.0
#: Managers whose log line is remembered.
MAX_LOGGED = 100

log = logging.getLogger(__name__)


class WrittenStatus(msgspec.Struct, frozen=True):
    """The status of a queue as we left it."""

    uid: str
    version: int
    status: dict[str, Any]


class Contest(msgspec.Struct, frozen=True):
    """Foreign writes in a row: how many, who made the last one, in which version and when (monotonic).

    `until`: when the same status is written again.
    """

    times: int = 0
    manager: str = ""
    version: int = 0
    at: float = 0.0
    until: float = 0.0

    def next(self, manager: str, *, version: int, now: float) -> Contest:
        times = 1 if now - self.at > QUIET_SECONDS else self.times + 1
        return Contest(times, manager, version, now, now + REWRITE.seconds(times - 1))

    @property
    def is_rivalry(self) -> bool:
        return self.times >= RIVALRY


class Author(msgspec.Struct, frozen=True):
    """Who wrote a version. `asked_at`: when we asked, monotonic. `manager`: "" until there is an answer."""

    version: int
    asked_at: float
    manager: str = ""


class ManagedFieldsEntry(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of `managedFields`."""

    manager: str = ""
    time: datetime | None = None
    fields_v1: dict[str, object] = msgspec.field(default_factory=dict, name="fieldsV1")


class Owned(msgspec.Struct, frozen=True, rename="camel"):
    managed_fields: list[ManagedFieldsEntry] = []


class OwnedObject(msgspec.Struct, frozen=True):
    """An object of which only `managedFields` is read."""

    metadata: Owned = Owned()


_owners = msgspec.json.Decoder(OwnedObject)


class _QueueWrites(msgspec.Struct):
    """What is remembered of one queue: our last write, the conflict over it, and the last foreign writer."""

    written: WrittenStatus | None = None
    contest: Contest = Contest()
    author: Author | None = None


class StatusConflicts:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._writes: dict[str, _QueueWrites] = {}
        #: When a manager was logged last (monotonic).
        self._logged: dict[str, float] = {}

    def record_write(self, obj: QueueObject) -> None:
        """Remember the result of a write of ours."""
        writes = self._writes.setdefault(obj.metadata.name, _QueueWrites())
        writes.written = WrittenStatus(obj.metadata.uid, obj.metadata.version, current_status(obj.status))

    def forget(self, queue: str) -> None:
        self._writes.pop(queue, None)

    def seconds_to_wait(self, obj: QueueObject, status: dict[str, Any]) -> float:
        """Return the seconds to wait before `status` is written over another writer's change; 0 without such
        a change. Records the event.
        """
        queue, now = obj.metadata.name, self._context.store.clock.monotonic()
        writes = self._writes.get(queue)
        if writes is None or writes.written is None or not changed_by_others(writes.written, obj):
            return 0.0
        is_new, contest = says_something_new(status, writes.written), writes.contest
        if contest.version == obj.metadata.version or (now < contest.until and not is_new):
            return 0.0 if is_new else max(0.0, contest.until - now)
        limit = AUTHOR_SECONDS if is_new else SAME_AUTHOR_SECONDS
        manager = contest.manager if contest.is_rivalry else self._author(obj, writes, now, limit=limit)
        if not manager:
            asked_at = writes.author.asked_at if writes.author is not None else now
            return asked_at + limit - now
        if manager == OURSELVES:
            writes.written = None
            return 0.0
        contest = writes.contest = contest.next(manager, version=obj.metadata.version, now=now)
        self._record_event(obj, contest)
        return 0.0 if is_new else contest.until - now

    def _author(self, obj: QueueObject, writes: _QueueWrites, now: float, *, limit: float) -> str:
        """The last writer of the status; "" while a request for it is under way, for at most `limit`
        seconds.
        """
        queue, version = obj.metadata.name, obj.metadata.version
        author = writes.author
        if author is None or author.version != version:
            # Another foreign write before the answer does not restart the wait.
            is_waiting = author is not None and not author.manager
            author = writes.author = Author(version, author.asked_at if author and is_waiting else now)
            self._context.submit(
                self._context.status_writers,
                ("author", queue),
                partial(self._read_author, queue),
                partial(self._receive_author, queue, author),
                rank=WriteRank.STOP,
            )
        if author.manager or now < author.asked_at + limit:
            return author.manager
        writes.author = msgspec.structs.replace(author, manager=SOMEBODY)
        return SOMEBODY

    def _read_author(self, queue: str) -> str:
        """In another thread."""
        try:
            stored = decode_response(self._context.client.get(f"{QUEUES}/{queue}"), _owners)
        except ClusterError as exc:
            log.info("who wrote the status of queue %s cannot be read: %s", queue, exc)
            return SOMEBODY
        return last_writer(stored.metadata.managed_fields)

    def _receive_author(self, queue: str, author: Author, manager: str | None) -> None:
        writes = self._writes.get(queue)
        if writes is not None and writes.author is author:
            writes.author = msgspec.structs.replace(author, manager=manager or SOMEBODY)
            self._context.work_queue.add(queue, QueueChange.STATUS)

    def _record_event(self, obj: QueueObject, contest: Contest) -> None:
        self._context.metrics.undone.inc()
        record, subject = self._context.recorder.record, queue_subject(obj)
        if not contest.is_rivalry:
            record(subject, reason="StatusOverwritten", message=once_text(contest.manager), warning=True)
            return
        text = rival_text(contest.manager)
        record(subject, reason="SecondController", message=text, warning=True)
        self._log(contest.manager, f"queue {obj.metadata.name}: {text}")

    def _log(self, manager: str, text: str) -> None:
        """Log one line for a manager, on however many queues, in `LOG_AGAIN_SECONDS`."""
        now = self._context.store.clock.monotonic()
        if now - self._logged.get(manager, -LOG_AGAIN_SECONDS) < LOG_AGAIN_SECONDS:
            return
        if len(self._logged) >= MAX_LOGGED:
            self._logged.clear()
        self._logged[manager] = now
        log.warning("%s", text)


def last_writer(owners: list[ManagedFieldsEntry]) -> str:
    """Return the manager that wrote the status last; of several in one second, one that is not us."""
    writers = [owner for owner in owners if "f:status" in owner.fields_v1]
    if not writers:
        return SOMEBODY
    latest = max(writers, key=lambda owner: (owner.time or EPOCH, owner.manager != OURSELVES))
    return latest.manager or SOMEBODY


def once_text(manager: str) -> str:
    return (
        f'"{manager}" wrote the status of this queue, which says what is true and is put back; '
        "to change what is true, edit spec.state or spec.stopPolicy, or use: kubectl queue"
    )


#: All controllers of Volcano 1.10 but that of queues. `-queue-controller` alone switches every one off:
#: what the list does not name is off, unless it is `*`, which it may only be alone (isControllerEnabled and
#: checkControllers in its cmd/controller-manager/app).
WITHOUT_QUEUE_CONTROLLER = (
    "--controllers=+gc-controller,+job-controller,+jobflow-controller,+jobtemplate-controller,+pg-controller"
)


#: The manager of Volcano's scheduler: the name of its binary, which starts its User-Agent.
VOLCANO_SCHEDULER = "vc-scheduler"


def rival_text(manager: str) -> str:
    writes = f'"{manager}" writes the status of this queue again and again'
    if manager == VOLCANO_SCHEDULER:
        return (
            f"{writes}: that is Volcano's scheduler. It takes counts and acknowledgements away, and no flag "
            "ends that; use kubectl queue hold as long as it runs, and stop it once another scheduler takes "
            "its pods"
        )
    return (
        f"{writes}, as a second queue controller would; "
        f"switch it off (Volcano's controller manager: {WITHOUT_QUEUE_CONTROLLER})"
    )


def changed_by_others(written: WrittenStatus, obj: QueueObject) -> bool:
    """Return whether another writer has changed more than counts since our last write."""
    if written.uid != obj.metadata.uid or obj.metadata.version <= written.version:
        return False
    return _statement(current_status(obj.status), written) != _statement(written.status, written)


def says_something_new(status: dict[str, Any], written: WrittenStatus) -> bool:
    """Return whether `status` says something that our last write did not."""
    return (
        _statement({**status, "observedGeneration": 0}, written)
        != _statement({**written.status, "observedGeneration": 0}, written)
        or status["observedGeneration"] > written.status["observedGeneration"]
    )


def _statement(status: dict[str, Any], written: WrittenStatus) -> tuple[object, ...]:
    """What a status says, in the conditions that we wrote. Their times follow from the rest, so they are left
    out.
    """
    ours = {condition["type"] for condition in written.status["conditions"]}
    conditions = [
        {**condition, "lastTransitionTime": None}
        for condition in status["conditions"]
        if condition["type"] in ours
    ]
    return status["state"], status["observedGeneration"], conditions, status["changes"]
