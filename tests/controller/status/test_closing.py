"""The checks before a queue is Closed: what the API server lists, and how long an answer holds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec

from cluster.api.client import Client
from controller.status.closing import PODGROUPS, occupied_labels
from tests.support.http.wire_objects import Wire, podgroup

QUEUE = "sluice.dev/queue"


def occupied(*groups: Wire) -> list[str]:
    """The labels with a live member, where these PodGroups are all objects."""

    def request(_method: str, path: str, **_: Any) -> bytes:
        found = list(groups) if path == PODGROUPS else []
        return msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": found})

    client = cast(Client, SimpleNamespace(request=request))
    return list(occupied_labels(client, ["labs", "research"]))


def group(name: str, queue: str, **status: object) -> Wire:
    made = podgroup(name, queue=queue)
    made["metadata"]["labels"] = {QUEUE: queue}
    return {**made, "status": status}


def test_an_object_that_cannot_be_read_keeps_its_own_queue_and_no_other() -> None:
    """It may be live. The other queue of the same question gets its answer."""
    odd = group("odd", "labs", conditions=[{"type": "x", "lastTransitionTime": "2024-01-01T00:00:00x5Z"}])
    assert occupied(odd, group("gang", "research")) == ["labs", "research"]
    assert occupied(odd, group("done", "research", phase="Completed")) == ["labs"]
