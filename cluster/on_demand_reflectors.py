"""Reflectors that run only while something needs what they watch: nodes and pods for scores
(`cluster.scoring.reflectors`), pods of no queue for plugin `conformance`, nodes for plugins `overcommit` and
`proportion` and for the names in quotas, claims of devices for capabilities that name a class of them,
PriorityClasses for gangs that name one (`cluster.informers.informers`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Protocol

#: In place of the names of those that could not be started.
FAILED = "reflectors-on-demand"


class StartedReflector(Protocol):
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def retry_now(self) -> None: ...
    @property
    def has_died(self) -> bool: ...


class OnDemandReflectors:
    """Makes reflectors and starts them when they are needed, and stops them when they are not.

    `follow` is called by one thread at a time, all else by any. Once stopped, none starts again.
    """

    def __init__(self, new_reflectors: Callable[[], Mapping[str, StartedReflector]]) -> None:
        """`new_reflectors`: makes the reflectors, by kind; called each time they come to be needed."""
        self._new_reflectors = new_reflectors
        self._lock = threading.Lock()
        self._stopped = False
        self._running: Mapping[str, StartedReflector] = {}
        #: Whether they are needed and could not be started.
        self._has_failed = False

    def follow(self, *, needed: bool) -> None:
        """Start or stop the reflectors, as they are needed."""
        with self._lock:
            if not needed:
                self._stop()
            elif not self._running and not self._stopped:
                try:
                    self._running = self._start()
                except BaseException:
                    self._has_failed = True
                    raise
                self._has_failed = False

    def stop(self) -> None:
        """Stop the reflectors for good."""
        with self._lock:
            self._stopped = True
            self._stop()

    def retry_now(self) -> None:
        """End the back-offs that are under way: the API server answers again."""
        for reflector in self._running.values():
            reflector.retry_now()

    def dead(self) -> list[str]:
        """Return the names of the threads that were started and have ended; all of them as one if they are
        needed and could not be started, since nobody may try that again.
        """
        if self._has_failed:
            return [FAILED]
        return [f"reflector-{kind}" for kind, reflector in self._running.items() if reflector.has_died]

    def _start(self) -> Mapping[str, StartedReflector]:
        """All of them, or none: if one cannot be started, the others are stopped, and the next `follow` tries
        again.
        """
        reflectors = self._new_reflectors()
        with ExitStack() as stops:
            for reflector in reflectors.values():
                stops.callback(reflector.stop)
                reflector.start()
            stops.pop_all()
        return reflectors

    def _stop(self) -> None:
        self._has_failed = False
        running, self._running = self._running, {}
        with ExitStack() as stops:  # each, though another one raises
            for reflector in running.values():
                stops.callback(reflector.stop)
