"""A thread that its owner starts and stops."""

from __future__ import annotations

import threading
from collections.abc import Callable


class BackgroundThread:
    """A daemon thread that runs `run` from `start` on.

    It is made when it starts: a thread object made before a fork counts as dead in the child. How `run` comes
    to an end is its owner's business.
    """

    def __init__(self, run: Callable[[], object], *, name: str) -> None:
        self._run = run
        self._name = name
        self._thread: threading.Thread | None = None

    @property
    def started(self) -> bool:
        return self._thread is not None

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def join(self, *, timeout: float) -> None:
        """Wait for its end, so many seconds at most; not at all if it was not started."""
        if self._thread is not None:
            self._thread.join(timeout)
