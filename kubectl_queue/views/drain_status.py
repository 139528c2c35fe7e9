"""How far the drain of a queue is: `status.drain` and the condition `Drained`, as values and in words.

Promises
- A queue's `status.drain` counts its own pods; `total` adds those of the queues below it.
- What cannot be read counts as absent.
- A drain has ended when the condition `Drained` is True for the generation or a later one, and the stop is
  acknowledged where the server says for which specs (`queues.status.stop_status`).
- Waiting is said to be useless only where that is true of every pod that is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from kubectl_queue.errors import QueueError
from kubectl_queue.objects.fields import Object, condition_of, generation_of, name_of, spec_of, status_of
from kubectl_queue.objects.queues import is_observed
from kubectl_queue.views.acknowledgement import is_acknowledged, not_acknowledged
from kubectl_queue.views.text import age, plural
from queues.apimachinery.conversion import Converter
from queues.apimachinery.timestamps import rfc3339
from queues.drain.progress import DRAINED, Blocker
from queues.states import StopPolicy
from queues.status.stop_status import ObservedChain
from queues.text import printable

#: Blockers that one line names.
_NAMED = 2
_MESSAGE_LIMIT = 1000


class DrainStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`status.drain`: counts of pods, `suspended` of Jobs and the like, `scaled` of Deployments and the like.

    `left` includes those that are `leaving`.
    """

    since: datetime | None = None
    evicted: int = 0
    suspended: int = 0
    scaled: int = 0
    deleted: int = 0
    left: int = 0
    leaving: int = 0
    kept: int = 0
    blocked: int = 0
    blockers: tuple[Blocker, ...] = ()

    @property
    def gone(self) -> int:
        """Pods that were evicted and are gone, at the least."""
        return max(0, self.evicted + self.deleted - self.leaving)

    @property
    def never_ends(self) -> bool:
        """Whether all pods that are left are blocked for good, by the blockers that the status names."""
        for_good = sum(each.pods for each in self.blockers if each.never)
        return 0 < self.left <= self.blocked <= for_good and not self.leaving


_COUNTS = ("evicted", "suspended", "scaled", "deleted", "left", "leaving", "kept", "blocked")
_drain_status = Converter[DrainStatus | None](DrainStatus | None)


def drain_status_of(item: Object) -> DrainStatus | None:
    """That of one queue; None where it does not drain, or not yet."""
    try:
        return _drain_status(status_of(item).get("drain"))
    except msgspec.ValidationError:
        return None


def total(items: Iterable[Object]) -> DrainStatus | None:
    """That of a branch of queues; None where none of them drains."""
    statuses = [status for status in map(drain_status_of, items) if status is not None]
    if not statuses:
        return None
    counts = {key: sum(getattr(each, key) for each in statuses) for key in _COUNTS}
    since = min((each.since for each in statuses if each.since), default=None)
    return DrainStatus(since=since, blockers=tuple(_merged_blockers(statuses)), **counts)


def _merged_blockers(statuses: Iterable[DrainStatus]) -> Iterator[Blocker]:
    """Each blocker once, the one that keeps most pods first."""
    by_name: dict[str, list[Blocker]] = {}
    for blocker in (each for status in statuses for each in status.blockers):
        by_name.setdefault(blocker.name, []).append(blocker)
    merged = [
        msgspec.structs.replace(
            same[0], pods=sum(each.pods for each in same), never=any(each.never for each in same)
        )
        for same in by_name.values()
    ]
    yield from sorted(merged, key=lambda each: (-each.pods, each.name))


def lines(items: Sequence[Object], *, now: datetime) -> list[str]:
    """The drain of a branch, whose queue is the first of `items`; empty where there is none.

    The message of condition Drained names blockers, which have lines of their own here.
    """
    status = total(items)
    if status is None:
        return []
    condition = condition_of(items[0], DRAINED)
    reason = str(condition.get("reason") or "not judged yet")
    since = f", begun {rfc3339(status.since)} ({_ago(status.since, now=now)})" if status.since else ""
    message = "" if status.blockers else str(condition.get("message") or "")
    return [
        f"{printable(reason)}{since}",
        counts_line(status, name_blockers=False),
        *map(_blocker_line, status.blockers),
        *([printable(message, limit=_MESSAGE_LIMIT)] if message else []),
    ]


def _ago(since: datetime, *, now: datetime) -> str:
    return f"{age(rfc3339(since), now=now)} ago"


def _blocker_line(blocker: Blocker) -> str:
    for_good = ", for good" if blocker.never else ""
    message = f": {blocker_message(blocker.name, blocker.message)}" if blocker.message else ""
    return f"blocked by {printable(blocker.name)}, {plural(blocker.pods, 'pod')}{for_good}{message}"


def blocker_message(name: str, message: str) -> str:
    """The message of a blocker without its name, which stands before it."""
    return printable(message.removeprefix(f"{name} "), limit=_MESSAGE_LIMIT)


def short_text(items: Sequence[Object]) -> str:
    """The drain of a branch in a few words; empty where there is none.

    `items`: the queue first, then those below it.
    """
    status = total(items)
    if status is None:
        return ""
    if condition_of(items[0], DRAINED).get("status") == "True":
        return "drained" + (f", {status.kept} kept" if status.kept else "")
    return counts_line(msgspec.structs.replace(status, evicted=0, suspended=0, scaled=0, deleted=0))


def counts_line(status: DrainStatus, *, name_blockers: bool = True) -> str:
    parts = [
        _left(status, name_blockers=name_blockers),
        f"{status.evicted} evicted" if status.evicted else "",
    ]
    parts.append(f"{plural(status.suspended, 'Job')} suspended" if status.suspended else "")
    parts.append(f"{plural(status.scaled, 'workload')} scaled to zero" if status.scaled else "")
    parts.append(f"{status.deleted} deleted past a budget" if status.deleted else "")
    parts.append(f"{status.kept} kept" if status.kept else "")
    return ", ".join(filter(None, parts))


def _left(status: DrainStatus, *, name_blockers: bool) -> str:
    blockers = f" by {_names(status.blockers)}" if status.blockers and name_blockers else ""
    details = [f"{status.leaving} on their way" if status.leaving else ""]
    details.append(f"{status.blocked} blocked{blockers}" if status.blocked else "")
    text = ", ".join(filter(None, details))
    return f"{plural(status.left, 'pod')} left" + (f" ({text})" if text else "")


def _names(blockers: Sequence[Blocker]) -> str:
    names = ", ".join(printable(each.name) for each in blockers[:_NAMED])
    others = len(blockers) - _NAMED
    return f"{names} and {others} more" if others > 0 else names


def _is_counted(item: Object) -> bool:
    """Whether the status and the condition of the drain are of the present spec."""
    observed = int(condition_of(item, DRAINED).get("observedGeneration") or 0)
    return is_observed(item) and observed >= generation_of(item)


def _deletes_at_deadline(item: Object) -> bool:
    drain = spec_of(item).get("drain") or {}
    return bool(drain.get("deadline")) and drain.get("afterDeadline") in {"Delete", "Scale"}


class DrainWait(msgspec.Struct, frozen=True):
    """The end of a drain, as a `WaitCondition`."""

    def missing(self, item: Object, *, since: int, chain: ObservedChain | None = None) -> str:
        """Raises QueueError where the drain was ended meanwhile."""
        if int(status_of(item).get("observedGeneration") or 0) < since:
            return not_acknowledged(item)
        policy = spec_of(item).get("stopPolicy") or StopPolicy.NONE.value
        if policy != StopPolicy.HOLD_AND_DRAIN and generation_of(item) > since:
            raise QueueError(
                f'queue "{name_of(item)}" is no longer to be drained: its stopPolicy is {policy} now'
            )
        condition = condition_of(item, DRAINED)
        if int(condition.get("observedGeneration") or 0) < since:
            return "not begun yet"
        if condition.get("status") != "True":
            return str(condition.get("reason") or "not drained yet")
        is_acknowledgeable = self.rests_on_chain(item)
        return not_acknowledged(item) if is_acknowledgeable and not is_acknowledged(item, chain=chain) else ""

    def rests_on_chain(self, item: Object) -> bool:
        """Where the server says for which specs a stop is acknowledged."""
        return status_of(item).get("stop") is not None

    def counts_are_late(self, items: Sequence[Object]) -> bool:
        status = total(items)
        return status is not None and status.left > 0

    def remaining(self, items: Sequence[Object], *, name_blockers: bool = True) -> str:
        status = total(items)
        return (
            "nothing is counted yet" if status is None else counts_line(status, name_blockers=name_blockers)
        )

    def pods_left_and_gone(self, items: Sequence[Object]) -> tuple[int, int] | None:
        status = total(items)
        return None if status is None else (status.left, status.gone)

    def done(self, items: Sequence[Object]) -> str:
        status = total(items)
        return f"drained: {counts_line(status)}" if status is not None else "drained"

    def controller_message(self, item: Object) -> str:
        """Where nothing blocks: it names the blockers, and so does `remaining` or `never`."""
        status = total([item])
        return "" if status and status.blockers else str(condition_of(item, DRAINED).get("message") or "")

    def never(self, items: Sequence[Object]) -> str:
        status = total(items)
        if status is None or not status.never_ends or not _is_counted(items[0]):
            return ""
        if _deletes_at_deadline(items[0]):  # the blockers are of before that was set, or end then
            return ""
        first = next((each for each in status.blockers if each.message), None)
        why = f": {printable(first.message, limit=_MESSAGE_LIMIT)}" if first is not None else ""
        return (
            f'queue "{name_of(items[0])}" does not become empty by waiting: what is left is blocked by '
            f"{_names(status.blockers)}{why}"
        )
