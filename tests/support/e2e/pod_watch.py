"""Every state of the objects of one kind in a namespace that the API server has stored, in its order."""

from __future__ import annotations

import http.client
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from localcluster import apiserver
from localcluster.cluster import LocalCluster
from localcluster.ports import LOOPBACK
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import OWN_GATE, podgroup_body

#: The object whose coming ends the watch: all that happened before it was seen by then.
END = "end-of-the-watch"


class ObjectWatch(ABC):
    """Begins with what there is."""

    #: The object whose coming ends the watch.
    marker: ClassVar[Object]

    def __init__(self, cluster: LocalCluster, pods_path: str) -> None:
        self._cluster = cluster
        self._path = pods_path
        self._ended = False
        self._trouble: BaseException | None = None
        with self._cluster.api() as api:
            found = api.request("GET", self._path).json()
        self._version = found["metadata"]["resourceVersion"]
        for obj in found["items"]:
            self.note(obj, gone=False)
        self._thread = threading.Thread(target=self._run, name="object-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @abstractmethod
    def note(self, obj: Object, /, *, gone: bool) -> None:
        """One state of an object, or its last one."""

    def end(self) -> None:
        """Returns when all that has happened was seen; raises what went wrong with watching."""
        with self._cluster.api() as api:
            assert api.request("POST", self._path, self.marker).status == 201
        self._thread.join(timeout=60)
        assert not self._thread.is_alive()
        if self._trouble is not None:
            raise self._trouble

    def _run(self) -> None:
        try:
            while not self._ended:  # the API server ends a watch that it finds too slow
                for event in self._events():
                    self._hear(event)
                    if self._ended:
                        break
        except BaseException as exc:
            self._trouble = exc

    def _hear(self, event: Object) -> None:
        assert event["type"] != "ERROR", event
        obj = event["object"]
        self._version = obj["metadata"]["resourceVersion"]
        self._ended = obj["metadata"]["name"] == END
        self.note(obj, gone=event["type"] == "DELETED")

    def _events(self) -> Iterator[Object]:
        context = apiserver.context(self._cluster.layout)
        port = self._cluster.ports.apiserver
        connection = http.client.HTTPSConnection(LOOPBACK, port, context=context, timeout=600)
        try:
            connection.request(
                "GET", f"{self._path}?watch=1&resourceVersion={self._version}&timeoutSeconds=600"
            )
            with connection.getresponse() as response:
                yield from (json.loads(line) for line in iter(response.readline, b""))
        finally:
            connection.close()


class PodWatch(ObjectWatch):
    marker: ClassVar[Object] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": END},
        "spec": {
            "containers": [{"name": "work", "image": "none"}],
            "schedulingGates": [{"name": OWN_GATE}],
        },
    }


class _RemovesMarker(ObjectWatch):
    def end(self) -> None:
        super().end()
        with self._cluster.api() as api:
            api.request("DELETE", f"{self._path}/{END}")


class ConfigMapWatch(_RemovesMarker):
    marker: ClassVar[Object] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": END}}


class PodGroupWatch(_RemovesMarker):
    marker: ClassVar[Object] = podgroup_body(END, "")
