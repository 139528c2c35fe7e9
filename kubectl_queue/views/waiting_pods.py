"""The pods of a queue that wait, as a page shows them: who, since when, and what they say themselves."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubectl_queue.objects.fields import (
    Object,
    annotations_of,
    condition_of,
    name_of,
    spec_of,
    status_of,
    value_at,
)
from queues import well_known

_FINISHED = frozenset({"Succeeded", "Failed"})


class WaitingRow(msgspec.Struct, frozen=True, kw_only=True):
    """`since`: when it was created (RFC 3339). `message`: of its condition PodScheduled, if it has one."""

    namespace: str
    name: str
    since: str
    message: str


def waiting_rows(pods: Iterable[Object], queue: str) -> list[WaitingRow]:
    """Of those pods that are the queue's and on no node: labels are cut, so others may be among them."""
    return [
        WaitingRow(
            namespace=str(value_at(pod, "metadata.namespace") or ""),
            name=name_of(pod),
            since=str(value_at(pod, "metadata.creationTimestamp") or ""),
            message=str(condition_of(pod, "PodScheduled").get("message") or ""),
        )
        for pod in pods
        if annotations_of(pod).get(well_known.QUEUE) == queue
        and not spec_of(pod).get("nodeName")
        and status_of(pod).get("phase") not in _FINISHED
    ]
