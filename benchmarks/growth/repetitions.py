"""How often each size is measured, and how large it is in a trial."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from benchmarks import scale

REPEATS = scale.PAIRS
#: Of what takes seconds each.
FEW = min(3, scale.PAIRS)
#: No size is measured again after this: the whole row may take six minutes.
SIZE_SECONDS = 15.0


def scaled(numbers: Iterable[int]) -> list[int]:
    """The scale, or less for a trial; the smallest first, none twice."""
    return sorted({scale.scaled(number) for number in numbers})


def rounds(times: int) -> Iterator[int]:
    """1 to `times`, of one size; fewer where the time is up."""
    end = time.monotonic() + SIZE_SECONDS
    for number in range(1, times + 1):
        if number > 1 and time.monotonic() > end:
            return
        yield number
