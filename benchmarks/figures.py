"""What a row found: pairs, of ours and of the thing beside it, and their ratios. Values only.

A pair was measured in turns within a minute or so; a figure is the median of the pairs' ratios, ours by
the other's, with the least and the greatest beside it. So it says how many times the other's, whatever
the machine did meanwhile.
"""

from __future__ import annotations

from statistics import fmean, median, stdev

import msgspec


class Goal(msgspec.Struct, frozen=True):
    """A bound of a median ratio: the least it may be (rates) or the greatest (times, memory)."""

    bound: float
    at_least: bool

    def reached(self, ratio: float) -> bool:
        return ratio >= self.bound if self.at_least else ratio <= self.bound

    def __str__(self) -> str:
        return f"at {'least' if self.at_least else 'most'} {self.bound:.2f}"


def at_least(bound: float) -> Goal:
    return Goal(bound, at_least=True)


def at_most(bound: float) -> Goal:
    return Goal(bound, at_least=False)


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison: `ours[n]` and `theirs[n]` are a pair, in `unit`."""

    what: str
    beside: str
    unit: str
    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    goal: Goal | None = None

    @property
    def ratios(self) -> tuple[float, ...]:
        return tuple(a / b for a, b in zip(self.ours, self.theirs, strict=True))

    @property
    def ratio(self) -> Spread:
        return spread(self.ratios)

    @property
    def reached(self) -> bool | None:
        """Whether the goal is; None where there is none."""
        return None if self.goal is None else self.goal.reached(self.ratio.middle)


class Spread(msgspec.Struct, frozen=True):
    """Several measurements of one thing."""

    middle: float
    least: float
    greatest: float

    def __str__(self) -> str:
        return f"{self.middle:.2f} ({self.least:.2f} to {self.greatest:.2f})"


def spread(seen: tuple[float, ...]) -> Spread:
    return Spread(median(seen), min(seen), max(seen))


def confidence(seen: tuple[float, ...]) -> str:
    """The mean, and twice its standard error: with 19 of 20 runs the true one is within."""
    error = 2 * stdev(seen) / len(seen) ** 0.5 if len(seen) > 1 else 0.0
    return f"{fmean(seen):.3f} \u00b1 {error:.3f}"


class Point(msgspec.Struct, frozen=True):
    """What a curve shows at `x`."""

    x: float
    y: Spread


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """A picture: one line a series."""

    name: str
    title: str
    across: str
    up: str
    series: dict[str, tuple[Point, ...]]


class RowResult(msgspec.Struct, frozen=True, kw_only=True):
    """All that a row has to say; `about` says how it was measured, `notes` what else was seen."""

    title: str
    about: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
    curves: tuple[Curve, ...] = ()
