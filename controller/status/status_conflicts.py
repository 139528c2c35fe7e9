"""Others who write a queue's status: noticed, named, put back, and not fought in a hot loop.

`status` is derived, so whatever somebody else writes there is written over. Once is a client that means
well, and is told what to do instead. Again and again is a second queue controller, Volcano's own above
all, and that one has to be switched off.

Invariants
- Only what we wrote ourselves, and found changed in a later version of the same object, counts; so a
  start, a change of leader and a queue made anew raise no alarm.
- What is new to say waits for nothing but the name of whoever wrote, and for that no longer than
  `AUTHOR_SECONDS`; only putting the same back again waits, twice as long each time, at most `REWRITE.longest`
  seconds.
- Counts are nobody's business: they follow at their own pace.
- A queue that was left alone for `QUIET_SECONDS` has no rival any more.
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
from controller.context import (
    QUEUES,
    ControllerContext,
    queue_subject,
)
from controller.status.queue_status import current_status

#: What the API server calls us in `managedFields`: the start of our User-Agent.
OURSELVES = "sluice"
SOMEBODY = "somebody"
#: From which one on, in a row, it is no accident.
RIVALRY = 3
#: From the second time in a row, the wait before our status is written again.
REWRITE = Backoff(0.5, 30.0)
#: Well above the longest wait, or no rivalry would last.
QUIET_SECONDS = 120.0
SAY_AGAIN_SECONDS = 300.0
#: For so long a write of ours, which would hide the writer before us, waits for the name of that one.
AUTHOR_SECONDS = 0.5
REMEMBERED = 100

log = logging.getLogger(__name__)


class Written(msgspec.Struct, frozen=True):
    """The status of a queue as we left it."""

    uid: str
    version: int
    status: dict[str, Any]


class Contest(msgspec.Struct, frozen=True):
    """How often in a row others changed it, who and in which version last, until when we wait; monotonic."""

    times: int = 0
    manager: str = ""
    version: int = 0
    at: float = 0.0
    until: float = 0.0

    def again(self, manager: str, *, version: int, now: float) -> Contest:
        times = 1 if now - self.at > QUIET_SECONDS else self.times + 1
        return Contest(times, manager, version, now, now + REWRITE.seconds(times - 1))

    @property
    def is_rivalry(self) -> bool:
        return self.times >= RIVALRY


class Author(msgspec.Struct, frozen=True):
    """Who wrote a version: asked for when (monotonic), and the answer, "" as long as there is none."""

    version: int
    asked_at: float
    manager: str = ""


class Owner(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of `managedFields`."""

    manager: str = ""
    time: datetime | None = None
    fields_v1: dict[str, object] = msgspec.field(default_factory=dict, name="fieldsV1")


class Owned(msgspec.Struct, frozen=True, rename="camel"):
    managed_fields: list[Owner] = []


class Owners(msgspec.Struct, frozen=True):
    """An object's metadata, with nothing but who wrote it."""

    metadata: Owned = Owned()


_owners = msgspec.json.Decoder(Owners)


class StatusConflicts:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._written: dict[str, Written] = {}
        self._contests: dict[str, Contest] = {}
        self._authors: dict[str, Author] = {}
        self._logged: dict[str, float] = {}

    def record_write(self, obj: QueueObject) -> None:
        """This is what came of a write of ours."""
        self._written[obj.metadata.name] = Written(
            obj.metadata.uid, obj.metadata.version, current_status(obj.status)
        )

    def forget(self, queue: str) -> None:
        self._written.pop(queue, None)
        self._contests.pop(queue, None)
        self._authors.pop(queue, None)

    def seconds_to_wait(self, obj: QueueObject, status: dict[str, Any]) -> float:
        """For how many seconds `status`, which is to be written, has to wait for the sake of peace.

        Says so where somebody has changed what we wrote.
        """
        queue, now = obj.metadata.name, self._context.store.clock.monotonic()
        written = self._written.get(queue)
        if written is None or not _changed(written, obj):
            return 0.0
        news = _is_news(status, written)
        contest = self._contests.get(queue, Contest())
        if contest.version == obj.metadata.version or (now < contest.until and not news):
            return 0.0 if news else max(0.0, contest.until - now)
        manager = contest.manager if contest.is_rivalry else self._author(obj, now)
        if not manager:
            return self._authors[queue].asked_at + AUTHOR_SECONDS - now
        if manager == OURSELVES:
            del self._written[queue]
            return 0.0
        contest = contest.again(manager, version=obj.metadata.version, now=now)
        self._contests[queue] = contest
        self._say(obj, contest)
        return 0.0 if news else contest.until - now

    def _author(self, obj: QueueObject, now: float) -> str:
        """Who wrote the status last; "" while that is being asked of the API server, which alone knows."""
        queue, version = obj.metadata.name, obj.metadata.version
        asked = self._authors.get(queue)
        if asked is None or asked.version != version:
            asked = self._authors[queue] = Author(version, now)
            self._context.submit(
                self._context.writers,
                ("author", queue),
                partial(self._read_author, queue),
                partial(self._receive_author, queue, asked),
                rank=(0,),
            )
        if asked.manager or now < asked.asked_at + AUTHOR_SECONDS:
            return asked.manager
        return SOMEBODY

    def _read_author(self, queue: str) -> str:
        """In another thread."""
        try:
            stored = decode_response(self._context.client.get(f"{QUEUES}/{queue}"), _owners)
        except ClusterError as exc:
            log.info("who wrote the status of queue %s cannot be read: %s", queue, exc)
            return SOMEBODY
        return author(stored.metadata.managed_fields)

    def _receive_author(self, queue: str, asked: Author, manager: str | None) -> None:
        if self._authors.get(queue) is asked:
            self._authors[queue] = msgspec.structs.replace(asked, manager=manager or SOMEBODY)
            self._context.work_queue.add(queue, QueueChange.STATUS)

    def _say(self, obj: QueueObject, contest: Contest) -> None:
        self._context.metrics.undone.inc()
        record, subject = self._context.recorder.record, queue_subject(obj)
        if not contest.is_rivalry:
            record(subject, reason="StatusOverwritten", message=once_text(contest.manager), warning=True)
            return
        text = rival_text(contest.manager)
        record(subject, reason="SecondController", message=text, warning=True)
        self._log(contest.manager, f"queue {obj.metadata.name}: {text}")

    def _log(self, manager: str, text: str) -> None:
        """One line for a manager, on however many queues, in `SAY_AGAIN_SECONDS`."""
        now = self._context.store.clock.monotonic()
        if now - self._logged.get(manager, -SAY_AGAIN_SECONDS) < SAY_AGAIN_SECONDS:
            return
        if len(self._logged) >= REMEMBERED:
            self._logged.clear()
        self._logged[manager] = now
        log.warning("%s", text)


def author(owners: list[Owner]) -> str:
    """Whose write of a status is the latest. In the same second it was not ours: we know of ours."""
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


def rival_text(manager: str) -> str:
    return (
        f'"{manager}" writes the status of this queue again and again, as a second queue controller would; '
        "switch it off (Volcano's controller manager: --controllers=-queue-controller)"
    )


def _changed(written: Written, obj: QueueObject) -> bool:
    """Whether somebody has changed more than counts since."""
    if written.uid != obj.metadata.uid or obj.metadata.version <= written.version:
        return False
    return _essence(current_status(obj.status), written) != _essence(written.status, written)


def _is_news(status: dict[str, Any], written: Written) -> bool:
    """Whether there is something to write that we have not written before."""
    return (
        _essence({**status, "observedGeneration": 0}, written)
        != _essence({**written.status, "observedGeneration": 0}, written)
        or status["observedGeneration"] > written.status["observedGeneration"]
    )


def _essence(status: dict[str, Any], written: Written) -> tuple[object, ...]:
    """What a status says, in the conditions that we wrote; a time that followed from a change is none."""
    ours = {condition["type"] for condition in written.status["conditions"]}
    conditions = [
        {**condition, "lastTransitionTime": None}
        for condition in status["conditions"]
        if condition["type"] in ours
    ]
    return status["state"], status["observedGeneration"], conditions, status["changes"]
