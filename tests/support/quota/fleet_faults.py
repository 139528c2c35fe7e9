"""Faults of three replicas: the leader dies, sleeps or leaves, and what they hear is late or cut."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from controller.quota.book_writes import NAME
from localcluster.components import NAMESPACE
from tests.support.e2e.api_requests import Api
from tests.support.e2e.fleet import Fleet

REPLICAS = ("server-1", "server-2", "server-3")
BOOK = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}"
#: How often which fault comes, beside the others.
WEIGHTS = {
    "kill": 14,
    "sleep": 3,
    "roll": 2,
    "late": 4,
    "cut": 4,
    "hold": 3,
    "lose": 1,
}
#: How long a death waits for its moment.
MOMENT_SECONDS = 3.0


class FleetFaults:
    """One fault after the other, in a thread of its own, until the block ends. Who was killed comes back
    beside the next ones.

    `done`: how often which fault was; `leaders_killed`: how often it was the leader that died.
    """

    def __init__(
        self, fleet: Fleet, *, chance: random.Random, api: Api, await_moment: Callable[[float], object]
    ) -> None:
        """`await_moment`: returns when it is worst to die, or after so many seconds. Half of the deaths wait
        for that.
        """
        self._fleet, self._chance, self._api = fleet, chance, api
        self._await_moment = await_moment
        self._ended = threading.Event()
        self._trouble: BaseException | None = None
        self._coming_back: dict[str, threading.Thread] = {}
        self.done: Counter[str] = Counter()
        self.leaders_killed = 0

    @contextmanager
    def going_on(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run, name="fleet-faults", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()
        if self._trouble is not None:
            raise self._trouble

    def _run(self) -> None:
        acts: dict[str, Callable[[str], object]] = {
            "kill": self._kill,
            "sleep": self._sleep,
            "roll": self._roll,
            "late": self._late,
            "cut": self._cut,
            "hold": self._hold,
            "lose": self._lose_book,
        }
        try:
            while not self._ended.wait(self._chance.uniform(0.3, 1.5)):
                [kind] = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
                up = [name for name in REPLICAS if not self._comes_back(name)]
                leader = self._leader()
                if len(up) < 2:  # one at least goes on
                    continue
                name = leader if leader in up and self._chance.random() < 0.7 else self._chance.choice(up)
                acts[kind](name)
                self.done[kind] += 1
                self.leaders_killed += kind == "kill" and name == leader
        except BaseException as exc:  # raised again when the block ends
            self._trouble = exc

    def _leader(self) -> str:
        """ "" while none leads that is known."""
        holder = self._fleet.leader()
        return next((name for name in REPLICAS if holder.startswith(name)), "")

    def _kill(self, name: str) -> None:
        if self._chance.random() < 0.5:
            self._await_moment(MOMENT_SECONDS)
        self._fleet.kill(name)
        self._come_back(name)

    def _come_back(self, name: str) -> None:
        thread = threading.Thread(target=join, args=(self._fleet, name), name=f"start-{name}", daemon=True)
        self._coming_back[name] = thread
        thread.start()

    def _comes_back(self, name: str) -> bool:
        return name in self._coming_back and self._coming_back[name].is_alive()

    def _roll(self, name: str) -> None:
        self._fleet.leave(name)
        self._come_back(name)

    def _sleep(self, name: str) -> None:
        """For longer than it leads without an answer, or less."""
        self._fleet.pause(name)
        try:
            self._ended.wait(self._chance.choice([0.5, 2.0, 8.0]))
        finally:
            self._fleet.go_on(name)

    def _late(self, name: str) -> None:
        """Each piece of what it hears and says; until the next such fault."""
        for each in REPLICAS:
            self._fleet.ways[each].delay = 0.0
        self._fleet.ways[name].delay = 0.0 if self._ended.is_set() else self._chance.uniform(0.05, 0.5)

    def _cut(self, name: str) -> None:
        self._fleet.ways[name].cut()
        self._ended.wait(self._chance.choice([0.0, 0.0, 1.0, 5.0]))
        self._fleet.ways[name].heal()

    def _hold(self, name: str) -> None:
        """What it hears and says waits, and comes then."""
        self._fleet.ways[name].hold_back()
        self._ended.wait(self._chance.choice([0.5, 2.0, 7.0]))
        self._fleet.ways[name].let_through()

    def _lose_book(self, _: str) -> None:
        if self._chance.random() < 0.5:
            self._api.delete(BOOK)
        else:
            self._api.patch(BOOK, {"data": {"book": "2 x"}})

    def end(self) -> None:
        """All that was spoilt is mended, and each replica is ready."""
        for thread in self._coming_back.values():
            thread.join()
        for name in REPLICAS:
            self._fleet.ways[name].delay = 0.0
            self._fleet.heal(name)


def join(fleet: Fleet, name: str) -> None:
    """A replica that says on the Lease of the leader which it is."""
    fleet.join(name, prefix=("/usr/bin/env", f"POD_NAME={name}"))
