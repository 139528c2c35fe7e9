"""Gangs that wait for each other's nodes: who gives back, and that all complete in the end."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from queues.quota.gang_placement import (
    GIVE_BACK_SECONDS,
    MAX_PAUSE_SECONDS,
    MAX_SECONDS,
    PLACEMENT_SECONDS,
    SETTLE_SECONDS,
    TURN_PART,
    TURN_SECONDS,
    GangPlacements,
    Placing,
    pause_seconds,
    placement_seconds,
    who_gives_back,
)
from tests.support.examples import scaled
from tests.support.quota.gang_model import GangModel, ModelGang, Nodes

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NODES, CPU = 8, 8
#: Long enough for each gang to run alone, with a few tries before.
HORIZON = 40 * 1800.0


def random_gangs(seed: int, count: int = 40) -> list[ModelGang]:
    """Each fits the empty nodes."""
    chance = random.Random(seed)
    gangs = []
    for number in range(count):
        size = chance.randint(1, CPU)
        gangs.append(
            ModelGang(
                name=f"g{number:02}",
                size=size,
                count=chance.randint(1, NODES * (CPU // size)),
                seconds=chance.choice([5.0, 60.0, 600.0]),
                priority=chance.choice([0, 0, 0, 1]),
                comes=float(chance.choice([0, 0, 0, 10 * number])),
            )
        )
    return gangs


def run(
    gangs: list[ModelGang], *, seed: int = 0, quota: int = 3 * NODES * CPU, until: float = HORIZON
) -> GangModel:
    nodes = Nodes(NODES, cpu=CPU)
    model = GangModel(gangs, nodes=nodes, quota=quota, placements=GangPlacements(), seed=seed)
    model.run(until=until)
    return model


def left(gangs: list[ModelGang], **how: Any) -> list[str]:
    done = set(run(gangs, **how).completed)
    return [gang.name for gang in gangs if gang.name not in done and not gang.lost]


def never_placed(name: str) -> ModelGang:
    """Of the highest ticket. All but one of its pods fill half of the nodes."""
    return ModelGang(name=name, size=CPU, count=NODES // 2 + 1, lost=1, seconds=5.0, priority=9)


def large_gangs(count: int) -> list[ModelGang]:
    """Each needs more than half of the nodes, and runs for a short time."""
    return [
        ModelGang(name=f"l{number:02}", size=CPU, count=NODES // 2 + 1 + number % 4, seconds=5.0)
        for number in range(count)
    ]


def of_bare_pods(name: str) -> ModelGang:
    """Of the lowest ticket."""
    return ModelGang(name=name, size=CPU // 2, count=NODES, seconds=60.0, priority=-1, is_able=False)


SCENARIOS: dict[str, Callable[[int], list[ModelGang]]] = {
    "random sizes": random_gangs,
    "one that can never be placed, before all others": lambda seed: [never_placed("x"), *random_gangs(seed)],
    "one that can never be placed, before forty large ones": lambda _: [never_placed("x"), *large_gangs(40)],
    "one of bare pods, behind all others": lambda seed: [*random_gangs(seed), of_bare_pods("y")],
    "ten that can never be placed": lambda seed: [
        *(never_placed(f"x{number}") for number in range(10)),
        *random_gangs(seed, 20),
    ],
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_forty_gangs_of_random_sizes_all_complete_on_eight_nodes(scenario: str) -> None:
    make = SCENARIOS[scenario]
    for seed in range(scaled(3)):
        assert left(make(seed), seed=seed) == [], f"seed {seed}"


def nobody_gives_back(*_: Any, **__: Any) -> list[Placing]:
    return []


def all_at_once(placing: Any, *, now: float, settled: float) -> list[Placing]:
    """Who has waited for long gives back, whoever it is."""
    return [gang for gang in placing if now >= gang.due and gang.began is None and gang.is_able]


def the_lowest_of_all(placing: Any, *, now: float, settled: float) -> list[Placing]:
    """Asks the lowest ticket to give back, also where it cannot."""
    copies = [msgspec.structs.replace(gang, is_able=True) for gang in placing]
    named = {gang.uid for gang in who_gives_back(copies, now=now, settled=settled)}
    return [gang for gang in placing if gang.uid in named and gang.is_able]


def never_stuck(_self: Any, _now: float) -> bool:
    return False


def no_turn(_self: Any, _now: float) -> bool:
    return False


def same_pause(_failures: int, _chance: float) -> float:
    return 10.0


RULES_LEFT_OUT: dict[str, tuple[str, dict[str, Any]]] = {
    "nobody gives back": ("random sizes", {"who_gives_back": nobody_gives_back}),
    "no tickets": (
        "random sizes",
        {"who_gives_back": all_at_once, "pause_seconds": same_pause, "GangPlacements.turn_is_taken": no_turn},
    ),
    "the lowest ticket alone, always": (
        "one that can never be placed, before forty large ones",
        {"Placing.is_stuck": never_stuck},
    ),
    "the lowest ticket, though it cannot": (
        "one of bare pods, behind all others",
        {"who_gives_back": the_lowest_of_all, "Placing.is_stuck": never_stuck},
    ),
}


@pytest.mark.parametrize("name", RULES_LEFT_OUT)
def test_the_model_finds_a_rule_that_is_left_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, others = RULES_LEFT_OUT[name]
    for where, what in others.items():
        monkeypatch.setattr(f"queues.quota.gang_placement.{where}", what)
    assert any(left(SCENARIOS[scenario](seed), seed=seed) for seed in range(6))


# Who gives back, gang by gang


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
        # Those without a node are in nobody's way. They wait for rivals of theirs.
        ([placing("a", placed=0), placing("b", placed=0), placing("c", placed=0, since=9)], 300, "a b"),
        ([placing("a", placed=0), placing("b")], 300, "b"),
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
        found = [gang.uid for gang in who_gives_back(each, now=now, settled=0)]
        assert sorted(found) == sorted(expected.split())


def test_the_next_one_with_nodes_gives_back_once_others_had_time_to_use_what_is_free() -> None:
    assert who_gives_back([placing("a")], now=300, settled=301) == []
    assert [gang.uid for gang in who_gives_back([placing("a", placed=0)], now=300, settled=301)] == ["a"]


def test_pauses_grow_and_have_some_chance() -> None:
    pauses = [pause_seconds(failures, 0.0) for failures in range(1, 9)]
    assert pauses == [10, 20, 40, 80, 160, 320, 600, 600]
    assert pause_seconds(1, 1.0) == 12.5
    assert pause_seconds(10**9, 0.0) == MAX_PAUSE_SECONDS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (PLACEMENT_SECONDS, True)),
        ("90", (90.0, True)),
        ("90s", (90.0, True)),
        ("10m", (600.0, True)),
        ("1h30m", (5400.0, True)),
        ("0", (10.0, True)),
        ("1s", (10.0, True)),
        ("999999h", (MAX_SECONDS, True)),
        ("9" * 99, (PLACEMENT_SECONDS, False)),
        ("-5m", (PLACEMENT_SECONDS, False)),
        ("soon", (PLACEMENT_SECONDS, False)),
        ("5 m", (PLACEMENT_SECONDS, False)),
        ("1.5h", (PLACEMENT_SECONDS, False)),
        ("٣", (PLACEMENT_SECONDS, False)),
    ],
)
def test_what_an_annotation_says_of_the_time(text: str, expected: tuple[float, bool]) -> None:
    assert placement_seconds(text) == expected


def release(placements: GangPlacements, uid: str, *, now: float) -> None:
    placements.released(uid, (0, NOW, uid), resources=["cpu"], now=now)


def fail(placements: GangPlacements, uid: str, *, now: float) -> None:
    release(placements, uid, now=now)
    placements.gave_back(uid, now=now, chance=0.0)


def test_a_gang_that_failed_asks_for_the_turn_until_all_of_it_is_on_nodes() -> None:
    placements = GangPlacements()
    assert placements.turn("a") == ()
    fail(placements, "a", now=5.0)
    fail(placements, "b", now=6.0)
    assert placements.paused_until("a") == 15.0
    assert placements.failures("a") == 1
    assert placements.turn("a") != placements.turn("b"), "each is a class by itself"
    release(placements, "a", now=15.0)
    assert placements.turn_is_taken(15.0)
    placements.completed("a")
    assert not placements.turn_is_taken(15.0)
    assert (placements.failures("a"), placements.turn("a")) == (0, ())


@pytest.mark.parametrize(
    ("placed", "until"), [(0, PLACEMENT_SECONDS / TURN_PART), (1, TURN_SECONDS)], ids=["no node", "a node"]
)
def test_who_gets_no_nodes_leaves_the_turn_to_others(placed: int, until: float) -> None:
    placements = GangPlacements()
    release(placements, "fresh", now=0.0)
    assert not placements.turn_is_taken(0.0)
    fail(placements, "a", now=0.0)
    release(placements, "a", now=100.0)
    placements.observe("a", placed=placed, resources=["cpu"], now=101.0)
    assert placements.turn_is_taken(100.0 + until - 1)
    assert not placements.turn_is_taken(100.0 + until)


def test_a_gang_begins_to_give_back_once_and_then_the_others_have_time() -> None:
    placements = GangPlacements()
    for uid in "ab":
        release(placements, uid, now=0.0)
        placements.observe(uid, placed=1, resources=["cpu"], now=0.0)
    assert placements.take_giving_back(300.0) == ["b"]
    assert placements.take_giving_back(301.0) == []
    placements.gave_back("b", now=320.0, chance=0.0)
    placements.observe("a", placed=2, resources=["cpu"], now=321.0)
    assert placements.take_giving_back(320.0 + SETTLE_SECONDS - 1) == []
    assert placements.take_giving_back(320.0 + SETTLE_SECONDS) == ["a"]


def test_the_time_of_a_gang_begins_anew_once_its_queue_schedules_again() -> None:
    placements = GangPlacements()
    fail(placements, "a", now=0.0)
    release(placements, "a", now=20.0)
    placements.hold("a", is_held=True, now=30.0)
    assert not placements.turn_is_taken(31.0), "others that failed go meanwhile"
    assert placements.take_giving_back(9000.0) == []
    placements.hold("a", is_held=False, now=9000.0)
    assert placements.take_giving_back(9000.0 + PLACEMENT_SECONDS - 1) == []
    assert placements.take_giving_back(9000.0 + PLACEMENT_SECONDS) == ["a"]


def test_what_is_gone_is_forgotten() -> None:
    placements = GangPlacements()
    for uid in ("failed", "placing", "completed"):
        release(placements, uid, now=0.0)
    placements.gave_back("failed", now=1.0, chance=0.0)
    placements.completed("completed")
    placements.forget("failed")
    placements.forget("placing")
    for uid in ("failed", "placing", "completed", "unknown"):
        placements.observe(uid, placed=1, resources=[], now=2.0)
        placements.gave_back(uid, now=2.0, chance=0.0)
    assert placements.due(2.0) == math.inf
    assert not placements._placing
    assert not placements._failed
