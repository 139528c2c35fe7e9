"""--wait: until the controller has acknowledged an edit, a queue is Closed, or a drain has ended.

Promises
- A server that cannot be reached is asked again until the time is up.
- The progress shows what is missing and how many members are left.
- Where waiting cannot help, a warning says so once; the wait goes on, since the cause may be removed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta

from kubectl_queue.errors import UnreachableError, WaitTimeout
from kubectl_queue.objects.fields import Object, generation_of, name_of, status_of
from kubectl_queue.objects.queues import is_observed
from kubectl_queue.views.acknowledgement import ChainReader, WaitCondition, own_spec
from queues.status.stop_status import (
    matches_chain,
)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 2.0
#: Reads for counts of the queues below, which the controller writes once a second.
_LATE_READS = 5


class PollTimer:
    """The pauses of one wait, each longer than the one before, until the time-out."""

    def __init__(self, timeout: timedelta | None) -> None:
        self.timeout = timeout
        #: On the monotonic clock.
        self._until = time.monotonic() + timeout.total_seconds() if timeout else None
        self._pause = _FIRST_PAUSE

    def pause(self) -> bool:
        """Sleep; False, at once, when the time is up."""
        remaining = self._until - time.monotonic() if self._until is not None else self._pause
        if remaining <= 0:
            return False
        time.sleep(min(self._pause, remaining))
        self._pause = min(self._pause * 1.5, _LONGEST_PAUSE)
        return True


def wait(
    condition: WaitCondition,
    *,
    items: Sequence[Object],
    read: Callable[[], Sequence[Object]],
    say: Callable[[str], None],
    timer: PollTimer,
    warn: Callable[[str], None] = lambda _: None,
    chain: ChainReader = own_spec,
) -> Sequence[Object]:
    """The queue, first of `items`, and those below it once the condition holds.

    `chain` reads the ancestors again. Raises WaitTimeout, which says what is missing, or what `read` raises.
    """
    since, name = generation_of(items[0]), name_of(items[0])
    warned = False
    while missing := _missing(condition, items[0], since=since, chain=chain):
        never = "" if warned else condition.never(items)
        if never:
            warn(never)
            warned = True
        say(f'queue "{name}": {missing}; {condition.progress(items)}')
        if not timer.pause():
            raise WaitTimeout(_timeout_text(condition, items=items, missing=missing, timer=timer))
        try:
            items = read()
        except UnreachableError as exc:
            say(f'queue "{name}": {str(exc).splitlines()[0]}')
    for _ in range(_LATE_READS):
        if not condition.counts_are_late(items) or not timer.pause():
            break
        with suppress(UnreachableError):
            items = read()
    return items


def _missing(condition: WaitCondition, item: Object, *, since: int, chain: ChainReader) -> str:
    """What is missing; an unreachable server, where the chain cannot be read."""
    try:
        return condition.missing(item, since=since, chain=chain)
    except UnreachableError as exc:
        return str(exc).splitlines()[0]


def _timeout_text(
    condition: WaitCondition, *, items: Sequence[Object], missing: str, timer: PollTimer
) -> str:
    item = items[0]
    seconds = timer.timeout.total_seconds() if timer.timeout else 0
    text = f'timed out after {seconds:g}s waiting for queue "{name_of(item)}": {missing}'
    if not is_observed(item) and not matches_chain(status_of(item).get("stop"), own_spec(item)):
        observed = status_of(item).get("observedGeneration") or 0
        return (
            f"{text}; the status is that of generation {observed} and not yet of {generation_of(item)}: "
            "is Sluice's controller running?"
        )
    message = condition.controller_message(item)
    return f"{text}; {condition.remaining(items)}" + (f"; {message}" if message else "")
