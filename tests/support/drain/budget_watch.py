"""What disruption budgets were promised, watched from outside: never fewer ready pods than they want."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Mapping

from localcluster import apiserver
from localcluster.cluster import LocalCluster
from localcluster.ports import LOOPBACK
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import OWN_GATE

#: The pod whose coming ends the watch: all that happened before it was seen by then.
END = "end-of-the-watch"


class BudgetWatch:
    """Sees every state of every pod of a namespace that the API server has stored, in its order.

    `wanted`: by value of label `app`, how many have to be ready; whoever is on its way is not.
    """

    def __init__(self, cluster: LocalCluster, pods_path: str, *, wanted: Mapping[str, int]) -> None:
        self._cluster = cluster
        self._path = pods_path
        self._wanted = wanted
        self._ready: dict[str, str] = {}
        #: Each time that a pod went and left too few: its name, and how many were left.
        self.overruns: list[tuple[str, int]] = []
        #: The least that were ready from the beginning on.
        self.least: dict[str, int] = {}
        self.failed_pods: set[str] = set()
        self._ended = False
        self._trouble: BaseException | None = None
        self._begin()
        self._thread = threading.Thread(target=self._run, name="budget-watch", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Returns when all that has happened was seen; raises what went wrong with watching."""
        container = {"name": "work", "image": "none"}
        spec = {"containers": [container], "schedulingGates": [{"name": OWN_GATE}]}
        with self._cluster.api() as api:
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": END}, "spec": spec}
            assert api.request("POST", self._path, body).status == 201
        self._thread.join(timeout=60)
        assert not self._thread.is_alive()
        if self._trouble is not None:
            raise self._trouble

    def _begin(self) -> None:
        with self._cluster.api() as api:
            found = api.request("GET", self._path).json()
        self._version = found["metadata"]["resourceVersion"]
        for pod in found["items"]:
            self._note(pod, gone=False)
        self.least = {app: self._number(app) for app in self._wanted}

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
        pod = event["object"]
        self._version = pod["metadata"]["resourceVersion"]
        self._ended = pod["metadata"]["name"] == END
        self._note(pod, gone=event["type"] == "DELETED")

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

    def _note(self, pod: Object, *, gone: bool) -> None:
        meta = pod["metadata"]
        app = meta.get("labels", {}).get("app", "")
        if pod["status"].get("phase") == "Failed":
            self.failed_pods.add(meta["name"])
        if not gone and "deletionTimestamp" not in meta and is_ready(pod):
            self._ready[meta["uid"]] = app
        elif self._ready.pop(meta["uid"], "") in self._wanted:
            left = self._number(app)
            self.least[app] = min(self.least[app], left)
            if left < self._wanted[app]:
                self.overruns.append((meta["name"], left))

    def _number(self, app: str) -> int:
        return sum(1 for each in self._ready.values() if each == app)


def is_ready(pod: Object) -> bool:
    """Whether its Ready condition is True."""
    held = pod["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in held)
