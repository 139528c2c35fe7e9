"""Calls to one API server, whatever they are about.

Promises
- Whatever the server warns of goes to `warn`, in order.
- `now` is the API server's clock at its last answer; until then this machine's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from kubectl_queue.access import responses as answers
from kubectl_queue.access.responses import QUEUES, Object
from kubectl_queue.access.transport import (
    Request,
    Response,
    Transport,
)


class Calls:
    """One thread."""

    def __init__(self, transport: Transport, *, warn: Callable[[str], None]) -> None:
        self._transport = transport
        self._warn = warn
        self.now = datetime.now(UTC)

    def send(self, request: Request, *, kind: str = QUEUES) -> Object:
        """The object that is the answer. Raises the error that it is."""
        return self.read(self._transport.send(request), kind=kind)

    def stream(self, request: Request, *, silence: float) -> Iterator[bytes | Response]:
        return self._transport.stream(request, silence=silence)

    def read(self, response: Response, *, kind: str = QUEUES) -> Object:
        self.now = answers.moment(response.headers) or datetime.now(UTC)
        for text in answers.warnings(response.headers):
            self._warn(text)
        return answers.read(response, kind=kind)
