"""The files and addresses of a cluster with real nodes: values only, nothing is read or written here.

| what           | address                                                                           |
|----------------|-----------------------------------------------------------------------------------|
| node 0         | 192.168.77.1, the address of the bridge; the control plane runs here too          |
| node 1, 2, …   | 192.168.77.2, … in a network namespace of its own, with a veth pair to the bridge |
| pods of node n | 10.64.n+1.0/24, by the bridge plugin of CNI                                       |
| Services       | `components.SERVICE_ADDRESSES`, by kube-proxy                                     |

All of them are inside the sandbox: another cluster with the same addresses, or the machine's network, never
meets them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from localcluster.layout import Layout

CONTROL_PLANE = "192.168.77.1"
POD_RANGE = "10.64.0.0/16"
#: Where the sandbox has the folder of the nodes.
INSIDE = Path("/run/nodes")
#: Of containerd, in the folder of its node.
SOCKET = "state/containerd.sock"
#: One octet numbers the nodes; a machine has room for a few.
MOST_NODES = 9


@dataclass(frozen=True)
class NodeLayout:
    """One node: its number, its addresses, its folder."""

    cluster: Layout
    number: int

    @property
    def name(self) -> str:
        return f"node-{self.number}"

    @property
    def address(self) -> str:
        return f"192.168.77.{self.number + 1}"

    @property
    def pod_range(self) -> str:
        return f"10.64.{self.number + 1}.0/24"

    @property
    def network_namespace(self) -> Path | None:
        """None for the first node, which is in the network namespace of the sandbox."""
        return Path("/run/netns") / self.name if self.number else None

    @property
    def cgroup(self) -> str:
        """Below the root of each hierarchy; no other cluster on this machine has it."""
        digest = hashlib.sha256(str(self.cluster.folder).encode()).hexdigest()[:8]
        return f"sluice-{digest}-{self.name}"

    @property
    def folder(self) -> Path:
        return nodes_folder(self.cluster) / self.name

    @property
    def inside(self) -> Path:
        """The same folder as the sandbox has it: the path of a socket has 107 characters at most."""
        return INSIDE / self.name

    @property
    def containerd_socket(self) -> Path:
        return self.inside / SOCKET

    def component(self, program: str) -> str:
        """The name of that program of this node among the cluster's processes, and of its log."""
        return f"{program}-{self.name}"


def nodes_of(cluster: Layout, count: int) -> tuple[NodeLayout, ...]:
    return tuple(NodeLayout(cluster, number) for number in range(count))


def perishable(cluster: Layout) -> tuple[Path, ...]:
    """What `make pods-down` removes: everything except the logs."""
    return (*cluster.perishable, nodes_folder(cluster), ready_file(cluster), resolv_conf(cluster))


def nodes_folder(cluster: Layout) -> Path:
    return cluster.folder / "nodes"


def ready_file(cluster: Layout) -> Path:
    """Written by the first process of the sandbox once its mounts and its network are there."""
    return cluster.folder / "sandbox.ready"


def resolv_conf(cluster: Layout) -> Path:
    """Empty: there is no DNS in the sandbox."""
    return cluster.folder / "resolv.conf"
