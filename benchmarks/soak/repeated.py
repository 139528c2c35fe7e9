"""Something done again and again beside what the main thread does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http.client import HTTPException
from types import TracebackType

from localcluster.build import Say
from localcluster.exceptions import LocalClusterError

#: What a machine that has too much to do may bring about; anything else is a mistake of ours.
TROUBLES = (RuntimeError, OSError, HTTPException, LocalClusterError)


class Repeated:
    """Calls `do(0)`, `do(1)` and so on, `every` so many seconds, in its own thread until the block ends.

    The first call is `after` so many seconds, so that those who begin together need not meet each time.

    Invariants
    - A call that takes longer makes the next ones late; none is left out.
    - Trouble is told, counted, and ends its call alone. Anything else sets `ended`, and is raised when the
      block ends.
    - The thread has ended when the block has; a call under way is waited for. It ends when `ended` is set,
      which several may share: they then end together.
    """

    def __init__(
        self,
        name: str,
        do: Callable[[int], None],
        *,
        every: float,
        ended: threading.Event,
        say: Say,
        after: float = 0.0,
    ) -> None:
        self.calls = 0
        #: The most that any call was late, in seconds.
        self.latest = 0.0
        #: The most that any call took.
        self.longest = 0.0
        self.troubles: list[str] = []
        self._do, self._every, self._after, self._say = do, every, after, say
        self._ended = ended
        self._mistake: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Repeated:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if self._mistake is not None and error is None:
            raise self._mistake

    @property
    def name(self) -> str:
        return self._thread.name

    def _run(self) -> None:
        began = time.monotonic() + self._after
        try:
            while not self._ended.wait(began + self.calls * self._every - time.monotonic()):
                self.latest = max(self.latest, time.monotonic() - began - self.calls * self._every)
                self._call()
                self.calls += 1
        except BaseException as exc:  # raised again by whoever owns the thread
            self._mistake = exc
            self._ended.set()
            self._say(f"{self.name} ended: {exc!r}")

    def _call(self) -> None:
        began = time.monotonic()
        try:
            self._do(self.calls)
        except TROUBLES as exc:
            self.troubles.append(f"{self.name} {self.calls}: {exc}")
            self._say(self.troubles[-1])
        self.longest = max(self.longest, time.monotonic() - began)
