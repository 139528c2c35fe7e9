"""What windows set, and which are on, read without their calendars: for verdicts, which know no clock.

Promises
- Any value is read, since a stored object can hold anything. A word that nobody knows stops, as it does in
  the spec: a state counts as Suspended, a policy as Hold.
- An entry of `spec.inWindow` stops nothing by itself: the window of its name says what. One whose window is
  in the spec no more stops nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from queues.apimachinery.timestamps import rfc3339
from queues.states import Desired, StopPolicy
from queues.text import printable
from queues.windows.entries import CurrentWindow
from queues.windows.window import OVERRIDES, WINDOWS

#: Characters of a name, and of another part of a line; of all lines of a field in the history.
_NAME, _PART, _ALL = 63, 60, 320
_SHOWN = ("name", "schedule", "duration", "timeZone", "from", "until", "state", "stopPolicy")


class WindowStop(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a window sets while it is on. `line`: all of it, in the history."""

    name: str
    state: Desired | None = None
    stop_policy: StopPolicy = StopPolicy.NONE
    reason: str = ""
    line: str = ""


class WindowOn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A window that is on, as `spec.inWindow` says."""

    window: WindowStop
    start: datetime
    until: datetime


class _Sets(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def state(self) -> Desired | None: ...
    @property
    def stop_policy(self) -> StopPolicy: ...


class _On(Protocol):
    """`WindowOn`, and `queues.windows.rules.On`."""

    @property
    def window(self) -> _Sets: ...
    @property
    def until(self) -> datetime: ...


class Strictest(msgspec.Struct, frozen=True, kw_only=True):
    """What counts of a queue's own spec and of its windows. `state_by`, `policy_by`: the window that says so;
    "" where it is the spec, or nothing does."""

    state: Desired
    state_by: str = ""
    policy: StopPolicy
    policy_by: str = ""


def strictest(state: Desired, policy: StopPolicy, on: Iterable[_On]) -> Strictest:
    """`state`, `policy`: of the queue's own spec. A close is stricter than a suspension.

    On a tie the spec is named, then the window that lasts longest.
    """
    state_by = policy_by = ""
    for each in sorted(on, key=lambda each: (each.until, each.window.name), reverse=True):
        if each.window.state is Desired.SUSPENDED and state is Desired.OPEN:
            state, state_by = Desired.SUSPENDED, each.window.name
        if each.window.stop_policy.strictness > policy.strictness:
            policy, policy_by = each.window.stop_policy, each.window.name
    return Strictest(state=state, state_by=state_by, policy=policy, policy_by=policy_by)


def on_by(entries: Iterable[CurrentWindow], windows: Sequence[WindowStop]) -> tuple[WindowOn, ...]:
    """The windows that are on: those that an entry names."""
    by_name = {window.name: window for window in windows}
    return tuple(
        WindowOn(window=by_name[entry.name], start=entry.start, until=entry.until)
        for entry in entries
        if entry.name in by_name
    )


def read_stops(given: object) -> tuple[WindowStop, ...]:
    """`spec.windows` in wire form."""
    if not isinstance(given, list):
        return ()
    found: dict[str, WindowStop] = {}
    for each in given[:WINDOWS]:
        name = each.get("name") if isinstance(each, Mapping) else None
        if isinstance(name, str) and 0 < len(name) <= _NAME:
            found.setdefault(name, _read_stop(name, each))
    return tuple(found.values())


def _read_stop(name: str, given: Mapping[str, Any]) -> WindowStop:
    state, policy, reason = given.get("state"), given.get("stopPolicy"), given.get("reason")
    return WindowStop(
        name=name,
        state=Desired.SUSPENDED if state else None,
        stop_policy=_POLICIES.get(policy, StopPolicy.HOLD) if isinstance(policy, str) and policy else _NONE,
        reason=printable(reason) if isinstance(reason, str) else "",
        line=_window_line(name, given),
    )


_NONE = StopPolicy.NONE
_POLICIES = {policy.value: policy for policy in StopPolicy}


def _window_line(name: str, given: Mapping[str, Any]) -> str:
    """`nightly 0 2 * * SUN for 2h Europe/Berlin HoldAndDrain`; what else it has follows as a number."""
    words = [printable(name, limit=_NAME)]
    for field, before in (("schedule", ""), ("duration", "for "), ("from", "from "), ("until", "until ")):
        words.append(_part(given, field, before))
    words += (_part(given, field) for field in ("timeZone", "state", "stopPolicy"))
    rest = {field: value for field, value in given.items() if field not in _SHOWN and value}
    is_cut = any(len(str(given.get(field) or "")) > _PART for field in _SHOWN)
    words.append(_digest(given) if rest or is_cut else "")
    return " ".join(word for word in words if word)


def read_override_lines(given: object) -> tuple[str, ...]:
    """`spec.windowOverrides` in wire form, a line for each: `nightly 2026-10-04T02:00 skip`."""
    if not isinstance(given, list):
        return ()
    return tuple(_override_line(each) for each in given[:OVERRIDES] if isinstance(each, Mapping))


def _override_line(given: Mapping[str, Any]) -> str:
    words = [_part(given, "window"), _part(given, "start"), "skip" if given.get("skip") is True else ""]
    words += [_part(given, "from", "from "), _part(given, "until", "until ")]
    return " ".join(word for word in words if word) or _digest(given)


def _part(given: Mapping[str, Any], field: str, before: str = "") -> str:
    value = given.get(field)
    return f"{before}{printable(value, limit=_PART)}" if isinstance(value, str) and value else ""


def entry_lines(on: Iterable[WindowOn]) -> list[str]:
    """A line for each window that is on: `nightly HoldAndDrain until 2026-10-04T02:00:00Z`."""
    return [
        f"{printable(each.window.name, limit=_NAME)} {what_it_sets(each.window)} until {rfc3339(each.until)}"
        for each in on
    ]


def what_it_sets(window: _Sets) -> str:
    """`HoldAndDrain`, `Suspended`, or both."""
    words = [window.state.value if window.state is Desired.SUSPENDED else "", window.stop_policy.value]
    return " and ".join(word for word in words if word not in ("", "None"))


def joined_lines(lines: Sequence[str]) -> str:
    """In the history: those that have room, and how many more there are. Two lists have the same text only
    if they are the same."""
    text = "; ".join(lines)
    if len(text) <= _ALL:
        return text
    kept: list[str] = []
    for line in lines:
        if len("; ".join([*kept, line])) > _ALL:
            break
        kept.append(line)
    return "; ".join([*kept, f"and {len(lines) - len(kept)} more {_digest(lines)}"])


def _digest(value: object) -> str:
    """Stands for what is not shown, so that an edit of it is seen."""
    try:
        text = msgspec.json.encode(value, order="deterministic")
    except (UnicodeEncodeError, TypeError):  # half of a surrogate pair
        text = repr(value).encode("utf-8", "backslashreplace")
    return f"#{hashlib.blake2s(text, digest_size=3).hexdigest()}"
