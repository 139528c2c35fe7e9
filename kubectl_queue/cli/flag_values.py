"""What users write behind flags, read as kubectl reads it.

Each parser returns the value or raises ValueError with the reason alone; `flags` adds the name of
the flag.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, time, timedelta

from queues.quota.resource_names import mistake_text

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d)", re.ASCII)
_QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?", re.ASCII)
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})", re.ASCII)
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})
#: Words for units, by the unit that durations have; and weeks.
_UNIT_WORDS = {
    word: unit
    for unit, words in {
        "s": "s sec secs second seconds",
        "m": "m min mins minute minutes",
        "h": "h hr hrs hour hours",
        "d": "d day days",
        "w": "w wk wks week weeks",
    }.items()
    for word in words.split()
}
_IN_WORDS = re.compile(r" *(\d+(?:\.\d+)? *[a-z]+(,? (and )?)?)+", re.ASCII)
#: A century: what is longer is a slip, and overflows dates.
_LONGEST = timedelta(days=36525)

#: The value of a flag that removes what the flag set before.
NONE = "none"

#: Characters of a user's word that an error repeats.
_SHOWN = 80


def quoted(text: str) -> str:
    """A word of the command line as an error repeats it: quoted as Go does it, cut where it is long."""
    cut = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    plain = json.dumps(cut, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in plain)


def parse_bool(text: str) -> bool:
    """As Go's strconv.ParseBool."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError("it must be true or false")


def parse_duration(text: str) -> timedelta:
    """As Go writes durations (`90s`, `1h30m`), and `d` for days; a bare number is seconds."""
    if text.isascii() and text.isdigit():
        return _bounded(float(text))
    parts = _PART.findall(text)
    read = "".join(number + unit for number, unit in parts)
    if not parts or read != text:
        raise ValueError(
            f"{_nearest_duration(text, read)}it must be a number with a unit, such as 90s, 30m, 2h or 7d"
        )
    return _bounded(sum(float(number) * _UNITS[unit] for number, unit in parts))


def _nearest_duration(text: str, read: str) -> str:
    """What was meant, where that can be told; else which part cannot be read. `read`: what could be."""
    words = _IN_WORDS.fullmatch(text.lower()) if len(text) <= _SHOWN else None
    if words:
        parts = re.findall(r"(\d+(?:\.\d+)?) *([a-z]+)", words[0].replace("and ", " "))
        if all(unit in _UNIT_WORDS for _, unit in parts):
            meant = "".join(_with_unit(number, _UNIT_WORDS[unit]) for number, unit in parts)
            return f"did you mean {meant}? "
    wrong = text.removeprefix(read) if text.startswith(read) else ""
    return f"{quoted(wrong)} is not a number with a unit; " if wrong and wrong != text else ""


def _with_unit(number: str, unit: str) -> str:
    """A week is seven days, the greatest unit that durations have."""
    return f"{float(number) * 7:g}d" if unit == "w" else f"{number}{unit}"


def _bounded(seconds: float) -> timedelta:
    if seconds > _LONGEST.total_seconds():
        raise ValueError("it is longer than a century")
    return timedelta(seconds=seconds)


def parse_resources(text: str) -> dict[str, str]:
    """A resource list, `cpu=4,memory=8Gi`; each resource once."""
    amounts: dict[str, str] = {}
    for item in text.split(","):
        name, _, amount = map(str.strip, item.partition("="))
        if not name or not amount:
            raise ValueError(f"{quoted(item)} is not RESOURCE=QUANTITY, such as cpu=4,memory=8Gi")
        if not _QUANTITY.fullmatch(amount):
            raise ValueError(f"{quoted(amount)} of {quoted(item)} is no quantity, such as 4, 500m or 8Gi")
        if name in amounts:
            raise ValueError(f"resource {quoted(name)} is named twice")
        if wrong := mistake_text(name):
            raise ValueError(f"{quoted(name)}: {wrong}")
        amounts[name] = amount
    return amounts


def parse_time(text: str) -> Callable[[datetime], datetime]:
    """A time, as a function of now, since HH:MM is the next one; without a zone it is in this machine's."""
    try:
        at = _time_of_day(text) or datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as exc:
        # Python says which part is out of its range: "month must be in 1..12".
        why = f"{exc}; " if " must be in " in str(exc) else ""
        raise ValueError(
            f"{why or _nearest_time(text)}it must be a time such as 18:30, 2030-01-31T18:30 or "
            "2030-01-31T18:30:00Z"
        ) from None
    return (lambda now: _next(at, now=now)) if isinstance(at, time) else (lambda now: at)


def _nearest_time(text: str) -> str:
    """What was meant, where that can be told."""
    word = text.strip().lower()
    if _PART.fullmatch(word):
        return "it is a duration, and not a time; "
    half = re.fullmatch(r"(\d{1,2})(?:[.:h](\d{2}))?\s*(am|pm|h)?", word, re.ASCII)
    if half is None or not (half[2] or half[3]):
        return ""
    hour = int(half[1]) % 12 + (12 if half[3] == "pm" else 0) if half[3] in ("am", "pm") else int(half[1])
    minute = int(half[2] or 0)
    return f"did you mean {hour:02}:{minute:02}? " if hour < 24 and minute < 60 else ""


def future_fault(at: datetime, *, now: datetime) -> str:
    """What is wrong with a time that must be in the future; empty where nothing is."""
    if at <= now:
        return "is not in the future"
    return "is more than a century away" if at - now > _LONGEST else ""


def _time_of_day(text: str) -> time | None:
    clock = _CLOCK.fullmatch(text)
    return time(int(clock[1]), int(clock[2])) if clock else None


def is_clock(text: str) -> bool:
    """Whether it is a time of day, such as 18:30."""
    return _CLOCK.fullmatch(text) is not None


def _next(at: time, *, now: datetime) -> datetime:
    """Worked out without a zone, so that it is 18:30 on the wall whichever clock change lies between."""
    wall = now.astimezone().replace(tzinfo=None)
    day = wall.date() if at > wall.time() else wall.date() + timedelta(days=1)
    return datetime.combine(day, at).astimezone()
