"""What is worked out of pairs."""

from __future__ import annotations

import pytest

from benchmarks.figures import Goal, Line, Spread, at_least, at_most, confidence, spread
from tests.support.cases import each_case


def line(ours: tuple[float, ...], theirs: tuple[float, ...], goal: Goal | None = None) -> Line:
    return Line(what="binds/s", beside="nothing", unit="/s", ours=ours, theirs=theirs, goal=goal)


def test_a_ratio_is_the_median_of_the_pairs_not_of_the_figures() -> None:
    """A machine that was slow for one whole pair changes nothing."""
    assert line((90.0, 45.0, 9.0), (100.0, 50.0, 10.0)).ratio == Spread(0.9, 0.9, 0.9)


def test_the_spread_is_shown() -> None:
    assert str(spread((3.0, 1.0, 2.0))) == "2.00 (1.00 to 3.00)"


def test_a_figure_without_its_pair_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="zip"):
        line((1.0, 2.0), (1.0,)).ratio  # noqa: B018 - asked for what it raises


@each_case(
    ("goal", "reached"),
    [
        (at_least(0.5), True),
        (at_least(0.51), False),
        (at_most(0.5), True),
        (at_most(0.49), False),
        (None, None),
    ],
)
def test_a_goal_is_reached_at_its_bound(goal: Goal | None, reached: bool | None) -> None:
    assert line((5.0,), (10.0,), goal).reached is reached


def test_the_confidence_is_the_mean_and_twice_its_standard_error() -> None:
    assert confidence((1.0, 1.1, 1.0, 1.1)) == "1.050 ± 0.058"
    assert confidence((1.25,)) == "1.250 ± 0.000"
