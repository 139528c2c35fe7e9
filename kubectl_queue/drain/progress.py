"""How far the drain of a queue is: `status.drain` and the condition `Drained`, in values and in words.

Promises
- A queue's `status.drain` counts its own pods; `summed` adds those of the queues below it.
- What cannot be read is taken as absent.
- Emptied is: the condition `Drained` is True, for the generation or a later one, and the stop is acknowledged
  where the server says for which specs (`queues.status.stop_status`).
- That waiting is no help is said only where it is so of every pod that is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from kubectl_queue.access.responses import Object
from kubectl_queue.edit.wait import (
    ChainReader,
    is_acknowledged,
    many,
    not_acknowledged,
    own_spec,
)
from kubectl_queue.errors import QueueError
from kubectl_queue.output.ages import age, written
from kubectl_queue.snapshot import (
    find,
    generation,
    name,
    observed,
    spec,
    status,
)
from queues.apimachinery.conversion import Converter
from queues.drain.progress import DRAINED, Blocker
from queues.states import StopPolicy
from queues.text import printable

_WIDTH = 20
#: Blockers that a line names.
_NAMED = 2


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """`status.drain`. In pods, but `suspended`: Jobs and their like. `left` has those that are `leaving`."""

    since: datetime | None = None
    evicted: int = 0
    suspended: int = 0
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
    def hopeless(self) -> bool:
        """Whether all that is left is kept by what keeps pods for good, and all of it is told of."""
        told = sum(each.pods for each in self.blockers if each.never)
        return 0 < self.left <= self.blocked <= told and not self.leaving


_drain = Converter[Drain | None](Drain | None)


def drain_of(item: Object) -> Drain | None:
    """That of one queue's status; None where it does not drain, or not yet."""
    try:
        return _drain(status(item).get("drain"))
    except msgspec.ValidationError:
        return None


def summed(items: Iterable[Object]) -> Drain | None:
    """That of a branch of queues, None where none of them drains."""
    found = [drain for drain in map(drain_of, items) if drain is not None]
    if not found:
        return None
    counts = {key: sum(getattr(each, key) for each in found) for key in _COUNTS}
    since = min((each.since for each in found if each.since), default=None)
    return Drain(since=since, blockers=tuple(_merged(found)), **counts)


_COUNTS = ("evicted", "suspended", "deleted", "left", "leaving", "kept", "blocked")


def _merged(found: Iterable[Drain]) -> Iterator[Blocker]:
    """Each blocker once, those that keep most first."""
    by_name: dict[str, list[Blocker]] = {}
    for blocker in (each for drain in found for each in drain.blockers):
        by_name.setdefault(blocker.name, []).append(blocker)
    merged = [
        msgspec.structs.replace(
            held[0], pods=sum(each.pods for each in held), never=any(each.never for each in held)
        )
        for held in by_name.values()
    ]
    yield from sorted(merged, key=lambda each: (-each.pods, each.name))


def counted(drain: Drain) -> str:
    """In a line."""
    parts = [_left(drain), f"{drain.evicted} evicted" if drain.evicted else ""]
    parts.append(f"{many(drain.suspended, 'Job')} suspended" if drain.suspended else "")
    parts.append(f"{drain.deleted} deleted past a budget" if drain.deleted else "")
    parts.append(f"{drain.kept} kept" if drain.kept else "")
    return ", ".join(filter(None, parts))


def _left(drain: Drain) -> str:
    blockers = f" by {_names(drain.blockers)}" if drain.blockers else ""
    detail = [f"{drain.leaving} on their way" if drain.leaving else ""]
    detail.append(f"{drain.blocked} blocked{blockers}" if drain.blocked else "")
    told = ", ".join(filter(None, detail))
    return f"{many(drain.left, 'pod')} left" + (f" ({told})" if told else "")


def _names(blockers: Sequence[Blocker]) -> str:
    told = ", ".join(printable(each.name) for each in blockers[:_NAMED])
    others = len(blockers) - _NAMED
    return f"{told} and {others} more" if others > 0 else told


def brief(items: Sequence[Object]) -> str:
    """The drain of a branch, whose queue is the first of `items`, in a few words; empty for none."""
    drain = summed(items)
    if drain is None:
        return ""
    if find(items[0], DRAINED).get("status") == "True":
        return "drained" + (f", {drain.kept} kept" if drain.kept else "")
    return counted(msgspec.structs.replace(drain, evicted=0, suspended=0, deleted=0))


def lines(items: Sequence[Object], *, now: datetime) -> list[str]:
    """The drain of a branch, whose queue is the first of `items`; none where there is none."""
    drain = summed(items)
    if drain is None:
        return []
    condition = find(items[0], DRAINED)
    reason = str(condition.get("reason") or "not judged yet")
    since = f", begun {written(drain.since)} ({_ago(drain.since, now=now)})" if drain.since else ""
    message = str(condition.get("message") or "")
    return [
        f"{printable(reason)}{since}",
        counted(drain),
        *map(_told, drain.blockers),
        *([printable(message, limit=1000)] if message else []),
    ]


def _told(blocker: Blocker) -> str:
    for_good = ", for good" if blocker.never else ""
    message = f": {because(blocker.name, blocker.message)}" if blocker.message else ""
    return f"blocked by {printable(blocker.name)}, {many(blocker.pods, 'pod')}{for_good}{message}"


def because(name: str, message: str) -> str:
    """What a blocker says, without its name, which stands before it."""
    return printable(message.removeprefix(f"{name} "), limit=1000)


def _ago(since: datetime, *, now: datetime) -> str:
    return f"{age(written(since), now=now)} ago"


class Emptied:
    """The end of a drain, as what `waiting.wait` waits for. `bar`: to be drawn. One thread."""

    def __init__(self, *, bar: bool = False) -> None:
        self._bar = bar
        self._most = 0

    def missing(self, item: Object, *, since: int, chain: ChainReader = own_spec) -> str:
        """What is still missing; nothing once it is there. Raises QueueError where that no longer comes."""
        if int(status(item).get("observedGeneration") or 0) < since:
            return not_acknowledged(item)
        policy = spec(item).get("stopPolicy") or StopPolicy.NONE.value
        if policy != StopPolicy.HOLD_AND_DRAIN and generation(item) > since:
            raise QueueError(
                f'queue "{name(item)}" is no longer to be drained: its stopPolicy is {policy} now'
            )
        condition = find(item, DRAINED)
        if int(condition.get("observedGeneration") or 0) < since:
            return "not begun yet"
        if condition.get("status") != "True":
            return str(condition.get("reason") or "not drained yet")
        says = status(item).get("stop") is not None
        return not_acknowledged(item) if says and not is_acknowledged(item, chain=chain) else ""

    def is_late(self, items: Sequence[Object]) -> bool:
        drain = summed(items)
        return drain is not None and drain.left > 0

    def told(self, items: Sequence[Object]) -> str:
        drain = summed(items)
        return "nothing is counted yet" if drain is None else counted(drain)

    def progress(self, items: Sequence[Object]) -> str:
        drain = summed(items)
        if drain is None or not self._bar:
            return self.told(items)
        self._most = max(self._most, drain.left + drain.gone)
        return f"{bar(self._most - drain.left, self._most)} {counted(drain)}"

    def reached(self, items: Sequence[Object]) -> str:
        drain = summed(items)
        return f"drained: {counted(drain)}" if drain is not None else "drained"

    def message(self, item: Object) -> str:
        return str(find(item, DRAINED).get("message") or "")

    def hopeless(self, items: Sequence[Object]) -> str:
        """That it will never be there, and why; empty while it may."""
        drain = summed(items)
        if drain is None or not drain.hopeless or not observed(items[0]):
            return ""
        first = next((each for each in drain.blockers if each.message), None)
        why = f": {printable(first.message, limit=1000)}" if first is not None else ""
        return (
            f'queue "{name(items[0])}" does not become empty by waiting: what is left is blocked by '
            f"{_names(drain.blockers)}{why}"
        )


def bar(done: int, whole: int) -> str:
    """As `[#####---------------]  25%`; all of nothing is done."""
    part = done / whole if whole else 1.0
    full = int(part * _WIDTH)
    return f"[{'#' * full}{'-' * (_WIDTH - full)}] {int(part * 100):3d}%"
