"""One real node: the configuration of containerd, CNI, kubelet and kube-proxy, and starting them.

| setting                                             | why                                                  |
|-----------------------------------------------------|------------------------------------------------------|
| containerd `restrict_oom_score_adj`                 | else no pod starts where root lacks CAP_SYS_RESOURCE |
| containerd `disable_apparmor`, `tolerate_missing_…` | the kernel may have neither                          |
| containerd `netns_mounts_under_state_dir`           | /run is the sandbox's, and shared by its nodes       |
| kubelet `failCgroupV1`, `cgroupDriver: cgroupfs`    | any machine, without systemd                         |
| kubelet `makeIPTablesUtilChains: false`             | there is no iptables; kube-proxy uses nftables       |
| kubelet `imageGCHigh…Percent: 100`, `evictionHard`  | the machine's disk is not the node's                 |
| kube-proxy conntrack 0                              | its limits are the machine's                         |

Containers and images are in a folder in memory of the sandbox (350 MiB a node): fast, and gone with it. Every
other folder is the cluster's own, by a short name (`NodeLayout.inside`), since it has sockets. What these
programs have built in is in /run, /var/lib or /var/log, which are the sandbox's.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from certs.authority import write
from localcluster.components import until
from localcluster.exceptions import StartFailed
from localcluster.pods import images, sandbox
from localcluster.pods.binaries import Binaries
from localcluster.pods.layout import POD_RANGE, SOCKET, NodeLayout, resolv_conf

#: Unpacking the server's image on a loaded machine.
IMPORT_SECONDS = 180.0
CLUSTER_DNS = "10.0.0.10"
#: containerd makes the root of a container's files by its umask, and the container's user has to get in.
USUAL_UMASK = ("/bin/sh", "-c", 'umask 022 && exec "$@"', "sh")


def start(node: NodeLayout, binaries: Binaries, archives: Sequence[Path]) -> None:
    """Start everything that a node runs, with these images. Waits for containerd alone.

    Raises `StartFailed`.
    """
    cluster = node.cluster
    for folder in ("state", "kubelet", "pki", "volume-plugins", "cni"):
        (node.folder / folder).mkdir(parents=True, exist_ok=True)
    for name, content in configuration(node, binaries).items():
        write(node.folder / name, content.encode(), mode=0o600)
    sandbox.make_cgroup(node)
    for program, command in commands(node, binaries).items():
        sandbox.spawn(cluster, command, component=node.component(program), node=node)
        if program == "containerd":
            until((node.folder / SOCKET).exists, what=f"containerd of {node.name}", seconds=60)
            for archive in archives:
                import_image(node, binaries, archive)


def import_image(node: NodeLayout, binaries: Binaries, archive: Path) -> None:
    """Hand an OCI archive to the node's containerd. Raises `StartFailed`."""
    ctr = [str(binaries.bin / "ctr"), f"--address={node.containerd_socket}", "--namespace=k8s.io"]
    command = sandbox.inside(node.cluster, [*ctr, "images", "import", str(archive)], node=node)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=IMPORT_SECONDS)
    if done.returncode:
        raise StartFailed(f"{node.name} cannot take {archive.name}: {done.stderr.strip()}")


def commands(node: NodeLayout, binaries: Binaries) -> Mapping[str, list[str]]:
    """In the order in which they are started."""
    folder = node.inside
    # containerd, kubelet and kube-proxy look for runc and nft on PATH.
    path = [*USUAL_UMASK, "/usr/bin/env", f"PATH={binaries.bin}:/usr/sbin:/usr/bin:/sbin:/bin"]
    return {
        "containerd": [*path, "containerd", f"--config={folder / 'containerd.toml'}"],
        "kube-proxy": [*path, "kube-proxy", f"--config={folder / 'kube-proxy.yaml'}"],
        "kubelet": [
            *path,
            "kubelet",
            f"--config={folder / 'kubelet.yaml'}",
            f"--kubeconfig={kubeconfig(node, 'kubelet')}",
            f"--root-dir={folder / 'kubelet'}",
            f"--cert-dir={folder / 'pki'}",
            f"--hostname-override={node.name}",
            f"--node-ip={node.address}",
        ],
    }


def kubeconfig(node: NodeLayout, program: str) -> Path:
    name = node.component(program) if program == "kubelet" else program
    return node.cluster.component_kubeconfig(name)


def configuration(node: NodeLayout, binaries: Binaries) -> Mapping[str, str]:
    """The content of each file, by its name in the node's folder."""
    return {
        "containerd.toml": _containerd(node, binaries),
        "cni/10-bridge.conflist": json.dumps(_cni(node), indent=1),
        "kubelet.yaml": yaml.safe_dump(_kubelet(node), sort_keys=False),
        "kube-proxy.yaml": yaml.safe_dump(_kube_proxy(node), sort_keys=False),
    }


def _containerd(node: NodeLayout, binaries: Binaries) -> str:
    folder = node.inside
    return f"""version = 2
root = "/var/lib/containerd-{node.name}"
state = "{folder}/state"
[grpc]
  address = "{node.containerd_socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{images.PAUSE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  tolerate_missing_hugetlb_controller = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{binaries.cni}"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "{binaries.bin}/runc"
"""


def _cni(node: NodeLayout) -> dict[str, Any]:
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(node.inside / "cni-addresses"),
            "ranges": [[{"subnet": node.pod_range}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}


def _kubelet(node: NodeLayout) -> dict[str, Any]:
    authority = str(node.cluster.pki / "ca.crt")
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cgroup}",
        "containerRuntimeEndpoint": f"unix://{node.containerd_socket}",
        "address": node.address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": authority},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDomain": "cluster.local",
        "clusterDNS": [CLUSTER_DNS],
        "resolvConf": str(resolv_conf(node.cluster)),
        "failSwapOn": False,
        "podLogsDir": str(node.inside / "pod-logs"),
        "volumePluginDir": str(node.inside / "volume-plugins"),
        "makeIPTablesUtilChains": False,
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi"},
    }


def _kube_proxy(node: NodeLayout) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": node.name,
        "clusterCIDR": POD_RANGE,
        "clientConnection": {"kubeconfig": str(kubeconfig(node, "kube-proxy"))},
        "bindAddress": node.address,
        "healthzBindAddress": f"{node.address}:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }
