"""A client that does nothing but watch: what it hears, and when."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.objects import Object
from localcluster import apiserver
from localcluster.cluster import LocalCluster
from localcluster.ports import LOOPBACK

PATIENCE = 120.0


@contextmanager
def watched(cluster: LocalCluster, path: str, *, since: str, name: str = "") -> Iterator[Iterator[Object]]:
    """Each state of the objects at `path`, or of the one of that name, that has been stored since."""
    connection = http.client.HTTPSConnection(
        LOOPBACK, cluster.ports.apiserver, context=apiserver.context(cluster.layout), timeout=PATIENCE
    )
    selector = f"&fieldSelector=metadata.name={name}" if name else ""
    try:
        connection.request("GET", f"{path}?watch=1&resourceVersion={since}{selector}")
        with connection.getresponse() as response:
            yield (_object(line) for line in iter(response.readline, b""))
    finally:
        connection.close()


def _object(line: bytes) -> Object:
    event = json.loads(line)
    if event["type"] == "ERROR":
        raise RuntimeError(f"the watch ended: {event['object']}")
    read: Object = event["object"]
    return read
