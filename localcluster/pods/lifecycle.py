"""Starts and stops a cluster with real nodes.

Each step first checks what runs, so `up` after an interrupted `up`, or beside a running cluster, does the
rest. An `up` that fails or is interrupted before anything ran leaves nothing; else what ran goes on.

| order | what                                                              | warm, seconds |
|-------|-------------------------------------------------------------------|---------------|
| 1     | binaries and images: built once, then from the cache              | 3             |
| 2     | the sandbox, and the relay that makes its ports reachable         | 1             |
| 3     | etcd, kube-apiserver, kube-controller-manager, kube-scheduler     | 3             |
| 4     | each node: containerd, the images, kube-proxy, kubelet; all Ready | 7             |
| 5     | the server, by `installation`                                     | 3             |
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from localcluster import admission_config, build, lifecycle, processes, scheduler_config, versions
from localcluster.apiserver import kubectl
from localcluster.build import Say
from localcluster.components import log_tail, until
from localcluster.exceptions import SetUpFailed, StartFailed
from localcluster.layout import Layout
from localcluster.pods import binaries, control_plane, images, installation, node, sandbox
from localcluster.pods.layout import MOST_NODES, NodeLayout, nodes_of, perishable
from localcluster.ports import Ports, ensure_ports
from queues.mode import Mode

READY_SECONDS = 120


@dataclass(frozen=True)
class PodClusterOptions:
    """How a cluster is started; without `server` it is one that knows nothing of us."""

    nodes: int = 2
    server: bool = True
    #: None: that of the cluster that runs, or `extender`.
    mode: Mode | None = None


def build_all(layout: Layout, *, say: Say) -> binaries.Binaries:
    """Fill the cache with everything that is built once.

    Raises `BuildFailed`; `StartFailed` where real nodes cannot run, before anything is built if it can.
    """
    sandbox.check_machine(layout.folder, build.home())
    sandbox.check_kernel()
    # The kubelet is of the newest, and may not be newer than the API server.
    build.binaries(layout.bin, say=say, env={**os.environ, "VERSION": versions.NEWEST})
    programs = binaries.ensure(say=say)
    sandbox.check_nftables(programs.bin / "nft")
    return programs


def fill_cache(layout: Layout, *, say: Say) -> None:
    """As `build_all`, and what is built once for the images. Raises `BuildFailed` or `StartFailed`."""
    build_all(layout, say=say)
    images.ensure_python(say=say)
    images.ensure_scheduler(layout.bin / "kube-scheduler")


def up(layout: Layout, options: PodClusterOptions, *, say: Say) -> None:
    """Return once the nodes are Ready and the server is installed. Raises `LocalClusterError`."""
    if not 1 <= options.nodes <= MOST_NODES:
        raise StartFailed(f"NODES is {options.nodes}; it may be 1 to {MOST_NODES}")
    began = time.monotonic()
    sandbox.check_machine(layout.folder, build.home())
    nodes = nodes_of(layout, options.nodes)
    with lifecycle.locked(layout, say=say):
        mode = lifecycle.chosen_mode(layout, options.mode, command="pods")
        programs = build_all(layout, say=say)
        layout.config.mkdir(exist_ok=True)
        layout.mode.write_text(mode)
        archives = [images.ensure_pause(layout.config, programs.bin / "pause")]
        if options.server:
            archives.append(images.ensure_server(layout.config, say=say))
            archives.append(images.ensure_scheduler(layout.bin / "kube-scheduler"))
        with removing_on_failure(layout, nodes):
            ports = _prepare_files(layout, nodes)
            sandbox.start(layout, nodes)
            sandbox.start_relay(layout, relayed(ports))
            control_plane.start(layout, ports, ["etcd"], say=say)
            control_plane.start(layout, ports, ["kube-apiserver"], say=say)
            if not layout.scheduler_config.exists():
                scheduler_config.configure(layout, ports, edit=scheduler_config.without_extenders)
            control_plane.start(layout, ports, ["kube-controller-manager", "kube-scheduler"], say=say)
            _start_nodes(layout, nodes, programs, archives, say=say)
            if options.server:
                installation.install(layout, ports, mode, say=say)
    say(f"up after {time.monotonic() - began:.1f} s; KUBECONFIG={layout.kubeconfig}")


def down(layout: Layout, *, say: Say) -> None:
    """End everything of the cluster and remove its files except the logs. Fine if nothing runs."""
    if not layout.folder.exists() and not processes.find(layout.folder):
        say(f"nothing runs in {layout.folder}")
        return
    with lifecycle.locked(layout, say=say):
        sandbox.remove(layout, nodes_of(layout, MOST_NODES))
        for path in perishable(layout):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    say(f"stopped; logs are kept in {layout.logs}")


def print_status(layout: Layout, *, say: Say) -> int:
    """One line per process of the cluster, then the nodes; returns 0 if there is a sandbox, else 1."""
    for name, pid in sorted(processes.leaders(layout.folder).items()):
        say(f"{name:<26} {pid:>8}")
    if sandbox.find_init(layout) is None:
        say(f"no cluster runs in {layout.folder}; start one with: make pods")
        return 1
    say(kubectl(layout, "get", "nodes").rstrip())
    return 0


def relayed(ports: Ports) -> tuple[int, ...]:
    """What is asked from outside: by kubectl, and whether a component is ready."""
    return ports.etcd, ports.apiserver, ports.controller_manager, ports.scheduler


@contextmanager
def removing_on_failure(layout: Layout, nodes: Sequence[NodeLayout]) -> Iterator[None]:
    """If the body fails or is interrupted and nothing ran before it, end all that it has started."""
    ran_before = sandbox.find_init(layout) is not None
    try:
        yield
    except BaseException:
        if not ran_before:
            sandbox.remove(layout, nodes)
        raise


def _prepare_files(layout: Layout, nodes: Sequence[NodeLayout]) -> Ports:
    """Ports, certificates, kubeconfigs and configuration. A new cluster begins with empty logs."""
    if not processes.leaders(layout.folder):
        shutil.rmtree(layout.logs, ignore_errors=True)
    for folder in (layout.logs, layout.config, layout.server_certs):
        folder.mkdir(parents=True, exist_ok=True)
    layout.audit_log.touch()
    shutil.copyfile(lifecycle.AUDIT_POLICY, layout.audit_policy)
    ports = ensure_ports(layout.ports)
    control_plane.write_credentials(layout, ports, nodes, now=datetime.now(UTC))
    admission_config.configure(layout, ports)
    return ports


def _start_nodes(
    layout: Layout,
    nodes: Sequence[NodeLayout],
    programs: binaries.Binaries,
    archives: Sequence[Path],
    *,
    say: Say,
) -> None:
    """All at the same time; returns once all are Ready."""
    began = time.monotonic()
    with ThreadPoolExecutor(len(nodes), thread_name_prefix="nodes") as pool:
        list(pool.map(lambda each: node.start(each, programs, archives), nodes))
    names = [f"node/{each.name}" for each in nodes]
    until(
        lambda: _run_on(layout, nodes) and _exist(layout, names),
        what="kubelets to register their nodes",
        seconds=READY_SECONDS,
        pause=0.5,
    )
    kubectl(layout, "wait", "--for=condition=Ready", *names, f"--timeout={READY_SECONDS}s")
    say(f"{len(nodes)} nodes Ready after {time.monotonic() - began:.1f} s")


def _run_on(layout: Layout, nodes: Sequence[NodeLayout]) -> bool:
    """True. Raises `StartFailed`, with the end of its log, where a kubelet has ended."""
    leaders = processes.leaders(layout.folder)
    for component in (each.component("kubelet") for each in nodes):
        if component not in leaders:
            raise StartFailed(f"{component} ended while it was starting; {log_tail(layout.log(component))}")
    return True


def _exist(layout: Layout, names: Sequence[str]) -> bool:
    try:
        kubectl(layout, "get", *names)
    except SetUpFailed:
        return False
    return True
