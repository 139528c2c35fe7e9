"""For how long a pod counts that is gone: by what its node may still run of it."""

from __future__ import annotations

from datetime import UTC, datetime

from queues.quota.force_deletion import ended_fault, ended_until, seconds_counted
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


NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@each_case(
    ("text", "until", "fault"),
    [
        ("", None, ""),
        ("2030-01-01T11:59:00Z", datetime(2030, 1, 1, 11, 59, tzinfo=UTC), ""),
        ("2030-01-01T13:00:00+01:00", NOW, ""),
        ("2030-01-01T12:00:40Z", NOW, ""),
        ("2030-01-01T12:02:00Z", None, "is to come"),
        ("9999-12-31T23:59:59Z", None, "is to come"),
        ("now", None, "is no time"),
        ("2030-01-01T25:00:00Z", None, "is no time"),
    ],
    ids=["none", "a time", "another zone", "a clock before ours", "to come", "for ever", "no time", "none"],
)
def test_what_was_deleted_until_a_time_that_has_come_has_ended(
    text: str, until: datetime | None, fault: str
) -> None:
    assert ended_until(text, now=NOW) == until
    assert fault in ended_fault(text, now=NOW)
    assert bool(ended_fault(text, now=NOW)) is bool(fault)
