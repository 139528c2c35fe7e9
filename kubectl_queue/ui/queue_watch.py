"""Reads all queues, hears of their changes, and publishes frames.

Invariants
- Queues are listed once and then watched; they are listed again where the API server no longer has the
  resourceVersion to go on from. Pods are not read here.
- Changes are gathered for `GATHER` seconds; then one frame has all of them.
- The frame counts as known up to now only while the watch has been heard in the last `SILENT` seconds (the
  API server sends a bookmark once a minute) and it still answers a small request, which is sent every
  `PROBE` seconds.
- Whether a replica of the server answers is asked as often, and is the board's outage text.
- Whatever goes wrong is the board's fault text, and is tried again, with longer pauses; what was read stays.

Threads: three of its own, `page-watch`, `page-frames` and `page-probe`; `stop` wakes them. A request that
waits for the API server ends when the transport is closed, which is before `stop` joins them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from kubectl_queue.access.client import Queues, WatchEvent
from kubectl_queue.errors import ClosedError, ExpiredError, QueueError
from kubectl_queue.objects.fields import Object, name_of, value_at
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.ui.board import Board
from kubectl_queue.ui.rows import Frame, first_frame, next_frame

#: Seconds in which changes are gathered for one frame.
GATHER = 0.1
#: Seconds between two questions whether the API server answers.
PROBE = 5.0
#: Seconds without a sign of life of the watch after which nobody can say that nothing has changed.
SILENT = 75.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0


class QueueWatch:
    """`api`: makes one for a thread. `start` it once, `stop` it once, also if `start` was interrupted."""

    def __init__(
        self,
        api: Callable[[], Queues],
        board: Board,
        *,
        clock: Callable[[], float],
        utc: Callable[[], datetime] = lambda: datetime.now(UTC),
        probe_seconds: float = PROBE,
        outage: Callable[[], str] = lambda: "",
    ) -> None:
        """`outage`: asks whether a replica of the server answers; `board.Shown` has what it returns."""
        self._outage = outage
        self._api = api
        self._board = board
        self._clock = clock
        self._utc = utc
        self._probe_seconds = probe_seconds
        self._lock = threading.Lock()
        self._items: dict[str, Object] = {}
        #: All were listed since the newest frame, or those of these names have changed.
        self._is_new = False
        self._changed: set[str] = set()
        #: When the watch was last heard; None while there is none.
        self._heard: float | None = None
        #: By how much the API server's clock is ahead of ours.
        self._ahead = timedelta()
        self._dirty = threading.Event()
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=target, name=name, daemon=True)
            for name, target in (
                ("page-watch", self._watch_always),
                ("page-frames", self._make_frames),
                ("page-probe", self._probe_always),
            )
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Wait until the threads that were started have ended; the transport has been closed before."""
        self._stopped.set()
        self._dirty.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def heard(self, item: Object) -> None:
        """An edit of ours was answered with this: it is shown before the watch brings it."""
        with self._lock:
            self._take(item)
        self._dirty.set()

    def now(self) -> datetime:
        """The API server's clock."""
        with self._lock:
            return self._utc() + self._ahead

    # page-watch

    def _watch_always(self) -> None:
        api, pause = self._api(), _FIRST_PAUSE
        since = ""
        while not self._stopped.is_set():
            began = self._clock()
            try:
                since = since or self._list(api)
                for event in api.watch(since):
                    since = self._take_event(event) or since
                    pause = _FIRST_PAUSE
                if self._clock() - began > _LONGEST_PAUSE:
                    continue  # the API server ends each watch after a while
            except ExpiredError:
                since = ""
            except ClosedError:
                return
            except QueueError as exc:
                since = ""  # a list says at once that all is well again, a watch when something happens
                self._lose(str(exc))
            if self._stopped.wait(pause):
                return
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _list(self, api: Queues) -> str:
        asked = self._clock()
        listing = api.list()
        with self._lock:
            self._items = {name_of(item): item for item in listing.items}
            self._is_new = True
            self._changed.clear()
            self._heard = asked
            self._ahead = api.now - self._utc()
        self._board.set_fault("")
        self._dirty.set()
        return listing.resource_version

    def _take_event(self, event: WatchEvent) -> str:
        """The resourceVersion that the watch has come to."""
        with self._lock:
            self._heard = self._clock()
            if event.type == "DELETED":
                name = name_of(event.object)
                self._items.pop(name, None)
                self._changed.add(name)
            elif event.type != "BOOKMARK":
                self._take(event.object)
        self._board.set_fault("")
        if event.type != "BOOKMARK":
            self._dirty.set()
        return str(value_at(event.object, "metadata.resourceVersion") or "")

    def _take(self, item: Object) -> None:
        """Older objects than the one held are dropped."""
        name = name_of(item)
        held = self._items.get(name)
        if held is not None and _version(held) > _version(item) and _uid(held) == _uid(item):
            return
        self._items[name] = item
        self._changed.add(name)

    def _lose(self, text: str) -> None:
        with self._lock:
            self._heard = None
        self._board.set_fault(text)

    # page-frames

    def _make_frames(self) -> None:
        frame: Frame | None = None
        while not self._stopped.is_set():
            if self._dirty.wait(timeout=self._probe_seconds) and self._stopped.wait(GATHER):
                return
            self._dirty.clear()
            frame = self._frame_after(frame)

    def _frame_after(self, frame: Frame | None) -> Frame | None:
        """The newest frame, published where it is another one."""
        with self._lock:
            is_new, self._is_new = self._is_new, False
            changed, self._changed = self._changed, set()
            items, heard, now = dict(self._items), self._heard, self._utc() + self._ahead
        if is_new:
            queues = QueueObjects(items.values(), now=now)
            newer = first_frame(queues, number=frame.number + 1 if frame is not None else 1)
        elif frame is not None:
            newer = next_frame(frame, items, changed, now=now)
        else:
            return None
        if newer is not frame:
            self._board.publish(newer)
        if heard is not None:
            self._board.confirm(heard)
        return newer

    # page-probe

    def _probe_always(self) -> None:
        api = self._api()
        self._board.set_outage(self._outage())
        while not self._stopped.wait(self._probe_seconds):
            self._board.set_outage(self._outage())
            asked = self._clock()
            with self._lock:
                heard = self._heard
            if heard is None:
                continue  # the watch says what is wrong
            try:
                api.probe()
            except ClosedError:
                return
            except QueueError as exc:
                self._board.set_fault(str(exc))
                continue
            with self._lock:
                is_live = self._heard is not None and asked - self._heard < SILENT
            if is_live:
                self._board.set_fault("")
                self._board.confirm(asked)


def _version(item: Object) -> int:
    text = str(value_at(item, "metadata.resourceVersion") or "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _uid(item: Object) -> str:
    return str(value_at(item, "metadata.uid") or "")
