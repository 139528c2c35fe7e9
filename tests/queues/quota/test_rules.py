"""Which queues share by weight what they deserve."""

from __future__ import annotations

from collections.abc import Mapping

from queues.policies.model import Policy
from queues.policies.scheduler_conf import parse_policy
from queues.queue import Queue
from queues.quota.rules import proportional_queues
from queues.tree import Tree
from tests.support.cases import each_case


def policy(*plugins: str) -> Policy:
    listed = ", ".join(f"{{name: {plugin}}}" for plugin in plugins)
    return parse_policy(f"actions: allocate\ntiers: [{{plugins: [{listed}]}}]")


CPU = (("cpu", 1),)


@each_case(
    ("policies", "deserved", "expected"),
    [
        ({}, None, set()),
        ({"lab": policy("proportion")}, None, {"lab"}),
        ({"lab": policy("proportion")}, CPU, {"lab"}),
        ({"lab": policy("capacity")}, None, set()),
        ({"lab": policy("capacity", "proportion")}, None, {"lab"}),
        ({"lab": policy("capacity", "proportion")}, CPU, set()),
        ({"root": policy("capacity", "proportion")}, CPU, {"root"}),
        ({"leaf": policy("proportion")}, None, set()),
    ],
    ids=[
        *("no policy", "proportion", "proportion alone ignores deserved", "capacity", "both, none deserves"),
        *("both, one deserves", "both, one below deserves", "no queue below it"),
    ],
)
def test_the_queues_below_one_share_by_weight_unless_capacity_has_what_they_deserve(
    policies: Mapping[str, Policy], deserved: tuple[tuple[str, int], ...] | None, expected: set[str]
) -> None:
    tree = Tree(
        {
            "root": Queue(name="root"),
            "lab": Queue(name="lab", parent="root"),
            "leaf": Queue(name="leaf", parent="lab", deserved=deserved),
            "other": Queue(name="other", parent="lab"),
        }
    )
    assert proportional_queues(tree, policies.get) == expected
