"""What an edit of one queue does to its pods and to those below it, by what their chains say then.

A move (`spec.parent`) stops, drains, closes or lets run what nobody named. Webhooks warn whoever makes the
edit; `kubectl queue move` shows it before.

| before the edit      | after it         | says                                        | of     |
|----------------------|------------------|---------------------------------------------|--------|
| does not drain       | drains           | how many pods will be evicted; "up to" so   | any    |
|                      |                  | many where its `drain` lets pods stay; "at  |        |
|                      |                  | least" where queues below were not read     |        |
| drains               | does not         | that the drain ends                         | a move |
| schedules            | does not         | how many pods that wait go on waiting       | a move |
| does not schedule    | does             | how many pods that wait will run            | a move |
| takes new work       | takes none       | that, and which queue is Closed             | a move |
| takes no new work    | takes some       | that it takes new work again                | a move |
| has node groups      | has others       | how many pods keep the ones before          | any    |

Invariants
- A function of values. An edit that changes no verdict says nothing.
- Each text is one line of at most `LENGTH` characters, and names the queue that is the cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

import msgspec

from queues.admission.stop_edits import LENGTH
from queues.states import StopPolicy
from queues.text import quoted, truncated
from queues.tree import Tree
from queues.verdict import Verdict, verdict

_NAME = 63


class PodNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """How many pods of a queue alone run, and how many wait."""

    running: int = 0
    waiting: int = 0


def tree_consequences(
    name: str,
    *,
    before: Tree,
    after: Tree,
    pods: Callable[[str], PodNumbers],
    keeps: Callable[[str], bool],
    now: datetime,
    is_whole: bool = True,
) -> tuple[str, ...]:
    """The sentences for an edit of the queue `name`, which is in both trees.

    `pods`: gives those of a queue alone. `keeps`: whether the `spec.drain` of a queue lets pods stay; not how
    many. `is_whole`: all queues below it were read.
    """
    moved = before.queues[name].parent != after.queues[name].parent
    changes = _Changes(name, before=before, after=after, now=now)
    texts = (
        _drained(changes, pods, keeps, is_whole=is_whole),
        *(
            (_drains_no_more(changes), _stopped(changes, pods), _released(changes, pods), _access(changes))
            if moved
            else ()
        ),
        _keep_node_groups(changes, pods),
    )
    return tuple(truncated(text, limit=LENGTH) for text in texts if text)


def released_pods(
    name: str, *, before: Tree, after: Tree, pods: Callable[[str], PodNumbers], now: datetime
) -> int:
    """How many pods that wait at or below the queue are in one that comes to schedule."""
    changes = _Changes(name, before=before, after=after, now=now)
    return sum(pods(each).waiting for each in changes.where(_comes_to_schedule))


def end_of_other_stop(name: str, *, tree: Tree, now: datetime) -> str:
    """When a queue without a stop of its own schedules, as it follows "once"; "" if it does.

    A queue above is named; a change window of its own and a broken chain of parents are not.
    """
    stop = verdict(name, tree=tree, live=True, now=now).stop
    if stop is None:
        return ""
    if stop.by in {"", name}:
        return "nothing else stops it"
    return f"queue {quoted(stop.by, limit=_NAME)} no longer stops it"


class _Changes:
    """The verdicts of a queue and of those below it, before and after the edit."""

    def __init__(self, name: str, *, before: Tree, after: Tree, now: datetime) -> None:
        self.name = quoted(name, limit=_NAME)
        self.before, self.after = before, after
        self.own = _verdicts(name, before, after, now)
        below = sorted((before.subtree(name) & after.subtree(name)) - {name})
        self.all = {name: self.own, **{each: _verdicts(each, before, after, now) for each in below}}

    def where(self, holds: Callable[[Verdict, Verdict], bool]) -> Iterator[str]:
        return (name for name, (was, will) in self.all.items() if holds(was, will))


def _verdicts(name: str, before: Tree, after: Tree, now: datetime) -> tuple[Verdict, Verdict]:
    return verdict(name, tree=before, live=True, now=now), verdict(name, tree=after, live=True, now=now)


def _drained(
    changes: _Changes, pods: Callable[[str], PodNumbers], keeps: Callable[[str], bool], *, is_whole: bool
) -> str:
    drained = list(changes.where(lambda was, will: will.drains and not was.drains))
    number = sum(pods(name).running for name in drained)
    if not drained or (is_whole and not number):
        return ""
    by = quoted(changes.own[1].policy_by, limit=_NAME)
    run = "pod that runs" if number == 1 else "pods that run"
    evicted = _pods(number, "that runs", "that run")
    unread = ""
    if not is_whole:
        evicted, unread = f"at least {number} {run}", "; queues below it could not be read"
    if any(keeps(changes.all[name][1].policy_by) for name in drained):
        evicted = f"up to {number} {run}"
    return (
        f"stopPolicy {StopPolicy.HOLD_AND_DRAIN} of queue {by} drains queue {changes.name}: "
        f"{evicted} will be evicted, as spec.drain says{unread}"
    )


def _drains_no_more(changes: _Changes) -> str:
    was, will = changes.own
    if not was.drains or will.drains:
        return ""
    return f"queue {quoted(was.policy_by, limit=_NAME)} no longer drains queue {changes.name}"


def _stopped(changes: _Changes, pods: Callable[[str], PodNumbers]) -> str:
    was, will = changes.own
    if will.schedules or not was.schedules or will.stop is None:
        return ""
    number = sum(pods(name).waiting for name in changes.where(_comes_to_stop))
    waits = _pods(number, "that waits goes on waiting", "that wait go on waiting")
    waits = waits if number else "nothing new runs"
    return f"queue {quoted(will.stop.by, limit=_NAME)} stops queue {changes.name} there: {waits}"


def _comes_to_stop(was: Verdict, will: Verdict) -> bool:
    return was.schedules and not will.schedules


def _comes_to_schedule(was: Verdict, will: Verdict) -> bool:
    return will.schedules and not was.schedules


def _released(changes: _Changes, pods: Callable[[str], PodNumbers]) -> str:
    was, will = changes.own
    if was.schedules or not will.schedules or was.stop is None:
        return ""
    number = sum(pods(name).waiting for name in changes.where(_comes_to_schedule))
    runs = f"{_pods(number, 'that waits', 'that wait')} will run" if number else "what waits will run"
    if was.broken:
        return f"the chain of parents of queue {changes.name} reaches root again: {runs}"
    return f"queue {quoted(was.stop.by, limit=_NAME)} no longer stops queue {changes.name}: {runs}"


def _access(changes: _Changes) -> str:
    was, will = changes.own
    if was.accepts and will.refusal is not None:
        by = quoted(will.refusal.by, limit=_NAME)
        return f"queue {by} is Closed: queue {changes.name} takes no new work there"
    if will.accepts and was.refusal is not None and not was.broken:
        by = quoted(was.refusal.by, limit=_NAME)
        return f"queue {changes.name} takes new work again: it is no longer below queue {by}"
    return ""


def _keep_node_groups(changes: _Changes, pods: Callable[[str], PodNumbers]) -> str:
    number = sum(
        pods(name).running + pods(name).waiting
        for name in changes.all
        if changes.before.chain(name).node_groups != changes.after.chain(name).node_groups
    )
    if not number:
        return ""
    keep = _pods(number, "that exists keeps the node groups", "that exist keep the node groups")
    return f"{keep} of before in queue {changes.name}; new ones get those of now"


def _pods(number: int, one: str, several: str) -> str:
    return f"the pod {one}" if number == 1 else f"the {number} pods {several}"
