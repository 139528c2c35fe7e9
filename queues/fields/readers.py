"""How the value of a field becomes one of `queues.queue.Queue`.

A reader takes any value, since a stored object can hold anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from queues.apimachinery.conversion import Converter
from queues.apimachinery.quantities import Amount, BadQuantity, parse_quantity
from queues.namespace_selectors import NamespaceSelector, compile_selector
from queues.queue import ROOT, Amounts

_Word = TypeVar("_Word", bound=StrEnum)

_time = Converter[datetime](datetime)


def word(among: type[_Word], *, absent: _Word | None, unknown: _Word | None) -> Callable[[Any], _Word | None]:
    """What a word of an enumeration means. Empty, and of another type, is `absent`."""
    meanings = {member.value: member for member in among}

    def read(value: Any) -> _Word | None:
        return meanings.get(value, unknown) if isinstance(value, str) and value else absent

    return read


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def time(value: Any) -> datetime | None:
    """A time, decoded already or not; None for what is none."""
    if isinstance(value, datetime):
        return value
    try:
        return _time(value)
    except (msgspec.ValidationError, UnicodeEncodeError):  # the latter: half of a surrogate pair
        return None


def parent(value: Any) -> str:
    return text(value) or ROOT


def selector(value: Any) -> NamespaceSelector | None:
    """What cannot be read selects no namespace."""
    return None if value is None else compile_selector(value)


def amounts(value: Any) -> Amounts | None:
    """Amounts by resource; None where there are none. What is no amount is zero: it was to be a limit."""
    if not isinstance(value, Mapping) or not value:
        return None
    return tuple(sorted((name, _amount(each)) for name, each in value.items() if isinstance(name, str)))


def guarantee(value: Any) -> Amounts | None:
    """The amounts in its `resource`."""
    return amounts(value.get("resource")) if isinstance(value, Mapping) else None


def _amount(value: Any) -> Amount:
    try:
        return max(0, parse_quantity(value))
    except BadQuantity:
        return 0


def whole(least: int, most: int, *, absent: int) -> Callable[[Any], int]:
    """A whole number; what is none, or out of bounds, is `absent`."""

    def read(value: Any) -> int:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return value if is_whole and least <= value <= most else absent

    return read
