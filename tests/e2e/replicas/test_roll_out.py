"""Replicas of different versions: what an older one does not say is not known, and a parked pod rests though
they word its refusal differently."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from localcluster import apiserver
from localcluster.cluster import LocalCluster
from localcluster.components import NAMESPACE
from tests.support.e2e.api_requests import (
    Api,
    Object,
    metric,
)
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.objects import is_stopped, waits_for
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled
from tests.support.faults.faulty_proxy import Closing, FaultyProxy

pytestmark = pytest.mark.long

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
OLD = "older"
LEASE_SECONDS = 6
#: Up to which version it knows the queues: any.
ALL = 10**15
RENEW_SECONDS = 1.0

#: Changes one word of each refusal, in the replica whose PYTHONPATH has it.
OTHER_WORDING = """\
import queues.messages

pod_text = queues.messages.pod_text
queues.messages.pod_text = lambda cause: pod_text(cause).replace(" is ", " was ", 1)
"""

#: Several times the longest back-off of the scheduler, which the test sets to a second.
REST_SECONDS = 8.0


@pytest.fixture
def fleet(module_cluster: LocalCluster, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(module_cluster, tmp_path)
    try:
        yield made
    finally:
        made.close()


#: All that a replica says that knows no change windows.
COMPLETE = {"seen": ALL, "open": [], "admitting": [], "pods": ALL, "passes": [], "binds": []}
FREEZE = {"name": "freeze", "from": "2020-01-01T00:00Z", "until": "2100-01-01T00:00Z", "stopPolicy": "Hold"}


@pytest.mark.parametrize(
    ("says", "missing", "stop"),
    [
        (
            {"seen": ALL, "open": [], "admitting": [], "placing": []},
            "says nothing of its pods",
            {"state": "Suspended"},
        ),
        (
            {"seen": ALL, "admitting": [], "pods": ALL},
            "does not say what it let through",
            {"state": "Suspended"},
        ),
        (COMPLETE, "is of a version that does not know change windows", {"windows": [FREEZE]}),
    ],
    ids=["pods", "open", "windows"],
)
def test_what_an_older_replica_does_not_say_keeps_a_stop_waiting(
    own_sandbox: Sandbox, fleet: Fleet, says: dict[str, Any], missing: str, stop: dict[str, Any]
) -> None:
    """While its Lease is renewed; not any more once it is gone."""
    fleet.join("server-1")
    queue = own_sandbox.queue()
    with older_replica(own_sandbox.cluster, says):
        own_sandbox.patch_queue(queue, **stop).must()
        waiting = own_sandbox.queue_that(
            queue,
            f"be stopped, or wait for what replica {OLD} does not say",
            lambda found: is_stopped(found) or f"replica {OLD} {missing}" in waits_for(found),
        )
        assert not is_stopped(waiting)
    own_sandbox.answered(queue)
    assert is_stopped(own_sandbox.read_queue(queue))


def test_two_wordings_let_a_parked_pod_rest(own_sandbox: Sandbox, fleet: Fleet, tmp_path: Path) -> None:
    """kube-scheduler asks them in turns, and tries a pod again whenever its refusal reads otherwise."""
    cluster = own_sandbox.cluster
    (tmp_path / "sitecustomize.py").write_text(OTHER_WORDING)
    fleet.join("server-1")
    fleet.join("server-2", prefix=("/usr/bin/env", f"PYTHONPATH={tmp_path}"))
    front = Turns(fleet.server_ports, cluster)

    def in_turns(configuration: Object) -> None:
        configuration["podMaxBackoffSeconds"] = 1
        for extender in configuration["extenders"]:
            extender["urlPrefix"] = extender["urlPrefix"].replace(cluster.ports.server_url, front.url)
            extender["enableHTTPS"] = False
            extender.pop("tlsConfig")

    cluster.configure_scheduler(in_turns)
    try:
        queue = own_sandbox.queue()
        own_sandbox.pods("member", 1, queue, gated=True)
        own_sandbox.suspend(queue)
        own_sandbox.ungate(["member-0"])
        own_sandbox.reason_on("member-0", queue)
        assert settled(lambda: calls(fleet, cluster), "the calls for the pods", seconds=REST_SECONDS) > 0
    finally:
        cluster.configure_scheduler()
        front.close()


class Turns(FaultyProxy):
    """Hands one request to the first of several servers, the next one to the second, and so on."""

    def __init__(self, ports: Iterable[int], cluster: LocalCluster) -> None:
        self._ports = cycle(ports)
        super().__init__(0, apiserver.caller_context(cluster.layout))
        self.order(Closing(), times=sys.maxsize)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._upstream = next(self._ports)
        await super()._serve(reader, writer)


def calls(fleet: Fleet, cluster: LocalCluster) -> float:
    """How many filter calls all replicas have answered."""
    context = apiserver.caller_context(cluster.layout)
    pattern = r'sluice_requests_total{[^}]*path="/extender/filter"[^}]*}'
    return sum(metric(port, context, pattern) for port in fleet.server_ports)


@contextmanager
def older_replica(cluster: LocalCluster, says: dict[str, Any]) -> Iterator[None]:
    """The Lease of a replica that lives and says just that; nobody renews it afterwards."""
    path, ended = f"{LEASES}/sluice-replica-{OLD}", threading.Event()
    body = _lease(says)
    with Api(cluster) as api:
        api.delete(path).must(200, 404)
        api.create(LEASES, body).must(201)

    def renew() -> None:
        with Api(cluster) as api:
            while not ended.wait(RENEW_SECONDS):
                api.patch(path, {"spec": {"renewTime": _now()}}).must()

    thread = threading.Thread(target=renew, name="older-replica")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _lease(says: dict[str, Any]) -> Object:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": f"sluice-replica-{OLD}",
            "labels": {"sluice.dev/replica": "true"},
            "annotations": {"sluice.dev/seen": json.dumps(says)},
        },
        "spec": {"holderIdentity": OLD, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": _now()},
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
