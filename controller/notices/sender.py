"""The thread that sends notices of queues.

| what                                    | what the sender does                                            |
|-----------------------------------------|-----------------------------------------------------------------|
| this replica does not lead              | nothing; it forgets its cursor                                  |
| it leads, and has no cursor             | reads it; the first one is stored before anything is sent       |
| there are new notices                   | sends a message, in which each queue has its share              |
|                                         | (`queues.notices.message`)                                      |
| the receiver answered 2xx               | stores the cursor                                               |
| it did not, or there is no URL          | waits longer each time (`BACKOFF`), or as `Retry-After` says    |
| it refuses some forever                 | sends the others, and gives up those that it refuses, by        |
|                                         | `queues.notices.refusals`                                       |
| the cursor could not be stored          | stores it again before anything else is sent                    |
| another replica has stored one          | reads that one                                                  |

Invariants
- No other thread waits for this one, and it holds no lock of others. Notices that are not sent yet follow
  from the queues themselves, so this thread has no backlog.
- It sends at most one message every `POLL_SECONDS`.
- The log, the metrics and an event on its queue name each notice that is given up.
- An exception ends one round and not the thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta

from cluster.background_thread import BackgroundThread
from cluster.backoff import Backoff
from cluster.cache.store import Store
from cluster.exceptions import ClusterError, Conflict
from cluster.metrics import Metrics
from cluster.recorder import EventRecorder
from controller.context import queue_subject
from controller.notices.news import News, NewsReader
from controller.notices.receiver import NotTaken, Receiver
from controller.notices.storage import CursorStorage
from queues.notices.cursor import Cursor, after_sending
from queues.notices.message import in_order, message, share
from queues.notices.news import Notice
from queues.notices.refusals import MOST_REFUSALS, NoticeRefusals

POLL_SECONDS = 2.0
BACKOFF = Backoff(first=POLL_SECONDS, longest=300.0)
LOOP = "notices"

log = logging.getLogger(__name__)


class NoticeSender:
    """Owner: the server, which starts and stops it."""

    def __init__(
        self,
        *,
        store: Store,
        storage: CursorStorage,
        receiver: Receiver,
        leading: Callable[[], bool],
        term: Callable[[], int],
        metrics: Metrics,
        recorder: EventRecorder,
        window_soon: timedelta,
    ) -> None:
        """`recorder`: for this thread alone. `window_soon`: how long before it begins a window is told."""
        self._store = store
        self._storage = storage
        self._receiver = receiver
        self._leading = leading
        self._term = term
        self._metrics = metrics
        self._recorder = recorder
        self._refusals = NoticeRefusals()
        self._news = NewsReader(store, window_soon=window_soon)
        self._cursor: Cursor | None = None
        self._cursor_of = 0
        self._is_stored = True
        self._failures = 0
        #: Why the last round failed, so that it is logged once.
        self._problem = ""
        #: Whether the last round found that somebody else had stored a cursor.
        self._has_conflicted = False
        self._stopped = threading.Event()
        self._thread = BackgroundThread(self._run, name="notices")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._receiver.interrupt()
        self._thread.join(timeout=5)

    @property
    def alive(self) -> bool:
        return self._thread.alive

    def _run(self) -> None:
        seconds = POLL_SECONDS
        while not self._stopped.wait(seconds):
            seconds = self.round()

    def round(self) -> float:
        """Do what there is to do. Returns in how many seconds to look again."""
        try:
            self._step()
        except NotTaken as exc:
            self._metrics.notices.labels("failed").inc()
            return self._failed(str(exc), patience=exc.patience)
        except Conflict as exc:
            self._cursor = None
            if self._has_conflicted:  # else another replica has written, which leads now
                return self._failed(f"the cursor: {exc}")
            self._has_conflicted = True
            return POLL_SECONDS
        except ClusterError as exc:
            return self._failed(f"the cursor: {exc}")
        except Exception:  # a fault of this package: no error of a request gets here
            log.exception("notices: a round failed")
            return self._failed("see above")
        if self._problem:
            log.info("notices: sent again")
        self._failures, self._problem, self._has_conflicted = 0, "", False
        self._metrics.retries.succeeded(LOOP)
        return POLL_SECONDS

    def _step(self) -> None:
        if not (self._leading() and self._store.synced):
            self._cursor = None
            self._metrics.notices_waiting.set(0)
            return
        cursor = self._read_cursor()
        if not self._is_stored:
            self._write_cursor(cursor)
        news = self._news.read(cursor)
        self._metrics.notices_waiting.set(len(news.new))
        if news.new:
            self._tell(cursor, news)

    def _tell(self, cursor: Cursor, news: News) -> None:
        shared = share(self._refusals.next_message(in_order(news.new)))
        notices = shared.told
        try:
            self._receiver.send(message(shared))
        except NotTaken as exc:
            if not exc.may_pass and self._refusals.record_refused(notices):
                self._give_up(notices[0], why=str(exc))
                self._move_on(cursor, notices, news)
            raise
        self._refusals.record_taken()
        self._metrics.notices.labels("sent").inc(len(notices))
        self._move_on(cursor, notices, news)

    def _move_on(self, cursor: Cursor, done: Sequence[Notice], news: News) -> None:
        """These were taken or given up, and what else is new waits."""
        ids = {notice.id for notice in done}
        waiting = [notice for notice in news.new if notice.id not in ids]
        self._metrics.notices_waiting.set(len(waiting))
        self._cursor = after_sending(
            cursor,
            done,
            waiting=waiting,
            latest=news.latest,
            now=self._store.clock.now(),
            standing=news.standing,
        )
        self._write_cursor(self._cursor)

    def _give_up(self, notice: Notice, *, why: str) -> None:
        """Say that it is not told, and why."""
        self._metrics.notices.labels("given_up").inc()
        text = f"a notice is given up, refused by the receiver {MOST_REFUSALS} times, {why}: {notice.text}"
        log.warning("notices: %s", text)
        queue = self._store.queues.get(notice.queue)
        if queue is not None:
            self._recorder.record(queue_subject(queue), reason="NoticeGivenUp", message=text, warning=True)

    def _read_cursor(self) -> Cursor:
        term = self._term()
        if self._cursor is None or self._cursor_of != term:
            now = self._store.clock.now().replace(microsecond=0)
            # History has whole seconds.
            self._cursor = self._storage.read(otherwise=Cursor(since=now - timedelta(seconds=1)))
            self._cursor_of, self._is_stored = term, True
            self._news.forget()
        return self._cursor

    def _write_cursor(self, cursor: Cursor) -> None:
        self._is_stored = False
        self._storage.write(cursor)
        self._is_stored = True

    def _failed(self, problem: str, *, patience: float = 0.0) -> float:
        self._failures += 1
        self._metrics.retries.failed(LOOP, problem)
        seconds = max(BACKOFF.seconds(self._failures), patience)
        if problem != self._problem:
            self._problem = problem
            log.warning("notices: not sent, and tried again: %s", problem)
        return seconds
