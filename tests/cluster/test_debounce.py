"""A burst of reasons is one action; the next one waits for it and for its rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from cluster.informers import debounce as debouncing
from cluster.informers.debounce import Debouncer
from tests.support.cluster.notes import eventually


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debouncing, "QUIET_SECONDS", 0.2)
    monkeypatch.setattr(debouncing, "MOST_SECONDS", 1_000.0)
    monkeypatch.setattr(debouncing, "LOOK_SECONDS", 0.005)


@contextmanager
def debounced(act: Callable[[], Callable[[], bool]]) -> Iterator[Debouncer]:
    made = Debouncer(act, name="acting", clock=time.monotonic)
    made.start()
    try:
        yield made
    finally:
        made.stop()
        assert not made.alive


class Acting:
    """Counts, and is done when it is told so."""

    def __init__(self, *, done: bool = True) -> None:
        self.begun = 0
        self.done = done

    def __call__(self) -> Callable[[], bool]:
        self.begun += 1
        return lambda: self.done


def test_a_burst_is_one_action() -> None:
    acting = Acting()
    with debounced(acting) as one:
        for _ in range(500):
            one.trigger()
        eventually(lambda: acting.begun)
        one.trigger()
        eventually(lambda: acting.begun > 1)
    assert acting.begun == 2


def test_a_burst_without_end_is_acted_upon_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debouncing, "QUIET_SECONDS", 1_000.0)
    monkeypatch.setattr(debouncing, "MOST_SECONDS", 0.1)
    acting = Acting()
    with debounced(acting) as one:
        one.trigger()

        def acted_often() -> bool:
            one.trigger()
            return acting.begun >= 3

        eventually(acted_often)


def test_what_is_asked_for_while_an_action_is_under_way_comes_after_it() -> None:
    acting = Acting(done=False)
    with debounced(acting) as one:
        one.trigger()
        eventually(lambda: acting.begun == 1)
        one.trigger()
        time.sleep(0.5)  # that nothing happens cannot be waited for
        assert acting.begun == 1
        acting.done = True
        eventually(lambda: acting.begun == 2)


def test_an_action_that_fails_is_not_the_last() -> None:
    begun: list[int] = []

    def fail() -> Callable[[], bool]:
        begun.append(1)
        raise RuntimeError("as ordered")

    with debounced(fail) as one:
        one.trigger()
        eventually(lambda: begun)
        one.trigger()
        eventually(lambda: len(begun) == 2)
        assert one.alive


def test_a_stop_ends_it_whatever_it_waits_for() -> None:
    with debounced(Acting()) as idle:
        assert idle.alive
    busy = Acting(done=False)
    with debounced(busy) as one:
        one.trigger()
        eventually(lambda: busy.begun)
