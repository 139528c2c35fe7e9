"""A cost by the size of what it depends on, its fit, and the picture and the words for both. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from benchmarks.figures import Curve, Point, spread
from benchmarks.fit import Power, power
from benchmarks.page import figure

#: The name of what has no parts.
WHOLE = "seen"
#: What was measured, by size.
Seen = Mapping[int, tuple[float, ...]]


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """`seen` has what was measured, in `unit`, and a name for each part of it; `by` names the sizes."""

    name: str
    title: str
    by: str
    unit: str
    seen: Mapping[str, Seen]


def fitted(seen: Seen) -> Power:
    """Through the medians. Raises ValueError where there is but one size."""
    return power((point.x, point.y.middle) for point in points(seen))


def points(seen: Seen) -> tuple[Point, ...]:
    """By size, the smallest first."""
    return tuple(Point(size, spread(seen[size])) for size in sorted(seen))


def curve(cost: Cost) -> Curve:
    """What was seen, and beside each the curve that was fitted, named by its exponent."""
    series: dict[str, tuple[Point, ...]] = {}
    for name, seen in cost.seen.items():
        fit = fitted(seen)
        series[name] = points(seen)
        series[f"{name}: {fit}"] = tuple(Point(size, spread((fit.at(size),))) for size in sorted(seen))
    return Curve(name=f"growth-{cost.name}", title=cost.title, across=cost.by, up=cost.unit, series=series)


def notes(cost: Cost) -> tuple[str, ...]:
    """A sentence a series: the exponent, and what it is at both ends."""
    several = len(cost.seen) > 1
    return tuple(_note(cost, f", {name}" if several else "", seen) for name, seen in cost.seen.items())


def _note(cost: Cost, part: str, seen: Seen) -> str:
    first, last = points(seen)[0], points(seen)[-1]
    ends = " to ".join(f"{figure(end.y.middle, cost.unit)} at {end.x:,.0f}" for end in (first, last))
    return f"{cost.title}{part}, by {cost.by}: **{fitted(seen)}**, {ends}"
