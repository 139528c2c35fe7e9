"""Requests to one API server, whatever they are about.

Promises
- Whatever the server warns of goes to `warn`, in order.
- `now` is the API server's clock at its last answer; until then this machine's.
- `Objects` sends one GET for each object that `why` needs, never two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from kubectl_queue.access import responses
from kubectl_queue.access.responses import QUEUES, Object, Request, Response
from kubectl_queue.errors import ForbiddenError, KindMissingError, NotFoundError

if TYPE_CHECKING:
    from kubectl_queue.access.transport import Transport
    from kubectl_queue.why.targets import Type


class ApiClient:
    """One thread."""

    def __init__(self, transport: Transport, *, warn: Callable[[str], None]) -> None:
        self._transport = transport
        self._warn = warn
        self.now = datetime.now(UTC)

    def send(self, request: Request, *, kind: str = QUEUES) -> Object:
        """The object that is the answer. Raises the error that it is. `kind`: RESOURCE.GROUP asked for."""
        return self.read(self._transport.send(request), kind=kind)

    def stream(self, request: Request, *, silence: float) -> Iterator[bytes | Response]:
        return self._transport.stream(request, silence=silence)

    def read(self, response: Response, *, kind: str = QUEUES) -> Object:
        self.now = responses.server_time(response.headers) or datetime.now(UTC)
        for text in responses.warnings(response.headers):
            self._warn(text)
        return responses.read(response, kind=kind)


class Objects:
    """Objects of any kind, as one command has read them."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._read: dict[tuple[str, str, str], Object | None] = {}

    def get(self, kind: Type, name: str, *, namespace: str) -> Object:
        """Raises what the server answers, NotFoundError and ForbiddenError among it."""
        place = f"/namespaces/{quote(namespace, safe='')}" if kind.namespaced else ""
        path = f"{kind.base}{place}/{kind.resource}/{quote(name, safe='')}"
        return self._client.send(Request(method="GET", path=path, query={}), kind=kind.full)

    def find(self, kind: Type, name: str, *, namespace: str) -> Object | None:
        """The object; None where it is not there or may not be read."""
        key = (kind.full, namespace if kind.namespaced else "", name)
        if key not in self._read:
            self._read[key] = self._find(kind, name, namespace=namespace)
        return self._read[key]

    def _find(self, kind: Type, name: str, *, namespace: str) -> Object | None:
        try:
            return self.get(kind, name, namespace=namespace)
        except (NotFoundError, ForbiddenError, KindMissingError):
            return None
