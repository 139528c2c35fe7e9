"""A server without a cluster: the app, answering from a store that was filled through its sinks."""

from __future__ import annotations

import base64
import io
import json
import re
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import EnvironBuilder, TestResponse, run_wsgi_app
from werkzeug.wrappers import Request

from cluster.cache.scheduling_policies import ConfigMap
from cluster.cache.store import Clock, Store
from cluster.cache.system_pods import SystemPod, SystemPodSpec
from cluster.informers.event_handlers import NamespaceEventHandler, QueueEventHandler
from cluster.objects import Command, Namespace, Pod, PodGroup, QueueObject, WorkloadObject
from cluster.scoring.departures import follow_departures
from cluster.scoring.event_handlers import NodeEventHandler
from cluster.scoring.node_scoring import NodeScoring
from cluster.scoring.objects import Node
from extender.routes import handlers as extender_handlers
from queues.membership import MembershipSettings
from queues.well_known import QUEUE
from queues.workload_kinds import KINDS
from server.app import BodyHandler, create_app
from tests.support.cluster.readiness import CountedTrigger, FixedReadiness
from tests.support.http.wire_objects import (
    Wire,
    namespace,
    review,
)
from tests.support.rules.cases import NOW
from webhooks.routes import handlers as webhook_handlers
from webhooks.settings import AdmissionSettings

#: Which the WSGI environment has as it is.
PLAIN_PATH = re.compile(r"[\w/-]+", re.ASCII)
ENVIRON = EnvironBuilder(method="POST").get_environ()
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


class _PodHandlers:
    """The two watches of pods: of members, and of those without our label while a policy asks for them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def upsert(self, pod: Pod) -> None:
        self._store.members.upsert(pod)
        if not _is_labelled(pod):
            self._store.system_pods.upsert(system_pod(pod))

    def remove(self, pod: Pod) -> None:
        self._store.members.remove(pod)
        if not _is_labelled(pod):
            self._store.system_pods.remove(system_pod(pod))


def _is_labelled(pod: Pod) -> bool:
    return QUEUE in (pod.metadata.labels or {})


def system_pod(pod: Pod) -> SystemPod:
    spec = SystemPodSpec(pod.spec.priority, pod.spec.priority_class_name)
    return SystemPod(pod.metadata, spec)


class Server:
    """One server. `has` and `lacks` are what its reflectors would hear."""

    def __init__(
        self, *, rules: MembershipSettings | None = None, terms: AdmissionSettings | None = None
    ) -> None:
        self.clock = SetClock()
        self.readiness = FixedReadiness()
        self._relists = CountedTrigger()
        self.store = Store(
            membership_settings=rules or MembershipSettings(),
            clock=self.clock,
            readiness=self.readiness,
            member_relists=self._relists,
        )
        self._settings = terms or AdmissionSettings()
        #: What scores nodes; None until a test has them read (`reads_nodes`).
        self.scoring: NodeScoring | None = None
        self.is_reading_for_scores = False
        follow_departures(self.store, lambda: self.scoring)
        self._sinks: dict[str, tuple[type[Any], Any]] = {
            "Queue": (QueueObject, QueueEventHandler(self.store)),
            "Pod": (Pod, _PodHandlers(self.store)),
            "PodGroup": (PodGroup, self.store.podgroups),
            "Namespace": (Namespace, NamespaceEventHandler(self.store)),
            "Command": (Command, self.store.commands),
            "ConfigMap": (ConfigMap, self.store.policies),
        }
        self._workloads = {
            (kind.api_version, kind.kind): self.store.workloads.of_kind[key] for key, kind in KINDS.items()
        }
        self.has(namespace("team"))  # where everything is, unless a test says otherwise

    def count_relists(self) -> list[int]:
        """Gets an item for each list of the members that is asked for from now on."""
        self._relists.fired.clear()
        return self._relists.fired

    @cached_property
    def app(self) -> Flask:
        """Made for the first test that speaks HTTP: for each app Flask compiles every route anew."""
        return create_app(
            self.store,
            admission=self._settings,
            scoring=lambda: self.scoring,
            is_reading_for_scores=lambda: self.is_reading_for_scores,
        )

    @cached_property
    def http(self) -> FlaskClient:
        return self.app.test_client()

    @cached_property
    def _handlers(self) -> dict[str, BodyHandler]:
        extender = extender_handlers(self.store, scoring=lambda: self.scoring)
        return {**extender, **webhook_handlers(self.store, self._settings)}

    def reads_nodes(self, *nodes: Wire) -> Server:
        """These nodes, and no assigned pod, have been read for scores."""
        self.scoring = NodeScoring(
            namespace_labels=self.store.namespaces.labels_of, monotonic=self.clock.monotonic
        )
        NodeEventHandler(self.scoring.table).replace([msgspec.convert(node, Node) for node in nodes])
        return self

    def has(self, *objects: Wire) -> Server:
        for obj in objects:
            sink, read = self._of(obj)
            sink.upsert(read)
        return self

    def lists_queues(self, *objects: Wire) -> Server:
        """These queues and no others, as by a first list: with one snapshot, not one for each."""
        sink, _ = self._of(objects[0])
        sink.replace([self._of(obj)[1] for obj in objects])
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
        """A body that is bytes is sent as it is.

        The app is called without the test client, which takes longer than most answers.
        """
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        if not PLAIN_PATH.fullmatch(path):
            return self.http.post(path, data=data, content_type=content_type)
        environ = {
            **ENVIRON,
            "PATH_INFO": path,
            "REQUEST_URI": path,
            "RAW_URI": path,
            "CONTENT_TYPE": content_type,
            "CONTENT_LENGTH": str(len(data)),
            "wsgi.input": io.BytesIO(data),
        }
        return TestResponse(*run_wsgi_app(self.app, environ), request=Request(environ))

    def ask(self, path: str, obj: object = None, **request: Any) -> Said:
        """A review, answered by the path's handler as the fast path calls it, and well formed."""
        answer = self._handlers[path](json.dumps(review(obj, **request)).encode())
        return said(json.loads(answer), uid=request.get("uid", "review-1"))


def said(body: Wire, *, uid: str) -> Said:
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
