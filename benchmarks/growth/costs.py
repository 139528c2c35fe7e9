"""A cost by the size of what it depends on, its fit, and the picture and the words for both. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from benchmarks.figures import Curve, Point, spread
from benchmarks.regression import Power, power
from benchmarks.results_page import figure


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured at each size, in `unit`; `by` names the sizes."""

    name: str
    title: str
    by: str
    unit: str
    seen: Mapping[int, tuple[float, ...]]

    @property
    def points(self) -> tuple[Point, ...]:
        """The smallest size first."""
        return tuple(Point(size, spread(self.seen[size])) for size in sorted(self.seen))

    @property
    def medians(self) -> list[tuple[float, float]]:
        """(size, cost)"""
        return [(point.x, point.y.middle) for point in self.points]

    @property
    def fit(self) -> Power:
        """Through the medians. Raises ValueError where there is but one size."""
        return power(self.medians)


def curve(cost: Cost) -> Curve:
    """What was seen, and beside it what was fitted, named by its exponent."""
    fit = cost.fit
    fitted = tuple(Point(point.x, spread((fit.at(point.x),))) for point in cost.points)
    series = {"seen": cost.points, str(fit): fitted}
    return Curve(name=f"growth-{cost.name}", title=cost.title, across=cost.by, up=cost.unit, series=series)


def note(cost: Cost) -> str:
    """The exponent, and the cost at both ends."""
    first, last = cost.points[0], cost.points[-1]
    ends = " to ".join(f"{figure(end.y.middle, cost.unit)} at {end.x:,.0f}" for end in (first, last))
    return f"{cost.title}, by {cost.by}: **{cost.fit}**, {ends}"
