"""The flags of each command that stops queues, and the fields of a stop that they give."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from kubectl_queue.cli.flag_values import NONE, future_fault, parse_time
from kubectl_queue.cli.flags import Flag, Flags, duration_with_unit_flag, read_choice
from kubectl_queue.edit.operation import StopFields
from kubectl_queue.errors import UsageError
from queues.fields.table import BY_NAME
from queues.states import ParkedPods

#: The values of --parked, as plain text: an enum member cannot be written as YAML.
_PARKED_WORDS = (*(word.value for word in ParkedPods), NONE)


def _time_or_none(text: str) -> Callable[[datetime], datetime | None]:
    return (lambda now: None) if text == NONE else parse_time(text)


def _parked_or_none(text: str) -> str | None:
    if text.lower() == NONE:
        return None
    return read_choice(text, among=_PARKED_WORDS)


REASON = Flag(
    name="reason", help="Why, in your words; shown to those whose work it stops. Empty: removes it."
)
STOP_FLAGS = (
    duration_with_unit_flag("for", "Resume after this long, e.g. 30m, 2h or 7d."),
    Flag(
        name="until",
        default=None,
        read=_time_or_none,
        value="TIME",
        help=(
            "Resume at this time: 18:30 or 2030-01-31T18:30 (both in your zone), or ...T18:30:00Z; "
            f"{NONE}: removes it."
        ),
    ),
    REASON,
    Flag(
        name="parked",
        default=None,
        read=_parked_or_none,
        value="|".join(_PARKED_WORDS),
        help=(
            f"{BY_NAME['parked'].help} Recreate has their controllers create them again with it; "
            f"{NONE}: as the queue above. The setting outlives the stop. To change it during a stop, give "
            "the same verb again with it."
        ),
    ),
)


def check_one_end(flags: Flags, *, command: str) -> None:
    """Raises UsageError where two times to resume were given."""
    if flags.has("for") and flags.has("until"):
        raise UsageError("--for and --until exclude each other", see=command)


def stop_fields(flags: Flags, *, now: datetime, command: str) -> StopFields:
    """`now`: by the API server's clock, which decides when the stop is over. Raises UsageError."""
    at = _resume_time(flags, now=now)
    fault = future_fault(at, now=now) if at is not None else ""
    if at is not None and fault:
        raise UsageError(f"the time to resume, {at.isoformat()}, {fault}", see=command)
    return StopFields(
        reason=flags.text("reason") if flags.has("reason") else None,
        resume_at=at,
        clear_resume_at=flags.has("until") and at is None,
        settings={"parked": flags.value("parked")} if flags.has("parked") else {},
    )


def _resume_time(flags: Flags, *, now: datetime) -> datetime | None:
    span = flags.duration("for")
    if span is not None:
        return now + span
    read: Callable[[datetime], datetime | None] | None = flags.value("until")
    return read(now) if read else None
