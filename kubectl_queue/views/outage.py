"""What is not so while no replica of the server answers, or none leads: since when, and what to do.

`access.outages` finds it out.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from kubectl_queue.views.text import human_duration
from queues.text import quoted

#: Where it is said what goes on meanwhile, and what to do.
PAGE = "docs/operating/outages.md"


class OutageKind(StrEnum):
    NO_REPLICA = "no replica of Sluice answers"
    NO_LEADER = "no replica of Sluice leads"


#: What comes of it.
_COMES = {
    OutageKind.NO_REPLICA: (
        "statuses are of before, no stop is acknowledged, new work of queues is refused, and what waits goes "
        "on waiting"
    ),
    OutageKind.NO_LEADER: "statuses are of before, no stop is acknowledged, and drains and resumes wait",
}


class Outage(msgspec.Struct, frozen=True):
    """`since`: the last sign of life, by the API server's clock; None where that is not known. `assumed`: the
    namespace that was looked in, where the user may not read which one is the server's; else "".
    """

    kind: OutageKind
    since: datetime | None = None
    assumed: str = ""


def outage_text(outage: Outage, *, now: datetime | None = None) -> str:
    """One sentence: what is the matter, since when, what comes of it, and where to read on. Without `now` it
    does not say how long ago that was, so that it stays the same.
    """
    return f"{lost_text(outage, now=now)}: {_COMES[outage.kind]}; what to do: {PAGE}"


def lost_text(outage: Outage, *, now: datetime | None = None) -> str:
    """The same in a few words: what is the matter, and since when."""
    where = f" in namespace {quoted(outage.assumed)}" if outage.assumed else ""
    since = f" since {_time(outage.since, now=now)}" if outage.since else ""
    unread = ", and you may not read whether it runs in another one" if outage.assumed else ""
    return f"{outage.kind.value}{where}{since}{unread}"


def _time(at: datetime, *, now: datetime | None) -> str:
    shown = f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return shown if now is None else f"{shown} ({human_duration(max((now - at).total_seconds(), 0))} ago)"
