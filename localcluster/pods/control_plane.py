"""The control plane beside real nodes: that of `components`, with what pods and kubelets need of it.

| component               | differs in                                                                |
|-------------------------|---------------------------------------------------------------------------|
| kube-apiserver          | is on the bridge, is the endpoint of Service `kubernetes`, calls kubelets |
|                         | has service accounts, the Node authorizer and NodeRestriction on          |
| kube-controller-manager | a node without a heartbeat fails after the default time                   |
| kube-scheduler          | has our extender only once the server is installed                        |
| kwok                    | not started: it would play the real nodes too                             |
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime

from localcluster import components, credentials, processes
from localcluster.build import Say
from localcluster.components import Started, until_ready
from localcluster.layout import Layout
from localcluster.pods import sandbox
from localcluster.pods.layout import CONTROL_PLANE, NodeLayout
from localcluster.ports import Ports

COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
KUBELET_CLIENT = "apiserver-kubelet"
#: The value of each flag that differs; None: the default.
FlagChanges = Mapping[str, str | None]


def write_credentials(layout: Layout, ports: Ports, nodes: Sequence[NodeLayout], *, now: datetime) -> None:
    """Certificates and kubeconfigs of the control plane and of the nodes, which reach it by the bridge."""
    clients = {
        **{node.component("kubelet"): (f"system:node:{node.name}", ("system:nodes",)) for node in nodes},
        "kube-proxy": ("system:kube-proxy", ()),
    }
    kubelet_client = {KUBELET_CLIENT: ("kube-apiserver-kubelet", ("system:masters",))}
    addresses = (*credentials.SERVING_ADDRESSES, CONTROL_PLANE)
    identities = {**credentials.IDENTITIES, **clients, **kubelet_client}
    credentials.ensure_certificates(layout, now=now, identities=identities, addresses=addresses)
    credentials.write_kubeconfigs(layout)
    server = f"https://{CONTROL_PLANE}:{ports.apiserver}"
    credentials.write_kubeconfigs(layout, identities=clients, server=server)


def start(layout: Layout, ports: Ports, names: Sequence[str], *, say: Say) -> None:
    """Start those that do not run, and return once all of `names` are ready. Raises `StartFailed`."""
    started = {}
    for name in names:
        running = name in processes.leaders(layout.folder)
        sandbox.spawn(layout, command(layout, ports, name), component=name)
        started[name] = Started(time.monotonic(), new=not running)
    until_ready(layout, ports, started=started, say=say)


def restart(layout: Layout, ports: Ports, name: str, *, changes: FlagChanges, say: Say) -> None:
    """End a component as its kubelet does, and start it again with these flags. Returns once it is ready."""
    sandbox.terminate(layout, name)
    sandbox.spawn(layout, changed(command(layout, ports, name), changes), component=name)
    until_ready(layout, ports, started={name: Started(time.monotonic(), new=True)}, say=say)


def command(layout: Layout, ports: Ports, name: str) -> list[str]:
    changes = CHANGES[name](layout) if name in CHANGES else {}
    return changed(components.BY_NAME[name].command(layout, ports), changes)


def changed(command: Sequence[str], changes: FlagChanges) -> list[str]:
    """The command with these flags in place of those of the same name."""
    kept = [each for each in command if each.partition("=")[0].removeprefix("--") not in changes]
    return [*kept, *(f"--{name}={value}" for name, value in changes.items() if value is not None)]


def _apiserver_changes(layout: Layout) -> FlagChanges:
    return {
        "bind-address": "0.0.0.0",  # noqa: S104 - all addresses of the sandbox
        "advertise-address": CONTROL_PLANE,
        "endpoint-reconciler-type": None,
        "disable-admission-plugins": None,
        "enable-admission-plugins": "NodeRestriction",
        "authorization-mode": "Node,RBAC",
        "allow-privileged": "true",
        "kubelet-client-certificate": str(layout.pki / f"{KUBELET_CLIENT}.crt"),
        "kubelet-client-key": str(layout.pki / f"{KUBELET_CLIENT}.key"),
        "kubelet-preferred-address-types": "InternalIP",
    }


def _controller_manager_changes(_: Layout) -> FlagChanges:
    return {"node-monitor-grace-period": None}


CHANGES = {"kube-apiserver": _apiserver_changes, "kube-controller-manager": _controller_manager_changes}
