"""The parts of JSON patches that set and remove the mark of what a drain suspended, or brought to zero.

The mark is annotation `sluice.dev/suspended`. Each part tests the UID, and that what it changes is still as
it was read: the API server refuses the patch otherwise, with `UNPROCESSABLE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from queues import well_known
from queues.workload_kinds import WorkloadKind

#: Where the mark is, as a JSON patch writes it.
MARK_PATH = f"/metadata/annotations/{well_known.SUSPENDED.replace('/', '~1')}"
#: The status of the API server's answer where a test of a JSON patch fails.
UNPROCESSABLE = 422

JsonPatch = list[dict[str, Any]]


def mark_patch(uid: str, annotations: Mapping[str, str] | None, mark: str) -> JsonPatch:
    """Set the mark. `annotations`: those that the workload has.

    A test of `null` holds of what is not there.
    """
    patch: JsonPatch = [{"op": "test", "path": "/metadata/uid", "value": uid}]
    if annotations is None:
        patch.append({"op": "test", "path": "/metadata/annotations", "value": None})
        patch.append({"op": "add", "path": "/metadata/annotations", "value": {}})
    return [*patch, {"op": "add", "path": MARK_PATH, "value": mark}]


def unmark_patch(uid: str, mark: str) -> JsonPatch:
    """Remove the mark, if it is still this one."""
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": MARK_PATH, "value": mark},
        {"op": "remove", "path": MARK_PATH},
    ]


def workload_path(kind: WorkloadKind, namespace: str, name: str) -> str:
    return f"/apis/{kind.api_version}/namespaces/{namespace}/{kind.resource}/{name}"
