"""The newest frame of all queues, how old it is and why, and whether a server writes what it shows.

Invariants
- A frame that was published is never changed; the next one has a higher number.
- The age is that of the last moment at which the frame was known to be what the API server has. It grows
  while nothing is heard from there, whatever the reason.

Threads: those of `queue_watch` publish; any wait, and are woken by a frame, by a fault that comes or goes,
and by `close`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from kubectl_queue.ui.rows import Frame


class Shown(msgspec.Struct, frozen=True):
    """`version` rises with each change of the others. `age`: seconds; None before the first frame.

    `fault`: why nothing newer is known, in the plugin's words; "" while all is well. `outage`: that no
    replica of the server answers or leads, so that statuses are of before; "" where that is not known.
    """

    version: int
    frame: Frame | None
    fault: str
    age: float | None
    outage: str = ""


class Board:
    def __init__(self, *, clock: Callable[[], float]) -> None:
        """`clock`: seconds that only rise."""
        self._clock = clock
        self._changed = threading.Condition()
        self._version = 0
        self._frame: Frame | None = None
        self._fault = ""
        self._outage = ""
        #: When the frame was last known to be what the API server has.
        self._known_at: float | None = None
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def publish(self, frame: Frame) -> None:
        with self._changed:
            self._frame = frame
            self._rise()

    def confirm(self, at: float) -> None:
        """The frame is what the API server had at that time."""
        with self._changed:
            self._known_at = at if self._known_at is None else max(self._known_at, at)

    def set_fault(self, text: str) -> None:
        with self._changed:
            if text != self._fault:
                self._fault = text
                self._rise()

    def set_outage(self, text: str) -> None:
        with self._changed:
            if text != self._outage:
                self._outage = text
                self._rise()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._rise()

    def shown(self) -> Shown:
        with self._changed:
            return self._shown()

    def wait(self, after: int, *, seconds: float) -> Shown:
        """What is shown once its version is above `after`, or after so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._version > after or self._is_closed, timeout=seconds)
            return self._shown()

    def _shown(self) -> Shown:
        age = None if self._known_at is None else max(0.0, self._clock() - self._known_at)
        return Shown(self._version, self._frame, self._fault, age, self._outage)

    def _rise(self) -> None:
        self._version += 1
        self._changed.notify_all()
