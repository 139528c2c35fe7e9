"""Three replicas that drain a mixed load, and what is asked of them in the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.support.e2e.fleet import Fleet
from tests.support.e2e.mixed_load import MixedLoad, evicted
from tests.support.e2e.wait import until
from tests.support.faults.faults import When
from tests.support.faults.intercepting import Asked, Interceptor

#: Evictions a second, where a drain is to last; and where it is to end.
SLOWLY, FAST = 1.0, 100.0


class Replicas:
    """Three of them, each with requests of its own that can be spoilt and counted."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.names: list[str] = []
        for _ in range(3):
            self.join()

    def join(self) -> None:
        """One more, of a name that none had."""
        name = f"server-{len(self._fleet.interceptors) + 1}"
        self._fleet.join(name, intercepted=True)
        self.names.append(name)

    def wait_until_ready(self) -> None:
        for name in self.names:
            self._fleet.wait_until_ready(name)

    def roll(self) -> None:
        """The oldest makes room for a new one."""
        self.join()
        self._fleet.leave(self.names.pop(0))

    def kill(self, name: str) -> None:
        self.names.remove(name)
        self._fleet.kill(name)

    def evicting(self, *, answered: bool) -> str:
        """The one that leads, once an eviction of its is kept: before it is carried out, or after it."""
        return self.keep(is_eviction, answered=answered)()

    def keep(self, when: When, *, answered: bool) -> Callable[[], str]:
        """Keep the next request of which `when` holds, whoever sends it. Returns what waits for it, and says
        who did.
        """
        ways = self._fleet.interceptors
        kept = {name: ways[name].keep(when, answered=answered) for name in self.names}

        def reached() -> str:
            return next((name for name, each in kept.items() if each.reached.is_set()), "")

        return lambda: until(reached, "the request to be sent")

    @property
    def ways(self) -> Sequence[Interceptor]:
        """Of all that ever were."""
        return list(self._fleet.interceptors.values())

    def evicted(self) -> int:
        return evicted(self.ways).total()


def finish_drain(load: MixedLoad, replicas: Replicas) -> None:
    """It is drained and given back, and nothing that happened on the way should not have."""
    until(load.is_drained, "the drain to end", seconds=120)
    load.give_back()
    load.nothing_was_lost(replicas.ways)


def is_eviction(asked: Asked) -> bool:
    return asked.path.endswith("/eviction")
