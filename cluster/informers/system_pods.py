"""Watches the pods that are no members while some scheduling policy protects the system-critical ones among
them, and only then (`cluster.cache.system_pods`).

`follow` is called by one thread at a time, all else by any.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from cluster.cache.system_pods import SystemPods
from cluster.scoring.reflectors import StartedReflector
from queues.policies.policy_set import PolicySet

SYSTEM_PODS = "system-pods"


class SystemPodsWatch:
    """Owner: the informers. `new_reflector` makes the reflector when it is needed."""

    def __init__(self, system_pods: SystemPods, *, new_reflector: Callable[[], StartedReflector]) -> None:
        self._system_pods = system_pods
        self._new_reflector = new_reflector
        self._lock = threading.Lock()
        self._stopped = False
        self._reflector: StartedReflector | None = None

    def follow(self, policies: PolicySet) -> None:
        """Start or stop the watch, as these policies need it."""
        with self._lock:
            if policies.protects_system_pods and self._reflector is None and not self._stopped:
                self._reflector = self._new_reflector()
                self._reflector.start()
            elif not policies.protects_system_pods:
                self._stop()

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            self._stop()

    def retry_now(self) -> None:
        """End a back-off that is under way: the API server answers again."""
        reflector = self._reflector
        if reflector is not None:
            reflector.retry_now()

    def dead(self) -> list[str]:
        """Return the name of the thread if it was started and has ended."""
        reflector = self._reflector
        return [f"reflector-{SYSTEM_PODS}"] if reflector is not None and reflector.has_died else []

    def _stop(self) -> None:
        reflector, self._reflector = self._reflector, None
        if reflector is not None:
            reflector.stop()
