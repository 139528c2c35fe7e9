"""The queues that always are: `root`, which is not reclaimable, and `default`, which is."""

from __future__ import annotations

from cluster.exceptions import Conflict
from controller.context import (
    QUEUE_VERSION,
    QUEUES,
    ControllerContext,
)
from queues.queue import DEFAULT, ROOT


def create_default_queues(context: ControllerContext) -> bool:
    """Make what is missing of the two; True if both are there, as far as the store has heard."""
    missing = [name for name in (ROOT, DEFAULT) if name not in context.store.queues]
    for name in missing:
        try:
            context.client.create(QUEUES, _body(name))
        except Conflict:
            continue
    return not missing


def _body(name: str) -> dict[str, object]:
    spec: dict[str, object] = {"weight": 1, "reclaimable": name != ROOT, "state": "Open"}
    if name != ROOT:
        spec["parent"] = ROOT
    return {
        "apiVersion": QUEUE_VERSION,
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }
