"""What is done to a cluster with real nodes: by the kernel's means, and by a proxy in front of etcd."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from localcluster.cluster import LocalCluster
from localcluster.components import NAMESPACE
from localcluster.pods import binaries, control_plane, installation, sandbox
from localcluster.pods.layout import MOST_NODES, NodeLayout, nodes_of
from localcluster.ports import LOOPBACK, spare_port
from tests.support.pods import slow_link

SLOW_LINK = "slow-link"
#: Nothing from or to the network: it is black, and not closed. ARP goes on, as beyond a router.
CUT = """\
table inet cut {
  chain in { type filter hook prerouting priority -500; iifname "eth0" drop; }
  chain out { type filter hook postrouting priority 500; oifname "eth0" drop; }
}
"""


def kill_containers(pod: dict[str, Any]) -> None:
    """SIGKILL for every process of its containers, as when they have no memory left."""
    statuses = pod["status"]["containerStatuses"]
    containers = [each["containerID"].removeprefix("containerd://") for each in statuses]
    killed = [pid for pid in _pids() if any(each in _cgroups(pid) for each in containers)]
    assert len(killed) >= len(containers), f"processes {killed} of containers {containers}"
    for pid in killed:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def service_targets(cluster: LocalCluster) -> set[str]:
    """The addresses to which kube-proxy's rules on the node of the control plane send the server's callers.

    It hears of a change of the Service's addresses later than the API server.
    """
    [first] = nodes_of(cluster.layout, 1)
    table = _nft(cluster, first, "list table ip kube-proxy\n")
    chains = re.findall(
        rf"chain service-\S+-{NAMESPACE}/{installation.NAME}/\S+ {{(.*?)\n\t}}", table, re.DOTALL
    )
    targets = (line for chain in chains for line in chain.splitlines() if "dnat" in line)
    return {address for line in targets for address in re.findall(r"\d+\.\d+\.\d+\.\d+", line)}


@contextmanager
def cut_off(cluster: LocalCluster, name: str) -> Iterator[None]:
    """This node, which is not the first one, reaches nobody and is reached by nobody. Its pods go on."""
    node = next(each for each in nodes_of(cluster.layout, MOST_NODES) if each.name == name)
    assert node.network_namespace is not None, "the control plane is on this node"
    _nft(cluster, node, CUT)
    try:
        yield
    finally:
        _nft(cluster, node, "delete table inet cut\n")


class SlowEtcd:
    """A long way between kube-apiserver and etcd; as short as it was until `delay` is called."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._layout = cluster.layout
        self._file = cluster.layout.folder / "slow-link.seconds"
        self.port = spare_port(cluster.layout.ports)
        self.delay(0)
        ports = [str(self.port), str(cluster.ports.etcd)]
        command = [sys.executable, "-I", str(slow_link.__file__), *ports, str(self._file)]
        sandbox.spawn(self._layout, command, component=SLOW_LINK)

    def delay(self, seconds: float) -> None:
        """In each direction, for what is sent from now on."""
        new = self._file.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self._file)


def restart_apiserver(cluster: LocalCluster, *, etcd: int) -> None:
    """End it as its kubelet does and start it again, with etcd at that port. Returns once it is ready."""
    changes = {"etcd-servers": f"http://{LOOPBACK}:{etcd}"}
    control_plane.restart(cluster.layout, cluster.ports, "kube-apiserver", changes=changes, say=print)


def _nft(cluster: LocalCluster, node: NodeLayout, rules: str) -> str:
    """What nft prints."""
    program = binaries.ensure(say=print).bin / "nft"
    command = sandbox.inside(cluster.layout, [str(program), "-f", "-"], node=node)
    done = subprocess.run(command, input=rules, text=True, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _pids() -> list[int]:
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]


def _cgroups(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return ""
