"""What a drain would do: the plan of `queues.drain.plan` for what was surveyed, and its words. Pure.

Promises
- Nothing is said of a queue but what the rules make of it as it will be: who drains, by whose settings.
- A budget's pods outside are those that this drain does not take and that may be ready without it: of other
  drains it says nothing, so that none is said to block for good that may not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from kubectl_queue.drain.inventory import Survey
from kubectl_queue.drain.progress import because
from kubectl_queue.edit.wait import many
from kubectl_queue.output.ages import written
from kubectl_queue.output.tables import Layout
from kubectl_queue.snapshot import Snapshot, spec
from queues.drain.disruption_budgets import (
    Budget,
    BudgetIndex,
    BudgetKey,
)
from queues.drain.model import (
    BlockedUnit,
    DrainAction,
    DrainSpec,
    Plan,
    RunningPod,
    Unit,
    keep_rule,
    parse_drain_spec,
)
from queues.drain.plan import plan
from queues.drain.terminating_pods import (
    GRACE_LIMIT,
    delay_of,
    long_grace_warning,
    longest_grace,
)
from queues.text import printable, quoted

_INDENT = "  "
#: Pods of a kind that may be many.
_NAMED = 10
_WORDS = {
    DrainAction.EVICT: "evict",
    DrainAction.SUSPEND: "suspend",
    DrainAction.DELETE: "delete",
    DrainAction.SUSPEND_ANYWAY: "suspend",
}


class Forecast(NamedTuple):
    """The plan, at `now`, for the queues that drain by the policy and the settings of the queue `by`."""

    by: str
    queues: tuple[str, ...]
    wishes: DrainSpec
    plan: Plan
    now: datetime


def wishes(by: str, seen: Snapshot) -> DrainSpec:
    return parse_drain_spec(spec(seen.items[by]).get("drain"))


def forecasts(survey: Survey, seen: Snapshot, *, names: Iterable[str]) -> list[Forecast]:
    """One for each policy by which one of these queues or a queue below them drains."""
    concerned = {each for name in names for each in seen.tree.below(name)}
    held = {
        by: tuple(sorted(queues))
        for by, queues in sorted(seen.board.draining().items())
        if by in seen.items and concerned.intersection(queues)
    }
    return [_forecast(by, queues, survey, seen) for by, queues in held.items()]


def _forecast(by: str, queues: tuple[str, ...], survey: Survey, seen: Snapshot) -> Forecast:
    wished = wishes(by, seen)
    runners = [each.runner for each in survey.pods if each.placed and each.runner.queue in queues]
    budgets = BudgetIndex(_looked_at(survey, frozenset(queues), wished))
    return Forecast(by, queues, wished, plan(runners, budgets, wished, now=seen.now), seen.now)


def _looked_at(survey: Survey, queues: frozenset[str], wished: DrainSpec) -> list[Budget]:
    """The budgets with the number of their pods that this drain does not take."""
    index = BudgetIndex(survey.budgets)
    outside: dict[BudgetKey, int] = {}
    for each in survey.pods:
        if _stays(each.runner, placed=each.placed, queues=queues, wished=wished):
            for budget in index.selecting(each.runner.namespace, each.runner.labels):
                outside[budget.key] = outside.get(budget.key, 0) + 1
    return [replace(budget, outside=outside.get(budget.key, 0)) for budget in survey.budgets]


def _stays(runner: RunningPod, *, placed: bool, queues: frozenset[str], wished: DrainSpec) -> bool:
    """Whether it may be ready when all has gone: what waits for a queue that drains never is."""
    if runner.leaving:
        return False
    return runner.queue not in queues or (placed and keep_rule(runner, wished) is not None)


def bare(survey: Survey, *, before: Snapshot, after: Snapshot) -> list[RunningPod]:
    """The bare pods that would go after an edit and would not without it."""
    already, then = _going(before), _going(after)
    running = (each.runner for each in survey.pods if each.placed)
    return [pod for pod in running if pod.bare and _goes(pod, then) and not _goes(pod, already)]


def begins(*, before: Snapshot, after: Snapshot) -> bool:
    """Whether bare pods might go after an edit that would not without it."""
    already = {queue: _who_stays(wished) for queue, wished in _going(before).items()}
    return any(
        not wished.keep_bare and already.get(queue) != _who_stays(wished)
        for queue, wished in _going(after).items()
    )


def _who_stays(wished: DrainSpec) -> tuple[bool, str | None]:
    return wished.keep_bare, None if wished.keep is None else str(wished.keep)


def _going(seen: Snapshot) -> Mapping[str, DrainSpec]:
    """The settings by which each queue drains; where they cannot be read nobody goes."""
    return {
        queue: wished
        for by, queues in seen.board.draining().items()
        if by in seen.items
        for wished in [wishes(by, seen)]
        if not wished.unreadable
        for queue in queues
    }


def _goes(pod: RunningPod, going: Mapping[str, DrainSpec]) -> bool:
    wished = going.get(pod.queue)
    return wished is not None and not pod.leaving and keep_rule(pod, wished) is None


def lines(found: Forecast) -> list[str]:
    """What `--dry-run` prints of it."""
    below = [name for name in found.queues if name != found.by]
    with_those = f" and {', '.join(below)} below it" if below else ""
    steps, kept = found.plan.steps, found.plan.kept
    waits = [block for block in found.plan.blocked if not block.never]
    blocks = [block for block in found.plan.blocked if block.never]
    return [
        f"queue {quoted(found.by)}{with_those}: {many(found.plan.left, 'pod')} to go, {len(kept)} to stay",
        *_section("Goes, in this order", Layout().lines([_step(unit) for unit in steps])),
        *_section("Waits until its budget allows it", _blocked(waits)),
        *_section("Is blocked, for good", _blocked(blocks)),
        *_section("Stays", Layout().lines([(str(pod), f"by rule {rule}") for pod, rule in kept])),
        *_section("May take long to end", list(_slow(found))),
        *_section("Is on its way already", [_leaving(pod, found) for pod in found.plan.leaving]),
        *_section("Then", list(_then(found.wishes))),
    ]


def _slow(found: Forecast) -> Iterator[str]:
    """The pods that may outstay their places in flight, by the server's default; some of many."""
    units = (*found.plan.steps, *(block.unit for block in found.plan.blocked))
    slow = [(pod, words) for unit in units for pod in unit.pods if (words := _takes_long(pod, found))]
    yield from (f"{pod}: {words}" for pod, words in slow[:_NAMED])
    if len(slow) > _NAMED:
        yield f"and {len(slow) - _NAMED} more"


def _takes_long(pod: RunningPod, found: Forecast) -> str:
    return long_grace_warning(pod, found.wishes, limit=GRACE_LIMIT)


def _leaving(pod: RunningPod, found: Forecast) -> str:
    """With what delays it, if that is known: of nodes it is not."""
    longest = longest_grace(found.wishes, limit=GRACE_LIMIT)
    delay = delay_of(pod, now=found.now, longest=longest, gone_nodes=())
    return f"{pod}: {delay.message}" if delay is not None else str(pod)


def _section(heading: str, body: Sequence[str]) -> list[str]:
    return [f"{_INDENT}{heading}:", *(f"{_INDENT * 2}{line}".rstrip() for line in body)] if body else []


def _step(unit: Unit) -> tuple[str, ...]:
    pods = many(len(unit.pods), "pod") if unit.workload or unit.gang else ""
    mark = "bare: nothing makes it again" if not unit.workload and any(pod.bare for pod in unit.pods) else ""
    priority = f"priority {max(pod.priority for pod in unit.pods)}"
    return _WORDS[unit.action], str(unit), priority, pods or mark


def _blocked(blocks: Sequence[BlockedUnit]) -> list[str]:
    """By what keeps them; each text once, with those that it is about."""
    held: dict[str, list[BlockedUnit]] = {}
    for block in blocks:
        held.setdefault(block.blocker, []).append(block)
    return [line for by, those in held.items() for line in _by(by, those)]


def _by(by: str, those: Sequence[BlockedUnit]) -> Iterator[str]:
    pods = sum(len(block.unit.pods) for block in those)
    yield f"{printable(by)}, {many(pods, 'pod')}: {because(by, those[0].message)}"
    yield from (f"{_INDENT}{block.unit}" for block in those)


def _then(wished: DrainSpec) -> Iterator[str]:
    if wished.deadline is None:
        return
    at = written(wished.deadline)
    if wished.delete_after_deadline:
        yield f"at {at} what is left is deleted, whatever its budgets say"
    else:
        yield f"from {at} on nothing is evicted any more: what is left stays"
