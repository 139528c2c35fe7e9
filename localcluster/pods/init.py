"""The first process of the sandbox: sets up its mounts and network, then reaps orphans until it is killed.

    python init.py CONFIG    (JSON: ready, resolv_conf, folders, nodes)
    python init.py           (ends at once: can a sandbox with two nodes be set up on this machine?)

A program of the standard library alone: `sandbox` starts it with `unshare`.

Invariants
- Everything it makes is in the namespaces of the sandbox: nothing of it is seen outside, and nothing outlives
  it.
- /run, /var/lib and /var/log are empty and writable: the paths that kubelet, containerd and CNI have built
  in.
- The file `ready` is written last.
- Where something fails it ends with one line that says what.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

EMPTY = ("/run", "/var/lib", "/var/log")
BRIDGE = "node0"
FORWARDING = "/proc/sys/net/ipv4/ip_forward"
#: Without it a pod that reaches a pod of its node by a Service gets answers from the wrong address.
#: Not on every kernel.
BRIDGE_FILTER = "/proc/sys/net/bridge/bridge-nf-call-iptables"


def main(config: dict[str, Any]) -> None:
    make_mounts(config["folders"])
    Path(config["resolv_conf"]).write_text("")
    first, *others = config["nodes"]
    make_bridge(first)
    for number, node in enumerate(others, start=1):
        connect_node(number, node, first)
    Path(config["ready"]).write_text("")
    reap_orphans()


def check() -> None:
    """Set up what `main` does, and what containers need besides; all of it ends with this process."""
    make_mounts({})
    first, second = (
        {"name": f"node-{n}", "address": f"192.168.77.{n + 1}", "pod_range": f"10.64.{n + 1}.0/24"}
        for n in range(2)
    )
    make_bridge(first)
    connect_node(1, second, first)
    for folder in ("lower", "upper", "work", "merged"):  # containerd's images and containers
        Path("/run/overlay", folder).mkdir(parents=True)
    layers = ",".join(f"{name}dir=/run/overlay/{name}" for name in ("lower", "upper", "work"))
    run("mount", "-t", "overlay", "overlay", "-o", layers, "/run/overlay/merged")
    if not Path("/dev/kmsg").exists():
        sys.exit("there is no /dev/kmsg, which kubelet reads")


def make_mounts(folders: Mapping[str, str]) -> None:
    """`folders`: where folders of the machine are mounted as well, by the new place."""
    socket.sethostname("sluice-sandbox")
    run("mount", "--make-rshared", "/")  # volumes that kubelet mounts are seen by containerd
    for folder in EMPTY:
        run("mount", "-t", "tmpfs", "tmpfs", folder)
    Path("/run/netns").mkdir()
    for place, folder in folders.items():
        Path(place).mkdir()
        run("mount", "--bind", folder, place)


def make_bridge(first: dict[str, str]) -> None:
    """The first node is the bridge itself."""
    ip("link", "set", "lo", "up")
    ip("link", "add", BRIDGE, "type", "bridge")
    # A bridge without a port has no carrier, and then no route: a pair that leads nowhere is its first port.
    ip("link", "add", "stub0", "type", "veth", "peer", "name", "stub1")
    ip("link", "set", "stub0", "master", BRIDGE, "up")
    ip("link", "set", "stub1", "up")
    ip("addr", "add", f"{first['address']}/24", "dev", BRIDGE)
    ip("link", "set", BRIDGE, "up")
    ip(
        "route", "add", "default", "dev", BRIDGE
    )  # addresses of Services need a route before they are rewritten
    forward_packets()


def connect_node(number: int, node: dict[str, str], first: dict[str, str]) -> None:
    """A network namespace with the node's address, on the bridge."""
    name, port = node["name"], f"port{number}"
    ip("netns", "add", name)
    ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
    ip("link", "set", port, "master", BRIDGE, "up")
    ip("-n", name, "link", "set", "lo", "up")
    ip("-n", name, "addr", "add", f"{node['address']}/24", "dev", "eth0")
    ip("-n", name, "link", "set", "eth0", "up")
    ip("-n", name, "route", "add", "default", "via", first["address"])
    ip("route", "add", node["pod_range"], "via", node["address"])
    write = f"echo 1 > {FORWARDING}; [ ! -e {BRIDGE_FILTER} ] || echo 1 > {BRIDGE_FILTER}"
    run("nsenter", f"--net=/run/netns/{name}", "sh", "-c", write)


def forward_packets() -> None:
    try:
        Path(FORWARDING).write_text("1")
        with contextlib.suppress(FileNotFoundError):
            Path(BRIDGE_FILTER).write_text("1")
    except OSError as exc:
        sys.exit(f"{exc.filename} cannot be written: {exc.strerror}")


def reap_orphans() -> None:
    """Processes that lose their parent become children of this one. Never returns."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        signal.sigwait({signal.SIGCHLD})


def ip(*arguments: str) -> None:
    run("ip", *arguments)


def run(*command: str) -> None:
    done = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"`{' '.join(command)}` failed: {done.stderr.strip()}")


if __name__ == "__main__":
    arguments: Sequence[str] = sys.argv[1:]
    if arguments:
        main(json.loads(arguments[0]))
    else:
        check()
