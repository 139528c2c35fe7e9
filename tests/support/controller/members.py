"""Members as the cache has them."""

from __future__ import annotations

from cluster.cache.members import Member
from tests.support.http.asking import Server
from tests.support.http.wire_objects import Wire


def parked(obj: Wire, *, message: str) -> Member:
    """The member of this pod, which waits; `message`: of its PodScheduled condition."""
    conditions = [{"type": "PodScheduled", "status": "False", "message": message}]
    server = Server().has({**obj, "status": {"phase": "Pending", "conditions": conditions}})
    meta = obj["metadata"]
    stored = server.store.members.get(meta["namespace"], meta["name"])
    assert stored is not None
    return stored
