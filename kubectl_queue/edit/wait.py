"""--wait: until the controller has acknowledged an edit, a queue is Closed, or a drain has ended.

Promises
- An edit is acknowledged when `status.observedGeneration` has reached its generation, and the condition that
  the edit is about has the wanted status for that generation.
- A stop is acknowledged when, besides, `status.stop` says so for the specs of the queue's chain as they are
  read now (`queues.status.stop_status`). What the acknowledgement waits for is shown.
- A server that cannot be reached is asked again until the time is up.
- The progress shows what is missing and how many members are left.
- Where waiting cannot help, a warning says so once; the wait goes on, since the cause may be removed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from kubectl_queue.access.responses import Object
from kubectl_queue.errors import UnreachableError, WaitTimeout
from kubectl_queue.queue_objects import (
    condition_of,
    generation_of,
    is_observed,
    name_of,
    status_of,
    stop_acknowledgement,
)
from queues.states import Action, State
from queues.status.conditions import ACCEPTING, ACTIVE
from queues.status.stop_status import (
    Acknowledgement,
    ObservedChain,
    QueueGeneration,
    matches_chain,
    waiting_for,
)
from queues.verdict import Verdict

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 2.0
#: Reads for counts of the queues below, which the controller writes once a second.
_LATE_READS = 5

#: Reads the generations on the chain of a queue.
ChainReader = Callable[[Object], ObservedChain]


def own_spec(item: Object) -> ObservedChain:
    """The chain as far as the queue itself is known."""
    return ObservedChain((QueueGeneration(name_of(item), generation_of(item)),))


class WaitCondition(Protocol):
    """What --wait waits for. `items`: the queue first, then those below it."""

    def missing(self, item: Object, *, since: int, chain: ChainReader = own_spec) -> str:
        """What is missing for generation `since` or a later one; empty once it holds."""

    def counts_are_late(self, items: Sequence[Object]) -> bool:
        """Whether queues below do not count yet what the queue itself already says."""

    def remaining(self, items: Sequence[Object]) -> str:
        """The members that are left."""

    def progress(self, items: Sequence[Object]) -> str:
        """The same, as it is shown while waiting."""

    def done(self, items: Sequence[Object]) -> str:
        """What is printed once it holds."""

    def controller_message(self, item: Object) -> str:
        """Why it does not hold, in the controller's words."""

    def never(self, items: Sequence[Object]) -> str:
        """Why it will never hold, as far as is known; else empty."""


@dataclass(frozen=True, kw_only=True)
class AcknowledgementWait:
    """A condition with the wanted status. `state`: the state that must be in the status besides."""

    condition: str
    wanted: bool
    state: State | None = None

    @property
    def closing(self) -> bool:
        return self.condition == ACCEPTING and not self.wanted

    @property
    def stopping(self) -> bool:
        return self.condition == ACTIVE and not self.wanted

    def missing(self, item: Object, *, since: int, chain: ChainReader = own_spec) -> str:
        if int(status_of(item).get("observedGeneration") or 0) < since:
            return not_acknowledged(item)
        condition = condition_of(item, self.condition)
        observed = int(condition.get("observedGeneration") or 0)
        if observed < since or condition.get("status") != str(self.wanted):
            return f"{self.condition} is not {self.wanted} yet{_cause(item)}"
        if self.state is not None and status_of(item).get("state") != self.state:
            return f"not {self.state} yet"
        return not_acknowledged(item) if self.stopping and not is_acknowledged(item, chain=chain) else ""

    def counts_are_late(self, items: Sequence[Object]) -> bool:
        return False

    def remaining(self, items: Sequence[Object]) -> str:
        return live_members(items, closing=self.closing)

    def progress(self, items: Sequence[Object]) -> str:
        return self.remaining(items)

    def done(self, items: Sequence[Object]) -> str:
        return f"acknowledged: {status_of(items[0]).get('state')}, {self.remaining(items)}"

    def controller_message(self, item: Object) -> str:
        return str(condition_of(item, self.condition).get("message") or "")

    def never(self, items: Sequence[Object]) -> str:
        return ""


def acknowledgement_wait(
    action: Action, verdict: Verdict, *, state: State | None = None
) -> AcknowledgementWait:
    """What to wait for after the action: what the controller will write for this verdict."""
    if action in {Action.OPEN, Action.CLOSE}:
        return AcknowledgementWait(condition=ACCEPTING, wanted=verdict.accepts, state=state)
    return AcknowledgementWait(condition=ACTIVE, wanted=verdict.schedules, state=state)


def is_acknowledged(item: Object, *, chain: ChainReader) -> bool:
    """Whether the stop of a queue is acknowledged for the specs as they are now."""
    of_own_spec = stop_acknowledgement(item, chain=own_spec(item))
    if of_own_spec is not Acknowledgement.ACKNOWLEDGED:
        return False
    return stop_acknowledgement(item, chain=chain(item)) is Acknowledgement.ACKNOWLEDGED


def not_acknowledged(item: Object) -> str:
    """The text for an edit that is not acknowledged, with what the controller waits for, if it says so."""
    return f"not acknowledged yet{_cause(item)}"


def _cause(item: Object) -> str:
    stop = status_of(item).get("stop")
    text = waiting_for(stop) if matches_chain(stop, own_spec(item)) else ""
    return f" ({text})" if text else ""


def live_members(items: Sequence[Object], *, closing: bool) -> str:
    """The live members that the statuses of these queues count; `closing`: they are what is left."""
    if not any(status_of(item).get("pods") for item in items):
        return "live pods are not counted yet"
    running, pending = _pods(items, "running"), _pods(items, "pending")
    groups = _pod_groups(items)
    left = " left" if closing else ""
    text = f"{plural(running + pending, 'live pod')}{left} ({running} running, {pending} pending)"
    return f"{text}, {plural(groups, 'PodGroup')}{left}" if groups else text


def live_count(items: Sequence[Object]) -> int:
    """Live pods and PodGroups, as far as they are counted."""
    return _pods(items, "running") + _pods(items, "pending") + _pod_groups(items)


def _pods(items: Iterable[Object], phase: str) -> int:
    return _sum((status_of(item).get("pods") or {} for item in items), phase)


def _pod_groups(items: Iterable[Object]) -> int:
    statuses = [status_of(item) for item in items]
    return sum(_sum(statuses, phase) for phase in ("pending", "running", "inqueue", "unknown"))


def _sum(counts: Iterable[Mapping[str, Any]], key: str) -> int:
    return sum(int(count.get(key) or 0) for count in counts)


def plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


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
