"""Several replicas of the server behind one address, each with its own way to the API server."""

from __future__ import annotations

import signal
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from localcluster import apiserver, manifests, processes
from localcluster.cluster import LocalCluster
from localcluster.components import BY_NAME, NAMESPACE
from localcluster.lifecycle import STOP_SECONDS
from localcluster.ports import LOOPBACK, spare_port
from tests.support.e2e.api_requests import Api
from tests.support.e2e.wait import until
from tests.support.faults.forwarding import Forwarder
from tests.support.faults.intercepting import Interceptor

LEADER_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/sluice-controller"


class Fleet:
    """Replicas of a cluster; they take the place of its server."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        self._ports: dict[str, int] = {}
        #: The way of each replica to the API server.
        self.ways: dict[str, Forwarder] = {}
        self.interceptors: dict[str, Interceptor] = {}
        cluster.stop_components("server")
        register_by_address(cluster)
        self._front = Forwarder([], port=cluster.ports.server)

    def close(self) -> None:
        """The port of the cluster's own server is free afterwards, whatever else cannot be closed."""
        with ExitStack() as closing:
            for interceptor in self.interceptors.values():
                closing.callback(interceptor.close)
            for way in (*self.ways.values(), self._front):
                closing.callback(way.close)
            processes.stop(self._cluster.layout.folder, components=list(self._ports))

    def join(
        self, name: str, *, intercepted: bool = False, prefix: Sequence[str] = (), flags: Sequence[str] = ()
    ) -> None:
        """Start one more; returns once it is ready, and gets its share of new connections from then on.

        The first one leads by then. `intercepted`: its requests to the API server can be kept one by one.
        `prefix`: the command that starts it, such as `env`. `flags`: more flags, which come last and count.
        """
        is_first = not self._ports
        url = self._intercepted(name) if intercepted else self._forwarded(name)
        self.start(name, url=url, prefix=prefix, flags=flags)
        self.wait_until_ready(name)
        if is_first:
            until(self.leader, f"{name} to lead")
        self.share()
        if is_first:
            layout, ports = self._cluster.layout, self._cluster.ports
            until(lambda: manifests.are_called(layout, ports), "the webhooks to be called")

    def _forwarded(self, name: str) -> str:
        if name not in self.ways:
            self.ways[name] = Forwarder([self._cluster.ports.apiserver])
        return f"https://{LOOPBACK}:{self.ways[name].port}"

    def _intercepted(self, name: str) -> str:
        if name not in self.interceptors:
            self.interceptors[name] = Interceptor(self._cluster)
        return self.interceptors[name].url

    def start(self, name: str, *, url: str, prefix: Sequence[str] = (), flags: Sequence[str] = ()) -> None:
        """Start one that reaches the API server there."""
        cluster = self._cluster
        kubeconfig = self._folder / f"{name}.kubeconfig"
        text = cluster.layout.component_kubeconfig("server").read_text()
        kubeconfig.write_text(text.replace(cluster.ports.apiserver_url, url))
        self._ports[name] = spare_port(cluster.layout.ports)
        ports = replace(cluster.ports, server=self._ports[name], health=spare_port(cluster.layout.ports))
        command = [
            f"--kubeconfig={kubeconfig}" if part.startswith("--kubeconfig=") else part
            for part in BY_NAME["server"].command(cluster.layout, ports)
        ]
        log = cluster.layout.log(name)
        processes.spawn([*prefix, *command, *flags], folder=cluster.layout.folder, component=name, log=log)

    def wait_until_ready(self, name: str) -> None:
        until(lambda: self._ready(name), f"{name} to be ready")

    def leader(self) -> str:
        """The identity of the replica whose controller leads; "" while none does."""
        with Api(self._cluster) as api:
            answer = api.get(LEADER_LEASE)
        return str(answer.body["spec"].get("holderIdentity", "")) if answer.status == 200 else ""

    def heal(self, name: str) -> None:
        """Give it back its way to the API server; returns once it is ready again."""
        self.ways[name].heal()
        until(lambda: self._ready(name), f"{name} to be ready again")

    def kill(self, name: str) -> None:
        """As a crash does; the front soon finds its port closed. Returns once it is dead."""
        folder = self._cluster.layout.folder
        processes.kill(folder, name, number=signal.SIGKILL)
        until(lambda: name not in processes.leaders(folder), f"{name} to be dead")
        self._ports.pop(name)
        self.share()

    def pause(self, name: str) -> None:
        """It does nothing any more (SIGSTOP), and loses whatever Lease it has."""
        processes.kill(self._cluster.layout.folder, name, number=signal.SIGSTOP)

    def go_on(self, name: str) -> None:
        processes.kill(self._cluster.layout.folder, name, number=signal.SIGCONT)

    def leave(self, name: str) -> None:
        """As in a roll-out: no new connections, then SIGTERM; returns once it is gone."""
        self._ports.pop(name)
        self.share()
        processes.stop(self._cluster.layout.folder, components=[name], grace=STOP_SECONDS)

    def connect_to(self, name: str) -> None:
        """New connections go to this one."""
        self._front.set_targets([self._ports[name]])

    def only(self, name: str, *, answers: bool = True) -> None:
        """All that is asked goes to this one from now on, on new connections. `answers`: whether it does.

        The API server may write once more to a connection that was cut, and what it asks for fails then: that
        is to be a question of ours.
        """
        self.connect_to(name)
        self._cut()
        if answers:
            layout, ports = self._cluster.layout, self._cluster.ports
            until(lambda: manifests.are_called(layout, ports), "the webhooks to be called on new connections")

    def reconnect(self) -> None:
        """All that is asked goes on new connections from now on, to all in turns."""
        self.share()
        self._cut()

    def _cut(self) -> None:
        self._front.cut()
        self._front.heal()

    def port(self, name: str) -> int:
        """On which this replica listens."""
        return self._ports[name]

    @property
    def server_ports(self) -> list[int]:
        """On which the replicas listen."""
        return list(self._ports.values())

    def share(self) -> None:
        """New connections go to all of them in turns."""
        self._front.set_targets(list(self._ports.values()))

    def _ready(self, name: str) -> bool:
        context = apiserver.caller_context(self._cluster.layout)
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        try:
            with opener.open(f"https://127.0.0.1:{self._ports[name]}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError:
            return False


def register_by_address(cluster: LocalCluster) -> None:
    """Have the webhooks called over HTTP/1.1, whose connections are many and come to every replica.

    Over HTTP/2 one API server keeps one connection, and so asks one replica; a cluster of several API servers
    asks several.
    """
    layout, ports = cluster.layout, cluster.ports
    localised = manifests.localised(manifests.rendered(layout), server_url=ports.server_url, webhooks=True)
    manifests.apply(layout, ports, [each for each in localised if each["kind"] in manifests.WEBHOOKS])
