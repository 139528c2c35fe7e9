"""Stand-ins for what tells a store that it may be relied upon, and for what lists members again."""

from __future__ import annotations

from cluster.debounce import Trigger


class FixedReadiness:
    """As a test sets it."""

    def __init__(self) -> None:
        self.synced = True
        self.cut_off = False


class CountedTrigger(Trigger):
    """Counts the requests; none is ever pending."""

    def __init__(self) -> None:
        super().__init__(clock=lambda: 0.0)
        self.fired: list[int] = []

    def fire(self, version: int = 0) -> None:
        self.fired.append(1)
