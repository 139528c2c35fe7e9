"""windows start, skip and extend, from their flags to an operation: for the command and for the page.

Promise: an end that was given as a span is made a time once, by the queues as they were read: a second
attempt adds nothing to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from kubectl_queue.cli.flag_values import future_fault, parse_time
from kubectl_queue.cli.flags import Flag, Flags, checked_name, duration_with_unit_flag
from kubectl_queue.cli.options import COMMAND
from kubectl_queue.cli.suggestions import queue_not_found
from kubectl_queue.edit.window_operation import OccurrenceEdit, WindowOperation
from kubectl_queue.errors import QueueError, UsageError
from kubectl_queue.objects.fields import spec_of
from kubectl_queue.objects.queues import QueueObjects
from queues.text import quoted
from queues.windows import overriding
from queues.windows.overriding import ChosenOccurrence, Overridden, choose
from queues.windows.reader import read_windows
from queues.windows.refusals import WindowError

_COMMAND = f"{COMMAND} windows"
FLAGS = (
    Flag(
        name="at",
        default=None,
        read=parse_time,
        value="TIME",
        help="The occurrence that begins then by its schedule: 2030-01-31T02:00 (your zone) or ...Z.",
    ),
    duration_with_unit_flag("for", "How long a start lasts, or how much longer it lasts, e.g. 30m."),
    Flag(
        name="until",
        default=None,
        read=parse_time,
        value="TIME",
        help="When it ends: 18:30 or 2030-01-31T18:30 (both in your zone), or ...T18:30:00Z.",
    ),
    Flag(name="reason", help="Why, in your words; shown with the occurrence."),
)


def check_line(word: str, window: str, flags: Flags) -> None:
    """Raises UsageError: the name is none, or the end that was given is not for this word, or missing."""
    checked_name(window, see=_COMMAND)
    has_end = flags.has("for") or flags.has("until")
    if flags.has("for") and flags.has("until"):
        raise UsageError("--for and --until exclude each other", see=_COMMAND)
    if word == "skip" and has_end:
        raise UsageError(
            "skip leaves out all of it: --for and --until are for start and extend", see=_COMMAND
        )
    if word == "extend" and not has_end:
        raise UsageError("say until when, by --until or --for", see=f"{_COMMAND} {word}")


def window_operation_of(
    word: str, window: str, flags: Flags, *, queue: str, queues: QueueObjects, simulates: bool
) -> WindowOperation:
    """`word`: of `WORDS`. `window`: of this queue. The line was checked. Raises QueueError."""
    now = queues.now
    read_at: Callable[[datetime], datetime] | None = flags.value("at")
    at = read_at(now) if read_at is not None else None
    until = _until(word, flags, now=now)
    if word == "extend" and until is None:
        until = _later_end(queue, window, flags, queues, at=at)
    change = WORDS[word](until, flags.text("reason"), now, at is not None)
    begins = word == "start" and at is None
    return WindowOperation(window=window, change=change, now=now, at=at, begins=begins, simulates=simulates)


def _until(word: str, flags: Flags, *, now: datetime) -> datetime | None:
    """By --until, or for a start by --for."""
    read: Callable[[datetime], datetime] | None = flags.value("until")
    span = flags.duration("for")
    if read is None and not (word == "start" and span is not None):
        return None
    at = read(now) if read is not None else now + (span or now - now)
    fault = future_fault(at, now=now)
    if fault:
        raise UsageError(f"the end, {at.isoformat()}, {fault}", see=_COMMAND)
    return at.replace(microsecond=0)


def _later_end(
    queue: str, window: str, flags: Flags, queues: QueueObjects, *, at: datetime | None
) -> datetime:
    """By --for, from the end that it has now."""
    span = flags.duration("for")
    if queue not in queues.items:
        raise queue_not_found(queue, among=queues.tree)
    try:
        chosen = choose(read_windows(spec_of(queues.items[queue])), window, now=queues.now, at=at)
    except WindowError as exc:
        raise QueueError(f"queue {quoted(queue)}: {exc}") from exc
    return chosen.occurrence.end + (span or queues.now - queues.now)


def _start(until: datetime | None, reason: str, now: datetime, is_named: bool) -> OccurrenceEdit:
    def change(raw: Sequence[Any], chosen: ChosenOccurrence) -> Overridden:
        return overriding.start(raw, chosen, until=until, reason=reason, now=now, is_named=is_named)

    return change


def _skip(_until: datetime | None, reason: str, now: datetime, _is_named: bool) -> OccurrenceEdit:
    def change(raw: Sequence[Any], chosen: ChosenOccurrence) -> Overridden:
        return overriding.skip(raw, chosen, reason=reason, now=now)

    return change


def _extend(until: datetime | None, reason: str, now: datetime, _is_named: bool) -> OccurrenceEdit:
    def change(raw: Sequence[Any], chosen: ChosenOccurrence) -> Overridden:
        return overriding.extend(raw, chosen, until=until or now, reason=reason, now=now)

    return change


#: By the word after `windows`.
WORDS = MappingProxyType({"start": _start, "skip": _skip, "extend": _extend})
