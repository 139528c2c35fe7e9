"""How the value of a field becomes one of `queues.queue.Queue`.

A reader takes any value, since a stored object can hold anything.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from queues.apimachinery.conversion import Converter
from queues.namespace_selectors import NamespaceSelector, compile_selector
from queues.queue import ROOT

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
