"""Which fields of a Queue's spec a request sets, as far as its review shows that.

A review holds the object before and after, not what its author sent. A field with the same value in both may
have been left as it was, or set once more. It counts as set where the review proves it:

| the request                  | what it sets                                                     |
|------------------------------|------------------------------------------------------------------|
| of our own controller        | all that is there: each of its writes has both fields            |
| `kubectl replace`            | all that is there: the whole object is the author's              |
| `kubectl queue`              | all that is there: it writes both fields, or means them to stay  |
| a server-side apply          | what its field manager owns: that is what was applied            |
| `kubectl apply`              | what the configuration says that it stores as an annotation      |
| any other patch or update    | no field that has the same value before and after                |

A server-side apply is recognised so: an entry of `managedFields` with operation Apply owns a field that this
request has changed. After any other update the entry would no longer own that field.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from cluster.objects import Metadata
from webhooks.review import ReviewRequest
from webhooks.settings import AdmissionSettings

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
#: The field managers of clients that set each field that is there.
WHOLE = frozenset({"kubectl-replace", "kubectl-queue"})


class _Managed(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of `metadata.managedFields`."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    time: str = ""
    fields_v1: dict[str, Any] | None = msgspec.field(default=None, name="fieldsV1")


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    managed_fields: list[_Managed] | None = None


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


class _Applied(msgspec.Struct, frozen=True):
    spec: dict[str, Any] | None = None


_managed = msgspec.json.Decoder(_Object)
_applied = msgspec.json.Decoder(_Applied)


def requested_fields(
    request: ReviewRequest,
    *,
    before: tuple[Metadata, Mapping[str, Any]],
    after: tuple[Metadata, Mapping[str, Any]],
    settings: AdmissionSettings,
) -> frozenset[str]:
    """The fields of spec that the request sets, also those whose value stays the same.

    `before` and `after`: the metadata and the spec of the object.
    """
    (was_meta, was), (meta, spec) = before, after
    if request.user_info.username == settings.own_user or request.field_manager in WHOLE:
        return frozenset(spec)
    changed = {key for key in {*was, *spec} if was.get(key) != spec.get(key)}
    return frozenset({*_server_side(request, changed), *_client_side(was_meta, meta, spec)})


def owned_fields(request: ReviewRequest) -> frozenset[str]:
    """The fields of spec that have their values, before the request, from its field manager.

    The review names that only where the client does. Else it is whose entry has a new time: the API server
    sets that for the manager of the request alone. Where no entry has, it set nothing.
    """
    before = _entries(request.old_object)
    managers = {request.field_manager} if request.field_manager else _managers_of(request, before)
    return frozenset(name for entry in before if entry.manager in managers for name in _spec_fields(entry))


def _managers_of(request: ReviewRequest, before: list[_Managed]) -> set[str]:
    """Whose entry is new, or has another time than before."""
    known = {(entry.manager, entry.operation, entry.time) for entry in before}
    return {
        entry.manager
        for entry in _entries(request.object)
        if (entry.manager, entry.operation, entry.time) not in known
    }


def _server_side(request: ReviewRequest, changed: Collection[str]) -> Iterator[str]:
    for entry in _entries(request.object):
        fields = _spec_fields(entry) if entry.operation == "Apply" else frozenset()
        if fields & set(changed):
            yield from fields


def _entries(raw: msgspec.Raw) -> list[_Managed]:
    try:
        return _managed.decode(raw).metadata.managed_fields or []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []


def _spec_fields(entry: _Managed) -> frozenset[str]:
    owned = (entry.fields_v1 or {}).get("f:spec")
    if entry.subresource or not isinstance(owned, dict):
        return frozenset()
    return frozenset(key.removeprefix("f:") for key in owned)


def _client_side(was: Metadata, meta: Metadata, spec: Mapping[str, Any]) -> Iterator[str]:
    text = meta.annotation(LAST_APPLIED)
    if not text or text == was.annotation(LAST_APPLIED):
        return
    try:
        applied = _applied.decode(text).spec or {}
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return
    yield from (key for key, value in applied.items() if spec.get(key) == value)
