"""How much is measured; less by environment variables, for trials.

SCALE   a factor of all numbers of objects (default 1)
PAIRS   how many pairs (default 5)
MINUTES how long the soak takes (default 20)
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

SCALE = float(os.environ.get("SCALE") or 1)
PAIRS = int(os.environ.get("PAIRS") or 5)
#: No pair is begun after this: a row may take ten minutes.
ROW_SECONDS = 480.0
WHOLE_SOAK = 20.0
MINUTES = float(os.environ.get("MINUTES") or WHOLE_SOAK)
#: A trial is told, but not kept.
TRIAL = SCALE != 1 or PAIRS < 5
SOAK_TRIAL = SCALE != 1 or MINUTES != WHOLE_SOAK


def scaled(number: int) -> int:
    """So many, or as many less as a trial wants."""
    return max(10, round(number * SCALE))


def rounds(pairs: int = 0) -> Iterator[int]:
    """1 to PAIRS, or to `pairs` where that is more and this is no trial; fewer where the time is up."""
    end = time.monotonic() + ROW_SECONDS
    for number in range(1, (PAIRS if TRIAL else max(pairs, PAIRS)) + 1):
        if number > 1 and time.monotonic() > end:
            return
        yield number
