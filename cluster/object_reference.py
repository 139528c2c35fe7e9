"""A reference to the object that an event is about."""

from __future__ import annotations

import msgspec


class ObjectReference(msgspec.Struct, frozen=True, kw_only=True):
    """The object that an event is about. Cluster-scoped objects have no namespace."""

    api_version: str
    kind: str
    name: str
    uid: str
    namespace: str = ""
