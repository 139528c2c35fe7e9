"""The tree of queues: chains, children, and what breaks a chain.

Invariants
- A `Tree` never changes; any thread may read it.
- `chain(name)` begins with the queue itself and ends with `root`, or where it breaks:
  before a parent that does not exist, or before a queue that would come twice.
- No call takes longer than the number of queues on the chain, cycles included; `subtree` than that below.
- `root` is always there: where the object is missing, an Open one is implied.
- What is in a queue goes on counting where the queue was when that is gone (`counting_chain`), until a queue
  of its name is there again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import msgspec

from queues.node_groups import NodeGroups
from queues.queue import IMPLIED_ROOT, ROOT, Queue
from queues.states import ParkedPods
from queues.text import quoted

#: Names of a cycle that are shown.
CYCLE_NAMES_SHOWN = 6


#: Of trees from which no queue with work has gone.
NOTHING_FORMER: Mapping[str, str] = MappingProxyType({})


class ChainBreak(msgspec.Struct, frozen=True, gc=False):
    """Why a chain does not reach `root`: `child` names `parent`, which is missing or closes a cycle."""

    child: str
    parent: str
    cycle: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.cycle:
            return f"the parents form a cycle: {' > '.join(self._round())}"
        return f"parent {quoted(self.parent)} of queue {quoted(self.child)} does not exist"

    def _round(self) -> Iterator[str]:
        """The names on the cycle and the first again, without the middle of a long one."""
        if len(self.cycle) <= CYCLE_NAMES_SHOWN:
            yield from self.cycle
        else:
            yield from self.cycle[: CYCLE_NAMES_SHOWN - 1]
            yield f"({len(self.cycle) - CYCLE_NAMES_SHOWN} more)"
            yield self.cycle[-1]
        yield self.cycle[0]


class Chain(msgspec.Struct, frozen=True, gc=False):
    """A queue and its ancestors, nearest first, and the break if there is one."""

    queues: tuple[Queue, ...]
    broken: ChainBreak | None = None

    @property
    def parked(self) -> ParkedPods:
        """As the nearest queue on the way up to root says that says anything."""
        named = (queue.parked for queue in self.queues if queue.parked is not None)
        return next(named, ParkedPods.KEEP)

    @property
    def node_groups(self) -> NodeGroups | None:
        """Those of the nearest queue on the way up to root that has the field."""
        return next((queue.node_groups for queue in self.queues if queue.node_groups is not None), None)

    def contact_of(self, name: str) -> str:
        """Whom to ask about this queue of the chain: what it says itself, or the nearest above that does."""
        names = [queue.name for queue in self.queues]
        above = self.queues[names.index(name) :] if name in names else ()
        return next((queue.contact for queue in above if queue.contact), "")

    @property
    def names_parked(self) -> bool:
        """Whether one of them says what becomes of such pods."""
        return any(queue.parked is not None for queue in self.queues)


class Tree:
    """All queues at one moment."""

    __slots__ = ("_children", "_former", "_queues")

    def __init__(self, queues: Mapping[str, Queue], *, former: Mapping[str, str] = NOTHING_FORMER) -> None:
        """`former`: below which queue each was that is gone, of those that had work then."""
        self._former = former
        self._queues: Mapping[str, Queue] = MappingProxyType({ROOT: IMPLIED_ROOT, **queues})
        children: dict[str, list[str]] = {}
        for queue in self._queues.values():
            parent = _parent_of(queue)
            if parent is not None:
                children.setdefault(parent, []).append(queue.name)
        self._children: Mapping[str, tuple[str, ...]] = {
            parent: tuple(sorted(names)) for parent, names in children.items()
        }

    def __contains__(self, name: object) -> bool:
        return name in self._queues

    def __iter__(self) -> Iterator[str]:
        return iter(self._queues)

    def __len__(self) -> int:
        return len(self._queues)

    def get(self, name: str) -> Queue | None:
        return self._queues.get(name)

    @property
    def queues(self) -> Mapping[str, Queue]:
        return self._queues

    def with_queue(self, queue: Queue) -> Tree:
        """The tree as it would be with `queue` in place of the queue of its name."""
        return self.with_changes({queue.name: queue})

    def with_changes(
        self, changes: Mapping[str, Queue | None], *, former: Mapping[str, str] | None = None
    ) -> Tree:
        """The tree as it would be with these queues in place of those of their names; None: without it.
        `former`: as of a new tree, where that changes too.

        What is computed anew is as much as changes: an edit of one of thousands of queues costs little.
        """
        tree, queues = Tree.__new__(Tree), dict(self._queues)
        for name, queue in changes.items():
            if queue is not None or name == ROOT:
                queues[name] = queue or IMPLIED_ROOT
            else:
                queues.pop(name, None)
        tree._queues = MappingProxyType(queues)
        tree._children = self._children_after(queues, changes)
        tree._former = self._former if former is None else former
        return tree

    def _children_after(
        self, queues: Mapping[str, Queue], changed: Iterable[str]
    ) -> Mapping[str, tuple[str, ...]]:
        """The same object where no queue is new, gone or moved."""
        moved = {}
        for name in changed:
            parents = _parent_of(self._queues.get(name)), _parent_of(queues.get(name))
            if parents[0] != parents[1]:
                moved[name] = parents
        if not moved:
            return self._children
        children = dict(self._children)
        for name, (before, after) in moved.items():
            if before is not None:
                children[before] = tuple(each for each in children[before] if each != name)
            if after is not None:
                children[after] = tuple(sorted((*children.get(after, ()), name)))
        return children

    def is_shaped_as(self, other: Tree) -> bool:
        """Whether it was made of the other by changes that leave each queue where it is, or the other way
        round: the same queues below each one."""
        return self._children is other._children

    def children(self, name: str) -> tuple[str, ...]:
        return self._children.get(name, ())

    def chain(self, name: str) -> Chain:
        """The chain of a queue that is in the tree; KeyError if it is not."""
        queue = self._queues[name]
        walked = {queue.name: queue}
        while queue.name != ROOT:
            parent = queue.parent or ROOT
            if parent in walked:
                names = tuple(walked)
                cycle = names[names.index(parent) :]
                return Chain(tuple(walked.values()), ChainBreak(queue.name, parent, cycle))
            above = self._queues.get(parent)
            if above is None:
                return Chain(tuple(walked.values()), ChainBreak(queue.name, parent))
            walked[parent] = above
            queue = above
        return Chain(tuple(walked.values()))

    def contact_of(self, name: str) -> str:
        """Whom to ask about a queue, whether it is there or not (`queues.contacts`); "" for nobody."""
        own = self.chain(name).contact_of(name) if name in self._queues else ""
        return own or self._queues[ROOT].contact

    def contacts_of(self, name: str) -> tuple[str, ...]:
        """Whom to ask about each queue of the chain of one; none where nobody is named."""
        chain = self.chain(name).queues if name in self._queues else ()
        found = tuple(self.contact_of(queue.name) for queue in chain)
        return found if any(found) else ()

    @property
    def former(self) -> Mapping[str, str]:
        """Below which queue each was that is gone, of those that had work then."""
        return self._former

    def counting_chain(self, name: str) -> tuple[str, ...]:
        """The queues that what is in this one counts in, itself first, whether it is there or not."""
        names: dict[str, None] = {name: None}
        at: str | None = name
        while at is not None:
            if at in self._queues:
                chain = self.chain(at)
                names.update(dict.fromkeys(queue.name for queue in chain.queues))
                missing = chain.broken.parent if chain.broken and not chain.broken.cycle else ""
                above = missing if missing in self._former else None
            else:
                above = self._former.get(at)
            at = above if above not in names else None
            if at is not None:
                names[at] = None
        return tuple(names)

    def depth(self, name: str) -> int:
        """How many queues stand above this one: 0 for `root`."""
        return len(self.chain(name).queues) - 1

    def subtree(self, name: str) -> frozenset[str]:
        """The queue and all its descendants; each queue of a cycle once."""
        visited = {name}
        pending = [name]
        while pending:
            for child in self.children(pending.pop()):
                if child not in visited:
                    visited.add(child)
                    pending.append(child)
        return frozenset(visited)


def _parent_of(queue: Queue | None) -> str | None:
    """Below which queue it is; None for `root`, and where there is no queue."""
    return None if queue is None or queue.name == ROOT else queue.parent or ROOT
