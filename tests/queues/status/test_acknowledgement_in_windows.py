"""A replica of a version that does not know change windows holds up what nothing but a window stops."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queues.queue import Queue
from queues.status.acknowledgement import Obstacle, ObstacleReason, obstacles
from queues.verdict import is_by_window
from queues.windows.entries import CurrentWindow
from queues.windows.stops import WindowStop
from tests.queues.status.test_acknowledgement_of_binds import evidence, view
from tests.support.cases import each_case
from tests.support.rules.cases import CLOSED, HOLD, NOW, SUSPENDED, line, queue

KNOWS, OLDER = (
    msgspec.structs.replace(view(passes=(), binds=frozenset()), open_queues=frozenset(), windows=knows)
    for knows in (True, False)
)
IN_WINDOW: dict[str, Any] = {
    "windows": (WindowStop(name="w", stop_policy=HOLD),),
    "in_window": (CurrentWindow(name="w", start=NOW, until=NOW),),
}


@pytest.mark.parametrize("by_window", [True, False])
def test_an_older_replica_is_an_obstacle_by_name_where_only_a_window_stops_the_queue(by_window: bool) -> None:
    known, older = (
        list(obstacles(msgspec.structs.replace(evidence(each), by_window=by_window)))
        for each in (KNOWS, OLDER)
    )
    text = "replica b is of a version that does not know change windows; update it"
    assert known == []
    assert older == ([Obstacle(ObstacleReason.REPLICA_UNAWARE, text)] if by_window else [])


@each_case(
    ("chain", "expected"),
    [
        ((queue("a"), queue("b", **IN_WINDOW)), True),
        ((queue("a", **IN_WINDOW), queue("b")), True),
        ((queue("a", **IN_WINDOW), queue("b", desired=CLOSED)), True),
        ((queue("a", stop_policy=HOLD, **IN_WINDOW), queue("b")), False),
        ((queue("a", **IN_WINDOW), queue("b", desired=SUSPENDED)), False),
        ((queue("a", **IN_WINDOW), queue("b", desired=SUSPENDED, resume_at=NOW)), True),
    ],
)
def test_what_a_spec_stops_as_well_every_version_stops(chain: tuple[Queue, ...], expected: bool) -> None:
    assert is_by_window("b", tree=line(*chain), now=NOW) is expected
