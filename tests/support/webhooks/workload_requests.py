"""What the tests of workloads share: how to submit and change one, and what is to be found on it then."""

from __future__ import annotations

import copy
from typing import Any

from tests.support.http.asking import Said, Server
from tests.support.http.wire_objects import (
    GROUP,
    NAMED,
    Wire,
    queue,
    resource_of,
    templates_of,
)
from tests.support.webhooks.json_patch import applied

QUEUE = "sluice.dev/queue"
FROM = "sluice.dev/queue-from"
CAME = "sluice.dev/admission"
LABEL = "volcano.sh/queue-name"

#: Who makes what workloads own.
CONTROLLER = "system:serviceaccount:kube-system:some-controller"

CLOSED_AT = "2030-01-01T10:00:00Z"
BEFORE, SAME, AFTER = "2030-01-01T09:59:59Z", CLOSED_AT, "2030-01-01T10:00:01Z"
REFUSING = {"conditions": [{"type": "Accepting", "status": "False", "lastTransitionTime": CLOSED_AT}]}


def queues() -> Server:
    """A server with a queue of each sort."""
    return Server().lists_queues(
        queue("research"),
        queue("labs"),
        queue("stopped", state="Suspended", reason="disks"),
        queue("held", stopPolicy="Hold"),
        queue("closed", state="Closed", status=REFUSING),
        queue("below", parent="closed", status=REFUSING),
        queue("lost", parent="nobody"),
    )


def ask(server: Server, obj: Wire, **request: Any) -> Said:
    return server.ask("/mutate/workloads", obj, resource=resource_of(obj), **request)


def admitted(server: Server, obj: Wire, **request: Any) -> tuple[Wire, Said]:
    """The workload as the API server will store it, and what was said."""
    answer = ask(server, obj, **request)
    assert answer.allowed, answer.message
    assert all(len(warning) < 120 for warning in answer.warnings)
    return applied(answer.patch, obj), answer


def refused(server: Server, obj: Wire, **request: Any) -> Said:
    answer = ask(server, obj, **request)
    assert not answer.allowed
    assert answer.patch == []
    return answer


def stored(server: Server, obj: Wire, **request: Any) -> Wire:
    """Admitted, and seen by the server."""
    after, _ = admitted(server, obj, **request)
    server.has(after)
    return after


def updated(server: Server, before: Wire, after: Wire, **request: Any) -> tuple[Wire, Said]:
    return admitted(server, after, old=before, operation="UPDATE", **request)


def not_updated(server: Server, before: Wire, after: Wire, **request: Any) -> Said:
    return refused(server, after, old=before, operation="UPDATE", **request)


def changed(obj: Wire, **spec: object) -> Wire:
    """A copy, to be changed further, with other fields in its spec."""
    return {**copy.deepcopy(obj), "spec": {**copy.deepcopy(obj["spec"]), **spec}}


_SHORT = {"named": NAMED, "ours": QUEUE, "from_": FROM, "came": CAME, "volcano": LABEL, "group": GROUP}


def annotated(obj: Wire, **annotations: str | None) -> Wire:
    """A copy with annotations set or (None) taken off, by short words for their long keys."""
    result = copy.deepcopy(obj)
    _annotate(result["metadata"], annotations)
    return result


def with_our_label(obj: Wire, queue: str) -> Wire:
    """A copy with our label."""
    result = copy.deepcopy(obj)
    result["metadata"].setdefault("labels", {})[QUEUE] = queue
    return result


def with_templates(obj: Wire, **annotations: str | None) -> Wire:
    """The same, for the annotations of all of its templates."""
    result = copy.deepcopy(obj)
    for one in templates_of(result):
        _annotate(one.setdefault("metadata", {}), annotations)
    return result


def _annotate(meta: Wire, annotations: dict[str, str | None]) -> None:
    held = meta["annotations"] = dict(meta.get("annotations") or {})
    for short, value in annotations.items():
        held.pop(_SHORT[short], None)
        if value is not None:
            held[_SHORT[short]] = value


def written(obj: Wire, queue: str, *, came: str | None = "review-1") -> Wire:
    """The workload with its queue on itself."""
    result = copy.deepcopy(obj)
    meta = result["metadata"]
    meta["annotations"] = {**(meta.get("annotations") or {}), QUEUE: queue}
    if came is not None:
        meta["annotations"][CAME] = came
    meta["labels"] = {**(meta.get("labels") or {}), QUEUE: queue}
    if result["apiVersion"].startswith("batch.volcano.sh"):
        result["spec"]["queue"] = queue
    return result
