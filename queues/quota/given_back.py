"""What was given back, as the statuses of both queues tell it: one line for all of a minute.

Promises
- A line says between which queues, by which rule, how many pods, and when the first and the last was evicted.
- At most `GIVEN_BACK_LIMIT` lines are kept; the oldest go first.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from queues.apimachinery.timestamps import rfc3339

GIVEN_BACK_LIMIT = 20
#: What follows within so long after the first is told in the same line.
ONE_LINE = timedelta(seconds=60)


class GivenBack(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """`from_`: the queue of the pods that were evicted. `to`: that of those that asked; the same where pods
    of higher priority did. `action`: of the policy. `at`, `until`: of the first and the last (RFC 3339).
    """

    from_: str = msgspec.field(default="", name="from")
    to: str = ""
    action: str = ""
    pods: int = 0
    at: str = ""
    until: str = ""


def with_one_more(
    lines: Sequence[GivenBack], *, from_: str, to: str, action: str, at: datetime
) -> tuple[GivenBack, ...]:
    """With one pod more, the newest line last."""
    oldest, now = rfc3339(at - ONE_LINE), rfc3339(at)
    for place in reversed(range(len(lines))):
        line = lines[place]
        if line.at < oldest:
            break
        if (line.from_, line.to, line.action) == (from_, to, action):
            more = msgspec.structs.replace(line, pods=line.pods + 1, until=now)
            return (*lines[:place], more, *lines[place + 1 :])
    more = GivenBack(from_=from_, to=to, action=action, pods=1, at=now, until=now)
    return (*lines, more)[-GIVEN_BACK_LIMIT:]
