"""When schedulers other than Kubernetes' own last gave a sign of themselves (`queues.untaken`).

One writer: the pod reflector's thread. Readers on any thread get immutable values.
"""

from __future__ import annotations

from datetime import datetime

#: Users choose the names. No more of them are remembered.
MAX_NAMES = 256


class SeenSchedulers:
    """The last sign of each, by name."""

    def __init__(self) -> None:
        self._signs: dict[str, datetime] = {}

    def record(self, scheduler: str, at: datetime) -> None:
        last = self._signs.get(scheduler)
        if (last is None and len(self._signs) < MAX_NAMES) or (last is not None and last < at):
            self._signs[scheduler] = at

    def last_sign(self, scheduler: str) -> datetime | None:
        """None: none was seen."""
        return self._signs.get(scheduler)
