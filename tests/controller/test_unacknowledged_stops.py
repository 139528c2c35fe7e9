"""Since when the oldest stop is known that is not acknowledged."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from controller.unacknowledged_stops import UnacknowledgedStops, unacknowledged
from tests.support.http.asking import Server
from tests.support.http.wire_objects import Wire, queue


def stopped(name: str, *, version: int, acknowledged: bool = False, **spec: Any) -> Wire:
    """A Queue that is held, in its `version`th generation."""
    return queue(
        name,
        version=version,
        generation=version,
        status=acknowledgement((name, version), ("root", 1)) if acknowledged else {"state": "Open"},
        stopPolicy="Hold",
        **spec,
    )


def acknowledgement(*chain: tuple[str, int]) -> Mapping[str, object]:
    links = [{"name": name, "generation": generation} for name, generation in chain]
    return {
        "state": "Open",
        "conditions": [{"type": "Active", "status": "False", "reason": "Stopped"}],
        "stop": {"scope": "a digest", "chain": links},
    }


def pending(server: Server) -> list[str]:
    return unacknowledged(server.store.snapshot, server.store.queues)


def test_a_stop_is_pending_until_the_status_says_that_it_holds_for_these_specs() -> None:
    server = Server().has(queue("root", parent=None), queue("open"))
    assert pending(server) == []
    server.has(stopped("lab", version=2))
    assert pending(server) == ["lab"]
    server.has(stopped("lab", version=3) | {"status": acknowledgement(("lab", 2), ("root", 1))})
    assert pending(server) == ["lab"], "that was for an older spec"
    server.has(stopped("lab", version=4, acknowledged=True))
    assert pending(server) == []


def test_what_is_stopped_from_above_is_pending_too() -> None:
    server = Server().has(queue("root", parent=None), stopped("lab", version=2, acknowledged=True))
    server.has(queue("vision", parent="lab"))
    assert pending(server) == ["vision"]
    server.has(
        queue(
            "vision", parent="lab", version=2, status=acknowledgement(("vision", 1), ("lab", 2), ("root", 1))
        )
    )
    assert pending(server) == []


def test_it_counts_from_the_first_look_and_ends_with_the_acknowledgement() -> None:
    server, stops = Server().has(queue("root", parent=None)), UnacknowledgedStops()

    def oldest(*objects: Wire) -> float | None:
        """A minute after the last look."""
        server.clock.at += timedelta(minutes=1)
        server.has(*objects)
        return stops.oldest(server.store)

    began = server.clock.now().timestamp()
    assert oldest() is None
    assert oldest(stopped("lab", version=2)) == began + 120
    assert oldest(stopped("vision", version=2)) == began + 120
    assert oldest(stopped("lab", version=3, acknowledged=True)) == began + 180
    assert oldest(queue("vision", version=3)) is None
