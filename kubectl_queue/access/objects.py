"""Objects of any kind that `why` has to read, one GET each, none of them twice."""

from __future__ import annotations

from urllib.parse import quote

from kubectl_queue.access.requests import Calls
from kubectl_queue.access.responses import Object
from kubectl_queue.access.transport import Request
from kubectl_queue.errors import ForbiddenError, KindMissingError, NotFoundError
from kubectl_queue.why.targets import Type


class Objects:
    """What one command has read."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._held: dict[tuple[str, str, str], Object | None] = {}

    def get(self, kind: Type, name: str, *, namespace: str) -> Object:
        """Raises what the server answers, NotFoundError and ForbiddenError among it."""
        place = f"/namespaces/{quote(namespace, safe='')}" if kind.namespaced else ""
        path = f"{kind.base}{place}/{kind.resource}/{quote(name, safe='')}"
        return self._calls.send(Request(method="GET", path=path, query={}), kind=kind.full)

    def find(self, kind: Type, name: str, *, namespace: str) -> Object | None:
        """The object; None where it is not there or may not be read."""
        key = (kind.full, namespace if kind.namespaced else "", name)
        if key not in self._held:
            self._held[key] = self._find(kind, name, namespace=namespace)
        return self._held[key]

    def _find(self, kind: Type, name: str, *, namespace: str) -> Object | None:
        try:
            return self.get(kind, name, namespace=namespace)
        except (NotFoundError, ForbiddenError, KindMissingError):
            return None
