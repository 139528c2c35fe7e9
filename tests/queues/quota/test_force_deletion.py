"""For how long a pod counts that is gone: by what its node may still run of it."""

from __future__ import annotations

from queues.quota.force_deletion import seconds_counted
from tests.support.cases import each_case

LONG = 3600.0


@each_case(
    ("node", "is_finished", "grace", "seconds"),
    [
        ("", False, 30, 0),
        ("node-1", True, 30, 0),
        ("node-1", False, 30, 30),
        ("node-1", False, 0, 0),
        ("node-1", False, -1, 0),
        ("node-1", False, 3600, LONG),
        ("node-1", False, 2**31, LONG),
    ],
    ids=["no node", "ended", "its grace period", "none", "not valid", "an hour", "years"],
)
def test_a_pod_that_is_gone_counts_as_long_as_its_node_may_run_it(
    node: str, is_finished: bool, grace: float, seconds: float
) -> None:
    assert seconds_counted(node=node, is_finished=is_finished, grace_seconds=grace) == seconds
