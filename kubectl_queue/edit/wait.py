"""Waiting until the controller has acknowledged an edit, a queue is Closed, or a drain has ended.

Promises
- Acknowledged is: `status.observedGeneration` has reached the generation, and the condition that
  the action is about has the wanted status for that generation too.
- A stop is acknowledged if, besides, `status.stop` says so of the specs of the queue's chain as they are read
  (`queues.status.stop_status`). What the acknowledgement waits for is shown.
- A server that cannot be reached meanwhile is asked again until the time is up.
- What is waited for is said while waiting, with the members that are left.
- That waiting is no help is said once; it goes on until the time is up, for somebody may yet mend it.
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
from kubectl_queue.snapshot import (
    find,
    generation,
    name,
    observed,
    status,
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


#: Reads the chain of a queue.
ChainReader = Callable[[Object], ObservedChain]


def own_spec(item: Object) -> ObservedChain:
    """The chain as far as the queue itself is known."""
    return ObservedChain((QueueGeneration(name(item), generation(item)),))


#: Looks at counts that are late, at most; they are written once a second.
LATE_LOOKS = 5


class Awaited(Protocol):
    """What can be waited for: of a queue, first of `items`, and those below it."""

    def missing(self, item: Object, *, since: int, chain: ChainReader = own_spec) -> str:
        """What is still missing for the generation `since` or a later one; nothing once it is there."""

    def is_late(self, items: Sequence[Object]) -> bool:
        """Whether some of those below do not say yet what the first of them has said for all."""

    def told(self, items: Sequence[Object]) -> str:
        """What is left."""

    def progress(self, items: Sequence[Object]) -> str:
        """The same, as it is shown while waiting."""

    def reached(self, items: Sequence[Object]) -> str:
        """What is said once it is there."""

    def message(self, item: Object) -> str:
        """The controller's own words for why it is not."""

    def hopeless(self, items: Sequence[Object]) -> str:
        """Why it will never be there, as far as can be told; else nothing."""


@dataclass(frozen=True, kw_only=True)
class Goal:
    """An acknowledgement to wait for. `state`: besides the condition, the state that has to be written."""

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
        """What is still missing for the generation `since` or a later one; nothing once it is there."""
        if int(status(item).get("observedGeneration") or 0) < since:
            return not_acknowledged(item)
        condition = find(item, self.condition)
        seen = int(condition.get("observedGeneration") or 0)
        if seen < since or condition.get("status") != str(self.wanted):
            return f"{self.condition} is not {self.wanted} yet{_waits(item)}"
        if self.state is not None and status(item).get("state") != self.state:
            return f"not {self.state} yet"
        return not_acknowledged(item) if self.stopping and not is_acknowledged(item, chain=chain) else ""

    def is_late(self, _items: Sequence[Object]) -> bool:
        return False

    def told(self, items: Sequence[Object]) -> str:
        return counted(items, goal=self)

    def progress(self, items: Sequence[Object]) -> str:
        return self.told(items)

    def reached(self, items: Sequence[Object]) -> str:
        return f"acknowledged: {status(items[0]).get('state')}, {self.told(items)}"

    def message(self, item: Object) -> str:
        return str(find(item, self.condition).get("message") or "")

    def hopeless(self, items: Sequence[Object]) -> str:
        return ""


def expected(action: Action, verdict: Verdict, *, state: State | None = None) -> Goal:
    """What the controller has to write after the action, where the rules say `verdict` of the queue."""
    if action in {Action.OPEN, Action.CLOSE}:
        return Goal(condition=ACCEPTING, wanted=verdict.accepts, state=state)
    return Goal(condition=ACTIVE, wanted=verdict.schedules, state=state)


def is_acknowledged(item: Object, *, chain: ChainReader) -> bool:
    """Whether the stop of a queue is acknowledged for the specs that there are now."""
    of_spec = stop_acknowledgement(item, chain=own_spec(item))
    if of_spec is not Acknowledgement.ACKNOWLEDGED:
        return False
    return stop_acknowledgement(item, chain=chain(item)) is Acknowledgement.ACKNOWLEDGED


def not_acknowledged(item: Object) -> str:
    """That the edit is not acknowledged, and what that waits for where the controller says so."""
    return f"not acknowledged yet{_waits(item)}"


def _waits(item: Object) -> str:
    stop = status(item).get("stop")
    text = waiting_for(stop) if matches_chain(stop, own_spec(item)) else ""
    return f" ({text})" if text else ""


def counted(items: Iterable[Object], *, goal: Goal) -> str:
    """The live members that the statuses of these queues count, in words; for a close, those left."""
    counts = [status(item) for item in items]
    pods = [count.get("pods") or {} for count in counts]
    if not any(pods):
        return "live pods are not counted yet"
    running, pending = _sum(pods, "running"), _sum(pods, "pending")
    groups = sum(_sum(counts, phase) for phase in ("pending", "running", "inqueue", "unknown"))
    left = " left" if goal.closing else ""
    shown = f"{many(running + pending, 'live pod')}{left} ({running} running, {pending} pending)"
    return f"{shown}, {many(groups, 'PodGroup')}{left}" if groups else shown


def _sum(counts: Iterable[Mapping[str, Any]], key: str) -> int:
    return sum(int(count.get(key) or 0) for count in counts)


def many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


class Clock:
    """Time to wait with; `until` is when to give up, on the monotonic clock."""

    def __init__(self, timeout: timedelta | None) -> None:
        self.timeout = timeout
        self._until = time.monotonic() + timeout.total_seconds() if timeout else None
        self._pause = _FIRST_PAUSE

    def pause(self) -> bool:
        """Wait a little, longer each time; False once the time is up."""
        remaining = self._until - time.monotonic() if self._until is not None else self._pause
        if remaining <= 0:
            return False
        time.sleep(min(self._pause, remaining))
        self._pause = min(self._pause * 1.5, _LONGEST_PAUSE)
        return True


def wait(
    goal: Awaited,
    *,
    items: Sequence[Object],
    read: Callable[[], Sequence[Object]],
    say: Callable[[str], None],
    clock: Clock,
    warn: Callable[[str], None] = lambda _: None,
    chain: ChainReader = own_spec,
) -> Sequence[Object]:
    """The queue, first of `items`, and those below it once it is there. `chain`: reads its ancestors anew.

    Raises WaitTimeout, which says what is missing, or what `read` raises.
    """
    since, name = generation(items[0]), items[0]["metadata"]["name"]
    warned = False
    while missing := _missing(goal, items[0], since=since, chain=chain):
        hopeless = "" if warned else goal.hopeless(items)
        if hopeless:
            warn(hopeless)
            warned = True
        say(f'queue "{name}": {missing}; {goal.progress(items)}')
        if not clock.pause():
            raise WaitTimeout(_given_up(goal, items=items, missing=missing, clock=clock))
        try:
            items = read()
        except UnreachableError as exc:
            say(f'queue "{name}": {str(exc).splitlines()[0]}')
    for _ in range(LATE_LOOKS):  # counts of queues below are written a moment later
        if not goal.is_late(items) or not clock.pause():
            break
        with suppress(UnreachableError):
            items = read()
    return items


def _missing(goal: Awaited, item: Object, *, since: int, chain: ChainReader) -> str:
    """A chain that cannot be read now is missing too."""
    try:
        return goal.missing(item, since=since, chain=chain)
    except UnreachableError as exc:
        return str(exc).splitlines()[0]


def _given_up(goal: Awaited, *, items: Sequence[Object], missing: str, clock: Clock) -> str:
    item = items[0]
    seconds = clock.timeout.total_seconds() if clock.timeout else 0
    shown = f'timed out after {seconds:g}s waiting for queue "{item["metadata"]["name"]}": {missing}'
    if not observed(item) and not matches_chain(status(item).get("stop"), own_spec(item)):
        seen = status(item).get("observedGeneration") or 0
        return (
            f"{shown}; the status is that of generation {seen} and not yet of {generation(item)}: "
            "is Sluice's controller running?"
        )
    message = goal.message(item)
    return f"{shown}; {goal.told(items)}" + (f"; {message}" if message else "")
