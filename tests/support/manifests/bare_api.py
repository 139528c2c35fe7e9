"""Requests to a real API server as whoever a test wants to be."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from localcluster import apiserver
from localcluster.cluster import LocalCluster
from localcluster.ports import LOOPBACK

SERVER = "system:serviceaccount:sluice-system:sluice"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"


#: Seconds; less than the API server keeps a connection that nobody uses.
IDLE = 20.0


class Reply(NamedTuple):
    status: int
    body: dict[str, Any]

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


class Api:
    """One connection, the administrator's; `user` impersonates. For one thread."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._connection = http.client.HTTPSConnection(
            LOOPBACK, cluster.ports.apiserver, context=apiserver.context(cluster.layout), timeout=60
        )
        self._used = time.monotonic()

    def close(self) -> None:
        self._connection.close()

    def get(self, path: str, *, accept: str = "application/json") -> Reply:
        return self._send("GET", path, None, {"Accept": accept})

    def create(self, path: str, body: object, *, user: str | None = None, dry: bool = False) -> Reply:
        return self._send("POST", _dry(path, dry), body, {"Content-Type": "application/json", **_as(user)})

    def patch(self, path: str, body: object, *, user: str | None = None, dry: bool = False) -> Reply:
        kind = {"Content-Type": "application/merge-patch+json"}
        return self._send("PATCH", _dry(path, dry), body, {**kind, **_as(user)})

    def delete(self, path: str, *, user: str | None = None, dry: bool = False) -> Reply:
        return self._send("DELETE", _dry(path, dry), None, _as(user))

    def apply(self, path: str, body: object, *, user: str | None = None, dry: bool = False) -> Reply:
        kind = {"Content-Type": "application/apply-patch+yaml", **_as(user)}
        query = "fieldManager=tests&force=true" + ("&dryRun=All" if dry else "")
        return self._send("PATCH", f"{path}?{query}", body, kind)

    def may(self, user: str, verb: str, resource: str, **where: str) -> bool:
        """Whether the user has that right; `resource` is `group/resource`, with a `:subresource`."""
        group, _, name = resource.rpartition("/")
        name, _, subresource = name.partition(":")
        attributes = {"verb": verb, "group": group, "resource": name, "subresource": subresource, **where}
        review = {"spec": {"user": user, "resourceAttributes": attributes}}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(self.create(path, {"kind": "SubjectAccessReview", **review}).body["status"]["allowed"])

    def _send(self, method: str, path: str, body: object, headers: dict[str, str]) -> Reply:
        payload = None if body is None else json.dumps(body).encode()
        if time.monotonic() - self._used > IDLE:
            self._connection.close()  # the API server may have closed it already; the next request dials
        self._used = time.monotonic()
        self._connection.request(method, path, body=payload, headers=headers)
        response = self._connection.getresponse()
        said = response.read()
        plain = (response.getheader("Content-Type") or "").startswith("text/")  # a path that is not served
        return Reply(response.status, {"message": said.decode()} if plain else json.loads(said))


def _as(user: str | None) -> dict[str, str]:
    return {} if user is None else {"Impersonate-User": user}


def _dry(path: str, dry: bool) -> str:
    return f"{path}?dryRun=All" if dry else path


def pods(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/pods" + (f"/{name}" if name else "")


def commands(namespace: str, name: str = "") -> str:
    base = f"/apis/bus.volcano.sh/v1alpha1/namespaces/{namespace}/commands"
    return base + (f"/{name}" if name else "")


def namespaces(name: str = "") -> str:
    return "/api/v1/namespaces" + (f"/{name}" if name else "")


def queue(name: str, **spec: object) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def pod(
    name: str = "work",
    *,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    requests: dict[str, str] | None = None,
    gates: Sequence[str] = (),
    **spec: object,
) -> dict[str, Any]:
    container = {"name": "work", "image": "none", "resources": {"limits": requests or {}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}, "labels": labels or {}},
        "spec": {
            "containers": [container],
            "schedulingGates": [{"name": gate} for gate in gates],
            **spec,
        },
    }


def command(name: str, target: str, *, kind: str = "Queue", action: str = "SuspendQueue") -> dict[str, Any]:
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": name},
        "action": action,
        "target": {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": kind, "name": target, "uid": "1"},
    }


def binding(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"kind": "Node", "name": "none"},
    }


def eventually(holds: Callable[[], bool], *, within: float = 60) -> None:
    """Return once it holds; fail when it does not in time."""
    end = time.monotonic() + within
    while not holds():
        assert time.monotonic() < end, "did not come true in time"
        time.sleep(0.05)
