"""The decisions about all queues, computed before a request needs them.

Invariants
- A `QueueSnapshot` never changes; the store publishes a new one by a single assignment. So a request sees one
  state of the cluster from its start to its end.
- It is a function of the tree, the time, and the policies, which say who has a quota. `resource_version` is
  the version of the latest change of a queue in the tree. A snapshot does not depend on members; values that
  do (`states.State`) are computed on request.
- `valid_until` is the first moment at which the same tree would give another snapshot.
- A snapshot that is made from an earlier one (`updated`) equals one that is made from the whole tree. Only
  queues below a changed queue, in the old tree or in the new one, are decided again. If only fields of
  `UNDECIDING` changed, these queues get new revisions and keep their decisions.
- A decision's `revision` changes whenever any spec on the chain does.
- A decision is for the queue. `decision_for_namespace` gives the one for the members of a namespace. It
  differs only where a selector is on the chain (`queues.namespace_access`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from fractions import Fraction
from operator import attrgetter

import msgspec

from queues.causes import TRY_AGAIN, Cause
from queues.messages import pod_text, waiting_warning
from queues.namespace_access import Restriction, chain_restrictions, namespace_denial
from queues.node_groups import NodeGroups
from queues.policies.model import Policy
from queues.policies.policy_set import NO_POLICIES, PolicySet
from queues.policies.resolution import resolve_policy
from queues.queue import ROOT, Queue
from queues.quota.devices import device_class_in
from queues.similar_names import similar_names
from queues.states import ParkedPods
from queues.tree import Chain, Tree
from queues.verdict import Verdict, verdict

#: Fields of a queue that no decision depends on, but for its revision.
UNDECIDING = frozenset(
    {
        "generation",
        "placed",
        "weight",
        "priority",
        "dequeue",
        "deserved",
        "guarantee",
        "stopped_guarantee",
        "window_overrides",
    }
)
_deciding = attrgetter(
    *(field.name for field in msgspec.structs.fields(Queue) if field.name not in UNDECIDING)
)
#: Names that do not exist of which a snapshot keeps what is near: users choose them.
_SIMILAR_KEPT = 256


class QueueDecision(msgspec.Struct, frozen=True, kw_only=True):
    """One queue's verdict with its texts. `policy_by`: the queue whose stop policy counts, where one has one.
    `contact`: whom to ask about the queue itself; the cause of a stop has that of the queue that stops it.

    `restricted`: the selectors of its chain. `selected`: False in the decision for a namespace that one of
    them does not select. `undecided`: that is not known, since the namespace's labels are not.
    `has_quota`: a queue of its chain has a capability, or a policy has plugin `overcommit` for it;
    `limits_devices`: a capability of its chain names a class of devices.
    `node_groups`: of its new pods; None: all nodes.
    `recreates_parked`: pods of it that are parked by filter are to be created again (`spec.parked`).
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
    recreates_parked: bool = False
    has_quota: bool = False
    limits_devices: bool = False
    node_groups: NodeGroups | None = None
    contact: str = ""


class QueueSnapshot:
    """The decisions of one tree at one time."""

    __slots__ = (
        "_decisions",
        "_ends",
        "_scopes",
        "_similar",
        "has_quotas",
        "names_devices",
        "now",
        "policies",
        "resource_version",
        "restricted_queues",
        "tree",
        "valid_until",
    )

    def __init__(
        self,
        tree: Tree,
        *,
        now: datetime,
        resource_version: int = 0,
        policies: PolicySet = NO_POLICIES,
    ) -> None:
        self.tree = tree
        self.policies = policies
        self.resource_version = resource_version
        self.now = now
        #: When the stops of queues end by themselves, those that have ended included.
        self._ends: Mapping[str, datetime] = _ends(tree, tree)
        self.valid_until = _next_end(self._ends, now=now)
        self._decisions: Mapping[str, QueueDecision] = self._decide(tree)
        self.restricted_queues = self._restricted()
        self.has_quotas = self._has_quotas()
        self.names_devices = self._names_devices()
        #: Computed at the first use; two threads that do so at once compute the same.
        self._scopes: dict[str, str] = {}
        self._similar: dict[str, tuple[str, ...]] = {}

    @classmethod
    def updated(
        cls,
        before: QueueSnapshot,
        tree: Tree,
        *,
        changed: Collection[str],
        now: datetime,
        resource_version: int = 0,
    ) -> QueueSnapshot:
        """The snapshot of a tree that differs from that of `before` only by the queues `changed`."""
        if before.valid_until is not None and before.valid_until <= now:
            return cls(tree, now=now, resource_version=resource_version, policies=before.policies)
        snapshot = cls.__new__(cls)
        snapshot.policies = before.policies
        snapshot.tree, snapshot.resource_version, snapshot.now = tree, resource_version, now
        snapshot._ends = before._ends
        if ends := {**_ends(before.tree, changed), **_ends(tree, changed)}:
            kept = {name: at for name, at in before._ends.items() if name not in ends}
            snapshot._ends = {**kept, **_ends(tree, changed)}
        snapshot.valid_until = _next_end(snapshot._ends, now=now)
        deciding = [name for name in changed if not _decides_alike(before.tree.get(name), tree.get(name))]
        decided = {name for top in deciding for name in (*tree.subtree(top), *before.tree.subtree(top))}
        if before.tree.contact_of(ROOT) != tree.contact_of(ROOT):
            decided.update(tree)  # it stands for queues whose chain does not reach root, too
        concerned = decided.union(*map(tree.subtree, changed))
        snapshot._decide_again(before, decided)
        snapshot._set_revisions(concerned - decided)
        above = {
            queue.name
            for either in (tree, before.tree)
            for name in changed
            if name in either
            for queue in either.chain(name).queues
        }
        snapshot._scopes = dict(before._scopes)  # a copy at once: other threads add scopes meanwhile
        for name in above | concerned:
            snapshot._scopes.pop(name, None)
        snapshot._similar = {}
        return snapshot

    def _decide_again(self, before: QueueSnapshot, concerned: Collection[str]) -> None:
        """Take the decisions of `before`, but for these queues."""
        was = [before._decisions[name] for name in concerned if name in before._decisions]
        decided = self._decide([name for name in concerned if name in self.tree])
        decisions = dict(before._decisions)
        for name in concerned:
            if name not in decided:
                decisions.pop(name, None)
        decisions.update(decided)
        self._decisions, either = decisions, [*was, *decided.values()]
        self.restricted_queues, self.has_quotas = before.restricted_queues, before.has_quotas
        self.names_devices = before.names_devices
        if any(decision.restricted for decision in either):
            self.restricted_queues = self._restricted()
        if any(decision.has_quota for decision in either):
            self.has_quotas = self._has_quotas()
        if any(decision.limits_devices for decision in either):
            self.names_devices = self._names_devices()

    def _set_revisions(self, queues: Iterable[str]) -> None:
        """Of queues of which nothing else has changed."""
        decisions = {
            name: msgspec.structs.replace(self._decisions[name], revision=_revision(self.tree.chain(name)))
            for name in queues
        }
        self._decisions = {**self._decisions, **decisions} if decisions else self._decisions

    def _decide(self, queues: Iterable[str]) -> dict[str, QueueDecision]:
        has_overcommit = self.policies.overcommits
        return {
            name: decision_of(
                self.verdict(name, live=True),
                chain=self.tree.chain(name),
                overcommits=has_overcommit and self.overcommit(name) is not None,
            )
            for name in queues
        }

    def overcommit(self, name: str) -> Fraction | None:
        """The factor by which releases may exceed what nodes have; None: no policy sets one.

        The least factor of the policies on its chain and of the global one. The use of a queue counts in all
        queues above it, so no queue can leave the bound of one above it.
        """
        named = (self.policies.named(queue.scheduler_policy) for queue in self.tree.chain(name).queues)
        policies = (entry.policy for entry in (self.policies.common, *named) if entry is not None)
        factors = (policy.overcommit for policy in policies if policy is not None)
        return min((factor for factor in factors if factor is not None), default=None)

    def policy(self, name: str) -> Policy | None:
        """The policy of a queue in the tree, for jobs that name none of their own."""
        chain = [(queue.name, queue.scheduler_policy) for queue in self.tree.chain(name).queues]
        return resolve_policy(self.policies, chain=chain).policy

    def _restricted(self) -> tuple[str, ...]:
        """The queues that have a selector on their chain."""
        return tuple(name for name, decision in self._decisions.items() if decision.restricted)

    def _has_quotas(self) -> bool:
        """Whether any queue has a capability on its chain."""
        return any(decision.has_quota for decision in self._decisions.values())

    def _names_devices(self) -> bool:
        """Whether any capability names a class of devices."""
        return any(decision.limits_devices for decision in self._decisions.values())

    def decision(self, name: str) -> QueueDecision:
        """The decision for a queue; one that does not exist does not schedule (`CauseKind.NOT_FOUND`)."""
        decision = self._decisions.get(name)
        return decision if decision is not None else decision_of(self.verdict(name, live=False), chain=None)

    def similar_names(self, name: str) -> tuple[str, ...]:
        """The queues whose names are near one that does not exist; looked for once for each such name."""
        similar = self._similar.get(name)
        if similar is None:
            similar = similar_names(name, self.tree)
            if len(self._similar) < _SIMILAR_KEPT:
                self._similar[name] = similar
        return similar

    def scope(self, name: str) -> str:
        """A digest of the specs that a stop of this queue depends on; it changes with any of them.

        They are the specs of its chain and of the queues below it, since one of these may have been moved
        there.
        """
        scope = self._scopes.get(name)
        if scope is None:
            below = sorted(
                self.tree.queues[lower].revision for lower in self.tree.subtree(name) if lower in self.tree
            )
            scope = self._scopes[name] = _digest(",".join((self.decision(name).revision, *below)))
        return scope

    def places(self, name: str) -> str:
        """A digest of the specs of the queue's chain, and of which queues are below it since when. It changes
        with the scope, except for an edit of a queue below that does not move it: a queue below a stopped one
        does not schedule, for any spec of its own.
        """
        below = sorted(
            self.tree.queues[lower].place for lower in self.tree.subtree(name) if lower in self.tree
        )
        return _digest(",".join((self.decision(name).revision, *below)))

    def verdict(self, name: str, *, live: bool) -> Verdict:
        return verdict(name, tree=self.tree, live=live, now=self.now)

    def draining_queues(self) -> dict[str, list[str]]:
        """The queues that drain, by the queue that has the policy."""
        queues_by_policy: dict[str, list[str]] = {}
        for decision in self._decisions.values():
            if decision.drains:
                queues_by_policy.setdefault(decision.policy_by, []).append(decision.queue)
        return queues_by_policy

    def stopped_queues(self) -> Iterator[str]:
        """The queues that do not schedule."""
        return (decision.queue for decision in self._decisions.values() if not decision.schedules)


def decision_for_namespace(
    decision: QueueDecision, *, namespace: str, labels: Mapping[str, str] | None
) -> QueueDecision:
    """The decision for the members of one namespace; `labels` is None where they are not known.

    The missing selection comes before any stop of the queue: a resume would release no pod of that namespace.
    """
    cause = namespace_denial(decision.queue, decision.restricted, namespace=namespace, labels=labels)
    if cause is None:
        return decision
    text, undecided = pod_text(cause), cause.way_out == TRY_AGAIN
    return msgspec.structs.replace(
        decision,
        schedules=False,
        accepts=False,
        stop=cause,
        refusal=cause,
        text=text,
        warning="" if undecided else waiting_warning(cause),
        revision=_digest(decision.revision + text),
        selected=False,
        undecided=undecided,
    )


def decision_of(result: Verdict, *, chain: Chain | None, overcommits: bool = False) -> QueueDecision:
    """The decision of one queue by its verdict. `chain`: None for a queue that does not exist."""
    return QueueDecision(
        queue=result.queue,
        schedules=result.schedules,
        accepts=result.accepts,
        drains=result.drains,
        policy_by=result.policy_by,
        stop=result.stop,
        refusal=result.refusal,
        text=pod_text(result.stop) if result.stop else "",
        warning=waiting_warning(result.stop) if result.stop else "",
        revision=_revision(chain) if chain is not None else "",
        restricted=chain_restrictions(chain) if chain is not None else (),
        recreates_parked=chain is not None and chain.parked is ParkedPods.RECREATE,
        has_quota=overcommits
        or (chain is not None and any(queue.capability is not None for queue in chain.queues)),
        limits_devices=chain is not None and any(device_class_in(queue.capability) for queue in chain.queues),
        node_groups=chain.node_groups if chain is not None else None,
        contact=chain.contact_of(result.queue) if chain is not None else "",
    )


def _decides_alike(before: Queue | None, after: Queue | None) -> bool:
    """Whether nothing has changed by which the queue, or one below it, is decided."""
    return before is not None and after is not None and bool(_deciding(before) == _deciding(after))


def _revision(chain: Chain) -> str:
    return _digest(",".join(queue.revision for queue in chain.queues))


def _digest(text: str) -> str:
    return hashlib.blake2s(text.encode(), digest_size=8).hexdigest()


def _ends(tree: Tree, queues: Iterable[str]) -> dict[str, datetime]:
    """Of those of the queues whose stop ends by itself."""
    ends = ((name, _end(tree.get(name))) for name in queues)
    return {name: at for name, at in ends if at is not None}


def _end(queue: Queue | None) -> datetime | None:
    """When the queue's stop ends by itself, if it has one that does."""
    return queue.resume_time if queue is not None and queue.is_suspended_or_held else None


def _next_end(ends: Mapping[str, datetime], *, now: datetime) -> datetime | None:
    return min((at for at in ends.values() if at > now), default=None)
