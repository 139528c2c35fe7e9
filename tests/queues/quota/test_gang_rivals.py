"""Which gang gives back, of those that hold each other's nodes: gang by gang."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest

from queues.quota.gang_rivals import (
    GIVE_BACK_SECONDS,
    OTHERS_SECONDS,
    SETTLE_SECONDS,
    Pace,
    Placing,
    who_gives_back,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def placing(
    name: str,
    *,
    since: float = 0.0,
    placed: int = 1,
    progressed: float | None = None,
    able: bool = True,
    of: str = "cpu",
    began: float | None = None,
    seconds: float = 300.0,
    held: bool = False,
    queue: str = "team",
    scope: str = "",
    priority: int = 0,
) -> Placing:
    """The tickets are in the order of the names."""
    return Placing(
        name,
        (0, NOW, name),
        frozenset({of}),
        since=since,
        progressed=since if progressed is None else progressed,
        seconds=seconds,
        placed=placed,
        is_able=able,
        began=began,
        is_held=held,
        queue=queue,
        scope=scope or queue,
        priority=priority,
    )


@pytest.mark.parametrize(
    ("gangs", "now", "expected"),
    [
        # Within its time.
        ([placing("a"), placing("b")], 299, ""),
        # Alone.
        ([placing("a")], 300, "a"),
        ([placing("a", placed=0)], 300, "a"),
        ([placing("a", able=False)], 10_000, ""),
        ([placing("a", seconds=60.0)], 60, "a"),
        # The lowest ticket that has nodes and requests what is short.
        ([placing("a"), placing("b"), placing("c")], 300, "c"),
        ([placing("a"), placing("b"), placing("c", of="gpu", since=200)], 300, "b"),
        ([placing("a"), placing("b"), placing("c", placed=0, since=200)], 300, "b"),
        ([placing("a"), placing("b"), placing("c", able=False)], 300, "b"),
        ([placing("a"), placing("b", since=200)], 300, "b"),
        ([placing("a", since=200), placing("b")], 300, "b"),
        # It still gets nodes: the other one waits.
        ([placing("a"), placing("b", since=200, progressed=280)], 300, ""),
        ([placing("a"), placing("b", since=200, progressed=280)], 310, "b"),
        # Those without a node are in nobody's way, and have no rivals.
        ([placing("a", placed=0), placing("b", placed=0), placing("c", placed=0, since=9)], 300, "a b"),
        ([placing("a", placed=0), placing("b", since=200)], 300, "a"),
        ([placing("a", placed=0), placing("b")], 300, "a b"),
        ([placing("a"), placing("b", placed=0)], 300, "b a"),
        # One at a time: another one gives back.
        ([placing("a"), placing("b", began=290)], 300, ""),
        ([placing("a", placed=0), placing("b", began=290)], 300, "a"),
        ([placing("a"), placing("b", began=290, placed=0)], 300, "a"),
        ([placing("a", since=400), placing("b", began=290)], 290 + GIVE_BACK_SECONDS, ""),
        ([placing("a"), placing("b", began=290)], 290 + GIVE_BACK_SECONDS, "a"),
        # What others gave back did not help it.
        ([placing("a"), placing("b", since=580)], 599, ""),
        ([placing("a"), placing("b", since=580)], 600, "a"),
        ([placing("a", progressed=10), placing("b", since=580)], 605, ""),
        ([placing("a"), placing("b")], 600, "a"),
        # Its queue is stopped: it keeps what it has, and nobody gives back for it.
        ([placing("a", held=True)], 10_000, ""),
        ([placing("a", held=True), placing("b", since=200)], 300, ""),
        ([placing("a"), placing("b", held=True)], 300, "a"),
        ([placing("a"), placing("b", began=290, held=True)], 300, ""),
    ],
)
def test_who_gives_back(gangs: list[Placing], now: float, expected: str) -> None:
    for each in (gangs, gangs[::-1]):
        found = [gang.uid for gang in who_gives_back(each, now=now, pace=Pace())]
        assert sorted(found) == sorted(expected.split())


def going(*gangs: Placing, now: float, pace: Pace | None = None) -> str:
    """Those that begin to give back, whatever the order in which they are given."""
    pace = pace or Pace()
    found = [{gang.uid for gang in who_gives_back(each, now=now, pace=pace)} for each in (gangs, gangs[::-1])]
    assert found[0] == found[1]
    return " ".join(sorted(found[0]))


def test_the_next_one_with_nodes_gives_back_once_others_had_time_to_use_what_is_free() -> None:
    pace = Pace(of_all=-math.inf, of_scopes={"team": 301})
    assert going(placing("a"), now=300, pace=pace) == ""
    assert going(placing("a"), now=301, pace=pace) == "a"
    assert going(placing("a", placed=0), now=300, pace=pace) == "a"


def test_pods_of_one_scope_that_end_slowly_delay_no_other_scope_for_long() -> None:
    pace = Pace()
    pace.began(now=290)
    slow, waits = placing("a", began=290), placing("b", queue="other")
    assert going(slow, waits, now=290 + OTHERS_SECONDS - 1, pace=pace) == ""
    assert going(slow, waits, now=290 + OTHERS_SECONDS, pace=pace) == "b"
    assert going(slow, placing("b"), now=290 + OTHERS_SECONDS, pace=pace) == ""
    pace.ended("team", now=300)
    assert going(waits, now=300 + SETTLE_SECONDS, pace=pace) == "b"


# Rivals of different queues


@pytest.mark.parametrize(
    ("gangs", "now", "expected"),
    [
        # The ticket of a gang is what its owner writes: it counts in its own queue alone.
        ([placing("a"), placing("b", queue="other", since=200)], 300, "a"),
        ([placing("b"), placing("a", queue="other", since=200)], 300, "b"),
        # The priority of its pods counts everywhere.
        ([placing("a", priority=1), placing("b", queue="other", since=200)], 300, "b"),
        ([placing("a", priority=1), placing("b", queue="other", since=290)], 300, ""),
        ([placing("a", priority=1), placing("b", queue="other", since=200, placed=0)], 300, "a"),
        ([placing("a", priority=1, placed=0), placing("b", queue="other", since=200)], 300, "a"),
        ([placing("a", priority=1), placing("b", queue="other", since=200, of="gpu")], 300, "a"),
        ([placing("a"), placing("b", queue="other", since=200, priority=1)], 300, "a"),
        # In its own queue it counts by the ticket alone.
        ([placing("a"), placing("b", since=200, priority=1)], 300, "b"),
        # The time of several is over: one goes at a time, of the lowest priority, then the one released last.
        ([placing("a"), placing("b", queue="other")], 300, "b"),
        ([placing("a"), placing("b", queue="other"), placing("c", queue="third", priority=1)], 300, "b"),
        ([placing("a", since=5), placing("b", queue="other")], 305, "a"),
        # The highest one that was not helped goes before them.
        ([placing("a", priority=1), placing("b", queue="other", since=580)], 600, "a"),
    ],
)
def test_who_gives_back_for_gangs_of_other_queues(gangs: list[Placing], now: float, expected: str) -> None:
    assert going(*gangs, now=now) == expected


LONG = 3600.0


@pytest.mark.parametrize("queue", ["team", "other"])
def test_a_longer_time_lasts_while_no_rival_needs_the_nodes(queue: str) -> None:
    lasting = placing("a", seconds=LONG, queue=queue)
    assert going(lasting, now=LONG - 1) == ""
    assert going(lasting, now=LONG) == "a"
    waits = placing("b", since=200)
    assert going(lasting, waits, now=499) == ""
    assert going(lasting, waits, now=500) == "b", "the one that was released later, or has the lower ticket"
    again = placing("b", since=550, placed=1)
    assert going(lasting, again, now=849) == ""
    assert going(lasting, again, now=850) == "a", "it has got no node for twice the usual time"


@pytest.mark.parametrize("queue", ["team", "other"])
def test_who_asks_for_more_time_has_others_go_for_no_longer(queue: str) -> None:
    """All that others gave back in twice the usual time did not help it."""
    high = placing("a", seconds=700.0, priority=1)
    assert going(high, placing("b", since=600, queue=queue), now=700) == "a"


def test_ten_thousand_gangs_of_many_queues_take_as_many_steps() -> None:
    """Each looks at the best of each kind of requests, and not at each other gang."""
    gangs = [
        placing(f"{number:05}", queue=f"q{number % 800}", since=number / 100) for number in range(10_000)
    ]
    found = who_gives_back(gangs, now=1000.0, pace=Pace())
    assert [gang.uid for gang in found] == ["00000"], "the first one that is stuck"
