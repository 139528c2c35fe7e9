"""What was read again and again, its last quarter beside its second. Pure.

The first quarter is left out: caches fill, and everything is asked for the first time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from benchmarks.figures import Curve, Goal, Line, Point, spread

#: So many points has a curve.
POINTS = 20


class Reading(msgspec.Struct, frozen=True):
    """`at` is in seconds since the soak began."""

    at: float
    value: float


Readings = Sequence[Reading]


def quarter(readings: Readings, number: int, *, whole: float) -> tuple[float, ...]:
    """The values of quarter 1 to 4 of `whole` seconds, in order; what was read too late is of the last."""
    return tuple(each.value for each in readings if min(int(4 * each.at / whole), 3) == number - 1)


def line(what: str, unit: str, readings: Readings, *, whole: float, goal: Goal | None = None) -> Line:
    """The first of the last quarter beside the first of the second, and so on. Raises ValueError for none."""
    second, last = (quarter(readings, number, whole=whole) for number in (2, 4))
    pairs = list(zip(last, second, strict=False))  # one may have been read once more
    if not pairs:
        raise ValueError(f"{what}: not read in the second or in the last quarter")
    ours, theirs = zip(*pairs, strict=True)
    return Line(
        what=f"{what}, last quarter", beside="second quarter", unit=unit, ours=ours, theirs=theirs, goal=goal
    )


def curve(name: str, title: str, up: str, series: Mapping[str, Readings], *, whole: float) -> Curve:
    """Each series over time; a point is all that was read in a twentieth of it."""
    return Curve(
        name=name,
        title=title,
        across="minutes",
        up=up,
        series={key: _points(readings, step=whole / POINTS) for key, readings in series.items()},
    )


def _points(readings: Readings, *, step: float) -> tuple[Point, ...]:
    values = defaultdict[int, list[float]](list)
    for each in readings:
        values[int(each.at / step)].append(each.value)
    return tuple(Point(number * step / 60, spread(tuple(values[number]))) for number in sorted(values))
