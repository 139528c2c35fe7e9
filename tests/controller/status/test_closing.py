"""Who is found in a queue that is to be Closed, as the API server says it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec

from cluster.api.client import Client
from controller.status.closing import PODGROUPS, occupied_labels
from tests.support.http.wire_objects import Wire, podgroup

QUEUE = "sluice.dev/queue"


def occupied(*groups: Wire) -> list[str]:
    """The labels of what is live, where nothing else is there."""

    def request(_method: str, path: str, **_: Any) -> bytes:
        found = list(groups) if path == PODGROUPS else []
        return msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": found})

    client = cast(Client, SimpleNamespace(request=request))
    return list(occupied_labels(client, ["labs", "research"]))


def group(name: str, queue: str, **status: object) -> Wire:
    made = podgroup(name, queue=queue)
    made["metadata"]["labels"] = {QUEUE: queue}
    return {**made, "status": status}


def test_one_that_cannot_be_read_keeps_its_own_queue_and_no_other() -> None:
    """It may be live for all that we know; and whoever is asked about with it is answered."""
    odd = group("odd", "labs", conditions=[{"type": "x", "lastTransitionTime": "2024-01-01T00:00:00x5Z"}])
    assert occupied(odd, group("gang", "research")) == ["labs", "research"]
    assert occupied(odd, group("done", "research", phase="Completed")) == ["labs"]
