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
USUAL = 5
PAIRS = int(os.environ.get("PAIRS") or USUAL)
#: No pair is begun after this: whatever hangs on, all rows end some time.
ROW_SECONDS = 1200.0
WHOLE_SOAK = 20.0
MINUTES = float(os.environ.get("MINUTES") or WHOLE_SOAK)
#: A trial is told, but not kept.
TRIAL = SCALE != 1 or PAIRS < USUAL
SOAK_TRIAL = SCALE != 1 or MINUTES != WHOLE_SOAK


def scaled(number: int) -> int:
    """So many, or as many less as a trial wants."""
    return max(10, round(number * SCALE))


def rounds(usual: int = USUAL) -> Iterator[int]:
    """1 to as many as are usual, as more or as less as PAIRS is; fewer where the time is up."""
    end = time.monotonic() + ROW_SECONDS
    for number in range(1, max(1, usual * PAIRS // USUAL) + 1):
        if number > 1 and time.monotonic() > end:
            return
        yield number
