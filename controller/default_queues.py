"""The queues that always are: `root`, which is not reclaimable, and `default`, which is."""

from __future__ import annotations

from functools import partial

from controller.context import (
    QUEUE_VERSION,
    QUEUES,
    ControllerContext,
)
from queues.queue import DEFAULT, ROOT


def create_default_queues(context: ControllerContext) -> None:
    """Have those created that the store does not have."""
    for name in (ROOT, DEFAULT):
        if name not in context.store.queues:
            create = partial(context.client.create, QUEUES, _body(name))
            context.writers.submit(("queue", name), create, rank=(0,))


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
