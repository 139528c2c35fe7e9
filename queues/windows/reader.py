"""Reads windows and their overrides from the fields of a Queue in wire form.

Promises
- What cannot be read is refused by name with its field and the reason, and everything else is read: of ten
  wrong fields ten are named. Who reads a stored Queue goes on with what could be read.
- What is longer than `WINDOWS`, `OVERRIDES` or `EXCEPTS` is refused as a whole, whatever is in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from queues.states import Desired, StopPolicy
from queues.windows.refusals import Refusal, WindowError, shown
from queues.windows.schedule import parse_schedule
from queues.windows.times import parse_duration, parse_moment
from queues.windows.window import EXCEPTS, OVERRIDES, WINDOWS, Override, Recurrence, Span, Window, Windows
from queues.windows.zones import time_zone

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)

WINDOW_FIELDS = (
    *("name", "schedule", "duration", "timeZone", "from", "until", "except"),
    *("state", "stopPolicy", "reason", "drain"),
)
SPAN_FIELDS = ("from", "until", "reason")
OVERRIDE_FIELDS = ("window", "start", "skip", "from", "until", "reason")

T = TypeVar("T")


def read_windows(spec: Mapping[str, Any]) -> Windows:
    """The windows and overrides of a Queue's `spec`."""
    reader = _Reader()
    windows = reader.windows(spec.get("windows"))
    overrides = reader.overrides(spec.get("windowOverrides"), windows)
    return Windows(windows, overrides, tuple(reader.refusals))


class _Reader:
    def __init__(self) -> None:
        self.refusals: list[Refusal] = []
        self._name = ""

    def windows(self, given: object) -> tuple[Window, ...]:
        found: dict[str, Window] = {}
        for path, each in self._items(given, "spec.windows", WINDOWS):
            name = each.get("name")
            self._name = name if isinstance(name, str) else ""
            window = self._window(path, each)
            if window is not None and window.name in found:
                self._refuse(f"{path}.name", "another window has this name")
            elif window is not None:
                found[window.name] = window
        return tuple(found.values())

    def overrides(self, given: object, windows: Sequence[Window]) -> tuple[Override, ...]:
        by_name = {window.name: window for window in windows}
        found: dict[tuple[str, datetime], Override] = {}
        for path, each in self._items(given, "spec.windowOverrides", OVERRIDES):
            name = each.get("window")
            self._name = name if isinstance(name, str) else ""
            if self._name not in by_name:
                self._refuse(f"{path}.window", f"there is no window {shown(name)}")
                continue
            override = self._override(path, each, by_name[self._name])
            if override is not None and (override.window, override.start) in found:
                self._refuse(f"{path}.start", "another override is for this occurrence")
            elif override is not None:
                found[override.window, override.start] = override
        return tuple(found.values())

    def _window(self, path: str, given: Mapping[str, Any]) -> Window | None:
        before = len(self.refusals)
        self._refuse_unknown(path, given, WINDOW_FIELDS)
        name = self._text(path, given, "name")
        if not NAME.fullmatch(name) and isinstance(given.get("name") or "", str):
            self._refuse(
                f"{path}.name", f"{shown(name)} is no name: a to z, 0 to 9 and -, 63 characters at most"
            )
        zone = self._read(path, given, "timeZone", time_zone)
        is_zone_read = zone is not None or not given.get("timeZone")
        start, end = (
            self._read(path, given, field, lambda text: parse_moment(text, zone)) if is_zone_read else None
            for field in ("from", "until")
        )
        self._refuse_backwards(path, start, end)
        when = (
            self._recurrence(path, given, zone, start, end)
            if given.get("schedule")
            else self._freeze(path, given, start, end)
        )
        excepts = self._excepts(path, given, zone) if is_zone_read else ()
        state, stop_policy = self._state(path, given), self._stop_policy(path, given)
        reason, deadline_after = self._text(path, given, "reason"), self._deadline_after(path, given)
        if not (given.get("state") or given.get("stopPolicy")):
            self._refuse(path, "it stops nothing: write stopPolicy, or state: Suspended")
        if when is None or len(self.refusals) > before:
            return None
        return Window(
            name=name,
            when=when,
            excepts=excepts,
            state=state,
            stop_policy=stop_policy,
            reason=reason,
            deadline_after=deadline_after,
            zone=zone,
        )

    def _recurrence(
        self,
        path: str,
        given: Mapping[str, Any],
        zone: ZoneInfo | None,
        first: datetime | None,
        end: datetime | None,
    ) -> Recurrence | None:
        for field in ("duration", "timeZone"):
            if not given.get(field):
                self._refuse(path, f"schedule needs {field}")
        schedule = self._read(path, given, "schedule", parse_schedule)
        duration = self._read(path, given, "duration", parse_duration)
        if schedule is None or duration is None or zone is None:
            return None
        return Recurrence(schedule=schedule, duration=duration, zone=zone, first=first, end=end)

    def _freeze(
        self, path: str, given: Mapping[str, Any], start: datetime | None, end: datetime | None
    ) -> Span | None:
        if given.get("duration"):
            self._refuse(f"{path}.duration", "it is for a schedule, and there is none")
        if not (given.get("from") and given.get("until")):
            self._refuse(path, "it never begins: write schedule, duration and timeZone, or from and until")
        if start is None or end is None or start >= end:
            return None
        return Span(start, end)

    def _excepts(self, path: str, given: Mapping[str, Any], zone: ZoneInfo | None) -> tuple[Span, ...]:
        spans = []
        for place, each in self._items(given.get("except"), f"{path}.except", EXCEPTS):
            self._refuse_unknown(place, each, SPAN_FIELDS)
            for field in ("from", "until"):
                if not each.get(field):
                    self._refuse(place, f"it needs {field}")
            start, end = (
                self._read(place, each, field, lambda text: parse_moment(text, zone))
                for field in ("from", "until")
            )
            self._refuse_backwards(place, start, end)
            if start is not None and end is not None and start < end:
                spans.append(Span(start, end, self._text(place, each, "reason")))
        return tuple(sorted(spans, key=lambda span: span.start))

    def _state(self, path: str, given: Mapping[str, Any]) -> Desired | None:
        state = given.get("state")
        if not state:
            return None
        if state == Desired.CLOSED:
            self._refuse(f"{path}.state", "a window has an end, and a close has none; write Suspended")
        elif state != Desired.SUSPENDED:
            self._refuse(f"{path}.state", f"{shown(state)} is not Suspended")
        return Desired.SUSPENDED

    def _stop_policy(self, path: str, given: Mapping[str, Any]) -> StopPolicy:
        policy = given.get("stopPolicy")
        if policy in (StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN):
            return StopPolicy(policy)
        if policy:
            self._refuse(f"{path}.stopPolicy", f"{shown(policy)} is not Hold or HoldAndDrain")
        return StopPolicy.NONE

    def _deadline_after(self, path: str, given: Mapping[str, Any]) -> timedelta | None:
        drain = given.get("drain")
        if not drain:
            return None
        if not isinstance(drain, Mapping):
            self._refuse(f"{path}.drain", f"{shown(drain)} has no fields")
            return None
        if drain.get("deadline"):
            self._refuse(
                f"{path}.drain.deadline", "it is one moment; write deadlineAfter, from the beginning"
            )
        return self._read(f"{path}.drain", drain, "deadlineAfter", parse_duration)

    def _override(self, path: str, given: Mapping[str, Any], window: Window) -> Override | None:
        before = len(self.refusals)
        self._refuse_unknown(path, given, OVERRIDE_FIELDS)
        start, begin, end = (
            self._read(path, given, field, lambda text: parse_moment(text, window.zone))
            for field in ("start", "from", "until")
        )
        skip = given.get("skip") or False
        if not isinstance(skip, bool):
            self._refuse(f"{path}.skip", f"{shown(skip)} is not true or false")
        if not given.get("start"):
            self._refuse(path, "it needs start: when the occurrence begins by its schedule")
        changes = bool(given.get("from") or given.get("until"))
        if bool(skip) == changes:
            self._refuse(
                path, "it needs skip: true, or from or until" + (", and not both" if changes else "")
            )
        if begin is not None and start is not None and begin > start:
            self._refuse(f"{path}.from", "it is after start: an occurrence can begin early, not late")
        self._refuse_backwards(path, begin if begin is not None else start, end)
        if len(self.refusals) > before or start is None:
            return None
        reason = self._text(path, given, "reason")
        return Override(window=window.name, start=start, skip=bool(skip), begin=begin, end=end, reason=reason)

    def _items(self, given: object, path: str, limit: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Each item with its path; those that are no objects are refused."""
        self._name = self._name if ".except" in path else ""
        if given is None:
            return
        if not isinstance(given, list):
            self._refuse(path, "it is no list")
            return
        if len(given) > limit:
            self._refuse(path, f"there are {len(given)}, and {limit} at most are allowed")
            return
        for number, each in enumerate(given):
            if isinstance(each, Mapping):
                yield f"{path}[{number}]", each
            else:
                self._refuse(f"{path}[{number}]", f"{shown(each)} has no fields")

    def _read(self, path: str, given: Mapping[str, Any], field: str, parse: Callable[[str], T]) -> T | None:
        """None where the field is not there, or is refused."""
        text = self._text(path, given, field)
        if not text:
            return None
        try:
            return parse(text)
        except WindowError as exc:
            self._refuse(f"{path}.{field}", str(exc))
            return None

    def _text(self, path: str, given: Mapping[str, Any], field: str) -> str:
        value = given.get(field)
        if value is None or isinstance(value, str):
            return value or ""
        self._refuse(f"{path}.{field}", f"{shown(value)} is no text; put it between quotes")
        return ""

    def _refuse_unknown(self, path: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
        unknown = [field for field in given if field not in known]
        if unknown:
            self._refuse(path, f"there is no field {shown(unknown[0])}")

    def _refuse_backwards(self, path: str, start: datetime | None, end: datetime | None) -> None:
        if start is not None and end is not None and start >= end:
            self._refuse(f"{path}.until", "it is not after from")

    def _refuse(self, path: str, problem: str) -> None:
        self.refusals.append(Refusal(path, self._name, problem))
