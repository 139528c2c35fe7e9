"""Queue objects of the API as the rules see them, at one moment.

Promises
- What cannot be read is taken as absent: the server's schema is what refuses nonsense.
- A `Snapshot` that could not list every queue is not `complete`: ancestors that were not seen
  count as Open, and nothing is said of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from itertools import takewhile
from typing import Any, TypeVar

from kubectl_queue.access.queue_api import Queues
from kubectl_queue.access.responses import Object
from kubectl_queue.errors import ForbiddenError, NotFoundError
from queues.namespace_selectors import compile_selector
from queues.queue import ROOT, Queue
from queues.snapshot import QueueSnapshot
from queues.states import Desired, State, StopPolicy, own_state
from queues.status.conditions import ACCEPTING, ACTIVE
from queues.status.stop_status import (
    Acknowledgement,
    ObservedChain,
    QueueGeneration,
    read_acknowledgement,
)
from queues.tree import Tree

#: With this a queue names what keeps it from Closed.
KEPT = "kept from Closed"

_Word = TypeVar("_Word", bound=StrEnum)


def spec(item: Object) -> Mapping[str, Any]:
    return item.get("spec") or {}


def status(item: Object) -> Mapping[str, Any]:
    return item.get("status") or {}


def name(item: Object) -> str:
    return str(item["metadata"]["name"])


def generation(item: Object) -> int:
    return int(item["metadata"].get("generation") or 0)


def queue(item: Object) -> Queue:
    """The queue's wishes."""
    wishes = spec(item)
    return Queue(
        name=name(item),
        uid=str(item["metadata"].get("uid", "")),
        generation=generation(item),
        parent=None if name(item) == ROOT else str(wishes.get("parent") or ROOT),
        desired=_word(Desired, wishes.get("state"), Desired.OPEN),
        stop_policy=_word(StopPolicy, wishes.get("stopPolicy"), StopPolicy.NONE),
        resume_at=_moment(wishes.get("resumeAt")),
        reason=str(wishes.get("reason") or ""),
        namespaces=compile_selector(wishes.get("namespaceSelector")),
    )


def _word(words: type[_Word], text: Any, default: _Word) -> _Word:
    return words(text) if text in words.__members__.values() else default


def _moment(text: Any) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def live(item: Object) -> bool:
    """Whether a member of it or below it may be live: where it is not written as Closed, unless it is said
    that it is being closed and that no member keeps it."""
    if status(item).get("state") == State.CLOSED:
        return False
    if status(item).get("state") != State.CLOSING:
        return True
    told = find(item, ACCEPTING)
    return told.get("status") != "False" or KEPT in str(told.get("message"))


def observed(item: Object) -> bool:
    """Whether the status speaks of the present spec."""
    return int(status(item).get("observedGeneration") or 0) >= generation(item)


def find(item: Object, kind: str) -> Mapping[str, Any]:
    """The condition of a type; empty where there is none."""
    return next((found for found in status(item).get("conditions") or () if found.get("type") == kind), {})


def stop_acknowledgement(item: Object, *, chain: ObservedChain) -> Acknowledgement:
    """What the status says of the stop of a queue that does not schedule, by the specs that were read."""
    active = find(item, ACTIVE)
    is_of_spec = int(active.get("observedGeneration") or 0) >= generation(item)
    return read_acknowledgement(
        stop=status(item).get("stop"),
        active_is_false=active.get("status") == "False" and is_of_spec,
        chain=chain,
    )


class Snapshot:
    """Queues as they were read, and what the rules make of them."""

    def __init__(self, items: Iterable[Object], *, now: datetime, complete: bool = True) -> None:
        self.items: dict[str, Object] = {name(item): item for item in items}
        self.complete = complete
        self.now = now
        wishes = {key: queue(item) for key, item in self.items.items()}
        self.tree = Tree(wishes if complete else {**_unseen(wishes), **wishes})
        self.board = QueueSnapshot(self.tree, now=now)

    def with_item(self, item: Object, *, now: datetime) -> Snapshot:
        """The same with `item` in the place of the one of its name."""
        items = {**self.items, name(item): item}
        return Snapshot(items.values(), now=now, complete=self.complete)

    def branch(self, named: str) -> list[Object]:
        """The queue and all below it, as far as they were read."""
        return [self.items[each] for each in sorted(self.tree.below(named)) if each in self.items]

    def from_top(self, named: str) -> list[Object]:
        """The same, the queue first; it has to have been read."""
        return [self.items[named], *(item for item in self.branch(named) if name(item) != named)]

    def chain(self, named: str) -> ObservedChain:
        """The specs on the queue's chain, as far as they were read."""
        queues = self.tree.chain(named).queues
        read = list(takewhile(self._is_known, queues))
        return ObservedChain(
            tuple(QueueGeneration(each.name, each.generation) for each in read), whole=read == list(queues)
        )

    def _is_known(self, queue: Queue) -> bool:
        return queue.name in self.items or (self.complete and queue.name == ROOT)

    def own_state(self, named: str) -> State:
        """The state the queue would have without its ancestors: the column of the table of actions."""
        chain = self.tree.chain(named)
        desired = chain.queues[0].desired_at(self.now)
        return own_state(desired, broken=chain.broken is not None, live=live(self.items[named]))


def _unseen(wishes: Mapping[str, Queue]) -> dict[str, Queue]:
    return {wish.parent: Queue(name=wish.parent) for wish in wishes.values() if wish.parent}


def take(api: Queues, names: Iterable[str]) -> Snapshot:
    """All queues; those of `names` alone where the user may read but not list.

    A name that is not there is not in the snapshot.
    """
    try:
        return Snapshot(api.list().items, now=api.now)
    except ForbiddenError:
        wanted = list(names)
        if not wanted:
            raise
        found = [item for item in (_try(api, name) for name in wanted) if item is not None]
        return Snapshot(found, now=api.now, complete=False)


def _try(api: Queues, named: str) -> Object | None:
    try:
        return api.get(named)
    except NotFoundError:
        return None
