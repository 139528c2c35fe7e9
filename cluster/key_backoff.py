"""Backs off single keys: a step of the controller, an object's event handler, a write.

This is the rate-limited part of client-go's workqueue: a key that fails is tried again after a growing
back-off, while all other keys go on.

Invariants
- `attempt` and `attempt_each` raise no `Exception`, whatever the work raises (but for `through`).
- A key that failed is not attempted before its back-off is over: `LEAST` seconds, twice as long each time, at
  most `MOST`, or `SHORT` if the API server did not answer, or answered that the object has changed or
  is gone. Another version of the object is attempted at
  once; if it fails too, the back-off keeps growing.
- Each failure is counted, and logged with step and key. At most `LOG_BURST` lines are logged at once, and one
  a second after that. If the key has an object, the failure is kept for an event on it (`take_failures`).
- A success forgets the key. So does `FORGET` seconds without an attempt after the back-off.
- At most `MAX_KEYS` keys are remembered. Beyond, the oldest is forgotten first, and is tried again sooner.

Threads: any. Changes take the lock. `seconds_left`, which every attempt asks, is a look-up without it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable
from enum import StrEnum
from typing import TypeVar

import msgspec

from cluster.backoff import Backoff
from cluster.exceptions import ClusterError, Conflict, NotFound, NotReady, Overloaded, Unreachable
from cluster.object_reference import ObjectReference
from cluster.token_bucket import TokenBucket
from queues.text import printable

#: Seconds.
LEAST, MOST, SHORT, FORGET = 1.0, 60.0, 4.0, 120.0
MAX_KEYS = 10_000
#: Failures that wait to be reported by an event.
MAX_UNREPORTED = 1_000
LOG_BURST = 50.0
#: Characters of a key, and of an error message.
KEY_LIMIT, TEXT_LIMIT = 400, 600

log = logging.getLogger(__name__)

T = TypeVar("T")


class FailureKind(StrEnum):
    """What failed: a step of the controller, of a reflector or of an event handler; or a write."""

    STEP = "step"
    WRITE = "write"


BackoffKey = tuple[FailureKind, str, Hashable]


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """The latest failure of a key. `times`: failures in a row; `until`: end of the back-off (monotonic).

    `step`: what was attempted. `queue`: the queue to reconcile again then; None if the caller tries again by
    itself.
    """

    kind: FailureKind = FailureKind.STEP
    step: str
    key: Hashable
    times: int
    until: float
    message: str
    version: Hashable = 0
    queue: str | None = None
    subject: ObjectReference | None = None

    @property
    def label(self) -> str:
        """The failure in the log, and in label `step` of metric `sluice_failures`."""
        return self.step if self.kind is FailureKind.STEP else f"{self.kind} {self.step}"


class KeyBackoff:
    """The keys that failed. Owner: the store; shared by the reflectors, the controller and the writers."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        counted: Callable[[str], None] = lambda _step: None,
    ) -> None:
        """`clock`: monotonic seconds. `counted`: called with the label of each failure, for the metric."""
        self._clock = clock
        self._counted = counted
        self._lock = threading.Lock()
        self._failures: dict[BackoffKey, Failure] = {}
        #: The keys whose queue is to be reconciled again, and when.
        self._to_requeue: dict[BackoffKey, float] = {}
        self._unreported: deque[Failure] = deque(maxlen=MAX_UNREPORTED)
        self._log_bucket = TokenBucket(1.0, burst=LOG_BURST, now=clock())

    def attempt(
        self,
        step: str,
        key: Hashable,
        work: Callable[[], object],
        *,
        version: Hashable = 0,
        queue: str | None = None,
        subject: ObjectReference | None = None,
        through: tuple[type[Exception], ...] = (),
    ) -> bool:
        """Do the work unless the key backs off; return whether it was done.

        `version`: of the object that the work is for. `queue`: is reconciled again after the back-off.
        `through`: errors that concern more than this key; they are raised.
        """
        if self.seconds_left(step, key, version=version) > 0:
            return False
        try:
            work()
        except through:
            raise
        except Exception as exc:
            self.record_failure(step, key, exc, version=version, queue=queue, subject=subject)
            return False
        self.forget(step, key)
        return True

    def attempt_each(
        self,
        step: str,
        items: Iterable[T],
        work: Callable[[T], object],
        *,
        key: Callable[[T], Hashable],
        version: Callable[[T], Hashable] = lambda _item: 0,
        queue: str | None = None,
        subject: Callable[[T], ObjectReference | None] = lambda _item: None,
    ) -> None:
        """Attempt the work for each object. An object that fails does not stop the others."""
        for item in items:
            try:
                if self._failures and self.seconds_left(step, key(item), version=version(item)) > 0:
                    continue
                work(item)
            except Exception as exc:
                self.record_failure(
                    step, key(item), exc, version=version(item), queue=queue, subject=subject(item)
                )
            else:
                if self._failures:
                    self.forget(step, key(item))

    def seconds_left(
        self, step: str, key: Hashable, *, version: Hashable = 0, kind: FailureKind = FailureKind.STEP
    ) -> float:
        """Return for how many seconds the key may not be attempted yet; 0 if it may be."""
        failure = self._failures.get((kind, step, key)) if self._failures else None
        if failure is None or (version and failure.version != version):
            return 0.0
        return max(0.0, failure.until - self._clock())

    def record_failure(
        self,
        step: str,
        key: Hashable,
        exc: BaseException,
        *,
        kind: FailureKind = FailureKind.STEP,
        version: Hashable = 0,
        queue: str | None = None,
        subject: ObjectReference | None = None,
    ) -> float:
        """Record a failure; return the length of the key's back-off in seconds."""
        now = self._clock()
        with self._lock:
            before = self._failures.pop((kind, step, key), None)
            times = 1 if before is None else before.times + 1
            seconds = _seconds_after(times, exc)
            failure = Failure(
                kind=kind,
                step=step,
                key=key,
                times=times,
                until=now + seconds,
                message=printable(str(exc) or type(exc).__name__, limit=TEXT_LIMIT),
                version=version,
                queue=queue,
                subject=subject,
            )
            self._failures[kind, step, key] = failure
            if queue is not None:
                self._to_requeue[kind, step, key] = failure.until
            if subject is not None:
                self._unreported.append(failure)
            while len(self._failures) > MAX_KEYS:
                self._forget(next(iter(self._failures)))
            loggable = self._log_bucket.try_take(now)
        self._counted(failure.label)
        if loggable:
            self._log(failure, exc, seconds=seconds)
        return seconds

    def forget(self, step: str, key: Hashable, *, kind: FailureKind = FailureKind.STEP) -> None:
        if (kind, step, key) in self._failures:
            with self._lock:
                self._forget((kind, step, key))

    def forget_all(self, step: str, *, but: Collection[Hashable] = ()) -> None:
        """Forget the keys of one step, except `but`: their objects are gone."""
        with self._lock:
            for kind, name, key in list(self._failures):
                if (kind, name) == (FailureKind.STEP, step) and key not in but:
                    self._forget((kind, name, key))

    # For the controller

    @property
    def next_requeue(self) -> float:
        """When the next queue is to be reconciled again, in monotonic seconds; infinity for never."""
        with self._lock:
            return min(self._to_requeue.values(), default=float("inf"))

    def take_due_queues(self) -> set[str]:
        """Return and clear the queues to be reconciled again now."""
        if not self._failures:
            return set()
        now = self._clock()
        with self._lock:
            for key in [key for key, failure in self._failures.items() if failure.until + FORGET < now]:
                self._forget(key)
            due = [key for key, at in self._to_requeue.items() if at <= now]
            for key in due:
                del self._to_requeue[key]
            return {queue for key in due if (queue := self._failures[key].queue) is not None}

    def take_failures(self) -> list[Failure]:
        """Return and clear the failures to be reported on their objects."""
        with self._lock:
            failures = list(self._unreported)
            self._unreported.clear()
        return failures

    def _forget(self, key: BackoffKey) -> None:
        self._failures.pop(key, None)
        self._to_requeue.pop(key, None)

    def _log(self, failure: Failure, exc: BaseException, *, seconds: float) -> None:
        words = "%s of %s failed (%d in a row), again in %.0f s: %s"
        key = key_text(failure.key)
        values = (failure.label, key or "everything", failure.times, seconds, failure.message)
        if isinstance(exc, ClusterError):
            log.warning(words, *values)
        else:
            log.error(words, *values, exc_info=exc if failure.times == 1 else None)


def key_text(key: Hashable) -> str:
    """Format a key in one line, the parts of a tuple separated by slashes."""
    text = "/".join(map(str, key)) if isinstance(key, tuple) else str(key)
    return printable(text, limit=KEY_LIMIT)


def _seconds_after(times: int, exc: BaseException) -> float:
    """The back-off after so many failures in a row, of which `exc` is the last."""
    most = SHORT if isinstance(exc, Overloaded | Unreachable | NotReady | Conflict | NotFound) else MOST
    return Backoff(LEAST, most).seconds(times)
