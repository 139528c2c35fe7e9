"""--wait: until the controller has acknowledged an edit, a queue is Closed, or a drain has ended.

Promises
- A server that cannot be reached is asked again until the time is up.
- The progress shows what is missing and how many members are left.
- Where waiting cannot help, a warning says so once; the wait goes on, since the cause may be removed.
- What was acknowledged before, and not for this edit, counts only while a replica of the server leads. While
  none does, it waits for one, and the text says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta

from msgspec.structs import replace

from kubectl_queue.errors import UnreachableError, WaitTimeout
from kubectl_queue.objects.fields import Object, generation_of, name_of, status_of
from kubectl_queue.objects.queues import is_observed
from kubectl_queue.output.progress_bar import ProgressBar
from kubectl_queue.views.acknowledgement import EditProgress, WaitCondition, edit_progress, own_spec
from queues.status.stop_status import ObservedChain, matches_chain

#: Reads the generations on the chain of a queue.
ChainReader = Callable[[Object], ObservedChain]

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


def wait(  # noqa: PLR0913 - what is read and where it is said
    condition: WaitCondition,
    *,
    items: Sequence[Object],
    read: Callable[[], Sequence[Object]],
    say: Callable[[str], None],
    timer: PollTimer,
    warn: Callable[[str], None] = lambda _: None,
    chain: ChainReader = own_spec,
    bar: ProgressBar | None = None,
    lost: Callable[[], str] = lambda: "",
) -> Sequence[Object]:
    """The queue, first of `items`, and those below it once the condition holds.

    `chain` reads the ancestors again. `bar`: to draw the progress of a drain with. `lost`: that no replica of
    the server leads, and since when; "" where one does, where that is not known, and where this edit itself
    was acknowledged. Raises WaitTimeout, which says what is missing, or what `read` raises.
    """
    since, name = generation_of(items[0]), name_of(items[0])
    is_warned = False

    def now() -> EditProgress:
        found = progress_now(condition, items, since=since, chain=chain, name_blockers=not is_warned)
        gone = "" if found.missing else lost()
        return (
            replace(found, missing=f"it was acknowledged before the server was lost: {gone}")
            if gone
            else found
        )

    while (progress := now()).missing:
        if progress.never and not is_warned:
            warn(progress.never)
            is_warned = True
        say(f'queue "{name}": {progress.missing}; {_drawn(progress, bar)}')
        if not timer.pause():
            raise WaitTimeout(_timeout_text(condition, progress, item=items[0], timer=timer))
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


def progress_now(
    condition: WaitCondition,
    items: Sequence[Object],
    *,
    since: int,
    chain: ChainReader,
    name_blockers: bool = True,
) -> EditProgress:
    """The ancestors are read only once the queue itself is acknowledged.

    Where they cannot be read for the moment, that is what is missing.
    """
    of_own_spec = edit_progress(condition, items, since=since, name_blockers=name_blockers)
    if of_own_spec.missing or not condition.rests_on_chain(items[0]):
        return of_own_spec
    try:
        read = chain(items[0])
    except UnreachableError as exc:
        return replace(of_own_spec, missing=str(exc).splitlines()[0])
    return edit_progress(condition, items, since=since, chain=read, name_blockers=name_blockers)


def _drawn(progress: EditProgress, bar: ProgressBar | None) -> str:
    if bar is None or progress.left is None or progress.gone is None:
        return progress.remaining
    return f"{bar.draw(left=progress.left, gone=progress.gone)} {progress.remaining}"


def _timeout_text(condition: WaitCondition, progress: EditProgress, *, item: Object, timer: PollTimer) -> str:
    seconds = timer.timeout.total_seconds() if timer.timeout else 0
    text = f'timed out after {seconds:g}s waiting for queue "{name_of(item)}": {progress.missing}'
    if not is_observed(item) and not matches_chain(status_of(item).get("stop"), own_spec(item)):
        observed = status_of(item).get("observedGeneration") or 0
        return (
            f"{text}; the status is that of generation {observed} and not yet of {generation_of(item)}: "
            "is Sluice's controller running?"
        )
    message = condition.controller_message(item)
    return f"{text}; {progress.remaining}" + (f"; {message}" if message else "")
