"""Fair shares of one limit: by cases, and for any demands."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.drain.fair_shares import fair_shares
from tests.support.rules.cases import MODEST

DEMANDS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 50))


@pytest.mark.parametrize(
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
def test_shares_by_cases(limit: int, demands: Mapping[str, int], shares: Mapping[str, int]) -> None:
    """What divides unevenly goes to those named first."""
    assert fair_shares(limit, demands) == shares


@MODEST
@given(st.integers(0, 100), DEMANDS)
def test_nobody_gets_more_than_they_ask_for_and_nothing_is_left_over(
    limit: int, demands: Mapping[str, int]
) -> None:
    shares = fair_shares(limit, demands)
    assert shares.keys() == demands.keys()
    assert all(0 <= shares[name] <= demands[name] for name in demands)
    assert sum(shares.values()) == min(limit, sum(demands.values()))


@MODEST
@given(st.integers(0, 100), DEMANDS)
def test_nobody_gets_more_at_the_expense_of_one_who_wants_more(
    limit: int, demands: Mapping[str, int]
) -> None:
    """Whoever wants more has as much as anybody, or one less."""
    shares = fair_shares(limit, demands)
    largest = max(shares.values(), default=0)
    assert all(shares[name] >= largest - 1 for name in demands if shares[name] < demands[name])


@MODEST
@given(st.integers(0, 100), DEMANDS, st.integers(0, 1000))
def test_a_larger_demand_takes_no_share_from_others_below_the_level(
    limit: int, demands: Mapping[str, int], more: int
) -> None:
    """However much one asks for, each other has its demand, or an equal part of the limit."""
    shares = fair_shares(limit, {**demands, "greedy": more})
    level = limit // (len(demands) + 1)
    assert all(shares[name] >= min(demands[name], level) for name in demands)
