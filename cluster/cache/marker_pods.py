"""Causes events on a watch that may be quiet, so that it shows that it is up to date (`watch_progress`).

- `MarkerPods` creates a pod and deletes it.
- `MarkerAnnotation` changes an annotation of our own namespace.

The pod is in our own namespace, has a scheduler that does not exist and a scheduling gate, and requests
nothing, so no component acts on it. All replicas use one name. A replica that meets the pod of another one
deletes it; in both cases an event newer than the call follows. The pod has the label by which members are
watched; it is in an exempt namespace, so it is no member. Nothing reads the annotation.
"""

from __future__ import annotations

import contextlib
import secrets
from typing import Any

import msgspec

from cluster.api.client import Client, decode_response
from cluster.exceptions import Conflict, NotFound
from cluster.objects import PartialObjectMetadata
from queues import well_known

MARKER_POD = "sluice-watch-marker"
#: A scheduler that does not exist.
MARKER_SCHEDULER = "sluice-none"

_created = msgspec.json.Decoder(PartialObjectMetadata)


class MarkerPods:
    """Call it to cause a pod event. Each method raises `cluster.exceptions.ClusterError`."""

    def __init__(self, client: Client, *, namespace: str) -> None:
        self._client = client
        self._path = f"/api/v1/namespaces/{namespace}/pods"

    def __call__(self) -> None:
        self.begin()
        with contextlib.suppress(NotFound):
            self._delete()

    def begin(self) -> int:
        """Create the pod and leave it there; return its version, or 0 if another replica's was there."""
        try:
            created = self._client.create(self._path, _BODY)
        except Conflict:
            return 0
        return decode_response(created, _created).metadata.version

    def end(self) -> None:
        """Delete the pod of `begin`, which causes another event."""
        try:
            self._delete()
        except NotFound:  # another replica has deleted it before this call
            self()

    def _delete(self) -> None:
        self._client.delete(f"{self._path}/{MARKER_POD}", {"gracePeriodSeconds": 0})


class MarkerAnnotation:
    """Call it to cause an event of a namespace. Raises `cluster.exceptions.ClusterError`."""

    def __init__(self, client: Client, *, namespace: str) -> None:
        self._client = client
        self._path = f"/api/v1/namespaces/{namespace}"

    def __call__(self) -> None:
        """Give the annotation another value: a patch that changes nothing causes no event."""
        annotations = {well_known.WATCH_MARKER: secrets.token_hex(4)}
        self._client.patch(self._path, {"metadata": {"annotations": annotations}})


def idle_pod(name: str, **spec: Any) -> dict[str, Any]:
    """A pod that runs nothing and passes the strictest Pod Security Standard, with `spec` added."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "sluice"}},
        "spec": {
            **spec,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "none",
                    "image": "none",
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }


_BODY = idle_pod(MARKER_POD, schedulerName=MARKER_SCHEDULER, schedulingGates=[{"name": "sluice.dev/marker"}])
_BODY["metadata"]["labels"][well_known.QUEUE] = ""
