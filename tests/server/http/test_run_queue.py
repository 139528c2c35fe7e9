"""The loop's time is shared: nobody has more than a slice while others wait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from server.http.run_queue import (
    SLICE,
    TURN,
    RunQueue,
)


@dataclass
class Loop:
    """A clock that work moves, and what was to be called soon."""

    now: float = 0.0
    soon: list[Callable[[], None]] = field(default_factory=list)
    order: list[str] = field(default_factory=list)

    def call_soon(self, call: Callable[[], None]) -> None:
        self.soon.append(call)

    def turn(self) -> None:
        """One turn of the loop: what was to be called until now."""
        due, self.soon = self.soon, []
        for call in due:
            call()


@dataclass(eq=False)
class Busy:
    """A caller with so many seconds of work."""

    name: str
    loop: Loop
    left: float

    def work(self, until: float) -> bool:
        took = min(self.left, max(0.0, until - self.loop.now))
        self.loop.now += took
        self.left -= took
        self.loop.order.append(self.name)
        return self.left > 1e-9


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def queue(loop: Loop) -> RunQueue:
    return RunQueue(call_soon=loop.call_soon, clock=lambda: loop.now)


def test_a_connection_with_little_to_do_runs_at_once(loop: Loop, queue: RunQueue) -> None:
    """It costs an honest caller nothing."""
    queue.submit(Busy("a", loop, SLICE / 2))
    assert (loop.order, loop.soon) == (["a"], [])


def test_a_connection_with_much_to_do_runs_in_slices(loop: Loop, queue: RunQueue) -> None:
    busy = Busy("a", loop, 10 * SLICE)
    queue.submit(busy)
    assert loop.now == pytest.approx(SLICE)
    loop.turn()
    assert loop.now == pytest.approx(SLICE + TURN)
    for _ in range(3):
        loop.turn()
    assert busy.left == pytest.approx(0)
    assert loop.soon == []


def test_a_new_connection_waits_one_turn_however_many_are_busy(loop: Loop, queue: RunQueue) -> None:
    for number in range(100):
        queue.submit(Busy(str(number), loop, 10.0))
    while len(set(loop.order)) < 100:
        loop.turn()
    queue.submit(Busy("new", loop, SLICE / 2))
    before = loop.now
    loop.turn()
    assert "new" in loop.order
    assert loop.now - before <= TURN + SLICE


def test_the_backlog_progresses_whatever_else_arrives(loop: Loop, queue: RunQueue) -> None:
    """Those who come anew all the time do not keep the others from their turn."""
    busy = [Busy("old", loop, 3 * SLICE) for _ in range(3)]
    for each in busy:
        queue.submit(each)
    for _ in range(20):
        for _ in range(10):
            queue.submit(Busy("new", loop, SLICE / 2))
        loop.turn()
    assert [each.left for each in busy] == [pytest.approx(0)] * 3


def test_a_removed_connection_does_not_run(loop: Loop, queue: RunQueue) -> None:
    busy = Busy("a", loop, 1.0)
    queue.submit(busy)
    queue.remove(busy)
    loop.turn()
    assert (loop.order, loop.soon) == (["a"], [])


def test_a_connection_waits_only_once(loop: Loop, queue: RunQueue) -> None:
    busy = Busy("a", loop, 3 * SLICE)
    for _ in range(5):
        queue.submit(busy)
    loop.turn()
    assert loop.order == ["a"] * 3


def test_a_background_connection_gives_way_however_many_there_are(loop: Loop, queue: RunQueue) -> None:
    """Between two of the others' steps there is one of theirs at most."""
    probes = [Busy(f"probe {number}", loop, SLICE) for number in range(100)]
    for probe in probes:
        queue.submit(probe, background=True)
    for name in ("a", "b"):
        queue.submit(Busy(name, loop, SLICE))
    seen = len(loop.order)
    loop.turn()
    assert [name for name in loop.order[seen:] if not name.startswith("probe")] == ["a", "b"]
    assert loop.order[seen:].index("b") == 2
    while loop.soon:
        loop.turn()
    assert len(loop.order) == 102
