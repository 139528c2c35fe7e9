"""A token bucket: a rate per second and a burst. Times are in monotonic seconds. For one thread."""

from __future__ import annotations


class TokenBucket:
    """Gains `rate` tokens a second, up to `burst`; a rate of 0 means no limit.

    Without `burst` it holds the tokens of one second at the present rate, and at least one.
    """

    def __init__(self, rate: float, *, now: float, burst: float | None = None) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = self._most
        self._filled_at = now

    @property
    def _most(self) -> float:
        return max(1.0, self._rate) if self._burst is None else self._burst

    def set_rate(self, rate: float) -> None:
        self._rate = rate

    def limit_burst(self, number: float) -> None:
        """Reduce the tokens to at most `number` now."""
        self._tokens = min(self._tokens, number)

    def ready(self, now: float) -> bool:
        """Return whether a token is available. Taking several at once needs one and owes the rest."""
        self._tokens = min(self._most, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        return not self._rate or self._tokens >= 1.0

    def take(self, number: int) -> None:
        """Take `number` tokens; a negative number gives tokens back."""
        self._tokens -= number if self._rate else 0

    def try_take(self, now: float) -> bool:
        """Take one token if there is one; return whether there was."""
        if not self.ready(now):
            return False
        self.take(1)
        return True

    def wait(self) -> float:
        """Return the seconds until a token is there, as of the last `ready`."""
        return 0.0 if not self._rate else max(0.0, (1.0 - self._tokens) / self._rate)
