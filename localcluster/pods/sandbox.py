"""The sandbox: namespaces in which a cluster with real nodes runs, and which end all of it at once.

Invariants
- Network, mounts, processes, host name and IPC are the sandbox's own (`unshare`). When its first process
  (`init.py`) ends, the kernel kills every process in it, pods included, and with them go its mounts and
  network devices.
- Outside it leaves cgroups alone, of names that only this cluster has; `remove` removes them.
- The machine's network, mounts and devices are not touched. Its loopback gets listeners (`relay.py`), that is
  all.

| case                                        | what happens                                           |
|---------------------------------------------|--------------------------------------------------------|
| not Linux, not root, not amd64              | `StartFailed` that says so, before anything is started |
| a program is missing (`ip`, `nsenter`, …)   | `StartFailed` with the names and Debian's packages     |
| no namespaces, mounts, bridges, overlays or | `StartFailed` with the command that failed, before     |
| cgroups (a container without rights)        | anything is built (`check_kernel`)                     |
| folder or cache in /run, /var/lib, /var/log | `StartFailed`: they are empty in the sandbox           |
| it runs already                             | it is used                                             |
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from localcluster import processes
from localcluster.components import until
from localcluster.exceptions import StartFailed
from localcluster.layout import ROOT, Layout
from localcluster.pods import init
from localcluster.pods.layout import INSIDE, NodeLayout, nodes_folder, ready_file, resolv_conf
from localcluster.ports import LOOPBACK

HERE = Path(__file__).parent
SANDBOX, RELAY = "sandbox", "relay"
NAMESPACES = ("--net", "--mount", "--uts", "--ipc", "--pid")
#: The programs that are called, and Debian's package of each.
PROGRAMS = {
    "ip": "iproute2",
    "mount": "mount",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "chroot": "coreutils",
}
NFTABLES = """
table ip probe {
  chain services { type nat hook prerouting priority dstnat; ct state new dnat to 192.168.77.1; }
  chain others { type nat hook postrouting priority srcnat; masquerade; }
}
"""
CGROUPS = Path("/sys/fs/cgroup")
#: kubelet does not start without them.
CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
#: The kernel removes a killed process from its cgroup a moment later.
CGROUP_SECONDS = 10.0
#: kube-apiserver finishes its requests first; a loaded machine is slow.
TERMINATE_SECONDS = 120.0


def check_machine(*folders: Path) -> None:
    """Raise `StartFailed` unless real nodes can run here with their files in `folders`.

    Programs of this checkout, and its Python, run in the sandbox too.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise StartFailed(f"real nodes need Linux on x86_64; this is {sys.platform} on {platform.machine()}")
    if os.geteuid() != 0:
        raise StartFailed("real nodes need root (namespaces, cgroups, mounts); `make up` does not")
    missing = [f"{name} ({package})" for name, package in PROGRAMS.items() if shutil.which(name) is None]
    if missing:
        raise StartFailed(f"not on PATH: {', '.join(missing)}")
    for folder in (*folders, ROOT, Path(sys.base_prefix)):
        for hidden in init.EMPTY:
            if folder.resolve().is_relative_to(hidden):
                raise StartFailed(
                    f"{folder} is below {hidden}, which is empty in the sandbox: choose another"
                )


def check_kernel() -> None:
    """Raise `StartFailed`, with what is missing, unless a sandbox can be set up: one is, and ends at once."""
    done = subprocess.run(
        [*_unshare(), sys.executable, "-I", str(HERE / "init.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    problems = [done.stderr.strip() or f"exit code {done.returncode}"] if done.returncode else []
    problems += cgroup_problems()
    if problems:
        raise StartFailed(
            "real nodes cannot run on this machine, although it is Linux and this is root: "
            f"{'; '.join(problems)}. In a container, give it all rights (docker run --privileged)"
        )


def check_nftables(nft: Path) -> None:
    """Raise `StartFailed` unless the kernel takes rules of the kinds that kube-proxy writes."""
    command = [_program("unshare"), "--net", str(nft), "-f", "-"]
    done = subprocess.run(command, input=NFTABLES, capture_output=True, text=True, check=False)
    if done.returncode:
        problem = done.stderr.strip().partition("\n")[0]
        raise StartFailed(f"real nodes cannot run on this machine: its kernel's nftables: {problem}")


def cgroup_problems(root: Path = CGROUPS) -> list[str]:
    """Why kubelet could not make the cgroups of pods here."""
    if not root.is_dir():
        return [f"there is no {root}"]
    found = hierarchies(root)
    if found == [root]:
        controllers = (root / "cgroup.controllers").read_text().split()
    else:
        controllers = [each.name for each in found]
    problems = [f"no cgroup controller {name}" for name in CONTROLLERS if name not in controllers]
    return problems + [f"{each} is read-only" for each in found if not os.access(each, os.W_OK)]


def start(layout: Layout, nodes: Sequence[NodeLayout]) -> None:
    """Return once its mounts and its network are there. Raises `StartFailed`."""
    if find_init(layout) is not None:
        return
    ready = ready_file(layout)
    ready.unlink(missing_ok=True)
    nodes_folder(layout).mkdir(exist_ok=True)
    config = {
        "ready": str(ready),
        "resolv_conf": str(resolv_conf(layout)),
        "folders": {str(INSIDE): str(nodes_folder(layout))},
        "nodes": [
            {"name": node.name, "address": node.address, "pod_range": node.pod_range} for node in nodes
        ],
    }
    command = [*_unshare(), sys.executable, "-I", str(HERE / "init.py"), json.dumps(config)]
    log = layout.log(SANDBOX)
    processes.spawn(command, folder=layout.folder, component=SANDBOX, log=log)

    def ready_or_ended() -> bool:
        return ready.exists() or SANDBOX not in processes.leaders(layout.folder)

    until(ready_or_ended, what="the sandbox")
    if not ready.exists():
        raise StartFailed(f"the sandbox could not be set up: {log.read_text(errors='replace').strip()}")


def find_init(layout: Layout) -> int | None:
    """The pid, as seen from outside, of its first process; None if there is no sandbox."""
    for pid in processes.pids(layout.folder, SANDBOX):
        if _pids_in_namespaces(pid)[1:] == ["1"]:
            return pid
    return None


def inside(layout: Layout, command: Sequence[str], *, node: NodeLayout | None = None) -> list[str]:
    """The command that runs `command` in the sandbox, in the network namespace of that node.

    Raises `StartFailed` if there is no sandbox.
    """
    pid = find_init(layout)
    if pid is None:
        raise StartFailed(f"there is no sandbox in {layout.folder}")
    enter = [_program("nsenter"), f"--target={pid}", *NAMESPACES, "--"]
    if node is not None and node.network_namespace is not None:
        enter += [_program("nsenter"), f"--net={node.network_namespace}", "--"]
    return [*enter, *command]


def spawn(layout: Layout, command: Sequence[str], *, component: str, node: NodeLayout | None = None) -> None:
    """Start a component of the cluster in the sandbox, with its own log; does nothing if it runs."""
    if component in processes.leaders(layout.folder):
        return
    processes.stop(layout.folder, components=[component], grace=0)
    processes.spawn(
        inside(layout, command, node=node),
        folder=layout.folder,
        component=component,
        log=layout.log(component),
    )


def terminate(layout: Layout, component: str) -> None:
    """Send SIGTERM to a component, and not to the `nsenter` that waits for it; returns once it is gone."""
    leader = processes.leaders(layout.folder).get(component)
    for pid in processes.pids(layout.folder, component):
        if pid != leader:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
    until(
        lambda: component not in processes.leaders(layout.folder),
        what=f"{component} to end",
        seconds=TERMINATE_SECONDS,
    )
    processes.stop(layout.folder, components=[component], grace=0)


def start_relay(layout: Layout, ports: Sequence[int]) -> None:
    """Make these loopback ports of the sandbox reachable from outside, under the same numbers."""
    if RELAY in processes.leaders(layout.folder):
        return
    sockets = [socket.create_server((LOOPBACK, port), backlog=128) for port in ports]
    for each in sockets:
        each.set_inheritable(True)
    try:
        command = [sys.executable, "-I", str(HERE / "relay.py"), *(str(each.fileno()) for each in sockets)]
        spawn(layout, command, component=RELAY)
    finally:
        for each in sockets:
            each.close()


def make_cgroup(node: NodeLayout) -> None:
    """The cgroup of the node's pods, in each hierarchy; kubelet does not make its root itself."""
    for hierarchy in hierarchies():
        folder = hierarchy / node.cgroup
        folder.mkdir(exist_ok=True)
        if hierarchy.name == "cpuset":  # empty at first, and then no process may join
            for name in ("cpuset.cpus", "cpuset.mems"):
                (folder / name).write_text((hierarchy / name).read_text())


def hierarchies(root: Path = CGROUPS) -> list[Path]:
    """Of version 2 the one; else those of version 1, each in its folder."""
    if (root / "cgroup.controllers").exists():
        return [root]
    return [each for each in sorted(root.iterdir()) if each.is_dir() and not each.is_symlink()]


def remove(layout: Layout, nodes: Sequence[NodeLayout]) -> None:
    """Kill everything in it, and remove its cgroups; returns once nothing is left. Fine if there is none."""
    processes.stop(layout.folder, grace=0)
    end = time.monotonic() + CGROUP_SECONDS
    while left := [folder for node in nodes for folder in _cgroups(node) if not _remove_cgroup(folder)]:
        if time.monotonic() > end:
            raise StartFailed(f"cgroups cannot be removed: {', '.join(map(str, left))}")
        time.sleep(0.05)


def _cgroups(node: NodeLayout) -> list[Path]:
    return [hierarchy / node.cgroup for hierarchy in hierarchies() if (hierarchy / node.cgroup).exists()]


def _remove_cgroup(folder: Path) -> bool:
    """Whether it is gone, with those below it, the deepest first."""
    try:
        for each in sorted(folder.rglob("*"), key=lambda path: len(path.parts), reverse=True):
            if each.is_dir():
                each.rmdir()
        folder.rmdir()
    except FileNotFoundError:
        return not folder.exists()
    except OSError:
        return False
    return True


def _unshare() -> list[str]:
    """The beginning of a command that runs in new namespaces, as their first process."""
    unshare = _program("unshare")
    return [unshare, *NAMESPACES, "--fork", "--kill-child", "--mount-proc", "--propagation=private"]


def _pids_in_namespaces(pid: int) -> list[str]:
    """Its pid in each namespace of processes, the outermost first."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return []
    return next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise StartFailed(f"not on PATH: {name} ({PROGRAMS[name]})")
    return path
