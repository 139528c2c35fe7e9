"""Statuses of queues with an edge give way to the edges of others, for a time, and to nothing else."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from cluster.cache.changes import QueueChange
from cluster.cache.store import Store
from cluster.objects import QueueObject
from controller.stops.edge_hold import (
    AT_ONCE,
    LONGEST_SECONDS,
    STALLED_SECONDS,
    EdgeHold,
    is_answered,
    is_edge,
    is_released,
)
from queues.queue import ROOT
from queues.tree import Tree
from tests.support.http.asking import SetClock
from tests.support.http.wire_objects import queue as wire_queue
from tests.support.rules.cases import queue as queue_value

ON = [{"name": "freeze", "start": "2030-01-01T00:00:00Z", "until": "2030-02-01T00:00:00Z"}]


def stored(name: str, generation: int = 1, *, answered: bool = True, **spec: Any) -> QueueObject:
    body = wire_queue(name, generation=generation, version=100 + generation, **spec)
    body["status"] = {"observedGeneration": generation if answered else generation - 1}
    return msgspec.convert(body, QueueObject)


class Queues:
    """Queues `a`, `b`, ... below root, `x` below `a`, and what is held of them."""

    def __init__(self, count: int = 3) -> None:
        self.clock = SetClock()
        names = [chr(ord("a") + number) for number in range(count)]
        self.queues = {name: stored(name) for name in names}
        self.queues |= {"x": stored("x", parent="a"), ROOT: stored(ROOT)}
        tree = Tree({name: queue_value(name, "a" if name == "x" else ROOT) for name in self.queues})
        self.statuses: list[str] = []
        store = SimpleNamespace(clock=self.clock, queues=self.queues, snapshot=SimpleNamespace(tree=tree))
        self.hold = EdgeHold(cast(Store, store), statuses_wait=lambda: len(self.statuses))

    def submit(self, *names: str) -> None:
        for name in names:
            self.hold.submitted(self.queues[name])

    def send(self, name: str) -> None:
        """Its edge is sent and stored, and the watch shows it."""
        self.hold.sent(name)
        self.edit(name, inWindow=ON)

    def edit(self, name: str, *, also: tuple[str, ...] = (), **spec: Any) -> None:
        """Somebody edits it; `also`: the queues below it."""
        before = self.queues[name]
        wire = msgspec.to_builtins(before)
        wire["spec"] |= spec
        wire["metadata"]["generation"] += 1
        self.queues[name] = msgspec.convert(wire, QueueObject)
        self.hold.record({each: {QueueChange.SPEC} for each in (name, *also)})

    def held(self) -> set[str]:
        return {name for name in self.queues if self.hold.holds(name)}

    def wait(self, seconds: float) -> None:
        self.clock.seconds += seconds


def test_who_has_an_edge_is_held_while_edges_of_others_were_never_sent_and_released_in_order() -> None:
    queues = Queues()
    queues.submit("a", "b", "c")
    queues.send("a")
    queues.send("b")
    assert queues.held() == {"a", "b"}
    assert queues.hold.step() == []
    queues.send("c")
    assert queues.held() == {"a", "b"}, "the last edge waits for nobody"
    assert queues.hold.step() == ["a", "b"]
    assert queues.held() == set()


def test_one_edge_alone_is_never_held() -> None:
    queues = Queues()
    queues.submit("a")
    queues.send("a")
    assert (queues.held(), queues.hold.due) == (set(), float("inf"))


def test_an_edge_that_hangs_or_is_refused_holds_up_nobody() -> None:
    queues = Queues()
    queues.submit("a", "b")
    queues.send("a")
    queues.hold.sent("b")
    assert queues.hold.step() == ["a"]
    queues = Queues()
    queues.submit("a", "b")
    queues.send("a")
    queues.hold.refused("b")
    assert queues.hold.step() == ["a"]


def test_where_no_edge_is_sent_any_more_nobody_is_held() -> None:
    """All threads that write may be in requests that hang."""
    queues = Queues()
    queues.submit("a", "b")
    queues.send("a")
    assert queues.hold.due == queues.clock.seconds + STALLED_SECONDS
    queues.wait(STALLED_SECONDS)
    assert queues.hold.step() == ["a"]


def test_nobody_is_held_for_longer_however_many_edges_come() -> None:
    queues = Queues()
    queues.submit("a", "b")
    queues.send("a")
    steps = round(LONGEST_SECONDS)
    for step in range(steps):
        assert queues.hold.step() == []
        assert queues.hold.due <= queues.clock.seconds + LONGEST_SECONDS - step
        queues.wait(1.0)
        queues.hold.sent("c")
        queues.submit("c")
        queues.hold._sent_at = queues.clock.seconds
    assert queues.hold.step() == ["a"]


@pytest.mark.parametrize(
    ("edited", "below", "left"),
    [
        ("a", ("x",), {"b"}),
        ("b", (), {"a", "x"}),
        ("x", (), {"a", "b"}),
        (ROOT, ("a", "b", "c", "x"), set()),
        ("c", (), {"a", "b", "x"}),
    ],
)
def test_an_edit_by_hand_ends_it_for_the_queue_and_those_below(
    edited: str, below: tuple[str, ...], left: set[str]
) -> None:
    queues = Queues()
    queues.submit("a", "b", "x", "c")
    for name in ("a", "b", "x"):
        queues.send(name)
    assert queues.held() == {"a", "b", "x"}
    queues.edit(edited, also=below, stopPolicy="Hold")
    assert queues.held() == left


def test_an_edge_of_a_queue_above_ends_nothing() -> None:
    queues = Queues()
    queues.submit("x", "a", "b")
    queues.send("x")
    queues.hold.sent("a")
    queues.edit("a", also=("x",), inWindow=ON)
    assert queues.held() == {"a", "x"}


def test_a_stop_by_hand_before_the_edge_is_not_held() -> None:
    """The edge then meets a conflict, and is submitted again for the queue as it is."""
    queues = Queues()
    queues.submit("a", "b")
    queues.edit("a", stopPolicy="Hold")
    assert queues.held() == set()
    queues.hold.refused("a")
    queues.submit("a")
    queues.send("a")
    assert queues.held() == set(), "its status says nothing of the stop yet"


def test_statuses_follow_a_few_at_a_time_as_they_are_written() -> None:
    queues = Queues(count=25)
    names = [name for name in queues.queues if name not in (ROOT, "x")]
    queues.submit(*names)
    for name in names:
        queues.send(name)
    first = queues.hold.step()
    assert first == names[:AT_ONCE]
    queues.statuses += first
    assert queues.hold.step() == []
    assert queues.hold.due > queues.clock.seconds, "a status that was written calls the next sync"
    del queues.statuses[:2]
    assert queues.hold.step() == names[AT_ONCE : AT_ONCE + 2]
    queues.wait(LONGEST_SECONDS)
    assert queues.hold.step() == names[AT_ONCE + 2 : -1], "though others keep the writers busy"


def test_a_new_term_holds_nobody() -> None:
    queues = Queues()
    queues.submit("a", "b")
    queues.send("a")
    queues.hold.begin_term()
    assert (queues.held(), queues.hold.step(), queues.hold.edges_wait()) == (set(), [], False)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (stored("a", 2, inWindow=ON), True),
        (stored("a", 2), False),
        (stored("a", 2, inWindow=ON, stopPolicy="Hold"), False),
        (stored("a", 2, inWindow=ON, windows=[{"name": "freeze"}]), False),
        (stored("a", 3, inWindow=ON), False),
    ],
    ids=["as the leader writes it", "nothing differs", "with a stop", "with a window", "one was missed"],
)
def test_an_edge_differs_by_what_is_on_alone(after: QueueObject, expected: bool) -> None:
    assert is_edge(stored("a"), after) is expected


@pytest.mark.parametrize("answered", [True, False])
def test_a_status_is_of_the_version_before_the_edge_or_not(answered: bool) -> None:
    after = msgspec.structs.replace(stored("a", 2), status=stored("a", answered=answered).status)
    assert is_answered(stored("a"), after) is answered


@pytest.mark.parametrize(
    ("seconds", "edges_wait", "has_room", "expected"),
    [
        (0.0, True, True, False),
        (0.0, False, True, True),
        (0.0, False, False, False),
        (LONGEST_SECONDS, True, False, True),
    ],
)
def test_when_one_is_released(seconds: float, edges_wait: bool, has_room: bool, expected: bool) -> None:
    assert is_released(seconds, edges_wait=edges_wait, has_room=has_room) is expected


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_nobody_is_held_for_long_or_after_an_edit_by_hand(seed: int) -> None:
    draw = random.Random(seed)
    queues = Queues(count=8)
    names = [name for name in queues.queues if name != ROOT]
    since: dict[str, float] = {}
    for _ in range(400):
        name = draw.choice(names)
        below = ("x",) if name == "a" else ()
        match draw.choice(["submit", "send", "hang", "refuse", "edit", "wait", "status", "take", "take"]):
            case "submit":
                queues.submit(name)
            case "send":
                queues.hold.sent(name)
                queues.edit(name, also=below, inWindow=draw.choice([ON, None]))
            case "hang":
                queues.hold.sent(name)
            case "refuse":
                queues.hold.refused(name)
            case "edit":
                queues.edit(name, also=below, weight=draw.randrange(1000))
                assert not queues.held() & {name, *below}
            case "wait":
                queues.wait(draw.choice([0.1, 1.0, 5.0]))
            case "status":
                queues.statuses[:] = ["s"] * draw.choice([0, 5, AT_ONCE, 100])
            case "take":
                was, edges_wait = queues.held(), queues.hold.edges_wait()
                taken = queues.hold.step()
                assert len(taken) <= AT_ONCE
                assert was - queues.held() == set(taken)
                if not edges_wait and not queues.statuses:
                    assert queues.held() == set()
                assert not [
                    each for each in queues.held() if queues.clock.seconds >= since[each] + LONGEST_SECONDS
                ]
        assert queues.hold.due <= queues.clock.seconds + LONGEST_SECONDS or not queues.held()
        since = {each: since.get(each, queues.clock.seconds) for each in queues.held()}
