"""What a conversion says beside its result: what is lost, and what could not be converted.

Promises
- What is said of many objects is one line, which names the first of them.
- No more than `LINES_LIMIT` lines of each sort, each on one line and cut, whatever the objects hold.
"""

from __future__ import annotations

from collections.abc import Sequence

from queues.text import join_limited, printable, truncated

LINES_LIMIT = 60
_NAMES, _LINE = 3, 600


class Report:
    """Filled by one conversion, in one thread; read afterwards."""

    def __init__(self) -> None:
        self._warnings: dict[tuple[str, str], list[str]] = {}
        self._faults: dict[tuple[str, str], list[str]] = {}

    def lost(self, kind: str, name: str, text: str, *, field: str = "") -> None:
        """Something of an object has no counterpart, or means something else."""
        self._add(self._warnings, kind, name, text, field)

    def fault(self, kind: str, name: str, text: str, *, field: str = "") -> None:
        """An object, or a part of it, could not be converted."""
        self._add(self._faults, kind, name, text, field)

    @property
    def warnings(self) -> list[str]:
        return _lines(self._warnings)

    @property
    def faults(self) -> list[str]:
        return _lines(self._faults)

    def _add(
        self, lines: dict[tuple[str, str], list[str]], kind: str, name: str, text: str, field: str
    ) -> None:
        place = f"{kind} {field}".rstrip()
        names = lines.setdefault((place, text), [])
        if name not in names[-1:]:
            names.append(name)


def _lines(found: dict[tuple[str, str], list[str]]) -> list[str]:
    lines = [_line(place, text, names) for (place, text), names in found.items()]
    more = len(lines) - LINES_LIMIT
    return lines if more <= 0 else [*lines[:LINES_LIMIT], f"and {more} more of this sort"]


def _line(place: str, text: str, names: Sequence[str]) -> str:
    shown = join_limited([printable(name, limit=120) for name in names], limit=_NAMES)
    return truncated(f"{printable(place)}: {text} ({shown})", limit=_LINE)
