"""Amounts of resources as Kubernetes writes them, stored exactly.

Promises
- A value is an `int` where it is whole and a `Fraction` where it is not: they compare and add
  exactly, and nothing is ever a float.
- What Kubernetes accepts as a quantity is accepted and means the same: up to 2^63-1 either way, and what is
  finer than a billionth is rounded away from zero. Beyond that Kubernetes caps; here it is refused, since it
  is a mistake.
- `parse_quantity(format_quantity(x, ...)) == x` for each amount that `parse_quantity` returns, and for
  binary amounts that are whole.
- `BadQuantity` shows the text on one line, cut, and says how a quantity is written.

Source: `k8s.io/apimachinery/pkg/api/resource`, `Quantity`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache

from queues.text import printable

#: An exact amount: bytes, cores, or pieces.
Amount = int | Fraction
#: Amounts by the name of the resource.
ResourceAmounts = Mapping[str, Amount]

#: The greatest amount of Kubernetes.
MAX_AMOUNT = 2**63 - 1
#: Characters that any sensible quantity fits in; as many are shown of a text that is not a quantity.
MAX_LENGTH = 64
#: The smallest part that Kubernetes keeps.
_NANO = 10**9
#: A greater exponent makes any mantissa greater than the limit, or smaller than the smallest part.
_EXPONENT_LIMIT = MAX_LENGTH + 30

_SHAPE = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?"
)
_SUFFIXES = {
    "": Fraction(1),
    **{unit: Fraction(1000**power) for power, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGTPE", start=1)},
    **{unit: Fraction(1, 1000**power) for power, unit in enumerate("mun", start=1)},
}
_BINARY = ("memory", "storage", "ephemeral-storage")
_WAY_OUT = 'write a number with a unit, such as "500m", "2" or "4Gi"'


class BadQuantity(ValueError):
    """The text is not an amount of a resource; the message is for its author."""


def parse_quantity(text: str | int | float) -> Amount:
    """The amount that the text stands for, exactly. Raises `BadQuantity`."""
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise BadQuantity(f'"{printable(str(text)[:MAX_LENGTH])}" is not a quantity; {_WAY_OUT}')
    if isinstance(text, int):
        return _bounded(
            text, shown=str(text) if abs(text) < 10 * MAX_AMOUNT else "a whole number of over 20 digits"
        )
    return _parsed(str(text)[: MAX_LENGTH + 1])


def format_quantity(value: Amount, resource: str = "") -> str:
    """The amount as Kubernetes prints it: binary units for what is counted in bytes, else decimal ones."""
    if _in_bytes(resource) and not -1024 < value < 1024:
        return _binary(_away_from_zero(value))
    return _decimal(value)


def sum_amounts(values: Iterable[Amount]) -> Amount:
    """Their sum, an `int` where it is whole."""
    return _simplest(sum(map(Fraction, values), start=Fraction(0)))


@lru_cache(maxsize=8192)
def _parsed(text: str) -> Amount:
    """`text` has at most one character more than `MAX_LENGTH`."""
    match = _SHAPE.fullmatch(text)
    if len(text) > MAX_LENGTH or not match or not (match["whole"] or match["part"]):
        raise BadQuantity(f'"{printable(text, limit=MAX_LENGTH)}" is not a quantity; {_WAY_OUT}')
    digits, part = match["whole"], match["part"] or ""
    mantissa = Fraction(int(digits + part), 10 ** len(part))
    value = _rounded(mantissa * _scale(match["suffix"] or "", text))
    return _bounded(-value if match["sign"] == "-" else value, shown=text)


def _scale(suffix: str, text: str) -> Fraction:
    scale = _SUFFIXES.get(suffix)
    if scale is not None:
        return scale
    exponent = int(suffix[1:])
    if abs(exponent) > _EXPONENT_LIMIT:
        raise BadQuantity(f'"{printable(text, limit=MAX_LENGTH)}" has too great an exponent; {_WAY_OUT}')
    return Fraction(10) ** exponent


def _rounded(value: Fraction) -> Amount:
    """Up to the next billionth."""
    return _simplest(Fraction(math.ceil(value * _NANO), _NANO))


def _simplest(value: Fraction) -> Amount:
    return value.numerator if value.denominator == 1 else value


def _away_from_zero(value: Amount) -> int:
    return math.ceil(value) if value > 0 else math.floor(value)


def _bounded(value: Amount, *, shown: str) -> Amount:
    if not -MAX_AMOUNT <= value <= MAX_AMOUNT:
        raise BadQuantity(f'"{printable(shown, limit=MAX_LENGTH)}" is beyond 2^63-1; {_WAY_OUT}')
    return value


def _in_bytes(resource: str) -> bool:
    """Whether it is counted in bytes, also as a quota names it (`requests.memory`)."""
    name = resource.rpartition(".")[2] if resource.startswith(("requests.", "limits.")) else resource
    return name in _BINARY or name.startswith("hugepages-")


def add_amounts(amounts: dict[str, Amount], more: Iterable[tuple[str, Amount]]) -> None:
    """Add these amounts, by resource. What is zero adds no entry."""
    for name, amount in more:
        if amount:
            amounts[name] = amounts.get(name, 0) + amount


def _binary(value: int) -> str:
    for power, unit in ((6, "Ei"), (5, "Pi"), (4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
        if value % 1024**power == 0:
            return f"{value // 1024**power}{unit}"
    return str(value)


def _decimal(value: Amount) -> str:
    nanos = _away_from_zero(value * _NANO)
    if nanos == 0:
        return "0"
    for power, unit in enumerate(("E", "P", "T", "G", "M", "k", "", "m", "u")):
        size = 1000 ** (9 - power)
        if nanos % size == 0:
            return f"{nanos // size}{unit}"
    return f"{nanos}n"
