"""Who changed a queue, and what was given back, as one list in the order of time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubectl_queue.views.text import plural
from queues.quota.given_back import GivenBack
from queues.status.changes import HistoryLine

#: The field of a line that says what was given back: FROM and TO of it are queues.
PODS = "pods"
_SERVER = "sluice"


def with_given_back(changes: Sequence[HistoryLine], given_back: Iterable[GivenBack]) -> list[HistoryLine]:
    """With a line for what was given back: WHAT is `PODS`, FROM and TO are queues."""
    lines = [
        HistoryLine(
            by=_SERVER,
            field=PODS,
            from_=line.from_,
            to=line.to,
            reason=f"{plural(line.pods, 'pod')} evicted by action {line.action}"
            + (f", the last at {line.until}" if line.until != line.at else ""),
            at=line.at,
        )
        for line in given_back
    ]
    return sorted([*changes, *lines], key=lambda line: line.at)
