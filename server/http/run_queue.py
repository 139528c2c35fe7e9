"""Shares the loop's thread between callers, so that none makes the others wait.

Invariants
- A caller works for `SLICE` seconds, and for the step it is in, before others get their turn.
- All callers together work for `TURN` seconds between two looks at the sockets.
- A caller that has just sent something goes before those that used up a slice; one slice in two is
  theirs all the same. So a caller that sends without end waits for the others, not they for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

SLICE = 0.002
TURN = 0.010


class Caller(Protocol):
    """One connection that has something to do."""

    def work(self, until: float) -> bool:
        """Take steps until the clock says so or nothing is left to do; whether something is left."""


class RunQueue:
    """Owned by the loop's thread. `clock` counts seconds and moves while a callback runs."""

    def __init__(self, *, call_soon: Callable[..., Any], clock: Callable[[], float]) -> None:
        self._call_soon = call_soon
        self._clock = clock
        self._spent = 0.0
        self._scheduled = False
        self._fresh: dict[Caller, None] = {}
        self._backlog: dict[Caller, None] = {}

    def submit(self, caller: Caller) -> None:
        """The caller has something to do: now, if there is time in this turn, or soon."""
        if caller in self._backlog or caller in self._fresh:
            return
        if self._spent < TURN and not self._fresh:
            self._run(caller)
        else:
            self._fresh[caller] = None
        self._schedule()

    def remove(self, caller: Caller) -> None:
        """The caller is gone."""
        self._fresh.pop(caller, None)
        self._backlog.pop(caller, None)

    def _schedule(self) -> None:
        """A turn begins anew once what was spent is worth a look at the sockets."""
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
            caller = next(iter(waiting))
            del waiting[caller]
            self._run(caller)
        self._schedule()

    def _run(self, caller: Caller) -> None:
        began = self._clock()
        if caller.work(began + SLICE):
            self._backlog[caller] = None
        self._spent += self._clock() - began
