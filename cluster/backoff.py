"""An exponential back-off: how long to wait after so many failures in a row."""

from __future__ import annotations

import math

import msgspec

#: So many times the wait doubles at most. It keeps the power of two a finite number.
MAX_DOUBLINGS = 60


class Backoff(msgspec.Struct, frozen=True):
    """Seconds: `first` after the first failure, twice as long after each further one, at most `longest`."""

    first: float
    longest: float = math.inf

    def seconds(self, failures: int) -> float:
        """Return the wait after so many failures in a row; 0 without a failure."""
        if failures <= 0:
            return 0.0
        return min(self.first * 2.0 ** min(failures - 1, MAX_DOUBLINGS), self.longest)
