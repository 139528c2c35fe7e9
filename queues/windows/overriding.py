"""What people do to one occurrence of a window: `spec.windowOverrides` before and after.

| word   | the occurrence                          | becomes                                       |
|--------|-----------------------------------------|-----------------------------------------------|
| skip   | that is on, or else the next one        | left out; one that is on ends now, with those |
|        |                                         | that overlap it                               |
| start  | that is left out, and would be on now   | as if it never had been; a resume leaves one  |
|        |                                         | out                                           |
| start  | the next one                            | begins now, and lasts as long as it would; a  |
|        |                                         | freeze ends when it would                     |
| extend | that is on, or else the next one        | ends later                                    |

With `at`, the moment of one by its schedule, it is that one: `start` then undoes its skip, and begins none.

Promises
- Done again it changes nothing: a write whose outcome is not known may be made again.
- All other overrides stay as they are written, whatever is in them; but where there is no room for another
  one, those of occurrences that ended a day ago go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from queues.apimachinery.timestamps import rfc3339
from queues.text import any_of, quoted
from queues.windows.refusals import WindowError
from queues.windows.rules import Occurrence, is_start, latest_on, occurrences_after
from queues.windows.texts import clock
from queues.windows.times import parse_moment
from queues.windows.window import OVERRIDES, Override, Span, Window, Windows

#: Names that a refusal lists.
_NAMED = 5
_A_DAY = timedelta(days=1)

WireOverride = Mapping[str, Any]


class Overridden(msgspec.Struct, frozen=True, kw_only=True):
    """`overrides`: `spec.windowOverrides` from then on; None where nothing changes. `outcome`: in words."""

    outcome: str
    overrides: list[Any] | None = None


class ChosenOccurrence(msgspec.Struct, frozen=True, kw_only=True):
    """An occurrence of a window, as it would be without a skip. `override`: the one that is for it.
    `overrides`: all that there are, for who ends all that is on; None: the occurrence alone is meant.
    """

    window: Window
    occurrence: Occurrence
    override: Override | None
    is_on: bool
    overrides: tuple[Override, ...] | None = None

    @property
    def is_skipped(self) -> bool:
        return self.override is not None and self.override.skip


def choose(given: Windows, name: str, *, now: datetime, at: datetime | None = None) -> ChosenOccurrence:
    """The occurrence that is on, else the next one, those that are left out among them; or the one that
    begins at `at` by its schedule. Raises `WindowError`.
    """
    window = next((each for each in given.windows if each.name == name), None)
    if window is None:
        raise WindowError(_no_window(given, name))
    bare = [each for each in given.overrides if not (each.window == name and each.skip)]
    occurrence: Occurrence | None
    if at is not None:
        occurrence = _at(window, bare, at, now=now)
    else:
        occurrence = latest_on(window, bare, now) or next(occurrences_after(window, bare, now), None)
    if occurrence is None:
        raise WindowError(f"window {quoted(name)} does not begin any more")
    override = next(
        (each for each in given.overrides if each.window == name and each.start == occurrence.scheduled), None
    )
    is_on = occurrence.start <= now < occurrence.end
    overrides = given.overrides if at is None else None
    return ChosenOccurrence(
        window=window, occurrence=occurrence, override=override, is_on=is_on, overrides=overrides
    )


def skip(raw: Sequence[Any], chosen: ChosenOccurrence, *, reason: str, now: datetime) -> Overridden:
    if chosen.occurrence.end <= now:
        raise WindowError(f"{_shown(chosen, now)} is over")
    if chosen.is_skipped:
        return Overridden(outcome=f"unchanged ({_shown(chosen, now)} is left out already)")
    ends = "ended: the rest of " if chosen.is_on else ""
    overrides = _with(raw, chosen, now=now, skip=True, reason=reason)
    for other in _others_on(chosen, now) if chosen.is_on else ():
        overrides = _with(overrides, other, now=now, skip=True, reason=reason)
    return Overridden(outcome=f"edited ({ends}{_shown(chosen, now)} is left out)", overrides=overrides)


def _others_on(chosen: ChosenOccurrence, now: datetime) -> Iterator[ChosenOccurrence]:
    """The occurrences that overlap this one, and would keep the window on."""
    if chosen.overrides is None:
        return
    name, left_out = chosen.window.name, {chosen.occurrence.scheduled}
    while len(left_out) <= OVERRIDES:
        others = [each for each in chosen.overrides if each.window != name or each.start not in left_out]
        skips = [Override(window=name, start=start, skip=True) for start in left_out]
        occurrence = latest_on(chosen.window, [*others, *skips], now)
        if occurrence is None:
            return
        left_out.add(occurrence.scheduled)
        yield ChosenOccurrence(window=chosen.window, occurrence=occurrence, override=None, is_on=True)


def start(
    raw: Sequence[Any],
    chosen: ChosenOccurrence,
    *,
    until: datetime | None,
    reason: str,
    now: datetime,
    is_named: bool,
) -> Overridden:
    """`is_named`: the occurrence was named by its moment."""
    shown = _shown(chosen, now)
    if chosen.occurrence.end <= now:
        raise WindowError(f"{shown} is over")
    if chosen.is_skipped and (chosen.is_on or is_named):
        return Overridden(
            outcome=f"edited ({shown} is not left out any more)", overrides=_without(raw, chosen)
        )
    if chosen.is_on:
        end = clock(chosen.occurrence.end, chosen.window.zone, now=now)
        return Overridden(outcome=f"unchanged (window {chosen.window.name} is on until {end})")
    if is_named:
        return Overridden(outcome=f"unchanged ({shown} is not left out)")
    begin = now.replace(microsecond=0)
    end_at = until if until is not None else _usual_end(chosen, begin)
    if end_at <= now:
        raise WindowError(f"{rfc3339(end_at)} is not in the future")
    end = clock(end_at, chosen.window.zone, now=now)
    return Overridden(
        outcome=f"edited (window {chosen.window.name} begins now, until {end}, in place of {shown})",
        overrides=_with(raw, chosen, now=now, begin=begin, end=end_at, reason=reason),
    )


def extend(
    raw: Sequence[Any], chosen: ChosenOccurrence, *, until: datetime, reason: str, now: datetime
) -> Overridden:
    """`until`: its new end."""
    shown, before = _shown(chosen, now), chosen.occurrence.end
    if chosen.is_skipped:
        raise WindowError(f"{shown} is left out; start it first")
    if until == before:
        return Overridden(outcome=f"unchanged ({shown} ends then already)")
    if until < before or until <= now:
        raise WindowError(
            f"{shown} ends at {rfc3339(before)}, which is not before {rfc3339(until)}; to end it sooner, "
            "skip it"
        )
    begin = chosen.override.begin if chosen.override is not None else None
    end = clock(until, chosen.window.zone, now=now)
    return Overridden(
        outcome=f"edited ({shown} lasts until {end})",
        overrides=_with(raw, chosen, now=now, begin=begin, end=until, reason=reason),
    )


def _no_window(given: Windows, name: str) -> str:
    names = [quoted(each.name) for each in given.windows]
    if not names:
        return "it has no windows of its own"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    listed = ", ".join(names[:_NAMED]) + more if more else any_of(names)
    return f"it has no window {quoted(name)}; its own: {listed}"


def _at(window: Window, overrides: Sequence[Override], at: datetime, *, now: datetime) -> Occurrence:
    if not is_start(window, at):
        following = next(occurrences_after(window, (), max(at, now)), None)
        then = f"; it does next at {rfc3339(following.start)}" if following is not None else ""
        raise WindowError(f"window {quoted(window.name)} does not begin at {rfc3339(at)}{then}")
    own = [each for each in overrides if each.window == window.name and each.start == at]
    found = [each for each in _around(window, own, at) if each.scheduled == at]
    return found[0]


def _around(window: Window, own: Sequence[Override], at: datetime) -> list[Occurrence]:
    """The occurrences that begin there by the schedule, with their own override alone."""
    begin = min([at, *(each.begin for each in own if each.begin is not None)]) - timedelta(seconds=1)
    found = []
    for occurrence in occurrences_after(window, own, begin):
        if occurrence.start > at:
            break
        found.append(occurrence)
    return found


def _usual_end(chosen: ChosenOccurrence, begin: datetime) -> datetime:
    when = chosen.window.when
    return when.end if isinstance(when, Span) else begin + when.duration


def _with(
    raw: Sequence[Any],
    chosen: ChosenOccurrence,
    *,
    now: datetime,
    skip: bool = False,
    begin: datetime | None = None,
    end: datetime | None = None,
    reason: str,
) -> list[Any]:
    """With this override in the place of the one that there is."""
    override: dict[str, Any] = {
        "window": chosen.window.name,
        "start": rfc3339(chosen.occurrence.scheduled),
        **({"skip": True} if skip else {}),
        **({"from": rfc3339(begin)} if begin is not None else {}),
        **({"until": rfc3339(end)} if end is not None else {}),
        **({"reason": reason} if reason else {}),
    }
    others = _without(raw, chosen)
    if len(others) >= OVERRIDES:
        others = [each for each in others if not _is_over(each, chosen.window, now)]
    if len(others) >= OVERRIDES:
        raise WindowError(
            f"there are {OVERRIDES} overrides, which is the most; remove some of spec.windowOverrides"
        )
    return [*others, override]


def _without(raw: Sequence[Any], chosen: ChosenOccurrence) -> list[Any]:
    return [
        each
        for each in raw
        if not (
            isinstance(each, Mapping)
            and each.get("window") == chosen.window.name
            and _moment(each, "start", chosen.window) == chosen.occurrence.scheduled
        )
    ]


def _is_over(each: Any, window: Window, now: datetime) -> bool:
    """Whether all its times are days ago; what cannot be read is not."""
    if not isinstance(each, Mapping):
        return False
    moments = [_moment(each, field, window) for field in ("start", "until") if each.get(field)]
    longest = timedelta() if isinstance(window.when, Span) else window.when.duration
    return bool(moments) and all(moment is not None and moment + longest + _A_DAY < now for moment in moments)


def _moment(each: WireOverride, field: str, window: Window) -> datetime | None:
    text = each.get(field)
    try:
        return parse_moment(text, window.zone) if isinstance(text, str) else None
    except WindowError:
        return None


def _shown(chosen: ChosenOccurrence, now: datetime) -> str:
    """`window nightly of Sun 4 Oct 02:00 CEST`."""
    moment = clock(chosen.occurrence.scheduled, chosen.window.zone, now=now, with_day=True)
    return f"window {chosen.window.name} of {moment}"
