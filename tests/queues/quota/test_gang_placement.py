"""Gangs that wait for each other's nodes: who gives back, and that all complete in the end."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from queues.quota.gang_life import GangEvent, GangPhase, next_phase
from queues.quota.gang_placement import (
    MAX_PAUSE_SECONDS,
    NO_NODE_SECONDS,
    TURN_SECONDS,
    GangPlacements,
    pause_seconds,
)
from queues.quota.gang_rivals import SETTLE_SECONDS, Pace, Placing, who_gives_back
from queues.quota.gang_turns import CLUSTER
from queues.quota.placement_time import MAX_SECONDS, MIN_SECONDS, PLACEMENT_SECONDS, placement_seconds
from queues.quota.usage import NODES_TURN, TURN
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


def of_queues(gangs: list[ModelGang], count: int, *, within: float = PLACEMENT_SECONDS) -> list[ModelGang]:
    """In so many queues, each with a quota of its own. `within`: the time of every seventh gang."""
    return [
        msgspec.structs.replace(
            gang,
            queue=f"q{number % count}",
            within=PLACEMENT_SECONDS if number % 7 else within,
        )
        for number, gang in enumerate(gangs)
    ]


SCENARIOS: dict[str, Callable[[int], list[ModelGang]]] = {
    "random sizes": random_gangs,
    "one that can never be placed, before all others": lambda seed: [never_placed("x"), *random_gangs(seed)],
    "one that can never be placed, before forty large ones": lambda _: [never_placed("x"), *large_gangs(40)],
    "one of bare pods, behind all others": lambda seed: [*random_gangs(seed), of_bare_pods("y")],
    "of five queues": lambda seed: of_queues(random_gangs(seed), 5),
    "of five queues, and one that can never be placed in each": lambda seed: of_queues(
        [*random_gangs(seed), *(never_placed(f"x{number}") for number in range(5))], 5
    ),
    "of five queues, some of which ask for an hour": lambda seed: of_queues(
        random_gangs(seed), 5, within=3600.0
    ),
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


def all_at_once(placing: Any, *, now: float, pace: Pace) -> list[Placing]:
    """Who has waited for long gives back, whoever it is."""
    return [gang for gang in placing if now >= gang.due and gang.began is None and gang.is_able]


def the_lowest_of_all(placing: Any, *, now: float, pace: Pace) -> list[Placing]:
    """Asks the lowest ticket to give back, also where it cannot."""
    copies = [msgspec.structs.replace(gang, is_able=True) for gang in placing]
    named = {gang.uid for gang in who_gives_back(copies, now=now, pace=pace)}
    return [gang for gang in placing if gang.uid in named and gang.is_able]


NEVER_STUCK = {"gang_rivals.Placing.stuck_at": property(lambda _: math.inf)}


def no_turn(_self: Any, _now: float) -> set[str]:
    return set()


def same_pause(_failures: int, _chance: float) -> float:
    return 10.0


RULES_LEFT_OUT: dict[str, tuple[str, dict[str, Any]]] = {
    "nobody gives back": ("random sizes", {"gang_placement.who_gives_back": nobody_gives_back}),
    "no tickets": (
        "random sizes",
        {
            "gang_placement.who_gives_back": all_at_once,
            "gang_placement.pause_seconds": same_pause,
            "gang_placement.GangPlacements.turns": no_turn,
        },
    ),
    "the lowest ticket alone, always": (
        "one that can never be placed, before forty large ones",
        NEVER_STUCK,
    ),
    "the lowest ticket, though it cannot": (
        "one of bare pods, behind all others",
        {"gang_placement.who_gives_back": the_lowest_of_all, **NEVER_STUCK},
    ),
}


@pytest.mark.parametrize("name", RULES_LEFT_OUT)
def test_the_model_finds_a_rule_that_is_left_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, others = RULES_LEFT_OUT[name]
    for where, what in others.items():
        monkeypatch.setattr(f"queues.quota.{where}", what)
    assert any(left(SCENARIOS[scenario](seed), seed=seed) for seed in range(6))


# After it


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


def release(
    placements: GangPlacements, uid: str, *, now: float, queue: str = "", seconds: float = PLACEMENT_SECONDS
) -> bool:
    """In a queue of its own, unless told otherwise."""
    queue = queue or f"of-{uid}"
    ticket, resources = (0, NOW, uid), frozenset(["cpu"])
    gang = Placing(
        uid, ticket, resources, since=now, progressed=now, queue=queue, scope=queue, seconds=seconds
    )
    return placements.released(gang)


def fail(placements: GangPlacements, uid: str, *, now: float) -> None:
    """Without a node; so that its pause begins then."""
    release(placements, uid, now=now - MIN_SECONDS, seconds=MIN_SECONDS)
    assert uid in placements.take_giving_back(now)
    placements.gave_back(uid, now=now, chance=0.0)


def test_a_gang_that_failed_asks_for_the_turn_until_all_of_it_is_on_nodes() -> None:
    placements = GangPlacements()
    assert placements.turn("a") == ()
    fail(placements, "a", now=5.0)
    fail(placements, "b", now=6.0)
    assert placements.paused_until("a") == 15.0
    assert placements.failures("a") == 1
    assert placements.turn("a") != placements.turn("b"), "each is a class by itself"
    assert placements.take_resumed(15.0) == ["a"]
    release(placements, "a", now=15.0)
    assert placements.turns(15.0) == {("of-a", ())}
    placements.completed("a")
    assert placements.turns(15.0) == set()
    assert (placements.failures("a"), placements.turn("a")) == (0, ())


@pytest.mark.parametrize("seconds", [30.0, PLACEMENT_SECONDS, MAX_SECONDS])
@pytest.mark.parametrize("placed", [0, 1], ids=["no node", "a node"])
def test_a_turn_is_no_longer_where_a_gang_asks_for_more_time(placed: int, seconds: float) -> None:
    placements = GangPlacements()
    release(placements, "fresh", now=0.0)
    assert placements.turns(0.0) == set()
    fail(placements, "a", now=0.0)
    placements.take_resumed(100.0)
    release(placements, "a", now=100.0, seconds=seconds)
    placements.observe("a", placed=placed, resources=["cpu"], now=101.0)
    until = 100.0 + (TURN_SECONDS if placed else min(NO_NODE_SECONDS, seconds / 5))
    assert placements.turns(until - 1) == {("of-a", (CLUSTER,) if placed else ())}
    assert placements.turns(until) == set()


def test_a_gang_that_had_nodes_asks_for_the_turn_of_all_that_had_some() -> None:
    """Until it fails without any: then no other queue waits for it."""
    placements = GangPlacements()
    now = 0.0
    for placed in (1, 0):
        release(placements, "a", now=now)
        placements.observe("a", placed=placed, resources=["cpu"], now=now)
        now += PLACEMENT_SECONDS
        assert placements.take_giving_back(now) == ["a"]
        placements.gave_back("a", now=now, chance=0.0)
        asked = [resource for resource, _ in placements.turn("a")]
        assert asked == ([TURN, NODES_TURN] if placed else [TURN])
        now += MAX_PAUSE_SECONDS
        assert placements.take_resumed(now) == ["a"]


def test_a_turn_does_not_begin_anew_with_the_pods_that_room_was_kept_for_nor_with_a_resume() -> None:
    placements = GangPlacements()
    fail(placements, "a", now=0.0)
    placements.take_resumed(100.0)
    release(placements, "a", now=100.0)
    release(placements, "a", now=130.0)
    placements.hold("a", is_held=True, now=140.0)
    placements.hold("a", is_held=False, now=150.0)
    assert placements.turns(100.0 + NO_NODE_SECONDS - 1) == {("of-a", ())}
    assert placements.turns(100.0 + NO_NODE_SECONDS) == set()


def test_a_gang_begins_to_give_back_once_and_then_the_others_have_time() -> None:
    placements = GangPlacements()
    for uid in "ab":
        release(placements, uid, now=0.0, queue="team")
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
    placements.take_resumed(20.0)
    release(placements, "a", now=20.0)
    placements.hold("a", is_held=True, now=30.0)
    assert placements.turns(31.0) == set(), "others that failed go meanwhile"
    assert placements.take_giving_back(9000.0) == []
    placements.hold("a", is_held=False, now=9000.0)
    assert placements.take_giving_back(9000.0 + PLACEMENT_SECONDS - 1) == []
    assert placements.take_giving_back(9000.0 + PLACEMENT_SECONDS) == ["a"]


def test_what_is_gone_is_forgotten() -> None:
    placements = GangPlacements()
    fail(placements, "failed", now=1.0)
    for uid in ("placing", "completed"):
        release(placements, uid, now=0.0)
    placements.completed("completed")
    placements.forget("failed")
    placements.forget("placing")
    for uid in ("failed", "placing", "completed", "unknown"):
        placements.observe(uid, placed=1, resources=[], now=2.0)
        placements.gave_back(uid, now=2.0, chance=0.0)
        placements.cancel(uid)
        assert not placements.completed(uid)
    assert placements.due(2.0) == math.inf
    assert not any((placements._gangs, placements._placing, placements._paused, placements._retries))


# Their phases, whatever happens in which order


class Life:
    """A gang as the table of `gang_life` has it, beside the same one in `GangPlacements`."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._placements = GangPlacements()
        self._now = 0.0
        self._phase = GangPhase.ASKED
        self._failures = 0

    def step(self) -> GangEvent | None:
        """Returns what was tried."""
        self._now += self._chance.choice([0.0, 1.0, 30.0, 700.0])
        if self._chance.random() < 0.05:
            self._placements.forget("gang")
            self._phase, self._failures = GangPhase.ASKED, 0
            return None
        event = self._chance.choice(list(GangEvent))
        before = self._phase
        if self._try(event):
            following = next_phase(before, event)
            assert following is not None, f"{event} happened in {before}"
            self._phase = following
        if event is GangEvent.EMPTY and self._phase is not before:
            self._failures += 1
        elif self._phase is GangPhase.PLACED:
            self._failures = 0
        return event

    def _try(self, event: GangEvent) -> bool:
        """Whether it happened: that may hang on the time, too."""
        gangs, now = self._placements, self._now
        match event:
            case GangEvent.RELEASE:
                is_done = release(gangs, "gang", now=now)
                gangs.observe("gang", placed=self._chance.choice([0, 1]), resources=["cpu"], now=now)
                return is_done
            case GangEvent.COMPLETE:
                return gangs.completed("gang")
            case GangEvent.EXPIRE:
                return gangs.take_giving_back(now) == ["gang"]
            case GangEvent.RESUME:
                return gangs.take_resumed(now) == ["gang"]
            case GangEvent.EMPTY:
                gangs.gave_back("gang", now=now, chance=self._chance.random())
                return next_phase(self._phase, event) is not None
            case GangEvent.CANCEL:
                gangs.cancel("gang")
                return next_phase(self._phase, event) is not None

    def check(self) -> None:
        """What is PLACED is not remembered: it is as if it had never been released."""
        shown = GangPhase.ASKED if self._phase is GangPhase.PLACED else self._phase
        gangs = self._placements
        assert gangs.phase("gang") is shown
        assert gangs.failures("gang") == self._failures
        assert bool(gangs.turn("gang")) == (self._failures > 0)
        assert gangs.knows("gang") == (shown is not GangPhase.ASKED or self._failures > 0)
        assert gangs.has_pauses == (shown is GangPhase.PAUSED)
        in_placement = shown in {GangPhase.RELEASED, GangPhase.GIVING_BACK}
        assert set(gangs._placing) == ({"gang"} if in_placement else set())
        assert set(gangs._retries) == ({"gang"} if in_placement and self._failures else set())
        if shown is GangPhase.PAUSED:
            assert gangs.due(self._now) < math.inf or gangs.paused_until("gang") <= self._now


def test_a_gang_goes_from_phase_to_phase_by_the_table_alone() -> None:
    tried = set()
    for seed in range(scaled(200)):
        life = Life(random.Random(seed))
        for _ in range(60):
            before = life._phase
            if (event := life.step()) is not None:
                tried.add((before, event))
            life.check()
    assert len(tried) == len(GangPhase) * len(GangEvent), "each event was tried in each phase"
