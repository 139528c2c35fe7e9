"""Reads single objects of any type."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from kubectl_queue.access.client import ApiClient
from kubectl_queue.access.responses import ApiRequest
from kubectl_queue.errors import ForbiddenError, KindMissingError, NotFoundError
from kubectl_queue.objects.fields import Object, labels_of
from kubectl_queue.objects.types import NAMESPACE, Type


class ObjectReader:
    """Reads objects of any kind for one command, each with one GET."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._read: dict[tuple[str, str, str], Object | None] = {}

    def get(self, kind: Type, name: str, *, namespace: str) -> Object:
        """Raises the error that the server answers, such as NotFoundError and ForbiddenError."""
        place = f"/namespaces/{quote(namespace, safe='')}" if kind.namespaced else ""
        path = f"{kind.base}{place}/{kind.resource}/{quote(name, safe='')}"
        return self._client.send(ApiRequest(method="GET", path=path, query={}), kind=kind.full)

    def find(self, kind: Type, name: str, *, namespace: str) -> Object | None:
        """The object; None where it is not there or may not be read."""
        key = (kind.full, namespace if kind.namespaced else "", name)
        if key not in self._read:
            self._read[key] = self._find(kind, name, namespace=namespace)
        return self._read[key]

    def labels_of_namespace(self, name: str) -> Mapping[str, str] | None:
        """None where it is not there or may not be read."""
        found = self.find(NAMESPACE, name, namespace="")
        return labels_of(found) if found is not None else None

    def _find(self, kind: Type, name: str, *, namespace: str) -> Object | None:
        try:
            return self.get(kind, name, namespace=namespace)
        except (NotFoundError, ForbiddenError, KindMissingError):
            return None
