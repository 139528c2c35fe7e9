"""The whole controller without its thread: a test gives its reflectors watch events as bytes, runs syncs, and
reads the requests that were made at the boundary.

The boundary is no API server: it answers what a test gave it to read, and refuses every write as if another
client had been faster (409), unless it is told another refusal. Namespaces alone take their labels, and the
bind guard is on in all of them: without it no stop would be acknowledged.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from cluster.api.client import Client
from cluster.api.servers import ApiServerEndpoints
from cluster.cache.store import Store
from cluster.cache.watch_progress import WatchedKind
from cluster.coordination.leases import LEASES
from cluster.coordination.replica_report import ReplicaReport
from cluster.coordination.replicas import OtherReplicas, ReplicaReading
from cluster.exceptions import ClusterError, Conflict, NotFound, Refused
from cluster.informers.informers import ALL_KINDS, Informers
from cluster.metrics import Metrics
from cluster.readiness import ClusterReadiness
from cluster.recorder import EventRecorder
from cluster.waiting_writes import PendingWrite
from cluster.write_queue import WriteQueue
from controller.context import ControllerContext
from controller.controller import QueueController
from controller.workqueue import WorkQueue
from queues.membership import MembershipSettings
from queues.well_known import PROBE_SEEN, QUEUE
from queues.workload_kinds import KINDS
from tests.support.cluster.readiness import CountedTrigger, FixedReadiness
from tests.support.http.asking import SetClock
from tests.support.http.wire_objects import Wire

_KINDS = {
    "Queue": "queues",
    "Pod": "pods",
    "PodGroup": "podgroups",
    "Namespace": "namespaces",
    "Command": "commands",
    "ConfigMap": "policies",
}
_WORKLOADS = {(kind.api_version, kind.kind): key for key, kind in KINDS.items()}


#: Of the cluster, as far as it has been read.
VERSION = 1_000_000


class Sent(NamedTuple):
    """One request that was made."""

    method: str
    path: str
    body: Any


class Boundary:
    """The client. `readable`: what is answered to a GET, by path; all else is not there."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.readable: dict[str, Wire] = {}
        self.refusal: Callable[[Sent], ClusterError | None] = lambda _: None

    def interruptible(self) -> Boundary:
        return self

    def interrupt(self) -> None:
        """No connection is open."""

    def get(self, path: str, **_: object) -> bytes:
        if path not in self.readable:
            raise NotFound(404, "NotFound", path)
        return json.dumps(self.readable[path]).encode()

    def request(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, **_: object
    ) -> bytes:
        assert method == "GET"
        if (query or {}).get("labelSelector") == f"!{QUEUE}":
            return json.dumps(self._without_label(path)).encode()
        return self.get(path)

    def _without_label(self, path: str) -> Wire:
        """The pods that `readable` has there and that lack our label."""
        listed = self.readable.get(path, {}).get("items", [])
        items = [obj for obj in listed if QUEUE not in (obj["metadata"].get("labels") or {})]
        return {"metadata": {"resourceVersion": str(VERSION)}, "items": items}

    def patch(self, path: str, body: object, **_: object) -> bytes:
        return self._write("PATCH", path, body)

    def create(self, path: str, body: object, **_: object) -> bytes:
        return self._write("POST", path, body)

    def delete(self, path: str, body: object = None) -> bytes:
        return self._write("DELETE", path, body)

    def _write(self, method: str, path: str, body: object) -> bytes:
        sent = Sent(method, path, body)
        self.sent.append(sent)
        if path.endswith("/binding"):
            raise Refused(403, "Forbidden", PROBE_SEEN)
        if path.startswith("/api/v1/namespaces/") and path.count("/") == 4:
            return b"{}"
        raise self.refusal(sent) or Conflict(409, "Conflict", "somebody was faster")


class GrantingBoundary(Boundary):
    """Grants every write but those that the test refuses."""

    def _write(self, method: str, path: str, body: object) -> bytes:
        sent = Sent(method, path, body)
        self.sent.append(sent)
        refused = self.refusal(sent)
        if refused is not None:
            raise refused
        return b"{}"


class BookBoundary(GrantingBoundary):
    """One that stores the book of quotas, at a version that all kinds were read at."""

    def _write(self, method: str, path: str, body: Any) -> bytes:
        answer = super()._write(method, path, body)
        if "/configmaps" not in path:
            return answer
        metadata = {**body["metadata"], "uid": "book", "resourceVersion": str(VERSION)}
        return json.dumps({**body, "metadata": metadata}).encode()


class Inline(WriteQueue):
    """Writers without threads: the test sends the writes that wait, each once: none is tried again."""

    def work(self) -> None:
        while self.send_one():
            pass

    def _retry_later(self, entry: PendingWrite, seconds: float) -> None:
        self._waiting.put_back(entry, arrival=next(self._arrivals), at=math.inf)

    def send_one(self) -> bool:
        """Send the first that was not tried yet; whether there was one."""
        first = self._waiting.first(now=0.0)
        if first is not None:
            self._waiting.begin(first)
            self._carry_out(first)
        return first is not None


class ControllerHarness:
    """One server that leads, with a clock that the test moves; alone, unless the test has `others` report."""

    def __init__(self, boundary: Boundary | None = None) -> None:
        """`boundary`: one that refuses every write, unless it is given."""
        self.clock = SetClock()
        self.metrics = Metrics()
        self.store = Store(
            membership_settings=MembershipSettings(),
            clock=self.clock,
            failed=self.metrics.failed,
            readiness=FixedReadiness(),
            member_relists=CountedTrigger(),  # no list is ever taken here
        )
        self.client = boundary or Boundary()
        client = cast(Client, self.client)
        readiness = ClusterReadiness(ALL_KINDS, clock=self.clock.monotonic)
        self._watching = Informers(client=client, store=self.store, readiness=readiness, metrics=self.metrics)
        self._watching._node_totals.stop()  # no thread reads here, also where a queue has a quota
        self._watching.reflectors["pods"].applied = VERSION
        self.store.watch_progress.attach(LEASES, cast(WatchedKind, SimpleNamespace(applied=VERSION)))
        self._writers = [
            Inline(metrics=self.metrics, name=name, backoff=self.store.backoff)
            for name in ("writer", "guard", "drain", "leases", "status", "lister")
        ]
        self.others: dict[str, ReplicaReport] = {}
        replicas = SimpleNamespace(
            events=SimpleNamespace(listen=lambda _listener: None, certain_at=0.0),
            is_certain=True,
            is_due=False,
            unread=lambda _reading: (),
            list=lambda: SimpleNamespace(version=VERSION),
            read=lambda _listed, *, began: ReplicaReading(
                views=dict(self.others), version=VERSION, left=False, vanished=False, lost=[]
            ),
        )
        self.controller = QueueController(
            ControllerContext(
                store=self.store,
                client=client,
                api_servers=ApiServerEndpoints(
                    client,
                    connect=lambda _url: client,
                    clock=self.store.clock.monotonic,
                    urls=["https://127.0.0.1"],
                ),
                writers=self._writers[0],
                guard_writers=self._writers[1],
                status_writers=self._writers[4],
                drain_writers=self._writers[2],
                lease_readers=self._writers[3],
                pod_listers=self._writers[5],
                list_client=client,
                work_queue=WorkQueue(self.store.clock.monotonic, backoff=self.store.backoff),
                drain_rate=0.0,
                drain_in_flight=10,
                drain_grace_limit=60,
                recorder=EventRecorder(client=client, writers=self._writers[0], metrics=self.metrics),
                other_replicas=cast(OtherReplicas, replicas),
                leading=lambda: True,
                term=lambda: 1,
                namespace="sluice-system",
                metrics=self.metrics,
            )
        )

    def receive_events(self, *objects: Wire, event: str = "ADDED") -> None:
        """Receive each object as an event of the watch of its kind."""
        for obj in objects:
            kind = _WORKLOADS.get((obj["apiVersion"], obj["kind"])) or _KINDS[obj["kind"]]
            line = json.dumps({"type": event, "object": served(obj)}).encode()
            self._watching.reflectors[kind]._apply(line)

    def receive_list(self, kind: str, *objects: Wire) -> None:
        """Receive a list of the kind: these are all its objects."""
        path = self._watching.reflectors[kind].path
        self.client.readable[path] = {"metadata": {"resourceVersion": "9"}, "items": list(objects)}
        self._watching.reflectors[kind]._list()

    def sync(self, *, rounds: int = 5, seconds: float = 0.8) -> None:
        """Sync and send the writes, several times; nothing may be raised."""
        for _ in range(rounds):
            noted = self.controller._work_queue.get([0.0], at_once=True)
            self.controller._sync(noted)
            for writers in self._writers:
                writers.work()
            self.clock.seconds += seconds

    def failed(self) -> dict[str, float]:
        """How often each step failed."""
        return {
            sample.labels["step"]: sample.value
            for family in self.metrics.failures.collect()
            for sample in family.samples
            if sample.name.endswith("_total")
        }

    def bodies(self, path: str, method: str = "PATCH") -> list[Any]:
        """The bodies that were written to the path."""
        return [sent.body for sent in self.client.sent if (sent.method, sent.path) == (method, path)]

    def events(self, reason: str = "") -> Iterator[Mapping[str, Any]]:
        """The events that were recorded."""
        for sent in self.client.sent:
            if sent.path.endswith("/events") and reason in ("", sent.body["reason"]):
                yield sent.body


def served(obj: Wire) -> Wire:
    """With the default of a queue's definition, which is filled in on every read."""
    spec = obj.get("spec")
    if obj["kind"] != "Queue" or not isinstance(spec, dict | None):
        return obj
    policy = (spec or {}).get("stopPolicy")
    return {**obj, "spec": {**(spec or {}), "stopPolicy": "None" if policy is None else policy}}
