"""What the leader takes a pass for when it gathers the evidence for an acknowledgement."""

from __future__ import annotations

import pytest

from cluster.inflight.binds import BindPass
from controller.stops.acknowledgement import may_be_a_bind

REQUEST_SECONDS = 60.0


@pytest.mark.parametrize(
    ("assumed", "waiting_at", "now", "expected"),
    [
        (True, None, 1000.0, True),
        (True, None, 1059.9, True),
        (True, None, 1060.0, False),
        (True, 999.9, 1001.0, True),
        (True, 1000.0, 1001.0, False),
        (False, None, 1000.0, False),
    ],
    ids=[
        "just lost",
        "lost for less than a request takes",
        "lost for as long as a request takes",
        "it waited for a volume before",
        "it waited for a volume afterwards",
        "let through by filter here",
    ],
)
def test_what_a_lost_replica_let_through_may_be_a_bind_for_as_long_as_a_request_takes(
    assumed: bool, waiting_at: float | None, now: float, expected: bool
) -> None:
    """It may have passed the guard there, so that the guard does not meet it any more."""
    each = BindPass(namespace="team", name="work", queue="research", at=1000.0, assumed=assumed)
    found = may_be_a_bind(each, waiting_at=waiting_at, now=now, request_seconds=REQUEST_SECONDS)
    assert found is expected
