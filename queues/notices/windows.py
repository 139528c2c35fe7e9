"""The notices of a queue's change windows. Their edges are in its history, and are not here.

| event                                                 | sent                                      |
|-------------------------------------------------------|-------------------------------------------|
| a window begins soon (setting `window_soon`)          | once for each occurrence, until it begins |
| an override leaves an occurrence out                  | once, from the time of its beginning on   |
| a window is on, and ends too soon to be written       | once, until it ends                       |

Promises
- Notices follow from stored fields and the time alone: a new leader finds the same ones, with the same ids
  and texts.
- Until `WindowNews.look_again` no notice begins and none ends, unless a field changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from queues.apimachinery.timestamps import rfc3339
from queues.notices.news import Notice, notice_id, notice_text
from queues.windows.edges import Calendar, missed, next_look, settle, skipped_between
from queues.windows.entries import CurrentWindow
from queues.windows.rules import windows_on
from queues.windows.soon import next_soon, soon
from queues.windows.stops import WindowStop, what_it_sets


class QueueWindows(msgspec.Struct, frozen=True, kw_only=True):
    """The windows of a queue. `written`: those that are on, as its spec says."""

    queue: str
    uid: str
    calendar: Calendar
    written: Sequence[CurrentWindow]
    stops: Mapping[str, WindowStop]


class WindowNews(msgspec.Struct, frozen=True):
    """`look_again`: None if nothing will change by itself."""

    notices: tuple[Notice, ...]
    look_again: datetime | None


def news_of_windows(
    windows: QueueWindows, *, now: datetime, since: datetime, within: timedelta
) -> WindowNews:
    """`since`: skips before that give no notice. `within`: the time before a beginning; 0: no such notice."""
    calendar, written = windows.calendar, windows.written
    changes = settle(calendar, written, now).changes
    times = [next_look(calendar, written, now)]
    notices = [*_skipped(windows, since, now), *_missed(windows, missed(changes), now)]
    if within:
        notices += _soon(windows, now, within)
        times.append(next_soon(calendar.given, now, within))
    if changes:  # they are written next, or a notice says that they are missed
        times.append(now)
    return WindowNews(tuple(notices), min((at for at in times if at is not None), default=None))


def _soon(windows: QueueWindows, now: datetime, within: timedelta) -> Iterator[Notice]:
    for each in soon(windows.calendar.given, now, within):
        stop = windows.stops.get(each.window)
        sets = what_it_sets(stop) if stop is not None else "nothing"
        why = f" ({stop.reason})" if stop is not None and stop.reason else ""
        text = f"window {each.window} begins at {rfc3339(each.start)}, until {rfc3339(each.end)}: {sets}{why}"
        yield _notice(windows, "soon", each.window, each.start, text, at=each.start - within, stands=True)


def _skipped(windows: QueueWindows, since: datetime, now: datetime) -> Iterator[Notice]:
    for each in skipped_between(windows.calendar, since, now):
        why = f" ({each.reason})" if each.reason else ""
        text = (
            f"window {each.window} does not begin at {rfc3339(each.start)}, as spec.windowOverrides says{why}"
        )
        yield _notice(windows, "skipped", each.window, each.start, text, at=each.start)


def _missed(windows: QueueWindows, names: Sequence[str], now: datetime) -> Iterator[Notice]:
    for on in windows_on(windows.calendar.given, now) if names else ():
        if on.window.name in names:
            text = f"window {on.window.name} began at {rfc3339(on.since)} and ends at {rfc3339(on.until)}: "
            text += "nobody wrote that in time, and it stops nothing any more"
            yield _notice(windows, "missed", on.window.name, on.until, text, at=on.since, stands=True)


def _notice(
    windows: QueueWindows,
    what: str,
    window: str,
    moment: datetime,
    text: str,
    *,
    at: datetime,
    stands: bool = False,
) -> Notice:
    return Notice(
        id=notice_id(windows.uid, what, window, rfc3339(moment)),
        at=at,
        queue=windows.queue,
        text=notice_text(windows.queue, text),
        stands=stands,
    )
