"""Shares the loop's thread between connections, so that none makes the others wait.

Invariants
- A connection works for `SLICE` seconds, and to the end of its current step, before others get their turn.
- All connections together work for `TURN` seconds before the loop reads the sockets again.
- A connection that has just received something (fresh) works before those that used up a slice (backlog), but
  every second slice is for the backlog. So a client that sends without end waits for the others.
- A background connection, one of the port of the probes or of a client that may call nothing, is always of
  the backlog: however many there are, another connection waits for one slice of theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

SLICE = 0.002
TURN = 0.010


class Runnable(Protocol):
    """A connection that has something to do."""

    def work(self, until: float) -> bool:
        """Take steps until the clock reaches `until` or nothing is left to do; whether something is left."""


class RunQueue:
    """Owned by the loop's thread. `clock`: seconds, also while a callback runs."""

    def __init__(self, *, call_soon: Callable[..., Any], clock: Callable[[], float]) -> None:
        self._call_soon = call_soon
        self._clock = clock
        self._spent = 0.0
        self._scheduled = False
        self._fresh: dict[Runnable, None] = {}
        self._backlog: dict[Runnable, None] = {}

    def submit(self, connection: Runnable, *, background: bool = False) -> None:
        """The connection has something to do: at once if there is time in this turn, else soon."""
        if connection in self._backlog or connection in self._fresh:
            return
        if self._spent < TURN and not self._fresh and not (background and self._backlog):
            self._run(connection)
        elif background:
            self._backlog[connection] = None
        else:
            self._fresh[connection] = None
        self._schedule()

    def remove(self, connection: Runnable) -> None:
        """The connection is gone."""
        self._fresh.pop(connection, None)
        self._backlog.pop(connection, None)

    def _schedule(self) -> None:
        """Once the time of this turn is used up, the next one begins after the loop has read the sockets."""
        if not self._scheduled and (self._fresh or self._backlog or self._spent >= TURN):
            self._scheduled = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        self._spent = 0.0
        from_backlog = False
        while self._spent < TURN and (self._fresh or self._backlog):
            waiting = self._backlog if self._backlog and (from_backlog or not self._fresh) else self._fresh
            from_backlog = not from_backlog
            connection = next(iter(waiting))
            del waiting[connection]
            self._run(connection)
        self._schedule()

    def _run(self, connection: Runnable) -> None:
        began = self._clock()
        if connection.work(began + SLICE):
            self._backlog[connection] = None
        self._spent += self._clock() - began
