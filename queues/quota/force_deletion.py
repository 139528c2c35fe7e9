"""How long a pod counts on that was deleted by force: its containers may run on though it is gone.

A pod on a node that is deleted with a grace period of 0 is gone from the API server at once, whatever grace
period its spec has. Its node ends it then, and gives it that period all the same.

| a pod that is gone                                  | counts on                                           |
|-----------------------------------------------------|-----------------------------------------------------|
| had no node                                         | not at all: nothing runs                            |
| was Succeeded or Failed                             | not at all: its node has ended it and said so, or   |
|                                                     | the garbage collector has, since its node is gone   |
| else                                                | for the grace period of its spec, an hour at most   |

An admin of the queue may know that its node has ended it, or is gone. Annotation
`sluice.dev/force-deleted-ended` of the queue, or of one above it, has a time: what was deleted by force until
then counts no longer. What is deleted later counts. A time to come says nothing.

A node may take two seconds more to kill it, which do not count (`docs/limits.md`).

Sources: kubelet gives a pod a final phase before it deletes it (Kubernetes 1.27 and later), as the garbage
collector of pods does. Its pod workers take the grace period of the spec where that of the deletion is 0.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from queues.apimachinery.timestamps import EARLIEST, parse_timestamp
from queues.drain.terminating_pods import SPARE_SECONDS
from queues.text import printable
from queues.well_known import FORCE_DELETED_ENDED

#: A tenant may write years into a spec. What runs for longer than that without its pod is not counted.
LONGEST_SECONDS = 3600.0
#: The clock of the admin may be before ours.
_SKEW = timedelta(seconds=60)


def seconds_going(seconds: float, *, grace_limit: float) -> float:
    """For how much of its time a drain would wait for it: later it is taken as staying. `seconds`: its time.
    `grace_limit`: the setting `drain_grace_limit`.
    """
    return min(seconds, grace_limit + SPARE_SECONDS)


def seconds_counted(*, node: str, is_finished: bool, grace_seconds: float) -> float:
    """For how long a pod counts that is gone now. `grace_seconds`: of its spec."""
    if not node or is_finished:
        return 0.0
    return min(max(0.0, grace_seconds), LONGEST_SECONDS)


def ended_until(text: str, *, now: datetime) -> datetime | None:
    """Until when what was deleted by force has ended, as the annotation of a queue says; None where it says
    nothing of that, or names a time to come.
    """
    until = parse_timestamp(text)
    return min(until, now) if EARLIEST < until <= now + _SKEW else None


def ended_fault(text: str, *, now: datetime) -> str:
    """Why the annotation says nothing; "" where it does, or is not there."""
    if not text or ended_until(text, now=now) is not None:
        return ""
    why = "is no time" if parse_timestamp(text) == EARLIEST else "is to come"
    return (
        f"annotation {FORCE_DELETED_ENDED} does nothing: {printable(text, limit=40)} {why}; write the time "
        "until which what was deleted by force has ended, as 2030-01-01T12:00:00Z"
    )
