"""Which of `spec.reason` and `spec.resumeAt` an edit of a queue removes.

Both belong to the stop that they were set with. A review shows the queue before and after the edit. A value
that is the same in both may have been left as it was, or set once more. So:

| the stop           | a value that changed  | one that is the same                 |
|--------------------|-----------------------|--------------------------------------|
| is what it was     | stays                 | stays                                |
| ends               | `resumeAt` stays [1]  | goes                                 |
| begins             | stays                 | stays, a `resumeAt` in the past goes [2] |
| becomes another    | stays                 | stays if the request sets it, else goes |

[1] `reason` goes: it is in the history, and would become the reason of the next stop.
[2] The end of the stop before removed its own: what is there was written for the stop that begins.

A stop: `state` other than Open, or a `stopPolicy`. Closed has no `resumeAt`: one that is the same goes.
What a request sets, as far as the review shows it: `webhooks.queues.requested_fields`.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from queues.queue import Queue
from queues.states import Desired, StopPolicy

REASON, RESUME_AT = "reason", "resumeAt"
FIELDS = (RESUME_AT, REASON)


def is_stop_changed(before: Queue, after: Queue) -> bool:
    """Whether the stop of `after` is another one than that of `before`."""
    return (before.desired, before.stop_policy) != (after.desired, after.stop_policy)


def has_stop(queue: Queue) -> bool:
    """Whether the queue's own spec stops or closes it."""
    return queue.desired is not Desired.OPEN or queue.stop_policy is not StopPolicy.NONE


def replaces_stop(before: Queue, after: Queue) -> bool:
    """Whether one stop replaces another."""
    return is_stop_changed(before, after) and has_stop(before) and has_stop(after)


def fields_to_clear(
    before: Queue, after: Queue, *, same: Collection[str], set_anew: Collection[str], now: datetime
) -> tuple[str, ...]:
    """The fields that are to be removed.

    `same`: the fields that are there with the same value before and after. `set_anew`: those that the
    request sets, whatever was there before.
    """
    if not is_stop_changed(before, after):
        return ()
    if not has_stop(after):
        return tuple(field for field in FIELDS if field in same or (field == REASON and after.reason))
    if not has_stop(before):
        return tuple(field for field in FIELDS if field in same and _is_past(field, after, now=now))
    return tuple(field for field in FIELDS if field in same and field not in set_anew)


def _is_past(field: str, queue: Queue, *, now: datetime) -> bool:
    return field == RESUME_AT and (queue.desired is Desired.CLOSED or queue.is_resumed(now))
