"""How a gang that got too few nodes stands: what its PodGroup says is true, and until when."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from queues.quota.gang_placement import TURN_SECONDS
from queues.quota.gang_turns import CLUSTER
from queues.quota.gangs import Gang, NotAsked, NotAskedKind
from queues.quota.lack import Lack, LackKind
from queues.quota.usage import no_turn
from queues.status.gang_standing import standing_of
from queues.status.podgroup_conditions import (
    Lacking,
    is_unschedulable_of_ours,
    unschedulable_condition,
)
from queues.status.podgroup_phases import Phase

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GANG = Gang(uid="gang", queue="team", since=NOW, least=2)
FAILED = "it was released, got too few nodes in its time, and"


@pytest.mark.parametrize(
    ("not_asked", "lack", "lacking", "text"),
    [
        (
            NotAsked(kind=NotAskedKind.GIVES_BACK, least=2),
            None,
            Lacking.GIVES_BACK,
            f"{FAILED} gives back what it has",
        ),
        (
            NotAsked(kind=NotAskedKind.PAUSED, least=2, until=NOW),
            None,
            Lacking.NODES,
            f"{FAILED} waits for another try at 2026-01-01T00:00:00Z",
        ),
        (
            None,
            no_turn("lab"),
            Lacking.TURN,
            "it got too few nodes before: of such gangs one is tried at a time, "
            f'for {TURN_SECONDS / 60:.0f} minutes at most, in queue "lab" and those below it',
        ),
        (
            None,
            no_turn(CLUSTER),
            Lacking.TURN,
            "it got too few nodes before: of such gangs one is tried at a time, "
            f"for {TURN_SECONDS / 60:.0f} minutes at most, in the cluster, of those with pods on nodes",
        ),
        (
            None,
            Lack("lab", "cpu", 1, kind=LackKind.CAPABILITY),
            Lacking.ROOM,
            "what it asks for has no room in the quotas: kubectl queue why says which",
        ),
    ],
    ids=["gives back", "pause", "turn", "turn on nodes", "room"],
)
def test_what_a_gang_without_nodes_waits_for(
    not_asked: NotAsked | None, lack: Lack | None, lacking: Lacking, text: str
) -> None:
    standing = standing_of(
        GANG, not_asked=not_asked, asks=not_asked is None, lack=lack, is_reserved=False, until=None
    )
    assert standing.lacking is lacking
    condition = unschedulable_condition(Phase.INQUEUE, standing)
    assert condition is not None
    assert condition.message == text
    assert is_unschedulable_of_ours(text)
