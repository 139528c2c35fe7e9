"""What one key fails at concerns that key alone: a step of the controller, an object's handler, a write.

The rate-limited part of client-go's workqueue: a key that fails is tried again after a back-off that grows,
while all others go on.

Invariants
- `attempt` and `attempt_each` raise no `Exception`, whatever the work raises.
- A key that failed is not attempted before its back-off is over: `LEAST` seconds, twice as long each time, at
  most `MOST`, or `SHORT` where the API server did not answer. Another version of the object is attempted at
  once; if it fails too, the back-off grows on.
- Each failure is logged with step and key, and counted. At most `LOG_BURST` lines are logged at once, one a
  second after. Where the key has an object, the failure is kept for an event about it (`take_failures`).
- The first success forgets the key; so does `FORGET` seconds without an attempt after the back-off.
- At most `MAX_KEYS` keys are remembered. Beyond, the oldest is forgotten first: it is tried again sooner.

Threads: any. What is taken under the lock is a look-up; nothing is taken while no key fails.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import TypeVar

import msgspec

from cluster.exceptions import ClusterError, NotReady, Overloaded, Unreachable
from cluster.object_reference import ObjectReference
from cluster.token_bucket import TokenBucket
from queues.text import printable

#: Seconds.
LEAST, MOST, SHORT, FORGET = 1.0, 60.0, 4.0, 120.0
MAX_KEYS = 10_000
#: Failures that wait to be reported by an event.
MAX_UNREPORTED = 1_000
LOG_BURST = 50.0
#: Characters of a key, and of what was raised.
KEY_LIMIT, TEXT_LIMIT = 400, 600

log = logging.getLogger(__name__)

T = TypeVar("T")
Key = tuple[str, Hashable]


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A key that failed: for the how many-th time in a row, at what, and until when it rests (monotonic).

    `queue`: the queue to be looked at again then; None where whoever failed tries again by itself.
    """

    step: str
    key: Hashable
    times: int
    until: float
    message: str
    version: Hashable = 0
    queue: str | None = None
    subject: ObjectReference | None = None


class KeyBackoff:
    """The keys that failed. Owner: the store; shared by the reflectors, the controller and the writers."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        counted: Callable[[str], None] = lambda _step: None,
    ) -> None:
        """`clock`: monotonic seconds. `counted`: the metric; gets the step."""
        self._clock = clock
        self._counted = counted
        self._lock = threading.Lock()
        self._failures: dict[Key, Failure] = {}
        #: Those whose queue is to be looked at again.
        self._to_requeue: dict[Key, float] = {}
        self._unreported: deque[Failure] = deque(maxlen=MAX_UNREPORTED)
        self._lines = TokenBucket(1.0, burst=LOG_BURST, now=clock())

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
        """Do the work unless the key backs off; whether it was done.

        `version`: of the object that the work is about. `queue`: is looked at again after the back-off.
        `through`: what concerns more than this key, and is raised.
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
        """The same for each of several objects, one failing or not."""
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

    def seconds_left(self, step: str, key: Hashable, *, version: Hashable = 0) -> float:
        """For how many seconds the key is still not to be attempted; 0 if it may be."""
        failure = self._failures.get((step, key)) if self._failures else None
        if failure is None or (version and failure.version != version):
            return 0.0
        return max(0.0, failure.until - self._clock())

    def record_failure(
        self,
        step: str,
        key: Hashable,
        exc: BaseException,
        *,
        version: Hashable = 0,
        queue: str | None = None,
        subject: ObjectReference | None = None,
    ) -> float:
        """Have the key back off; for how many seconds."""
        now = self._clock()
        with self._lock:
            before = self._failures.pop((step, key), None)
            times = 1 if before is None else before.times + 1
            seconds = _back_off(times, exc)
            failure = Failure(
                step=step,
                key=key,
                times=times,
                until=now + seconds,
                message=printable(str(exc) or type(exc).__name__, limit=TEXT_LIMIT),
                version=version,
                queue=queue,
                subject=subject,
            )
            self._failures[step, key] = failure
            if queue is not None:
                self._to_requeue[step, key] = failure.until
            if subject is not None:
                self._unreported.append(failure)
            while len(self._failures) > MAX_KEYS:
                self._forget(next(iter(self._failures)))
            loggable = self._lines.try_take(now)
        self._counted(step)
        if loggable:
            self._log(failure, exc, seconds=seconds)
        return seconds

    def forget(self, step: str, key: Hashable) -> None:
        if (step, key) in self._failures:
            with self._lock:
                self._forget((step, key))

    def forget_all(self, step: str, *, but: Collection[Hashable] = ()) -> None:
        """Forget the keys of one step, those of `but` apart: their objects are gone."""
        with self._lock:
            for key in [key for key in self._failures if key[0] == step and key[1] not in but]:
                self._forget(key)

    # What follows from failures, for the controller

    @property
    def next_requeue(self) -> float:
        """When a queue is to be looked at again for a failure, in monotonic seconds; infinity for never."""
        with self._lock:
            return min(self._to_requeue.values(), default=float("inf"))

    def take_due_queues(self) -> set[str]:
        """The queues to be looked at again now; taking empties it."""
        if not self._failures:
            return set()
        now = self._clock()
        with self._lock:
            for key in [key for key, failure in self._failures.items() if failure.until + FORGET < now]:
                self._forget(key)
            ripe = [key for key, at in self._to_requeue.items() if at <= now]
            for key in ripe:
                del self._to_requeue[key]
            return {queue for key in ripe if (queue := self._failures[key].queue) is not None}

    def take_failures(self) -> list[Failure]:
        """The failures to be reported on their objects; taking empties it."""
        with self._lock:
            failures = list(self._unreported)
            self._unreported.clear()
        return failures

    def _forget(self, key: Key) -> None:
        self._failures.pop(key, None)
        self._to_requeue.pop(key, None)

    def _log(self, failure: Failure, exc: BaseException, *, seconds: float) -> None:
        words = "%s of %s failed (%d in a row), again in %.0f s: %s"
        key = key_text(failure.key)
        values = (failure.step, key or "everything", failure.times, seconds, failure.message)
        if isinstance(exc, ClusterError):
            log.warning(words, *values)
        else:
            log.error(words, *values, exc_info=exc if failure.times == 1 else None)


def key_text(key: Hashable) -> str:
    """A key in one line: the parts of a tuple with slashes between them."""
    text = "/".join(map(str, key)) if isinstance(key, tuple) else str(key)
    return printable(text, limit=KEY_LIMIT)


def _back_off(times: int, exc: BaseException) -> float:
    most = SHORT if isinstance(exc, Overloaded | Unreachable | NotReady) else MOST
    return min(most, LEAST * 2.0 ** min(times - 1, 10))
