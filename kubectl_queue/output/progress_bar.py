"""The bar that is drawn while a drain is waited for."""

from __future__ import annotations

#: Of the bar, in characters.
_WIDTH = 20


class ProgressBar:
    """One thread."""

    def __init__(self) -> None:
        #: The most pods that were seen, gone ones included: all of the bar, so that it never goes back.
        self._most = 0

    def draw(self, *, left: int, gone: int) -> str:
        self._most = max(self._most, left + gone)
        return bar(self._most - left, self._most)


def bar(done: int, whole: int) -> str:
    """As `[#####---------------]  25%`; nothing of nothing is all of it."""
    part = done / whole if whole else 1.0
    full = int(part * _WIDTH)
    return f"[{'#' * full}{'-' * (_WIDTH - full)}] {int(part * 100):3d}%"
