"""The flags of `drain` that set fields of `spec.drain`.

Promises
- A field whose flag is not given stays as it is stored; the value `none` removes it.
- What the API server would refuse is refused here, by the same rules (`queues.admission.field_validation`),
  naming the flag.
- A deadline is in the future by the API server's clock, which decides when it is over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from kubectl_queue.cli import flag_values as values
from kubectl_queue.cli.flag_values import NONE
from kubectl_queue.cli.flags import (
    Flag,
    Flags,
    bool_flag,
)
from kubectl_queue.cli.label_selectors import parse_pod_selector
from kubectl_queue.errors import UsageError
from queues.admission.field_validation import field_refusal
from queues.apimachinery.timestamps import rfc3339
from queues.fields.checks import INT32
from queues.fields.drain import DRAIN_FIELDS

_RATE = re.compile(r"[+-]?(\d{1,18}(\.\d{0,18})?|\.\d{1,18})", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)

_Number = TypeVar("_Number", int, float)


def _rate(text: str) -> float:
    if not _RATE.fullmatch(text):
        raise ValueError("it must be a number above 0 and up to 1000, such as 0.5 or 20")
    rate = float(text)
    return _checked("rate", int(rate) if rate.is_integer() else rate)


def _in_flight(text: str) -> int:
    return _checked("inFlight", _whole(text, least=1))


def _grace(text: str) -> int:
    return _checked("gracePeriodSeconds", _whole(text, least=0))


def _whole(text: str, *, least: int) -> int:
    if not _WHOLE.fullmatch(text) or not least <= int(text) <= INT32:
        raise ValueError(f"it must be a whole number from {least} to {INT32}")
    return int(text)


def _checked(field: str, value: _Number) -> _Number:
    refusal = field_refusal({}, {"drain": {field: value}})
    if refusal:
        raise ValueError(refusal)
    return value


def _deadline(text: str) -> Callable[[datetime], datetime | None]:
    """A time, or a span from now, as a function of now."""
    if text == NONE:
        return lambda now: None
    if text.isascii() and text.isdigit():
        raise ValueError("it needs a unit, s, m, h or d, as in --deadline 2h")
    try:
        span = values.parse_duration(text)
    except ValueError as exc:
        if "century" in str(exc):
            raise
        return _time(text)
    return lambda now: now + span


def _time(text: str) -> Callable[[datetime], datetime]:
    try:
        return values.parse_time(text)
    except ValueError:
        raise ValueError(
            f"it must be a span such as 2h, a time such as 18:30 or 2030-01-31T18:30:00Z, or {NONE}"
        ) from None


def _removable(name: str, read: Callable[[str], Any], *, value: str, help: str) -> Flag:
    """A flag that takes `none` too, as None. The error of `read` then names `none` as well."""

    def read_or_none(text: str) -> Any:
        if text == NONE:
            return None
        try:
            return read(text)
        except ValueError as exc:
            raise ValueError(f"{exc}; or {NONE}, to remove it") from exc

    return Flag(name=name, default=None, read=read_or_none, value=value, help=help)


_HELP = {row.name: row.help for row in DRAIN_FIELDS}
#: The flag of each value of `afterDeadline` but Keep.
_ENDS: Mapping[str, str] = {"Scale": "scale-after-deadline", "Delete": "delete-after-deadline"}
#: The flags, each with the field that it sets.
FLAGS: tuple[tuple[str, Flag], ...] = (
    (
        "keep",
        _removable(
            "keep",
            parse_pod_selector,
            value="SELECTOR",
            help=f"{_HELP['keep']} E.g. app=db,tier!=web; {NONE}: all go.",
        ),
    ),
    (
        "barePods",
        bool_flag("keep-bare-pods", "Pods without a controller are to stay; nothing would make them again."),
    ),
    (
        "brokenGangs",
        bool_flag(
            "evict-broken-gangs",
            "Pods that are to stay go with their gang where they are less than its minimum.",
        ),
    ),
    (
        "rate",
        _removable(
            "rate",
            _rate,
            value="N",
            help=f"{_HELP['rate']} E.g. 0.5 or 20; {NONE}: no limit of its own.",
        ),
    ),
    (
        "inFlight",
        _removable(
            "in-flight",
            _in_flight,
            value="N",
            help=f"{_HELP['inFlight']} {NONE}: no limit of its own.",
        ),
    ),
    (
        "deadline",
        Flag(
            name="deadline",
            default=None,
            read=_deadline,
            value="TIME|DURATION",
            help=f"{_HELP['deadline']} E.g. 2h, 18:30 (in your zone) or 2030-01-31T18:30:00Z; {NONE}: never.",
        ),
    ),
    (
        "afterDeadline",
        bool_flag(
            _ENDS["Scale"],
            "What is left at the deadline is brought to zero replicas, and back when the queue schedules; "
            "what nothing scales is deleted. Budgets are not asked.",
        ),
    ),
    (
        "afterDeadline",
        bool_flag(_ENDS["Delete"], "What is left at the deadline is deleted, whatever its budgets say."),
    ),
    (
        "gracePeriodSeconds",
        _removable(
            "grace-period",
            _grace,
            value="SECONDS",
            help=f"{_HELP['gracePeriodSeconds']} {NONE}: its own.",
        ),
    ),
)


def drain_fields(flags: Flags, *, now: datetime, command: str) -> dict[str, Any]:
    """The fields of `spec.drain` that the command line sets; None takes one away. Raises UsageError."""
    given = {field: flags.value(flag.name) for field, flag in FLAGS if flags.has(flag.name)}
    if "barePods" in given:
        given["barePods"] = "Keep" if given["barePods"] else "Evict"
    if "brokenGangs" in given:
        given["brokenGangs"] = "Evict" if given["brokenGangs"] else "Keep"
    if "afterDeadline" in given:
        given["afterDeadline"] = _after_deadline(flags, command=command)
    return {**given, **_deadline_fields(given, now=now, command=command)} if "deadline" in given else given


def _after_deadline(flags: Flags, *, command: str) -> str:
    chosen = [end for end, name in _ENDS.items() if flags.has(name) and flags.value(name)]
    if len(chosen) > 1:
        raise UsageError(f"--{_ENDS['Scale']} and --{_ENDS['Delete']} exclude each other", see=command)
    return chosen[0] if chosen else "Keep"


def _deadline_fields(given: Mapping[str, Any], *, now: datetime, command: str) -> dict[str, Any]:
    """The deadline; without one nothing is scaled or deleted after it."""
    at: datetime | None = given["deadline"](now)
    if at is None:
        flag = _ENDS.get(given.get("afterDeadline", ""))
        if flag:
            raise UsageError(f"--{flag} and --deadline={NONE} exclude each other", see=command)
        return {"deadline": None, "afterDeadline": "Keep"}
    fault = values.future_fault(at, now=now)
    if fault:
        raise UsageError(f"the --deadline, {rfc3339(at)}, {fault}", see=command)
    return {"deadline": rfc3339(at)}
