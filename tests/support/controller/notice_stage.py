"""Queues to tell of, an API server that keeps one ConfigMap, and a receiver; no thread and no socket."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from cluster.api.client import Client
from cluster.cache.store import Store
from cluster.exceptions import Conflict, NotFound, Refused, Unreachable
from cluster.metrics import Metrics
from cluster.object_reference import ObjectReference
from cluster.objects import QueueObject
from cluster.recorder import EventRecorder
from controller.notices.receiver import NotTaken, Receiver
from controller.notices.sender import NoticeSender
from controller.notices.storage import CursorStorage
from queues import well_known
from queues.status.changes import HistoryLine
from tests.queues.notices.values import NOW


class ConfigMapServer:
    """`reachable`: else every request fails; one that writes is done or not by `loses_answers`."""

    def __init__(self) -> None:
        self.stored: dict[str, Any] = {}
        self.version = 0
        self.reachable = True
        self.loses_answers = False

    def get(self, _path: str) -> bytes:
        self._fail_if_away()
        if not self.stored:
            raise NotFound(404, "NotFound", "")
        return json.dumps(self.stored).encode()

    def create(self, _path: str, body: dict[str, Any]) -> bytes:
        self._fail_if_away()
        if self.stored:
            raise Conflict(409, "AlreadyExists", "")
        return self._keep(body)

    def patch(self, _path: str, body: dict[str, Any]) -> bytes:
        self._fail_if_away()
        if body["metadata"]["resourceVersion"] != str(self.version):
            raise Conflict(409, "Conflict", "")
        after = dict(self.stored)
        for field in body.keys() - {"metadata"}:
            merged = {**after.get(field, {}), **body[field]}
            after[field] = {key: value for key, value in merged.items() if value is not None}
        if after.get("data", {}).keys() & after.get("binaryData", {}).keys():
            raise Refused(422, "Invalid", "duplicate of key present in binaryData")
        return self._keep(after)

    def _keep(self, body: dict[str, Any]) -> bytes:
        self.version += 1
        self.stored = {**body, "metadata": {"resourceVersion": str(self.version)}}
        if self.loses_answers:
            raise Unreachable("cut")
        return json.dumps(self.stored).encode()

    def _fail_if_away(self) -> None:
        if not self.reachable:
            raise Unreachable("away")


class SetReceiver:
    """`problem`: what it does with a message instead of taking it. `refuses`: no message with this text in it
    is ever taken. `takes_silently`: it takes it, and nobody hears of that.
    """

    def __init__(self) -> None:
        self.problem: NotTaken | None = None
        self.refuses = ""
        self.takes_silently = False
        self.bodies: list[dict[str, Any]] = []

    def send(self, body: bytes) -> None:
        if self.problem is not None:
            raise self.problem
        if self.refuses and self.refuses.encode() in body:
            raise NotTaken("HTTP 400", may_pass=False)
        self.bodies.append(json.loads(body))
        if self.takes_silently:
            raise NotTaken("cut")

    def interrupt(self) -> None:
        """Nothing is under way."""

    @property
    def ids(self) -> list[str]:
        return [notice["id"] for body in self.bodies for notice in body["notices"]]


class Stage:
    def __init__(self) -> None:
        self.now = NOW
        self.queues: dict[str, QueueObject] = {}
        self.server = ConfigMapServer()
        self.receiver = SetReceiver()
        self.metrics = Metrics()
        self.leading = True
        #: The queue, the reason and the message of each.
        self.events: list[tuple[str, str, str]] = []
        snapshot = SimpleNamespace(
            tree=self.queues, decision=lambda name: SimpleNamespace(policy_by=name.partition("-below")[0])
        )
        self.store = cast(
            Store,
            SimpleNamespace(
                queues=self.queues,
                snapshot=snapshot,
                synced=True,
                clock=SimpleNamespace(now=lambda: self.now),
            ),
        )

    def sender(self) -> NoticeSender:
        """Of a replica that has just begun to lead."""
        return NoticeSender(
            store=self.store,
            storage=CursorStorage(cast(Client, self.server), namespace="sluice-system"),
            receiver=cast(Receiver, self.receiver),
            leading=lambda: self.leading,
            term=lambda: 1,
            metrics=self.metrics,
            recorder=cast(EventRecorder, SimpleNamespace(record=self._record)),
            window_soon=timedelta(minutes=15),
        )

    def _record(self, subject: ObjectReference, *, reason: str, message: str, warning: bool) -> None:
        assert warning
        self.events.append((subject.name, reason, message))

    def later(self, seconds: float) -> datetime:
        self.now += timedelta(seconds=seconds)
        return self.now

    def put(
        self, name: str, lines: Sequence[HistoryLine] = (), *, drained: str = "", since: str = "", **spec: Any
    ) -> None:
        """The queue is so from now on."""
        condition = {"type": "Drained", "reason": drained, "message": "why", "lastTransitionTime": since}
        obj = {
            "metadata": {
                "name": name,
                "uid": name,
                "generation": self.queues[name].metadata.generation + 1 if name in self.queues else 1,
                "annotations": {well_known.CHANGES: msgspec.json.encode(list(lines)).decode()},
            },
            "spec": spec,
            "status": {"conditions": [condition] if drained else []},
        }
        self.queues[name] = msgspec.convert(obj, QueueObject)
