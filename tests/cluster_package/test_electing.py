"""Who runs for the leader's Lease, and what follows while our own cannot be renewed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from cluster.electing import Elector
from cluster.exceptions import NotFound, Unreachable
from cluster.leases import Leases
from cluster.presence import Presence, View

PATIENCE = 30.0


class Kept:
    """Leases of an API server that is there, or is not; nobody else asks it."""

    def __init__(self) -> None:
        self.asked = self.written = 0
        self.away = False
        #: Set by each request.
        self.touched = threading.Event()

    def get(self, *_: Any) -> Any:
        self._ask()
        raise NotFound(404, "NotFound", "not yet")

    def create(self, *_: Any, **__: Any) -> None:
        self._ask()
        self.written += 1

    def renew(self, *_: Any, **__: Any) -> None:
        self._ask()
        self.written += 1

    def delete(self, *_: Any, **__: Any) -> None: ...

    def _ask(self) -> None:
        self.asked += 1
        self.touched.set()
        if self.away:
            raise Unreachable("nobody is there")


class Lists:
    """The lists of queues that were asked for, each done when a test says so."""

    def __init__(self) -> None:
        self.done: list[bool] = []

    def __call__(self) -> Callable[[], bool]:
        number = len(self.done)
        self.done.append(False)
        return lambda: self.done[number]


@contextmanager
def running(one: Elector | Presence) -> Iterator[None]:
    one.start()
    try:
        yield
    finally:
        one.stop()


def lost(elector: Elector) -> bool:
    """Whether it leads no more, soon."""
    end = time.monotonic() + PATIENCE
    while elector.leading and time.monotonic() < end:
        time.sleep(0.01)
    return not elector.leading


def test_who_has_not_read_the_cluster_leaves_the_lease_to_others() -> None:
    """It would keep it from whoever could lead."""
    kept, ready, looked = Kept(), threading.Event(), threading.Event()
    elected = threading.Event()

    def eligible() -> bool:
        looked.set()
        return ready.is_set()

    elector = Elector(
        cast(Leases, kept), identity="one", clock=lambda: 1000.0, elected=elected.set, eligible=eligible
    )
    with running(elector):
        assert looked.wait(PATIENCE)
        assert (kept.written, elector.leading, elector.term) == (0, False, 0)
        ready.set()
        assert elected.wait(PATIENCE)
        assert (kept.written, elector.leading, elector.term) == (1, True, 1)
        ready.clear()
        assert lost(elector)


def presence(kept: Kept, lists: Lists, clock: Callable[[], float]) -> Presence:
    return Presence(cast(Leases, kept), identity="one", clock=clock, view=View, fresh=lists)


def test_a_renewal_that_fails_is_not_repeated_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every replica asks a server that is just coming up, as fast as it can."""
    monkeypatch.setattr("cluster.presence.RETRY_SECONDS", PATIENCE)
    kept, lists = Kept(), Lists()
    kept.away = True
    with running(presence(kept, lists, lambda: 1000.0)):
        assert kept.touched.wait(PATIENCE)
        threading.Event().wait(0.2)
        assert kept.asked == 1


def test_after_a_gap_the_queues_are_listed_anew_whatever_was_listed_before_it() -> None:
    """Others may have acknowledged stops without us while our Lease was not held."""
    now = 1000.0
    kept, lists = Kept(), Lists()
    one = presence(kept, lists, lambda: now)
    assert one._renew(View())
    assert (lists.done, one.alive) == ([False], False)
    lists.done[0] = True
    kept.away = True
    now += 2
    assert not one._renew(View())
    now += 20
    kept.away = False
    assert one._renew(View())
    assert (lists.done, one.alive) == ([True, False], False)
    lists.done[1] = True
    now += 1
    assert one._renew(View())
    assert one.alive
