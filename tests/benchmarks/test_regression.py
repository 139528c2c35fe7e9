"""How one thing grows with another."""

from __future__ import annotations

import pytest

from benchmarks.regression import power, straight
from tests.support.cases import each_case


@each_case("exponent", [0.0, 0.5, 1.0, 2.0, -1.0])
def test_a_power_is_found_as_it_was(exponent: float) -> None:
    found = power((x, 3.0 * x**exponent) for x in (1, 10, 100, 1_000))
    assert found.exponent == pytest.approx(exponent)
    assert found.factor == pytest.approx(3.0)
    assert found.at(500) == pytest.approx(3.0 * 500**exponent)


def test_what_is_off_by_the_same_factor_either_way_changes_nothing() -> None:
    """Errors count by their ratio: twice as much at one size weighs what half as much does."""
    found = power([(1, 2.0), (1, 0.5), (100, 200.0), (100, 50.0)])
    assert [found.factor, found.exponent] == pytest.approx([1.0, 1.0])


def test_a_power_reads_as_its_exponent() -> None:
    assert str(power([(1, 1.0), (4, 2.0)])) == "n^0.50"
    assert str(power([(1, 1.0), (4, 0.9999)])) == "n^0.00"


def test_a_line_has_what_is_there_before_the_first_and_what_each_costs() -> None:
    found = straight([(100, 60.0), (1_000, 150.0), (10_000, 1_050.0)])
    assert [found.base, found.each] == pytest.approx([50.0, 0.1])


@pytest.mark.parametrize("pairs", [[], [(1.0, 1.0)], [(2.0, 1.0), (2.0, 3.0)]])
def test_one_size_alone_says_nothing_of_growth(pairs: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="two different x"):
        power(pairs)


def test_what_costs_nothing_has_no_logarithm() -> None:
    with pytest.raises(ValueError, match=r"domain|positive"):
        power([(1.0, 0.0), (2.0, 1.0)])
