"""How often each size is measured, and how large it is in a trial."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks import sizes

REPEATS = sizes.PAIRS
#: Of what takes seconds each.
FEW = min(3, sizes.PAIRS)


def scaled(numbers: Iterable[int]) -> list[int]:
    """The sizes, or less for a trial; the smallest first, none twice."""
    return sorted({sizes.scaled(number) for number in numbers})
