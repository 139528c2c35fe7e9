"""A server without a cluster: the app, answering from a store that was filled through its sinks."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from werkzeug.test import TestResponse

from cluster.cache.store import Clock, Store
from cluster.informers.event_handlers import NamespaceEventHandler, QueueEventHandler
from cluster.objects import Command, Namespace, Pod, PodGroup, QueueObject, WorkloadObject
from queues.membership import MembershipSettings
from queues.workload_kinds import KINDS
from server.app import create_app
from tests.support.http.wire_objects import (
    Wire,
    namespace,
    review,
)
from tests.support.rules.cases import NOW
from webhooks.settings import AdmissionSettings

OWN = "system:serviceaccount:sluice-system:sluice"


class SetClock(Clock):
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        super().__init__()
        self.at: datetime = NOW
        self.seconds = 1000.0

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.seconds


class Said(NamedTuple):
    """What a webhook answered."""

    allowed: bool
    code: int
    message: str
    patch: list[Wire]
    warnings: list[str]


class Server:
    """One server. `has` and `lacks` are what its reflectors would hear."""

    def __init__(
        self, *, rules: MembershipSettings | None = None, terms: AdmissionSettings | None = None
    ) -> None:
        self.clock = SetClock()
        self.store = Store(rules=rules or MembershipSettings(), clock=self.clock)
        self.synced = True
        self.store.ready_when(lambda: self.synced)
        self.app = create_app(self.store, terms=terms)
        self.http = self.app.test_client()
        self._sinks: dict[str, tuple[type[Any], Any]] = {
            "Queue": (QueueObject, QueueEventHandler(self.store)),
            "Pod": (Pod, self.store.members),
            "PodGroup": (PodGroup, self.store.podgroups),
            "Namespace": (Namespace, NamespaceEventHandler(self.store)),
            "Command": (Command, self.store.commands),
        }
        self._workloads = {
            (kind.api_version, kind.kind): self.store.workloads.of_kind[key] for key, kind in KINDS.items()
        }
        self.has(namespace("team"))  # where everything is, unless a test says otherwise

    def has(self, *objects: Wire) -> Server:
        for obj in objects:
            sink, read = self._of(obj)
            sink.upsert(read)
        return self

    def lacks(self, *objects: Wire) -> Server:
        for obj in objects:
            sink, read = self._of(obj)
            sink.remove(read)
        return self

    def _of(self, obj: Wire) -> tuple[Any, Any]:
        workloads = self._workloads.get((obj["apiVersion"], obj["kind"]))
        shape, sink = (WorkloadObject, workloads) if workloads else self._sinks[obj["kind"]]
        return sink, msgspec.json.decode(json.dumps(obj), type=shape)

    def post(self, path: str, body: object, *, content_type: str = "application/json") -> TestResponse:
        """A body that is bytes is sent as it is."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.http.post(path, data=data, content_type=content_type)

    def ask(self, path: str, obj: object = None, **request: Any) -> Said:
        """A review, answered 200 and well formed."""
        reply = self.post(path, review(obj, **request))
        assert reply.status_code == 200, reply.text
        return said(reply, uid=request.get("uid", "review-1"))


def said(reply: TestResponse, *, uid: str) -> Said:
    body = reply.get_json()
    assert (body["apiVersion"], body["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response = body["response"]
    assert response["uid"] == uid
    patch = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    assert ("patchType" in response) == bool(patch)
    status = response.get("status", {})
    return Said(
        response["allowed"],
        status.get("code", 200),
        status.get("message", ""),
        patch,
        response.get("warnings", []),
    )
