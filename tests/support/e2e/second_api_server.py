"""A second kube-apiserver on the cluster's etcd, whose view of namespaces a test can hold back."""

from __future__ import annotations

from dataclasses import replace

from localcluster import apiserver, processes
from localcluster.cluster import LocalCluster
from localcluster.components import BY_NAME
from localcluster.ports import LOOPBACK, spare_port
from tests.support.e2e.api_requests import Object
from tests.support.e2e.wait import until
from tests.support.faults.forwarding import Forwarder

NAME = "kube-apiserver-2"


class SecondApiServer:
    """It listens on a port of its own, and reads namespaces from etcd through a `Forwarder`."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._way = Forwarder([cluster.ports.etcd])
        self.port = spare_port(cluster.layout.ports)
        self._context = apiserver.context(cluster.layout)
        self.start()

    @property
    def url(self) -> str:
        return f"https://{LOOPBACK}:{self.port}"

    def start(self) -> None:
        """Returns once it is ready."""
        layout = self._cluster.layout
        ports = replace(self._cluster.ports, apiserver=self.port)
        audit = f"--audit-log-path={layout.log('audit-2')}"
        command = [
            audit if part.startswith("--audit-log-path=") else part
            for part in BY_NAME["kube-apiserver"].command(layout, ports)
        ]
        command.append(f"--etcd-servers-overrides=/namespaces#http://{LOOPBACK}:{self._way.port}")
        processes.spawn(command, folder=layout.folder, component=NAME, log=layout.log(NAME))

        def is_ready() -> bool:
            return apiserver.readiness_problem(self.port, "/readyz", context=self._context) is None

        until(is_ready, "the second API server to be ready")

    def stop(self) -> None:
        processes.stop(self._cluster.layout.folder, components=[NAME])

    def hold_namespaces_back(self) -> None:
        """It hears of no change of a namespace until `let_namespaces_through`."""
        self._way.hold_back()

    def let_namespaces_through(self) -> None:
        self._way.let_through()

    def create(self, path: str, body: Object) -> tuple[int, str]:
        """The status of the answer, and its message."""
        with apiserver.Https(port=self.port, context=self._context, timeout=30) as client:
            reply = client.request("POST", path, body)
        return reply.status, str(reply.json().get("message", ""))

    def close(self) -> None:
        self._way.let_through()
        self.stop()
        self._way.close()
