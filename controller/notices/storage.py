"""The cursor in ConfigMap `sluice-notices` of the server's namespace.

Each write names the resource version that was read or written last: of two leaders one alone goes on, and
the other reads what that one wrote. A cursor that cannot be read is begun anew: what happens from then on is
told. What else is in the ConfigMap is removed: it would take its room, or its key (`binaryData`).
"""

from __future__ import annotations

import logging

import msgspec

from cluster.api.client import Client, decode_response
from cluster.exceptions import NotFound
from cluster.objects import Metadata
from queues.notices.cursor import BadCursor, Cursor, decode, encode

NAME, KEY = "sluice-notices", "cursor"

log = logging.getLogger(__name__)


class _ConfigMap(msgspec.Struct, frozen=True, rename="camel"):
    metadata: Metadata
    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None

    @property
    def others(self) -> dict[str, dict[str, None]]:
        """The patch that removes what is not ours."""
        fields = {
            "data": [key for key in self.data or () if key != KEY],
            "binaryData": self.binary_data or (),
        }
        return {field: dict.fromkeys(keys) for field, keys in fields.items() if keys}


_config_map = msgspec.json.Decoder(_ConfigMap)


class CursorStorage:
    """Every call raises `cluster.exceptions.ClusterError`, and `Conflict` if another replica has written."""

    def __init__(self, client: Client, *, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._path = f"/api/v1/namespaces/{namespace}/configmaps/{NAME}"
        self._version = ""
        #: What is to be removed with the next write.
        self._others: dict[str, dict[str, None]] = {}

    def read(self, *, otherwise: Cursor) -> Cursor:
        """The cursor; where there is none, `otherwise` is stored."""
        try:
            found = decode_response(self._client.get(self._path), _config_map)
        except NotFound:
            self._create(otherwise)
            return otherwise
        self._version, self._others = found.metadata.resource_version, found.others
        try:
            return decode((found.data or {}).get(KEY, ""))
        except BadCursor as exc:
            log.warning("ConfigMap %s has no cursor of notices (%s): it is begun anew", NAME, exc)
            self.write(otherwise)
            return otherwise

    def write(self, cursor: Cursor) -> None:
        body = {
            **self._others,
            "metadata": {"resourceVersion": self._version},
            "data": {**self._others.get("data", {}), KEY: encode(cursor)},
        }
        self._remember(self._client.patch(self._path, body))
        self._others = {}

    def _create(self, cursor: Cursor) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": NAME, "labels": {"app.kubernetes.io/part-of": "sluice"}},
            "data": {KEY: encode(cursor)},
        }
        self._remember(self._client.create(f"/api/v1/namespaces/{self._namespace}/configmaps", body))

    def _remember(self, answer: bytes) -> None:
        self._version = decode_response(answer, _config_map).metadata.resource_version
