"""The events of an object that `why` explains: why its latest pod was not created, what Sluice says, and
which of its pods were evicted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from urllib.parse import quote

from kubectl_queue.access.client import ApiClient
from kubectl_queue.access.responses import ApiRequest
from kubectl_queue.errors import ForbiddenError
from kubectl_queue.objects.fields import Object, value_at
from kubectl_queue.views.why import Event
from queues.apimachinery.timestamps import parse_timestamp
from queues.causes import CauseKind

_SLUICE = "sluice"
_FAILED = "FailedCreate"
#: What controllers of workloads say of a pod that they create.
_CREATIONS = frozenset({_FAILED, "SuccessfulCreate"})
#: What Sluice says where it takes a pod, or the pods of a workload, off their nodes.
EVICTIONS = frozenset(
    {
        "Reclaimed",
        "Preempted",
        "Evicted",
        "DeletedPastBudget",
        "GangGaveBack",
        "SuspendedByQueue",
        "ScaledByQueue",
    }
)
#: Events that are shown: one of each reason.
_SHOWN = 5


def read_events(client: ApiClient, item: Object) -> Sequence[Object]:
    """The events of the object; none where they may not be read."""
    namespace = str(value_at(item, "metadata.namespace") or "default")
    return _read(client, namespace, f"involvedObject.uid={value_at(item, 'metadata.uid')}")


def last_event_of_gone(client: ApiClient, *, kind: str, name: str, namespace: str) -> Event | None:
    """The last that Sluice said of an object of this name, which is not there any more; None: nothing."""
    selected = f"involvedObject.kind={kind},involvedObject.name={name}"
    ours = [item for item in _read(client, namespace, selected) if _source(item) == _SLUICE]
    last = max(ours, key=_moment, default=None)
    return _event(last) if last is not None else None


def _read(client: ApiClient, namespace: str, selected: str) -> Sequence[Object]:
    query = {"fieldSelector": selected}
    namespace = quote(namespace, safe="")
    request = ApiRequest(method="GET", path=f"/api/v1/namespaces/{namespace}/events", query=query)
    try:
        listing = client.send(request, kind="events")
    except ForbiddenError:
        return ()
    return listing.get("items") or ()


def creation_failure(items: Iterable[Object]) -> str:
    """Why the latest pod of a workload was not created, by its events; "" where it was."""
    made = [item for item in items if item.get("reason") in _CREATIONS]
    latest = max(made, key=_moment, default={})
    return str(latest.get("message") or "") if latest.get("reason") == _FAILED else ""


def says_missing(items: Iterable[Object]) -> bool:
    """Whether the latest event of Sluice says that the queue of the object is not there."""
    ours = [item for item in items if _source(item) == _SLUICE]
    return max(ours, key=_moment, default={}).get("reason") == CauseKind.NOT_FOUND.value


def latest_events(items: Iterable[Object]) -> Sequence[Event]:
    """The latest event of each reason, newest first."""
    items = list(items)
    return _latest([item for item in items if _source(item) == _SLUICE] or items)


def latest_evictions(items: Iterable[Object]) -> Sequence[Event]:
    """The same of the events that say that pods were evicted."""
    return _latest(item for item in items if _source(item) == _SLUICE and item.get("reason") in EVICTIONS)


def _latest(items: Iterable[Object]) -> Sequence[Event]:
    by_reason: dict[str, Event] = {}
    for item in sorted(items, key=_moment, reverse=True):
        event = _event(item)
        by_reason.setdefault(event.reason, event)
    return tuple(by_reason.values())[:_SHOWN]


def _event(item: Object) -> Event:
    return Event(str(item.get("reason") or ""), str(item.get("message") or ""), _time(item))


def _source(item: Object) -> str:
    return str(item.get("reportingComponent") or value_at(item, "source.component") or "")


def _moment(item: Object) -> datetime:
    """Some events have whole seconds, some have fractions."""
    return parse_timestamp(_time(item))


def _time(item: Object) -> str:
    paths = (
        "series.lastObservedTime",
        "lastTimestamp",
        "eventTime",
        "firstTimestamp",
        "metadata.creationTimestamp",
    )
    return next((str(time) for time in (value_at(item, path) for path in paths) if time), "")
