"""A pod of no use, made and deleted at once, so that the watch of pods has something to say.

It is in our own namespace, of no scheduler, with a gate, and asks for nothing: nobody does anything about it.
All replicas use one name. Whoever finds it there deletes it; either way an event of the kind comes that is
younger than the call.
"""

from __future__ import annotations

import contextlib
from typing import Any

from cluster.api.client import Client
from cluster.exceptions import Conflict, NotFound

MARKER_POD = "sluice-watch-marker"
#: A scheduler that nobody runs.
MARKER_SCHEDULER = "sluice-none"


class MarkerPods:
    """Call it to have an event of a pod. Raises `cluster.exceptions.ClusterError`."""

    def __init__(self, client: Client, *, namespace: str) -> None:
        self._client = client
        self._path = f"/api/v1/namespaces/{namespace}/pods"

    def __call__(self) -> None:
        with contextlib.suppress(Conflict):
            self._client.create(self._path, _BODY)
        with contextlib.suppress(NotFound):
            self._client.delete(f"{self._path}/{MARKER_POD}", {"gracePeriodSeconds": 0})


def idle_pod(name: str, **spec: Any) -> dict[str, Any]:
    """A pod that runs nothing, as the strictest Pod Security Standard takes it, with `spec` added."""
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
