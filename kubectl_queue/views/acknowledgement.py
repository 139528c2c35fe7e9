"""How far an edit of a queue is: what it waits for, and what is missing.

Promises
- An edit is acknowledged when `status.observedGeneration` has reached its generation, and the condition that
  the edit is about has the wanted status for that generation.
- A stop is acknowledged when, besides, `status.stop` says so for the specs of the queue's chain as they are
  read now (`queues.status.stop_status`). What the acknowledgement waits for is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from kubectl_queue.objects.fields import (
    Object,
    condition_of,
    condition_since,
    generation_of,
    name_of,
    status_of,
)
from kubectl_queue.objects.queues import stop_acknowledgement
from kubectl_queue.views.text import plural
from queues.states import Action, State
from queues.status.closing import closing_text, read_closing
from queues.status.conditions import ACCEPTING, ACTIVE
from queues.status.stop_status import (
    Acknowledgement,
    ObservedChain,
    QueueGeneration,
    matches_chain,
    waiting_for,
)
from queues.verdict import Verdict


def own_spec(item: Object) -> ObservedChain:
    """The chain as far as the queue itself is known."""
    return ObservedChain((QueueGeneration(name_of(item), generation_of(item)),))


class WaitCondition(Protocol):
    """What an edit leads to, as functions of values. `items`: the queue first, then those below it."""

    def missing(self, item: Object, *, since: int, chain: ObservedChain | None = None) -> str:
        """What is missing for generation `since` or a later one; empty once it holds.

        `chain`: that of the queue as it is now; None: its own spec alone.
        """

    def rests_on_chain(self, item: Object) -> bool:
        """Whether it holds for the chain as it is now, and not for the queue's own spec alone."""

    def counts_are_late(self, items: Sequence[Object]) -> bool:
        """Whether queues below do not count yet what the queue itself already says."""

    def remaining(self, items: Sequence[Object], *, name_blockers: bool = True) -> str:
        """The members that are left."""

    def pods_left_and_gone(self, items: Sequence[Object]) -> tuple[int, int] | None:
        """The pods of a drain; None where none are counted."""

    def done(self, items: Sequence[Object]) -> str:
        """What is printed once it holds."""

    def controller_message(self, item: Object) -> str:
        """Why it does not hold, in the controller's words."""

    def never(self, items: Sequence[Object]) -> str:
        """Why it will never hold, as far as is known; else empty."""


class EditProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far an edit is. `missing`: what is missing; empty once it holds.

    `remaining`: the members that are left. `never`: why it will never hold, as far as is known; then
    `remaining` does not name what blocks it. `left`, `gone`: pods of a drain; None: none are counted.
    """

    missing: str
    remaining: str
    never: str = ""
    left: int | None = None
    gone: int | None = None


def edit_progress(
    condition: WaitCondition,
    items: Sequence[Object],
    *,
    since: int,
    chain: ObservedChain | None = None,
    name_blockers: bool = True,
) -> EditProgress:
    """As `condition.missing` has it. `name_blockers`: False where `never` has named them before."""
    missing = condition.missing(items[0], since=since, chain=chain)
    never = condition.never(items) if missing else ""
    left, gone = condition.pods_left_and_gone(items) or (None, None)
    return EditProgress(
        missing=missing,
        remaining=condition.remaining(items, name_blockers=name_blockers and not never),
        never=never,
        left=left,
        gone=gone,
    )


class AcknowledgementWait(msgspec.Struct, frozen=True, kw_only=True):
    """A condition with the wanted status. `state`: the state that must be in the status besides.

    `is_old`: nothing was changed, so what is acknowledged was so before.
    """

    condition: str
    wanted: bool
    state: State | None = None
    is_old: bool = False

    @property
    def closing(self) -> bool:
        return self.condition == ACCEPTING and not self.wanted

    @property
    def stopping(self) -> bool:
        return self.condition == ACTIVE and not self.wanted

    def missing(self, item: Object, *, since: int, chain: ObservedChain | None = None) -> str:
        if int(status_of(item).get("observedGeneration") or 0) < since:
            return not_acknowledged(item)
        condition = condition_of(item, self.condition)
        observed = int(condition.get("observedGeneration") or 0)
        if observed < since or condition.get("status") != str(self.wanted):
            return f"{self.condition} is not {self.wanted} yet{_cause(item)}"
        if self.state is not None and status_of(item).get("state") != self.state:
            return f"not {self.state} yet"
        return not_acknowledged(item) if self.stopping and not is_acknowledged(item, chain=chain) else ""

    def rests_on_chain(self, item: Object) -> bool:
        return self.stopping

    def counts_are_late(self, items: Sequence[Object]) -> bool:
        return False

    def remaining(self, items: Sequence[Object], *, name_blockers: bool = True) -> str:
        return live_members(items, closing=self.closing)

    def pods_left_and_gone(self, items: Sequence[Object]) -> tuple[int, int] | None:
        return None

    def done(self, items: Sequence[Object]) -> str:
        since = condition_since(items[0], self.condition) if self.is_old else ""
        shown = f" since {since}" if since else ""
        return f"acknowledged{shown}: {status_of(items[0]).get('state')}, {self.remaining(items)}"

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


def is_acknowledged(item: Object, *, chain: ObservedChain | None) -> bool:
    """Whether the stop of a queue is acknowledged for these specs; None: for its own alone."""
    acknowledgement = stop_acknowledgement(item, chain=own_spec(item) if chain is None else chain)
    return acknowledgement is Acknowledgement.ACKNOWLEDGED


def not_acknowledged(item: Object) -> str:
    """The text for an edit that is not acknowledged, with what the controller waits for, if it says so."""
    return f"not acknowledged yet{_cause(item)}"


def _cause(item: Object) -> str:
    stop = status_of(item).get("stop")
    text = waiting_for(stop) if matches_chain(stop, own_spec(item)) else ""
    return f" ({text})" if text else ""


def live_members(items: Sequence[Object], *, closing: bool) -> str:
    """The live members that the statuses of these queues count. `closing`: they are what is left, and what
    keeps the first queue from Closed is named: Jobs without pods are not counted.
    """
    if not any(status_of(item).get("pods") for item in items):
        return "live pods are not counted yet"
    running, pending = _pods(items, "running"), _pods(items, "pending")
    groups = _pod_groups(items)
    left = " left" if closing else ""
    text = f"{plural(running + pending, 'live pod')}{left} ({running} running, {pending} pending)"
    kept = read_closing(status_of(items[0]).get("closing")) if closing else None
    return "; ".join(
        [
            f"{text}, {plural(groups, 'PodGroup')}{left}" if groups else text,
            *([closing_text(kept)] if kept is not None and kept.name else []),
        ]
    )


def _pods(items: Iterable[Object], phase: str) -> int:
    return _sum((status_of(item).get("pods") or {} for item in items), phase)


def _pod_groups(items: Iterable[Object]) -> int:
    statuses = [status_of(item) for item in items]
    return sum(_sum(statuses, phase) for phase in ("pending", "running", "inqueue", "unknown"))


def _sum(counts: Iterable[Mapping[str, Any]], key: str) -> int:
    return sum(int(count.get(key) or 0) for count in counts)
