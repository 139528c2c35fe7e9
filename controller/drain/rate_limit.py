"""A token bucket: so many a second, as many at once as gather in one second."""

from __future__ import annotations


class TokenBucket:
    """`rate` a second; 0 is "any number". Owner: one thread. `now` is monotonic seconds."""

    def __init__(self, rate: float, *, now: float) -> None:
        self._rate = rate
        self._tokens = max(1.0, rate)
        self._at = now

    def set_rate(self, rate: float) -> None:
        self._rate = rate

    def empty(self, number: float) -> None:
        """No more than so many may go at once now."""
        self._tokens = min(self._tokens, number)

    def ready(self, now: float) -> bool:
        """Whether one may go; the first of several that go together counts for all."""
        self._fill(now)
        return not self._rate or self._tokens >= 1.0

    def take(self, number: int) -> None:
        """So many have gone; what was not there is owed."""
        self._tokens -= number if self._rate else 0

    def wait(self) -> float:
        """Seconds until one may go, as of the last look."""
        return 0.0 if not self._rate else max(0.0, (1.0 - self._tokens) / self._rate)

    def _fill(self, now: float) -> None:
        self._tokens = min(max(1.0, self._rate), self._tokens + (now - self._at) * self._rate)
        self._at = now
