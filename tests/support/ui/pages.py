"""The page over values instead of a cluster: for tests of its routes, of frames and of streams."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from kubectl_queue.access.client import ApiClient, Queues, WatchEvent
from kubectl_queue.errors import ClosedError, QueueError
from kubectl_queue.objects.fields import Object
from kubectl_queue.ui.app import create_app
from kubectl_queue.ui.backend import Backend, ClusterAccess
from kubectl_queue.ui.board import Board
from kubectl_queue.ui.keys import PageKeys
from kubectl_queue.ui.rows import first_frame
from kubectl_queue.ui.viewer import ClusterContext
from tests.support.plugin.harness import NOW, StoredObjects, StoredQueues, snapshot

PORT = 8765
ORIGIN = f"http://127.0.0.1:{PORT}"
PLACE = ClusterContext(context="prod", cluster="prod", server="https://api.example.com", acts_as="")


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class WatchedQueues(StoredQueues):
    """Queues whose watch and whose faults a test holds. For `queue_watch`, as the real API of queues."""

    def __init__(self, *items: Object) -> None:
        super().__init__(*items)
        self.events: queue.Queue[WatchEvent | QueueError | None] = queue.Queue()
        self.lists: list[QueueError | None] = []
        self.probed: QueueError | None = None
        self.probes = 0
        self.listed = 0

    def list(self, *, selector: str = "", name: str = "") -> Any:
        self.listed += 1
        fault = self.lists.pop(0) if self.lists else None
        if fault is not None:
            raise fault
        return super().list(selector=selector, name=name)

    def watch(self, since: str, *, selector: str = "", name: str = "") -> Iterator[WatchEvent]:
        while (event := self.events.get()) is not None:
            if isinstance(event, QueueError):
                raise event
            if event.type == "DELETED":
                self._items.pop(event.object["metadata"]["name"], None)
            elif event.type != "BOOKMARK":
                self._items[event.object["metadata"]["name"]] = event.object
            yield event

    def probe(self) -> None:
        self.probes += 1
        if self.probed is not None:
            raise self.probed

    def close(self) -> None:
        self.events.put(ClosedError("the command ends"))


class PageOnValues:
    """The routes, asked as the page itself asks. `objects`: what the API server has, by path."""

    def __init__(
        self, *items: Object, objects: Mapping[str, Object] | None = None, heartbeat: float = 0.05
    ) -> None:
        self.clock = Clock()
        #: By the API server's clock.
        self.now = NOW
        self.board = Board(clock=self.clock)
        self.keys = PageKeys()
        self.api = StoredQueues(*items)
        self.objects = StoredObjects(objects or {})
        if items:
            self.board.publish(first_frame(snapshot(*items, now=NOW), number=1))
            self.board.confirm(self.clock.now)
        self.connected = 0
        self.client: FlaskClient = create_app(self.backend(heartbeat)).test_client()
        self.token = self.enter().get_json()["token"]

    def backend(self, heartbeat: float) -> Backend:
        return Backend(
            port=PORT,
            keys=self.keys,
            board=self.board,
            connect=self._connect,
            place=PLACE,
            now=lambda: self.now,
            heartbeat=heartbeat,
        )

    def _connect(self, warn: Callable[[str], None]) -> ClusterAccess:
        self.connected += 1
        return ClusterAccess(cast(ApiClient, self.objects), cast(Queues, self.api))

    def enter(self, code: str = "", **headers: str) -> TestResponse:
        return self.ask("POST", "/api/session", {"code": code or self.keys.code}, token="", **headers)

    def ask(
        self, method: str, path: str, body: Any = None, *, token: str | None = None, **headers: str
    ) -> TestResponse:
        """`headers`: instead of those of the page; an empty one is left out. `_` stands for `-`."""
        shown = self.token if token is None else token
        all_headers = {
            "Host": f"127.0.0.1:{PORT}",
            "Origin": ORIGIN if method != "GET" else "",
            "Authorization": f"Bearer {shown}" if shown else "",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        return self.client.open(
            path,
            method=method,
            buffered=path != "/api/stream",
            headers={name: value for name, value in all_headers.items() if value},
            **({"data": body} if isinstance(body, bytes) else {} if body is None else {"json": body}),
        )
