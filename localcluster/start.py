"""Starting a cluster, or what has died of it.

Every step first looks at what is there, so starting is the same whether nothing runs, all
of it, or what an interrupted start left. What a failed or interrupted start has started
itself, it ends again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from certs.authority import load_or_create
from localcluster import (
    addresses,
    certificates,
    components,
    info,
    nodes,
    processes,
    schedulers,
    users,
)
from localcluster import build as building
from localcluster import manifests as registering
from localcluster import readiness as waiting
from localcluster.addresses import Ports
from localcluster.build import Say
from localcluster.exceptions import StartFailed
from localcluster.layout import COMPONENTS, Layout
from localcluster.lock import locked
from localcluster.readiness import Awaited

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Options:
    """How a cluster is started.

    Without `server` neither the server nor its webhooks are there, and the scheduler has the
    extenders all the same, unless `edit_scheduler` takes them out.
    """

    nodes: int = 3
    server: bool = True
    edit_scheduler: schedulers.Edit | None = None


def up(layout: Layout, options: Options, *, say: Say) -> None:
    """The cluster runs, is ready and set up afterwards. Raises `LocalClusterError` or `BuildFailed`."""
    began = time.monotonic()
    with locked(layout, say=say):
        building.binaries(layout.bin, say=say)
        with ending_if_interrupted(layout):
            ports = _prepare(layout)
            manifests = registering.rendered(layout)
            _start(layout, ports, ["etcd"], say=say)
            _start(layout, ports, ["kube-apiserver"], say=say)
            followers = _spawn(layout, ports, ["kube-controller-manager", "kwok"], say=say)
            _apply(layout, ports, manifests, webhooks=options.server, say=say)
            users.ensure_server(layout, ports)
            followers |= _spawn(layout, ports, ["server"] if options.server else [], say=say)
            if made := nodes.ensure(layout, ports, count=options.nodes):
                say(f"{made} nodes created")
            _await_server_ca(layout, server=options.server)
            followers |= _spawn_scheduler(layout, ports, options, say=say)
            waiting.until_ready(layout, ports, awaited=followers, say=say)
            _await_registration(layout, ports, server=options.server)
            info.write(layout, ports)
    say(f"up after {time.monotonic() - began:.1f} s; KUBECONFIG={layout.kubeconfig}")


def start(layout: Layout, names: Sequence[str], *, say: Say) -> None:
    """Start these components of a cluster that runs, with the files they were started with before.

    Raises `StartFailed`.
    """
    with locked(layout, say=say), ending_if_interrupted(layout):
        ports = addresses.load(layout.ports)
        if "server" in names:
            _apply(layout, ports, registering.rendered(layout), webhooks=True, say=say)
        _start(layout, ports, [name for name in COMPONENTS if name in names], say=say)
        _await_registration(layout, ports, server="server" in names)
        info.write(layout, ports)


@contextmanager
def ending_if_interrupted(layout: Layout) -> Iterator[None]:
    """If the body fails or is interrupted, what it has started is ended; what ran before stays."""
    before = processes.leaders(layout.folder).values()
    try:
        yield
    except BaseException:
        processes.stop(layout.folder, keep=before, grace=3)
        raise


def _prepare(layout: Layout) -> Ports:
    """Ports, certificates, kubeconfigs and configuration; a new cluster begins with empty logs."""
    if not layout.etcd.exists() and not processes.leaders(layout.folder):
        shutil.rmtree(layout.logs, ignore_errors=True)
    for folder in (layout.logs, layout.config, layout.server_certs):
        folder.mkdir(parents=True, exist_ok=True)
    layout.audit_log.touch()
    ports = addresses.kept(layout.ports)
    certificates.ensure(layout, now=datetime.now(UTC))
    users.ensure(layout)
    shutil.copyfile(HERE / "audit-policy.yaml", layout.audit_policy)
    shutil.copyfile(HERE / "kwok.yaml", layout.kwok_config)
    return ports


def _apply(
    layout: Layout, ports: Ports, documents: Sequence[registering.Manifest], *, webhooks: bool, say: Say
) -> None:
    local = registering.localised(documents, server_url=ports.webhook_url, webhooks=webhooks)
    registering.apply(layout, local)
    say(f"{len(local)} manifests applied")


def _start(layout: Layout, ports: Ports, names: Sequence[str], *, say: Say) -> None:
    awaited = _spawn(layout, ports, names, say=say)
    waiting.until_ready(layout, ports, awaited=awaited, say=say)


def _spawn(layout: Layout, ports: Ports, names: Sequence[str], *, say: Say) -> dict[str, Awaited]:
    """Start those that do not live; all of them are to be waited for."""
    return {name: _spawned(layout, ports, name, say=say) for name in names}


def _spawned(layout: Layout, ports: Ports, name: str, *, say: Say) -> Awaited:
    if name in processes.leaders(layout.folder):
        say(f"{name} runs already")
        return Awaited(time.monotonic(), new=False)
    processes.stop(layout.folder, components=[name], grace=0)  # children that outlived it
    _spawn_one(layout, ports, name)
    return Awaited(time.monotonic(), new=True)


def _spawn_one(layout: Layout, ports: Ports, name: str) -> None:
    command = components.BY_NAME[name].command(layout, ports)
    if not Path(command[0]).exists():
        raise StartFailed(f"{name} cannot be started: there is no {command[0]}")
    processes.spawn(command, folder=layout.folder, component=name, log=layout.log(name))


def _spawn_scheduler(layout: Layout, ports: Ports, options: Options, *, say: Say) -> dict[str, Awaited]:
    if "kube-scheduler" not in processes.leaders(layout.folder):
        schedulers.configure(layout, ports, edit=options.edit_scheduler)
    return _spawn(layout, ports, ["kube-scheduler"], say=say)


def _await_server_ca(layout: Layout, *, server: bool) -> None:
    """The scheduler reads the server's authority once, when it starts."""
    if not server:
        load_or_create(layout.server_certs, name="sluice", now=datetime.now(UTC))
        return
    waiting.until(layout.server_ca.exists, what=f"the server to write {layout.server_ca}")


def _await_registration(layout: Layout, ports: Ports, *, server: bool) -> None:
    if not server:
        return
    waiting.until(
        lambda: registering.certified(layout, ports),
        what="the server to put its authority into the webhook configurations",
    )
    waiting.until(lambda: registering.called(layout, ports), what="the API server to reach our webhooks")
