"""What an edit of a quota, or a move to or from one, does at that moment. Webhooks warn whoever makes it.

| the edit                                  | says                                                           |
|-------------------------------------------|----------------------------------------------------------------|
| a capability comes to be below what is    | how much is used; that nothing is evicted, and nothing         |
| used: its own, or that of a queue that    | released until enough has ended                                |
| this one is moved below                   |                                                                |
| a queue comes to have a quota, with room  | that the pods that run count, and those that wait go as there  |
| for what runs                             | is room                                                        |
| a queue has no quota any more             | how many pods wait for room, and go now                        |
| a capability of cpu or memory becomes 0   | that nothing which requests it runs; Volcano takes it for no   |
|                                           | limit                                                          |
| a guarantee becomes more than there is    | that nothing is evicted for it, and what ends is kept for it   |
| room for                                  |                                                                |
| what the children may use, are guaranteed | by how much; that they share what there is                     |
| or deserve comes to be more in all than   |                                                                |
| their parent's capability                 |                                                                |

What can never hold is refused instead (`resource_validation`): a guarantee or deserved share above the
capability, a child's capability above its parent's, sums of guarantees, or of deserved shares, above the
parent's.

Invariants
- A function of values. An edit that changes no capability, guarantee, deserved share or parent says nothing;
  so does one of a queue without pods, but for the last three rows.
- Each text is one line of at most `LENGTH` characters, with `_RESOURCES` resources at most.
- What is used is what `queues.quota` counts, of the queue and of all below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from queues.admission.stop_edits import LENGTH
from queues.apimachinery.quantities import Amount, format_quantity, sum_amounts
from queues.queue import Amounts, Queue
from queues.quota.devices import SharedCounts, no_claims, with_claims_counted
from queues.quota.report import sorted_resources
from queues.quota.usage import PODS
from queues.text import printable, quoted, truncated
from queues.tree import Tree
from queues.verdict import verdict

#: Characters of a name and of a resource in a text, and resources.
_NAME, _RESOURCE, _RESOURCES = 40, 30, 2
#: What the children of a queue share, and how a text says it.
_SHARED = (("capability", "may use"), ("guarantee", "are guaranteed"), ("deserved", "deserve"))
#: Of these Volcano's plugin `capacity` takes 0 for no limit (`pkg/scheduler/plugins/capacity`).
_UNLIMITED_IN_VOLCANO = ("cpu", "memory")


class QueueUse(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue alone uses, `pods` included, and how many of its pods wait where there is a quota."""

    used: Mapping[str, Amount] = {}
    waiting: int = 0


def quota_consequences(
    name: str,
    *,
    before: Tree,
    after: Tree,
    use: Callable[[str], QueueUse],
    now: datetime,
    overcommits: Callable[[str], bool] = lambda _: False,
    claims: SharedCounts = no_claims,
) -> tuple[str, ...]:
    """The sentences for an edit of the queue `name`, which is in `after`; in `before`, unless it is new.

    `use`: gives that of a queue alone. `overcommits`: whether a queue's scheduling policy has that plugin:
    its pods wait for room without a capability, too. `claims`: what those of devices count.
    """
    was, will = before.get(name) or Queue(name=name), after.queues[name]
    if not changes_quota(was, will):
        return ()
    edit = _Edit(name, before=before, after=after, use=use, now=now, claims=claims)
    over = list(edit.over())
    texts = (
        *over,
        *(() if over else edit.counts()),
        *edit.released(overcommits),
        *edit.kept(),
        *edit.zeros(),
        *edit.sums(),
    )
    return tuple(truncated(text, limit=LENGTH) for text in texts)


def namespace_quota_warning(queue: str) -> str:
    """The admission warning for a namespace that comes to name a queue with a quota."""
    return (
        f"queue {quoted(queue, limit=18)} has a quota: new pods of this namespace wait for room in it; "
        "what runs now counts"
    )


class _Edit:
    def __init__(
        self,
        name: str,
        *,
        before: Tree,
        after: Tree,
        use: Callable[[str], QueueUse],
        now: datetime,
        claims: SharedCounts,
    ) -> None:
        self._claims = claims
        self._name, self._before, self._after, self._use, self._now = name, before, after, use, now
        self._was, self._will = before.get(name) or Queue(name=name), after.queues[name]
        self._quoted = quoted(name, limit=_NAME)

    def over(self) -> Iterator[str]:
        for queue, capability in self._new_limits():
            used = self._used(queue)
            lacking = [name for name, most in capability.items() if used.get(name, 0) > most]
            if lacking:
                yield (
                    f"queue {quoted(queue, limit=_NAME)} uses {_of(used, capability, lacking)}: nothing is "
                    "evicted for that, and nothing that requests it is released until enough has ended"
                )

    def counts(self) -> Iterator[str]:
        """Of a queue that comes to have a quota."""
        limits = [(queue, capability) for queue, capability in self._new_limits() if capability]
        if not limits or _has_quota(self._name, self._before):
            return
        queue, capability = limits[0]
        running, waiting = self._used(self._name).get(PODS, 0), self._waiting()
        if not running and not waiting:
            return
        limiting = "" if queue == self._name else f" by queue {quoted(queue, limit=_NAME)}"
        parts = (
            f"{_pods(int(running), 'that runs counts', 'that run count')}" if running else "",
            f"{_pods(waiting, 'that waits goes', 'that wait go')} as there is room" if waiting else "",
        )
        shown = _of(self._used(queue), capability, list(capability))
        yield f"queue {self._quoted} is limited{limiting} ({shown}): {', '.join(filter(None, parts))}"

    def released(self, overcommits: Callable[[str], bool]) -> Iterator[str]:
        freed = [
            queue
            for queue in self._below()
            if _has_quota(queue, self._before)
            and not (_has_quota(queue, self._after) or overcommits(queue))
            and verdict(queue, tree=self._after, live=True, now=self._now).schedules
        ]
        waiting = sum(self._use(queue).waiting for queue in freed)
        if waiting:
            go = _pods(waiting, "that waits for room goes", "that wait for room go")
            yield f"no capability limits queue {self._quoted} any more: {go}"

    def kept(self) -> Iterator[str]:
        was, will = dict(self._was.guarantee or ()), dict(self._will.guarantee or ())
        used = self._used(self._name)
        for each in self._after.chain(self._name).queues:
            capability, used_there = _amounts(each), self._used(each.name)
            lacking = [
                name
                for name, amount in will.items()
                if amount > was.get(name, 0) and name in capability
                if amount - used.get(name, 0) > max(0, capability[name] - used_there.get(name, 0))
            ]
            if lacking:
                yield (
                    f"queue {self._quoted} uses {_of(used, will, lacking)} that it is guaranteed, and queue "
                    f"{quoted(each.name, limit=_NAME)} has no room for the rest now: nothing is evicted for "
                    "that, and what ends is kept for it"
                )
                return

    def zeros(self) -> Iterator[str]:
        was, will = _amounts(self._was), _amounts(self._will)
        for name in _UNLIMITED_IN_VOLCANO:
            if will.get(name) == 0 and was.get(name) != 0:
                yield (
                    f'spec.capability.{name}: "0" lets nothing run that requests {name}; '
                    "Volcano takes it for no limit: leave it out for that"
                )

    def sums(self) -> Iterator[str]:
        """Of its own children, and of those of its parent."""
        for queue in dict.fromkeys((self._name, self._will.parent)):
            if queue is None or queue not in self._after:
                continue
            bounds = _amounts(self._after.queues[queue])
            for field, may in _SHARED:
                sums, before = (_sums(queue, field, tree) for tree in (self._after, self._before))
                was = _amounts(self._before.get(queue))
                worse = [
                    name
                    for name, bound in bounds.items()
                    if (more := sums.get(name, 0) - bound) > 0
                    and not (name in was and before.get(name, 0) - was[name] >= more)
                ]
                if worse:
                    yield (
                        f"the queues below queue {quoted(queue, limit=_NAME)} {may} "
                        f"{_of(sums, bounds, worse)} together: they share what there is"
                    )

    def _new_limits(self) -> Iterator[tuple[str, dict[str, Amount]]]:
        """The queues of the chain with what of their capability is new for this queue, nearest first."""
        old = {each.name for each in self._before.chain(self._name).queues} if self._was_there else set()
        for each in self._after.chain(self._name).queues:
            if each.name == self._name:
                was = _amounts(self._was)
                yield (
                    each.name,
                    {name: most for name, most in _amounts(each).items() if was.get(name) != most},
                )
            elif each.name not in old:
                yield each.name, _amounts(each)

    @property
    def _was_there(self) -> bool:
        return self._name in self._before

    def _below(self) -> Sequence[str]:
        return sorted(self._after.subtree(self._name) & set(self._after))

    def _used(self, queue: str) -> dict[str, Amount]:
        """By the queue and all that will be below it."""
        total: dict[str, Amount] = {}
        for each in self._after.subtree(queue):
            for name, amount in self._use(each).used.items():
                total[name] = total.get(name, 0) + amount
        return with_claims_counted(total, self._claims)

    def _waiting(self) -> int:
        return sum(self._use(queue).waiting for queue in self._below())


def changes_quota(before: Queue, after: Queue) -> bool:
    """Whether an edit changes a capability, a guarantee, a deserved share or the parent."""
    return _asked_of(before) != _asked_of(after)


def _asked_of(queue: Queue) -> tuple[Amounts | None, Amounts | None, Amounts | None, str | None]:
    return queue.capability, queue.deserved, queue.guarantee, queue.parent


def _has_quota(queue: str, tree: Tree) -> bool:
    return queue in tree and any(each.capability is not None for each in tree.chain(queue).queues)


def _amounts(queue: Queue | None) -> dict[str, Amount]:
    return dict((queue.capability if queue is not None else None) or ())


def _sums(queue: str, field: str, tree: Tree) -> dict[str, Amount]:
    """Those of its children."""
    sums: dict[str, list[Amount]] = {}
    for child in tree.children(queue):
        amounts: Amounts | None = getattr(tree.queues[child], field)
        for name, amount in amounts or ():
            sums.setdefault(name, []).append(amount)
    return {name: sum_amounts(amounts) for name, amounts in sums.items()}


def _of(used: Mapping[str, Amount], limits: Mapping[str, Amount], names: Sequence[str]) -> str:
    """Such as `cpu 5 of 2 and memory 8Gi of 4Gi`."""
    shown = [
        f"{printable(name, limit=_RESOURCE)} {format_quantity(used.get(name, 0), name)} "
        f"of {format_quantity(limits[name], name)}"
        for name in sorted_resources(names)[:_RESOURCES]
    ]
    more = len(names) - len(shown)
    return " and ".join(shown) if not more else f"{', '.join(shown)} and {more} more"


def _pods(number: int, one: str, several: str) -> str:
    return f"the pod {one}" if number == 1 else f"the {number} pods {several}"
