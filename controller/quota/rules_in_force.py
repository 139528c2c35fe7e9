"""What quotas go by at this moment, beside the specs of queues (`queues.quota.rules`)."""

from __future__ import annotations

import msgspec

from cluster.cache.store import Store
from queues.quota.guarantees import lending_queues
from queues.quota.rules import Rules, proportional_queues
from queues.snapshot import QueueSnapshot


def rules_in_force(store: Store, snapshot: QueueSnapshot) -> Rules:
    """As the snapshot and what the store has say."""
    lending = _lending_queues(snapshot)
    if not snapshot.policies.needs_totals:
        return Rules(lending=lending)
    tree = snapshot.tree
    rules = Rules(
        lending=lending,
        proportional=proportional_queues(tree, snapshot.policy),
        overcommit={name: factor for name in tree if (factor := snapshot.overcommit(name)) is not None},
    )
    if not rules.needs_nodes:  # a policy that shares by weight, of a queue without queues below it
        return rules
    return msgspec.structs.replace(rules, nodes=store.node_totals.amounts)


def _lending_queues(snapshot: QueueSnapshot) -> frozenset[str]:
    """The queues that give their guarantees to others while they do not schedule."""
    return lending_queues(snapshot.tree, schedules=lambda name: snapshot.decision(name).schedules)
