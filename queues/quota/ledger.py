"""All amounts that count in quotas: each has a queue, a reason and an owner.

| reason        | of                                                       | owner                           |
|---------------|----------------------------------------------------------|---------------------------------|
| USED          | pods that were released, or are on nodes                 | "": all pods of the queue       |
| FORCE_DELETED | pods that were deleted by force, and may still run       | "": all pods of the queue       |
| RELEASING     | pods whose release was begun, and is not seen yet        | the pod, or the entry of a gang |
| KEPT          | gangs: `minResources`, and pods that they have lost      | the PodGroup                    |
| UNGATED       | pods that pend without a gate of ours: they may have     | "": all pods of the queue       |
|               | been let through before there was a quota                |                                 |
| SET_ASIDE     | pods that wait while others make room (`reservations`)   | the requests of these pods      |

Invariants
- What a queue uses (`usage`) is the sum of all entries of the queue and of the queues below it; less the
  reasons that do not count at the moment (`without`), plus what is assumed at the moment (`assume`).
- Nobody else changes `usage`.
- A change costs the chain of its queue, and not a count of all queues.
- Each resource of which a queue uses less after a change is remembered until it is taken (`take_falls`). The
  changes of one block (`together`) count as one.
- What is assumed counts until it is undone. A change of the entries ends all that is assumed: it was assumed
  of another state.

Source: the snapshots of Kueue's scheduler, which simulate that a workload is added or removed.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum, unique

from queues.apimachinery.pod_requests import Requests
from queues.apimachinery.quantities import Amount, add_amounts
from queues.queue import ROOT
from queues.quota.devices import SharedCounts, is_shared_claim, no_claims
from queues.quota.gang_turns import GangTurns
from queues.quota.pod_classes import WaitingPod
from queues.quota.rules import NO_RULES, Rules
from queues.quota.usage import TURNS, Usage, asks_for_turn, negative
from queues.tree import Tree

#: What an entry is of. "": all pods of its queue together.
Owner = Hashable
ALL_PODS = ""
_NO_ENTRIES: Mapping[Owner, Requests] = {}


@unique
class AmountReason(StrEnum):
    """Why an amount counts."""

    #: That of the text. An Enum's own hash is computed in Python, and each count asks for some.
    __hash__ = str.__hash__

    USED = "used"
    FORCE_DELETED = "force-deleted"
    RELEASING = "releasing"
    KEPT = "kept"
    UNGATED = "ungated"
    SET_ASIDE = "set-aside"


class Ledger:
    """For one thread. It lives on while queues change (`begin_anew`)."""

    def __init__(
        self,
        tree: Tree,
        *,
        rules: Rules = NO_RULES,
        claims: SharedCounts = no_claims,
        turns: GangTurns | None = None,
    ) -> None:
        """As `Usage`."""
        self.usage = Usage(tree, rules=rules, claims=claims, turns=turns)
        #: Moves with each change of the entries.
        self.version = 0
        #: By reason and queue: the entries, by their owners.
        self._entries: dict[AmountReason, dict[str, dict[Owner, Requests]]] = {
            reason: {} for reason in AmountReason
        }
        #: How often a queue got its first entry with a reason, or lost its last one.
        self._moves: dict[AmountReason, int] = dict.fromkeys(AmountReason, 0)
        #: By reason: the queues with entries, by the queues above them; of which tree, and after which move.
        self._below: dict[AmountReason, tuple[Tree, int, dict[str, list[str]]]] = {}
        #: The reasons that do not count at the moment.
        self._left_out: set[AmountReason] = set()
        self._assumed: list[Assumption] = []
        #: Queues and resources of which they use less than before.
        self._falls: dict[tuple[str, str], None] = {}
        #: What has changed in the present block, by queue and resource; None outside of one.
        self._together: dict[tuple[str, str], Amount] | None = None

    def begin_anew(self, tree: Tree, *, rules: Rules = NO_RULES, claims: SharedCounts = no_claims) -> None:
        """The queues are others now, or the rules, or what claims count: all entries count there."""
        self._change()
        before = self.usage
        self.usage = Usage(tree, rules=rules, claims=claims, turns=before.turns)
        self.usage.unplaced = before.unplaced
        for reason, of_reason in self._entries.items():
            if reason not in self._left_out:
                for queue, entries in of_reason.items():
                    self.usage.add(queue, _sum(entries.values()).items())

    # Changes

    def set_all(
        self, queue: str, reason: AmountReason, entries: Mapping[str, Iterable[tuple[str, Amount]]]
    ) -> None:
        """These are all entries of the queue with this reason. One without amounts is none."""
        of_reason = self._entries[reason]
        before = of_reason.get(queue, _NO_ENTRIES)
        after: dict[Owner, Requests] = {}
        for owner, amounts in entries.items():
            if counted := _counted(amounts):
                after[owner] = counted
        if after == before:
            return
        if not (before and after):
            self._moves[reason] += 1
        if after:
            of_reason[queue] = after
        else:
            del of_reason[queue]
        self._count(queue, reason, _difference(before.values(), after.values()))

    def set_one(
        self, queue: str, reason: AmountReason, owner: Owner, amounts: Iterable[tuple[str, Amount]]
    ) -> None:
        """This is the entry of the owner there; without amounts it has none."""
        before, after = self.entries(queue, reason).get(owner, ()), _counted(amounts)
        if after == before:
            return
        of_reason = self._entries[reason]
        if queue not in of_reason:
            self._moves[reason] += 1
        if after:
            of_reason.setdefault(queue, {})[owner] = after
        else:
            del of_reason[queue][owner]
            if not of_reason[queue]:
                del of_reason[queue]
                self._moves[reason] += 1
        self._count(queue, reason, _difference((before,), (after,)))

    def begin(self, pod: WaitingPod) -> None:
        """The release of a pod, or of the minimum of a gang, begins."""
        requests = _counted(pod.requests) if asks_for_turn(pod.requests) else pod.requests
        of_reason = self._entries[AmountReason.RELEASING]
        if pod.queue not in of_reason:
            self._moves[AmountReason.RELEASING] += 1
        entries = of_reason.setdefault(pod.queue, {})
        known = entries.get(pod.uid)
        entries[pod.uid] = requests if known is None else tuple(_sum((known, requests)).items())
        self.usage.unplaced += pod.size
        if self._together is not None or self._left_out or self._assumed:
            self._count(pod.queue, AmountReason.RELEASING, requests)
        else:  # a pass does this thousands of times
            self.version += 1
            self.usage.add(pod.queue, requests)

    def take_back(self, pod: WaitingPod) -> None:
        """Its release does not begin after all."""
        left = dict(self.entries(pod.queue, AmountReason.RELEASING).get(pod.uid, ()))
        add_amounts(left, negative(_counted(pod.requests)))
        self.usage.unplaced -= pod.size
        self.set_one(pod.queue, AmountReason.RELEASING, pod.uid, left.items())

    def set_unplaced(self, pods: int, *, resources: Iterable[str]) -> None:
        """So many pods were released and have no node. Once there is none, one more may go, whatever of these
        resources it requests.
        """
        self._change()
        self.usage.unplaced = pods
        if not pods:
            self._falls.update(dict.fromkeys((ROOT, resource) for resource in resources))

    def recount(self, resources: Iterable[str]) -> None:
        """Count what the claims among these, which pods share, are known to count now."""
        for claim in filter(is_shared_claim, resources):
            before = self.usage.devices_of(claim)
            queues = self.usage.recount(claim)
            if queues:
                self._change()
            self._falls.update(dict.fromkeys((queue, name) for queue in queues for name in before))

    def _count(self, queue: str, reason: AmountReason, changed: Collection[tuple[str, Amount]]) -> None:
        self.version += 1
        if self._assumed:
            self._end_assumptions()
        if reason not in self._left_out:
            self.usage.add(queue, changed)
        if self._together is not None:
            for resource, amount in changed:
                key = queue, resource
                self._together[key] = self._together.get(key, 0) + amount
        else:
            for resource, amount in changed:
                if amount < 0:
                    self._falls[queue, resource] = None

    def _change(self) -> None:
        self.version += 1
        self._end_assumptions()

    def _end_assumptions(self) -> None:
        while self._assumed:
            self._assumed[-1].undo()

    # Falls

    @contextmanager
    def together(self) -> Iterator[None]:
        """What changes in this block is one change: what one reason has more, and another less, has not
        fallen.
        """
        if self._together is not None:
            yield
            return
        self._together = {}
        try:
            yield
        finally:
            changed, self._together = self._together, None
            self._falls.update((key, None) for key, amount in changed.items() if amount < 0)

    def take_falls(self) -> list[tuple[str, str]]:
        """The queues, and those above them, with the resources of which they use less since this was asked
        last. Of claims that pods share, what these count, too.
        """
        falls: list[tuple[str, str]] = []
        for queue, resource in self._falls:
            chain = self.usage.chain(queue)
            falls += [(above, resource) for above in chain]
            if is_shared_claim(resource):
                falls += [(above, each) for each in self.usage.devices_of(resource) for above in chain]
        self._falls.clear()
        return falls

    # For a while

    @contextmanager
    def without(self, reason: AmountReason) -> Iterator[None]:
        """Nothing with this reason counts in this block, nor what is set in it; afterwards it does."""
        self._leave_out(reason, is_left_out=True)
        try:
            yield
        finally:
            self._leave_out(reason, is_left_out=False)

    def _leave_out(self, reason: AmountReason, *, is_left_out: bool) -> None:
        self._change()
        for queue, entries in self._entries[reason].items():
            amounts = _sum(entries.values()).items()
            self.usage.add(queue, negative(amounts) if is_left_out else amounts)
        (self._left_out.add if is_left_out else self._left_out.discard)(reason)

    def assume(self) -> Assumption:
        """Nothing yet: what is added to it counts until it is undone."""
        assumption = Assumption(self)
        self._assumed.append(assumption)
        return assumption

    # Readers

    def entries(self, queue: str, reason: AmountReason) -> Mapping[Owner, Requests]:
        """Those of the queue itself, by their owners."""
        return self._entries[reason].get(queue, _NO_ENTRIES)

    def queues(self, *reasons: AmountReason) -> set[str]:
        """The queues with an entry of one of these reasons; of any, if none is given."""
        return {queue for reason in reasons or AmountReason for queue in self._entries[reason]}

    def amounts(self, queue: str) -> dict[AmountReason, dict[str, Amount]]:
        """What counts of the queue itself, by reason."""
        found = ((reason, self.entries(queue, reason)) for reason in AmountReason)
        return {reason: _sum(entries.values()) for reason, entries in found if entries}

    def entries_below(
        self, queue: str, reason: AmountReason, *, tree: Tree
    ) -> Iterator[Mapping[Owner, Requests]]:
        """Those of the queue and of all queues below it in this tree.

        That costs those alone: which queues are below which is found once for a tree, until a queue gets its
        first entry or loses its last one.
        """
        of_reason = self._entries[reason]
        known = self._below.get(reason)
        if known is None or known[0] is not tree or known[1] != self._moves[reason]:
            below: dict[str, list[str]] = {}
            for name in of_reason:
                for above in tree.counting_chain(name):
                    below.setdefault(above, []).append(name)
            known = self._below[reason] = tree, self._moves[reason], below
        return (of_reason[name] for name in known[2].get(queue, ()))

    def amounts_below(self, queue: str, reason: AmountReason, *, tree: Tree) -> dict[str, Amount]:
        """What counts with this reason of the queue and of all queues below it in this tree."""
        total: dict[str, Amount] = {}
        for entries in self.entries_below(queue, reason, tree=tree):
            for requests in entries.values():
                add_amounts(total, requests)
        return total


class Assumption:
    """Amounts that count in the usage of a ledger until they are undone. For one thread."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._version = ledger.version
        self._amounts: dict[str, dict[str, Amount]] = {}

    @property
    def is_current(self) -> bool:
        """Whether nothing else was counted since it began. Else it counts no longer."""
        return self._version == self._ledger.version

    def add(self, queue: str, amounts: Iterable[tuple[str, Amount]]) -> None:
        """These count, too. Amounts below zero: what counts does not."""
        if not self.is_current:
            raise RuntimeError("the ledger has changed since this was assumed")
        added = _counted(amounts)
        self._ledger.usage.add(queue, added)
        of_queue = self._amounts.setdefault(queue, {})
        for resource, amount in added:
            of_queue[resource] = of_queue.get(resource, 0) + amount

    def undo(self) -> None:
        """What counts is as it was."""
        if self in self._ledger._assumed:
            self._ledger._assumed.remove(self)
            for queue, amounts in self._amounts.items():
                self._ledger.usage.add(queue, negative(_counted(amounts.items())))
            self._amounts.clear()

    def __enter__(self) -> Assumption:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()


def _sum(entries: Iterable[Iterable[tuple[str, Amount]]]) -> dict[str, Amount]:
    total: dict[str, Amount] = {}
    for requests in entries:
        add_amounts(total, requests)
    return total


def _difference(before: Iterable[Requests], after: Iterable[Requests]) -> Requests:
    more = _sum(after)
    for requests in before:
        for resource, amount in requests:
            more[resource] = more.get(resource, 0) - amount
    return tuple([each for each in more.items() if each[1]])


def _counted(amounts: Iterable[tuple[str, Amount]]) -> Requests:
    """What of them counts: a turn is no amount that a queue uses."""
    return tuple([each for each in amounts if each[1] and each[0] not in TURNS])
