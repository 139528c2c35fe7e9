"""The limits of the server, shared by its drains: no drain stops another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controller.drain.limits import MAX_OVERCOMMIT, fair_shares, share_limits, spare_places
from controller.drain.state import DrainState
from queues.drain.model import DrainSpec, Plan
from tests.controller.drain.test_state import (
    NOW,
    evicting,
    pod,
)
from tests.support.cases import each_case
from tests.support.rules.cases import MODEST

RATE, IN_FLIGHT = 10.0, 6


def drain(by: str, *, steps: int, **spec: Any) -> DrainState:
    """One that has so many pods to evict."""
    made = DrainState(by, now=NOW, rate=RATE)
    made.set_spec(DrainSpec(**spec))
    made.expect_pods(steps)
    return made


def look(state: DrainState, others: list[DrainState], *, flying: int, steps: int, now: float) -> int:
    """As the controller does: how many pods it asks for; they are in flight from then on."""
    found = Plan(
        steps=tuple(evicting(f"{state.by}-{now}-{number}") for number in range(steps)),
        leaving=tuple(pod(f"{state.by}-old-{number}") for number in range(flying)),
    )
    state.record_plan(found, now=now)
    flying_now = sum(each.in_flight for each in others)
    units, _ = state.take_steps(found, now=now, spare=spare_places(flying_now, in_flight=IN_FLIGHT))
    for unit in units:
        state.record_request(unit, now=now)
    return len(units)


def test_a_single_drain_has_all_of_both_limits() -> None:
    alone = drain("a", steps=500)
    share_limits([alone], rate=RATE, in_flight=IN_FLIGHT)
    assert look(alone, [alone], flying=0, steps=500, now=NOW) == IN_FLIGHT


def test_a_drain_that_begins_has_its_share_at_once_though_another_has_filled_the_limit() -> None:
    """The other asks for no more until it is down to its own share."""
    first, second = drain("a", steps=500), drain("b", steps=500)
    share_limits([first], rate=RATE, in_flight=IN_FLIGHT)
    look(first, [first], flying=0, steps=500, now=NOW)
    both = [first, second]
    share_limits(both, rate=RATE, in_flight=IN_FLIGHT)
    assert look(second, both, flying=0, steps=500, now=NOW + 1) == IN_FLIGHT // 2
    assert look(first, both, flying=IN_FLIGHT, steps=500, now=NOW + 1) == 0
    assert look(first, both, flying=2, steps=500, now=NOW + 1) == 1


def test_what_one_drain_does_not_need_others_get() -> None:
    small, large = drain("a", steps=1), drain("b", steps=500)
    share_limits([small, large], rate=RATE, in_flight=IN_FLIGHT)
    assert (small.in_flight_share, large.in_flight_share) == (1, IN_FLIGHT - 1)


def test_more_drains_than_places_take_turns() -> None:
    """Whoever sent nothing for the longest time comes first."""
    drains = [drain(f"d{number}", steps=5) for number in range(IN_FLIGHT + 2)]
    sent = set()
    for turn in range(2):
        share_limits(drains, rate=RATE, in_flight=IN_FLIGHT)
        for each in drains:
            if look(each, drains, flying=0, steps=5, now=NOW + turn):
                sent.add(each.by)
        for each in drains:
            each.record_plan(Plan(), now=NOW + turn)
    assert sent == {each.by for each in drains}


def test_the_rate_is_shared() -> None:
    """And a gang of hundreds is owed by its own drain alone."""
    greedy, modest = drain("a", steps=500), drain("b", steps=500)
    both, asked = [greedy, modest], 0
    for tenth in range(50):
        share_limits(both, rate=RATE, in_flight=1000)
        now = NOW + tenth / 10
        gang = evicting(*(f"g-{tenth}-{number}" for number in range(300)), gang="ring")
        greedy.take_steps(Plan(steps=(gang,)), now=now, spare=1000)
        asked += len(
            modest.take_steps(
                Plan(steps=tuple(evicting(f"m-{tenth}-{n}") for n in range(9))), now=now, spare=1000
            )[0]
        )
    assert RATE / 2 * 5 <= asked <= RATE / 2 * 5 + RATE


def test_the_rate_of_a_queue_is_not_exceeded_by_its_share() -> None:
    state = drain("a", steps=500, rate=2.0)
    asked = 0
    for tenth in range(50):
        share_limits([state], rate=RATE, in_flight=1000)
        units, _ = state.take_steps(
            Plan(steps=tuple(evicting(f"{tenth}-{n}") for n in range(9))), now=NOW + tenth / 10, spare=1000
        )
        asked += len(units)
    assert 2 * 5 - 2 <= asked <= 2 * 5 + 2


@MODEST
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20)), min_size=1, max_size=8), st.data())
def test_a_drain_with_no_pods_in_flight_sends_whatever_others_have_in_flight(
    loads: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Unless there are more drains than places; and never are more than twice the limit in flight."""
    drains = [drain(f"d{number}", steps=steps) for number, (steps, _) in enumerate(loads)]
    flying = [0] * len(drains)
    for turn in range(10):
        share_limits(drains, rate=1000.0, in_flight=IN_FLIGHT)
        for number, (each, (steps, _)) in enumerate(zip(drains, loads, strict=True)):
            asked = look(each, drains, flying=flying[number], steps=steps, now=NOW + turn)
            assert asked or not steps or flying[number] or len(drains) > IN_FLIGHT or turn == 0
            flying[number] += asked
        assert sum(flying) <= MAX_OVERCOMMIT * IN_FLIGHT
        stays = [data.draw(st.integers(0, number), label="still in flight") for number in flying]
        flying = stays


# Fair shares

DEMANDS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 50))


@each_case(
    ("limit", "demands", "shares"),
    [
        (10, {}, {}),
        (10, {"a": 4}, {"a": 4}),
        (10, {"a": 500}, {"a": 10}),
        (10, {"a": 500, "b": 500}, {"a": 5, "b": 5}),
        (10, {"a": 500, "b": 2}, {"a": 8, "b": 2}),
        (10, {"a": 500, "b": 2, "c": 500}, {"a": 4, "b": 2, "c": 4}),
        (10, {"a": 9, "b": 9, "c": 9}, {"a": 4, "b": 3, "c": 3}),
        (10, {"c": 9, "b": 9, "a": 9}, {"c": 4, "b": 3, "a": 3}),
        (1, {"b": 9, "a": 9}, {"b": 1, "a": 0}),
        (10, {"a": 0, "b": 20}, {"a": 0, "b": 10}),
        (0, {"a": 9}, {"a": 0}),
    ],
)
def test_fair_shares(limit: int, demands: Mapping[str, int], shares: Mapping[str, int]) -> None:
    """What divides unevenly goes to those named first."""
    assert fair_shares(limit, demands) == shares


@MODEST
@given(st.integers(0, 100), DEMANDS)
def test_no_share_exceeds_its_demand_and_nothing_is_left_over(limit: int, demands: Mapping[str, int]) -> None:
    shares = fair_shares(limit, demands)
    assert shares.keys() == demands.keys()
    assert all(0 <= shares[name] <= demands[name] for name in demands)
    assert sum(shares.values()) == min(limit, sum(demands.values()))


@MODEST
@given(st.integers(0, 100), DEMANDS)
def test_an_unmet_demand_has_the_largest_share_or_one_less(limit: int, demands: Mapping[str, int]) -> None:
    """Whoever wants more has as much as anybody, or one less."""
    shares = fair_shares(limit, demands)
    largest = max(shares.values(), default=0)
    assert all(shares[name] >= largest - 1 for name in demands if shares[name] < demands[name])


@MODEST
@given(st.integers(0, 100), DEMANDS, st.integers(0, 1000))
def test_a_larger_demand_takes_nothing_from_those_below_an_equal_share(
    limit: int, demands: Mapping[str, int], more: int
) -> None:
    """However much one asks for, each other has its demand, or an equal part of the limit."""
    shares = fair_shares(limit, {**demands, "greedy": more})
    level = limit // (len(demands) + 1)
    assert all(shares[name] >= min(demands[name], level) for name in demands)
