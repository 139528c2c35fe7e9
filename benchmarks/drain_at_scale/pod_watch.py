"""The load's pods as anybody sees them who watches: who runs, and whether a budget was overrun."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

import msgspec

from benchmarks.drain_at_scale.load import STAYS, Key
from localcluster import apiserver
from localcluster.cluster import LocalCluster
from localcluster.ports import LOOPBACK

PODS = "/api/v1/pods"
SELECTOR = "labelSelector=load"
#: How often it is looked whether what is waited for has come, and how often something is done meanwhile.
LOOK_SECONDS, DOING_SECONDS = 0.05, 0.5
PATIENCE = 1800.0


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    name: str
    namespace: str
    resource_version: str
    labels: dict[str, str] = {}
    deletion_timestamp: datetime | None = None


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""
    conditions: list[_Condition] | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec
    status: _Status

    @property
    def ready(self) -> bool:
        told = any(one.type == "Ready" and one.status == "True" for one in self.status.conditions or ())
        return told and self.metadata.deletion_timestamp is None


class _ListMetadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str


class _List(msgspec.Struct, frozen=True):
    metadata: _ListMetadata
    items: list[_Pod]


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: _Pod


_list = msgspec.json.Decoder(_List)
_event = msgspec.json.Decoder(_Event)


class PodWatch:
    """Sees every state that the API server stores of every pod of the load, in their order, in a thread.

    That thread ends with the process, or at the first trouble, which `wait` raises.

    `wanted`: by namespace and label `budget`, how many have to be ready.
    """

    def __init__(self, cluster: LocalCluster, *, wanted: Mapping[Key, int]) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._pods: dict[str, _Pod] = {}
        self._ready: Counter[Key] = Counter()
        self._lock = threading.Lock()
        #: Each time that a pod went and left its budget too few: by budget, how many were left.
        self.overruns: list[tuple[Key, int]] = []
        #: By name: pods of phase Failed.
        self.failed: set[str] = set()
        self.trouble: Exception | None = None
        with cluster.api() as api:
            found = _list.decode(api.request("GET", f"{PODS}?{SELECTOR}").body)
        for pod in found.items:
            self._note(pod, gone=False)
        self._thread = threading.Thread(
            target=self._run, args=[found.metadata.resource_version], name="pod-watch", daemon=True
        )
        self._thread.start()

    def running(self, *, stays: str | None = None) -> set[str]:
        """UIDs of the load's pods that are ready; `stays`: with that label, or with none (the empty one)."""
        with self._lock:
            return {
                uid
                for uid, pod in self._pods.items()
                if pod.ready
                and pod.metadata.labels["load"] == "drain"
                and (stays is None or pod.metadata.labels.get(STAYS, "") == stays)
            }

    def wait(self, what: str, holds: Callable[[], bool], *, doing: Callable[[], object]) -> float:
        """The time (monotonic) at which it held; meanwhile that is done now and then."""
        began = done = time.monotonic()
        while True:
            with self._lock:
                if holds():
                    return time.monotonic()
            if self.trouble is not None:
                raise self.trouble
            if time.monotonic() > began + PATIENCE:
                raise RuntimeError(f"waited {PATIENCE:.0f} s for {what}")
            if time.monotonic() > done + DOING_SECONDS:
                doing()
                done = time.monotonic()
            time.sleep(LOOK_SECONDS)

    def begin(self) -> None:
        """From here on it counts what went wrong: to delete a load overruns budgets too."""
        with self._lock:
            self.overruns.clear()
            self.failed.clear()

    def are_gone(self, uids: set[str]) -> bool:
        """To be asked in `wait`."""
        return self._pods.keys().isdisjoint(uids)

    def any_is_there(self) -> bool:
        """To be asked in `wait`."""
        return bool(self._pods)

    def number(self) -> int:
        """Of the load's pods that are ready; to be asked in `wait`."""
        return sum(1 for pod in self._pods.values() if pod.ready and pod.metadata.labels["load"] == "drain")

    def _run(self, version: str) -> None:
        try:
            while True:  # the API server ends a watch that it finds too slow
                for line in self._lines(version):
                    event = _event.decode(line)
                    version = event.object.metadata.resource_version
                    with self._lock:
                        self._note(event.object, gone=event.type == "DELETED")
        except Exception as exc:
            self.trouble = exc

    def _lines(self, version: str) -> Iterator[bytes]:
        context = apiserver.context(self._cluster.layout)
        port = self._cluster.ports.apiserver
        connection = http.client.HTTPSConnection(LOOPBACK, port, context=context, timeout=7200)
        path = f"{PODS}?watch=1&{SELECTOR}&resourceVersion={version}&timeoutSeconds=7200"
        connection.request("GET", path)
        with connection.getresponse() as response:
            if response.status != 200:
                raise RuntimeError(f"the pods cannot be watched: {response.status} {response.read()!r}")
            yield from iter(response.readline, b"")

    def _note(self, pod: _Pod, *, gone: bool) -> None:
        uid = pod.metadata.uid
        before = self._pods.pop(uid, None)
        if not gone:
            self._pods[uid] = pod
        if pod.status.phase == "Failed":
            self.failed.add(pod.metadata.name)
        was, now = before is not None and before.ready, not gone and pod.ready
        budget = pod.metadata.namespace, pod.metadata.labels.get("budget", "")
        self._ready[budget] += now - was
        if was and not now and self._ready[budget] < self._wanted.get(budget, 0):
            self.overruns.append((budget, self._ready[budget]))
