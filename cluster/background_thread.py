"""A thread that its owner starts and stops."""

from __future__ import annotations

import threading
from collections.abc import Callable


class BackgroundThread:
    """A daemon thread that runs `run` from `start` on.

    It is made when it starts: a thread object made before a fork counts as dead in the child. How `run` comes
    to an end is its owner's business. The owner's own threads may start it and wait for its end at the same
    time; until its start is done, it counts as not started.
    """

    def __init__(self, run: Callable[[], object], *, name: str) -> None:
        self._run = run
        self._name = name
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def started(self) -> bool:
        return self._thread is not None

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        with self._starting:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            try:
                thread.start()
            finally:  # it may run though a signal's handler raised in between
                if thread.ident is not None:
                    self._thread = thread

    def join(self, *, timeout: float) -> None:
        """Wait for its end, so many seconds at most; not at all if it was not started."""
        with self._starting:
            thread = self._thread
        if thread is not None:
            thread.join(timeout)
