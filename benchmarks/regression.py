"""How one thing grows with another, by least squares. Pure: values in, values out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import linear_regression

import msgspec

#: (x, y)
Pair = tuple[float, float]


class Power(msgspec.Struct, frozen=True):
    """y = factor * x ** exponent: 0 does not grow, 1 grows in proportion, 2 with the square."""

    factor: float
    exponent: float

    def at(self, x: float) -> float:
        return self.factor * float(x**self.exponent)

    def __str__(self) -> str:
        return f"n^{round(self.exponent, 2) + 0.0:.2f}"  # never -0.00


class Straight(msgspec.Struct, frozen=True):
    """y = base + each * x: for what costs something before the first."""

    base: float
    each: float


def power(pairs: Iterable[Pair]) -> Power:
    """The line through log y over log x. Raises ValueError for fewer than two x, or one not above 0."""
    logarithms = [(math.log(x), math.log(y)) for x, y in pairs]
    line = _line(logarithms)
    return Power(factor=math.exp(line.base), exponent=line.each)


def straight(pairs: Iterable[Pair]) -> Straight:
    """The line through y over x. Raises ValueError for fewer than two x."""
    return _line(list(pairs))


def _line(pairs: list[Pair]) -> Straight:
    if len({x for x, _ in pairs}) < 2:
        raise ValueError("a fit needs two different x at least")
    slope, intercept = linear_regression([x for x, _ in pairs], [y for _, y in pairs])
    return Straight(base=intercept, each=slope)
