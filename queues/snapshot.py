"""All that a request path needs to know of every queue, worked out beforehand.

Invariants
- A `QueueSnapshot` never changes; the store publishes a new one by a single assignment, so a request
  sees one moment of the cluster from its first line to its last.
- It is a function of the tree and the time. (`seen` only says how new the tree is: the resource version
  of the latest change of a queue that is in it.) Members do not matter: what does is worked out
  apart (`verdict.State`).
- `valid_until` is the first moment at which the same tree would give another board.
- A board made from a former one (`follow`) is the same as one made anew: only queues below a queue that
  changed, in the one tree or the other, are worked out again.
- A ruling's `revision` changes whenever any spec on the chain does.
- A decision is for the queue. `decision_for_namespace` gives that for members of one namespace; it differs
  only where a selector is on the chain (`queues.namespace_access`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

import msgspec

from queues.messages import stop_text, waiting_warning
from queues.namespace_access import Restriction, chain_restrictions, namespace_denial
from queues.queue import Queue
from queues.tree import Chain, Tree
from queues.verdict import TRY_AGAIN, Cause, Verdict, verdict


class QueueDecision(msgspec.Struct, frozen=True, kw_only=True):
    """One queue's verdict with its texts. `policy_by`: whose stop policy counts, where there is one.

    `restricted`: the selectors of its chain. `selected`: False in what holds for the members of a namespace
    that one of them does not select. `undecided`: nor is it known whether they would, for its labels are not.
    """

    queue: str
    schedules: bool
    accepts: bool
    drains: bool
    policy_by: str
    stop: Cause | None
    refusal: Cause | None
    text: str
    warning: str
    revision: str
    restricted: tuple[Restriction, ...] = ()
    selected: bool = True
    undecided: bool = False


class QueueSnapshot:
    """The rulings of one tree at one time."""

    __slots__ = (
        "_decisions",
        "_scopes",
        "now",
        "resource_version",
        "restricted_queues",
        "tree",
        "valid_until",
    )

    def __init__(self, tree: Tree, *, now: datetime, seen: int = 0) -> None:
        self.tree = tree
        self.resource_version = seen
        self.now = now
        self.valid_until = _next_resume(tree, now=now)
        self._decisions: Mapping[str, QueueDecision] = self._decide(tree)
        self.restricted_queues = self._restricted()
        #: Worked out when it is asked for; whoever does so twice finds the same.
        self._scopes: dict[str, str] = {}

    @classmethod
    def updated(
        cls, before: QueueSnapshot, tree: Tree, *, changed: Collection[str], now: datetime, seen: int = 0
    ) -> QueueSnapshot:
        """The board of a tree that differs from that of `before` by the queues `changed` alone."""
        if before.valid_until is not None and before.valid_until <= now:
            return cls(tree, now=now, seen=seen)
        board = cls.__new__(cls)
        board.tree, board.resource_version, board.now = tree, seen, now
        board.valid_until = _next_resume(tree, now=now)
        concerned = {name for one in changed for name in (*tree.subtree(one), *before.tree.subtree(one))}
        kept = {name: ruling for name, ruling in before._decisions.items() if name not in concerned}
        board._decisions = {**kept, **board._decide(concerned & set(tree))}
        board.restricted_queues = board._restricted()
        above = {
            one.name
            for which in (tree, before.tree)
            for name in changed
            if name in which
            for one in which.chain(name).queues
        }
        left = above | concerned
        board._scopes = {
            name: scope for name, scope in dict(before._scopes).items() if name not in left
        }  # a copy at once: others work scopes out meanwhile
        return board

    def _decide(self, queues: Collection[str] | Tree) -> dict[str, QueueDecision]:
        return {name: _ruling(self.verdict(name, live=True), chain=self.tree.chain(name)) for name in queues}

    def _restricted(self) -> tuple[str, ...]:
        """The queues with a selector on their chain."""
        return tuple(name for name, ruling in self._decisions.items() if ruling.restricted)

    def decision(self, name: str) -> QueueDecision:
        """The ruling of a queue; one that is not there does not schedule (`Why.NOT_FOUND`)."""
        found = self._decisions.get(name)
        return found if found is not None else _ruling(self.verdict(name, live=False), chain=None)

    def scope(self, name: str) -> str:
        """Changes whenever any spec changes that a stop of this queue rests on: of its chain, and of the
        queues below it, of which one may have come from elsewhere."""
        found = self._scopes.get(name)
        if found is None:
            below = sorted(
                self.tree.queues[one].revision for one in self.tree.subtree(name) if one in self.tree
            )
            found = self._scopes[name] = _digest(",".join((self.decision(name).revision, *below)))
        return found

    def verdict(self, name: str, *, live: bool) -> Verdict:
        return verdict(name, tree=self.tree, live=live, now=self.now)

    def draining_queues(self) -> dict[str, list[str]]:
        """The queues that drain, by the queue whose policy that is."""
        found: dict[str, list[str]] = {}
        for ruling in self._decisions.values():
            if ruling.drains:
                found.setdefault(ruling.policy_by, []).append(ruling.queue)
        return found

    def stopped_queues(self) -> Iterator[str]:
        """The queues that do not schedule."""
        return (ruling.queue for ruling in self._decisions.values() if not ruling.schedules)


def decision_for_namespace(
    ruling: QueueDecision, *, namespace: str, labels: Mapping[str, str] | None
) -> QueueDecision:
    """What holds for the members of one namespace; `labels` is None where they are not known.

    Not to be selected goes before any stop of the queue: resuming the queue would let nobody go.
    """
    cause = namespace_denial(ruling.queue, ruling.restricted, namespace=namespace, labels=labels)
    if cause is None:
        return ruling
    text, undecided = stop_text(cause), cause.way_out == TRY_AGAIN
    return msgspec.structs.replace(
        ruling,
        schedules=False,
        accepts=False,
        stop=cause,
        refusal=cause,
        text=text,
        warning="" if undecided else waiting_warning(cause),
        revision=_digest(ruling.revision + text),
        selected=False,
        undecided=undecided,
    )


def _ruling(found: Verdict, *, chain: Chain | None) -> QueueDecision:
    """`chain`: None for a queue that is not there."""
    return QueueDecision(
        queue=found.queue,
        schedules=found.schedules,
        accepts=found.accepts,
        drains=found.drains,
        policy_by=found.policy_by,
        stop=found.stop,
        refusal=found.refusal,
        text=stop_text(found.stop) if found.stop else "",
        warning=waiting_warning(found.stop) if found.stop else "",
        revision=_revision(chain) if chain is not None else "",
        restricted=chain_restrictions(chain) if chain is not None else (),
    )


def _revision(chain: Chain) -> str:
    return _digest(",".join(queue.revision for queue in chain.queues))


def _digest(text: str) -> str:
    return hashlib.blake2s(text.encode(), digest_size=8).hexdigest()


def _next_resume(tree: Tree, *, now: datetime) -> datetime | None:
    return min((at for at in map(_end, tree.queues.values()) if at and at > now), default=None)


def _end(queue: Queue) -> datetime | None:
    """When the queue's stop ends by itself, if it has one that does."""
    return queue.resume_time if queue.is_suspended_or_held else None
