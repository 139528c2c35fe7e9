"""Starts and stops a cluster, or some of its components.

Each step of a start first checks what exists, so a start does the same whether nothing runs, everything runs,
or an interrupted start left a part. A start that fails or is interrupted ends what it has started itself.
Only one process at a time starts or stops components of a cluster (`locked`).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from certs.authority import load_or_create
from localcluster import (
    admission_config,
    build,
    components,
    credentials,
    manifests,
    nodes,
    processes,
    scheduler_config,
    status,
    versions,
)
from localcluster.build import Say
from localcluster.components import Started, until, until_ready
from localcluster.exceptions import StartFailed
from localcluster.layout import COMPONENTS, OWN_SCHEDULER, Layout
from localcluster.ports import Ports, ensure_ports, load_ports
from queues.mode import Mode

HERE = Path(__file__).parent
#: It logs requests to bind a pod, and nothing else.
AUDIT_POLICY = HERE / "audit-policy.yaml"
#: Seconds until SIGKILL. The server takes up to 20 (`graceful_timeout`) to answer what it was asked. If it is
#: killed before, no queue becomes Closed for the minute in which what it admitted may still arrive.
STOP_SECONDS = 25
#: Killed without SIGTERM: etcd loses nothing by it, and an API server with clients takes a minute to end.
KILLED_AT_ONCE = frozenset({"etcd", "kube-apiserver"})


@dataclass(frozen=True)
class ClusterOptions:
    """How a cluster is started.

    Without `server` neither the server nor its webhooks exist; kube-scheduler still has the extenders in its
    configuration, unless `edit_scheduler` removes them. `audit_policy`: what the API server logs. `mode`: how
    schedulers ask us about members; None: as before, which is `extender` for a new cluster. `managed`:
    whether only namespaces with label `sluice.dev/managed=true` are ours; None: as before, or all.
    `apiserver_flags`, `scheduler_flags`: more flags of these two, such as feature gates.
    """

    nodes: int = 3
    server: bool = True
    edit_scheduler: scheduler_config.Edit | None = None
    audit_policy: Path = AUDIT_POLICY
    mode: Mode | None = None
    managed: bool | None = None
    apiserver_flags: Sequence[str] = ()
    scheduler_flags: Sequence[str] = ()


def up(layout: Layout, options: ClusterOptions, *, say: Say) -> None:
    """Return once the cluster runs, is ready and is set up. Raises `LocalClusterError`."""
    began = time.monotonic()
    with locked(layout, say=say):
        _link_binaries(layout, say=say)
        with stopping_on_failure(layout):
            mode = chosen_mode(layout, options.mode)
            ports = _prepare_files(layout, mode, options)
            if options.managed is not None:
                set_managed(layout, options.managed)
            documents = manifests.rendered(layout, mode, managed=layout.managed.exists())
            _start_and_wait(layout, ports, ["etcd"], say=say)
            _start_and_wait(layout, ports, ["kube-apiserver"], say=say)
            started = _start(layout, ports, ["kube-controller-manager", "kwok"], say=say)
            _apply_manifests(layout, ports, documents, webhooks=options.server, say=say)
            credentials.write_server_kubeconfig(layout, ports)
            if mode is Mode.SCHEDULER:
                scheduler_config.configure_own(layout, ports)
            started |= _start(layout, ports, ["server"] if options.server else [], say=say)
            if created := nodes.ensure(layout, ports, count=options.nodes):
                say(f"{created} nodes created")
            _ensure_server_authority(layout, server=options.server)
            started |= _start_scheduler(layout, ports, options, mode, say=say)
            if mode is Mode.SCHEDULER:
                started |= _start(layout, ports, [OWN_SCHEDULER], say=say)
            until_ready(layout, ports, started=started, say=say)
            _await_webhooks(layout, ports, server=options.server)
            status.write_info(layout, ports)
    say(f"up after {time.monotonic() - began:.1f} s; KUBECONFIG={layout.kubeconfig}")


def start_components(layout: Layout, names: Sequence[str], *, say: Say) -> None:
    """Start these components of a cluster that runs, with the files of their last start.

    Raises `StartFailed`.
    """
    with locked(layout, say=say), stopping_on_failure(layout):
        ports = load_ports(layout.ports)
        if "server" in names:
            mode, managed = components.current_mode(layout), layout.managed.exists()
            documents = manifests.rendered(layout, mode, managed=managed)
            _apply_manifests(layout, ports, documents, webhooks=True, say=say)
        in_order = [name for name in (*COMPONENTS, OWN_SCHEDULER) if name in names]
        _start_and_wait(layout, ports, in_order, say=say)
        _await_webhooks(layout, ports, server="server" in names)
        status.write_info(layout, ports)


def change_mode(layout: Layout, mode: Mode, *, say: Say) -> None:
    """Change the mode of a cluster that runs, as docs/operating/change-the-mode.md says.

    The way of the former mode is kept: the configuration of kube-scheduler stays as it is, and our own
    kube-scheduler goes on running.
    """
    with locked(layout, say=say), stopping_on_failure(layout):
        ports = load_ports(layout.ports)
        layout.mode.write_text(mode)
        documents = manifests.rendered(layout, mode, managed=layout.managed.exists())
        _apply_manifests(layout, ports, documents, webhooks=True, say=say)
        if mode is Mode.SCHEDULER:
            scheduler_config.configure_own(layout, ports)
            _start_and_wait(layout, ports, [OWN_SCHEDULER], say=say)
        processes.stop(layout.folder, components=["server"], grace=STOP_SECONDS)
        _start_and_wait(layout, ports, ["server"], say=say)
        _await_webhooks(layout, ports, server=True)
        status.write_info(layout, ports)


def set_managed(layout: Layout, managed: bool) -> None:
    """Have the next start of the server be for managed namespaces alone, or for all.

    Raises `StartFailed` for something else than the server that runs has.
    """
    if managed is not layout.managed.exists() and "server" in processes.leaders(layout.folder):
        raise StartFailed(f"the server in {layout.folder} runs with another MANAGED; end it first")
    if managed:
        layout.managed.write_text(manifests.managed_namespaces(layout))
    else:
        layout.managed.unlink(missing_ok=True)


def stop_components(layout: Layout, names: Sequence[str], *, say: Say) -> None:
    """Return once these components are gone; the others keep running."""
    with locked(layout, say=say):
        for name in names:
            grace = 0 if name in KILLED_AT_ONCE else STOP_SECONDS
            processes.stop(layout.folder, components=[name], grace=grace)


def down(layout: Layout, *, say: Say) -> None:
    """End all processes of the cluster and remove all its files except the logs. Fine if nothing runs."""
    if not layout.folder.exists() and not processes.find(layout.folder):
        say(f"nothing runs in {layout.folder}")
        return
    with locked(layout, say=say):
        all_names = (*COMPONENTS, OWN_SCHEDULER)
        running = [name for name in all_names if name in processes.leaders(layout.folder)]
        processes.stop(layout.folder, components=set(all_names) - KILLED_AT_ONCE, grace=STOP_SECONDS)
        processes.stop(layout.folder, grace=0)
        for path in layout.perishable:
            _remove(path)
        manifests.forget(layout)
    say(f"stopped {', '.join(running) or 'nothing'}; logs are kept in {layout.logs}")


@contextmanager
def locked(layout: Layout, *, say: Say) -> Iterator[None]:
    """Hold the cluster's lock; says so when it has to wait for another start or stop.

    The kernel releases the lock when the process ends, however it ends.
    """
    layout.folder.mkdir(parents=True, exist_ok=True)
    with layout.lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another start or stop of {layout.folder} is at work; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def stopping_on_failure(layout: Layout) -> Iterator[None]:
    """If the body fails or is interrupted, end what it has started; what ran before keeps running."""
    before = processes.leaders(layout.folder).values()
    try:
        yield
    except BaseException:
        processes.stop(layout.folder, keep=before, grace=3)
        raise


def _link_binaries(layout: Layout, *, say: Say) -> None:
    """The programs of the version that the cluster has, or is to have. Raises `VersionRefused`."""
    version = versions.of_cluster(layout.version, exists=layout.etcd.exists())
    build.binaries(layout.bin, say=say, env={**os.environ, "VERSION": version})
    layout.version.write_text(f"{version}\n")


def chosen_mode(layout: Layout, wanted: Mode | None, *, command: str = "") -> Mode:
    """The mode to start in. Raises `StartFailed` for another one than that of the cluster that runs.

    `command`: what `make` calls this kind of cluster, with `-down` for its end.
    """
    former = components.current_mode(layout)
    if wanted not in (None, former) and processes.leaders(layout.folder):
        down = f"make {command}-down" if command else "make down"
        raise StartFailed(
            f"the cluster in {layout.folder} runs in mode {former}; end it first: "
            f"{down} LOCAL={layout.folder}"
        )
    return wanted or former


def _prepare_files(layout: Layout, mode: Mode, options: ClusterOptions) -> Ports:
    """Ports, certificates, kubeconfigs and configuration. A new cluster begins with empty logs."""
    if not layout.etcd.exists() and not processes.leaders(layout.folder):
        shutil.rmtree(layout.logs, ignore_errors=True)
    for folder in (layout.logs, layout.config, layout.server_certs):
        folder.mkdir(parents=True, exist_ok=True)
    layout.audit_log.touch()
    layout.mode.write_text(mode)
    ports = ensure_ports(layout.ports)
    credentials.ensure_certificates(layout, now=datetime.now(UTC))
    credentials.write_kubeconfigs(layout)
    admission_config.configure(layout, ports)
    layout.apiserver_flags.write_text("".join(f"{flag}\n" for flag in options.apiserver_flags))
    shutil.copyfile(options.audit_policy, layout.audit_policy)
    shutil.copyfile(HERE / "kwok.yaml", layout.kwok_config)
    return ports


def _apply_manifests(
    layout: Layout, ports: Ports, documents: Sequence[manifests.ManifestObject], *, webhooks: bool, say: Say
) -> None:
    local = manifests.localised(documents, server_url=ports.webhook_url, webhooks=webhooks)
    manifests.apply(layout, ports, local)
    say(f"{len(local)} manifests applied")


def _start_and_wait(layout: Layout, ports: Ports, names: Sequence[str], *, say: Say) -> None:
    until_ready(layout, ports, started=_start(layout, ports, names, say=say), say=say)


def _start(layout: Layout, ports: Ports, names: Sequence[str], *, say: Say) -> dict[str, Started]:
    """Start those of `names` that do not run; returns all of them, to wait for."""
    return {name: _start_one(layout, ports, name, say=say) for name in names}


def _start_one(layout: Layout, ports: Ports, name: str, *, say: Say) -> Started:
    if name in processes.leaders(layout.folder):
        say(f"{name} runs already")
        return Started(time.monotonic(), new=False)
    processes.stop(layout.folder, components=[name], grace=0)  # child processes that outlived it
    command = components.BY_NAME[name].command(layout, ports)
    if not Path(command[0]).exists():
        raise StartFailed(f"{name} cannot be started: there is no {command[0]}")
    processes.spawn(command, folder=layout.folder, component=name, log=layout.log(name))
    return Started(time.monotonic(), new=True)


def _start_scheduler(
    layout: Layout, ports: Ports, options: ClusterOptions, mode: Mode, *, say: Say
) -> dict[str, Started]:
    """The cluster's own kube-scheduler; it calls the server in mode `extender` alone."""
    if "kube-scheduler" not in processes.leaders(layout.folder):
        edit = None if mode is Mode.EXTENDER else scheduler_config.without_extenders
        scheduler_config.configure(
            layout, ports, edit=options.edit_scheduler or edit, flags=options.scheduler_flags
        )
    return _start(layout, ports, ["kube-scheduler"], say=say)


def _ensure_server_authority(layout: Layout, *, server: bool) -> None:
    """kube-scheduler reads the server's authority only once, when it starts."""
    if server:
        until(layout.server_ca.exists, what=f"the server to write {layout.server_ca}")
    else:
        load_or_create(layout.server_certs, name="sluice", now=datetime.now(UTC))


def _await_webhooks(layout: Layout, ports: Ports, *, server: bool) -> None:
    if not server:
        return
    until(
        lambda: manifests.have_ca_bundle(layout, ports),
        what="the server to put its authority into the webhook configurations",
    )
    until(lambda: manifests.are_called(layout, ports), what="the API server to reach our webhooks")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
