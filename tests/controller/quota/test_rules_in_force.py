"""What quotas go by beside the specs of queues."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest

from cluster.cache.store import Store
from controller.quota.rules_in_force import rules_in_force
from queues.policies.policy_texts import read_policies
from queues.queue import Queue
from queues.snapshot import QueueSnapshot
from queues.tree import Tree

NODES = {"cpu": 4}
WEIGHTS = "actions: allocate\ntiers: [{plugins: [{name: proportion}]}]"
OVERCOMMIT = "actions: enqueue, allocate\ntiers: [{plugins: [{name: overcommit}]}]"


@pytest.mark.parametrize(
    ("named", "asks"),
    [
        ({}, False),
        ({"leaf": "weights"}, False),
        ({"lab": "weights"}, True),
        ({"leaf": "overcommit"}, True),
    ],
)
def test_what_nodes_have_is_a_rule_only_where_a_queue_has_a_policy_that_asks(
    named: dict[str, str], asks: bool
) -> None:
    """Else the rules would differ each time from what is asked for, and passes would never end."""
    tree = Tree(
        {
            name: Queue(name=name, parent=parent, scheduler_policy=named.get(name, ""))
            for name, parent in (("lab", "root"), ("leaf", "lab"))
        }
    )
    policies = read_policies({"weights": WEIGHTS, "overcommit": OVERCOMMIT})
    snapshot = QueueSnapshot(tree, now=datetime(2026, 1, 1, tzinfo=UTC), policies=policies)
    store = cast(Store, SimpleNamespace(node_totals=SimpleNamespace(amounts=NODES)))
    rules = rules_in_force(store, snapshot)
    assert (rules.needs_nodes, rules.nodes) == ((True, NODES) if asks else (False, None))
