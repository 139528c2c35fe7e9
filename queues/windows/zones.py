"""Time zones by name, and wall clocks as moments.

Zones come from the pinned package `tzdata`, never from the machine: two replicas on two machines would else
begin a window at two moments. Only the names of its list are known; a name is never a path.

What a wall clock shows, as a moment:

| the wall clock                                 | the moment                          |
|------------------------------------------------|-------------------------------------|
| is there once                                  | that                                |
| is skipped (02:30, as summer time begins)      | the first one after the gap         |
| is there twice (02:30, as summer time ends)    | the first of the two                |
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

from queues.similar_names import similar_names
from queues.text import any_of
from queues.windows.refusals import WindowError, shown

#: Characters of a name that is looked up at all.
NAME_LIMIT = 64
_SECOND = timedelta(seconds=1)


@cache
def zone_names() -> frozenset[str]:
    """All names that are known."""
    return frozenset(files("tzdata").joinpath("zones").read_text().split())


@lru_cache(maxsize=512)
def time_zone(name: str) -> ZoneInfo:
    """Raises `WindowError`."""
    if len(name) > NAME_LIMIT or name not in zone_names():
        near = similar_names(name, zone_names()) if len(name) <= NAME_LIMIT else ()
        question = f"; did you mean {any_of(near)}?" if near else "; write a name as Europe/Berlin"
        raise WindowError(f"there is no time zone {shown(name)}{question}")
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def local_time(moment: datetime, zone: ZoneInfo) -> datetime:
    """What the wall clock shows, without a zone."""
    return moment.astimezone(zone).replace(tzinfo=None)


def moment_of(local: datetime, zone: ZoneInfo) -> datetime:
    """The moment of a wall clock, by the table of the module; in UTC."""
    first = _read(local, zone, fold=0)
    return first if local_time(first, zone) == local else _end_of_gap(local, zone)


def moments_of(local: datetime, zone: ZoneInfo) -> list[datetime]:
    """Each moment at which the wall clock shows this: none, one or two; in UTC."""
    moments = [_read(local, zone, fold=fold) for fold in (0, 1)]
    return sorted({moment for moment in moments if local_time(moment, zone) == local})


def _read(local: datetime, zone: ZoneInfo, *, fold: int) -> datetime:
    return local.replace(tzinfo=zone, fold=fold).astimezone(UTC)


def _end_of_gap(local: datetime, zone: ZoneInfo) -> datetime:
    """Of the gap that `local` is in: clocks before it and after it read such a time as later and earlier."""
    before, after = sorted(_read(local, zone, fold=fold) for fold in (0, 1))
    offset = before.astimezone(zone).utcoffset()
    while after - before > _SECOND:
        middle = (before + (after - before) // 2).replace(microsecond=0)
        if middle.astimezone(zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after
