"""Installs the server as docs/operating/install.md says, with the manifests as they are.

1. `kubectl apply --server-side -k` with the folder of the mode, and the Deployment becomes available.
2. In mode `extender`, kube-scheduler gets the extender entry, with the Service's address and the authority's
   certificate.
3. The API server reaches our webhooks.
"""

from __future__ import annotations

import json

from certs.authority import write
from localcluster import manifests, processes, scheduler_config
from localcluster.apiserver import kubectl, try_kubectl
from localcluster.build import Say
from localcluster.components import NAMESPACE, until
from localcluster.layout import Layout
from localcluster.pods import control_plane
from localcluster.ports import Ports
from localcluster.scheduler_config import SchedulerConfigBody
from queues.mode import Mode

NAME = "sluice"
AUTHORITY = "sluice-ca"
#: Until the Deployment is available; a loaded machine is slow.
READY_SECONDS = 180


def install(layout: Layout, ports: Ports, mode: Mode, *, say: Say) -> None:
    """Return once members can be created, and are asked about. Raises `LocalClusterError`."""
    kubectl(layout, "apply", "--server-side", "-k", str(manifests.folder(mode)))
    say("manifests applied, unchanged")
    wait_for_rollout(layout)
    say("the server is available")
    if mode is Mode.EXTENDER:
        connect_scheduler(layout, ports, say=say)
    until(lambda: manifests.are_called(layout, ports), what="the API server to reach our webhooks")


def wait_for_rollout(layout: Layout) -> None:
    """Return once all replicas of the Deployment are of its newest version and available."""
    timeout = f"--timeout={READY_SECONDS}s"
    kubectl(layout, "rollout", "status", f"--namespace={NAMESPACE}", f"deployment/{NAME}", timeout)


def connect_scheduler(layout: Layout, ports: Ports, *, say: Say) -> None:
    """Restart kube-scheduler with the extender entry of the example, unless it has it."""
    address = _json(layout, "service", NAME)["spec"]["clusterIP"]
    until(lambda: _exists(layout, "configmap", AUTHORITY), what="the server to publish its authority")
    authority = _json(layout, "configmap", AUTHORITY)["data"]["ca.crt"].encode()
    url = f"https://{address}:443/extender"

    def edit(configuration: SchedulerConfigBody) -> None:
        for extender in configuration["extenders"]:
            extender["urlPrefix"] = url

    before = layout.scheduler_config.read_bytes(), layout.server_ca.exists() and layout.server_ca.read_bytes()
    write(layout.server_ca, authority, mode=0o644)
    scheduler_config.configure(layout, ports, edit=edit)
    if before != (layout.scheduler_config.read_bytes(), authority):
        processes.stop(layout.folder, components=["kube-scheduler"])
        control_plane.start(layout, ports, ["kube-scheduler"], say=say)


def _exists(layout: Layout, kind: str, name: str) -> bool:
    return not try_kubectl(layout, "get", kind, name, f"--namespace={NAMESPACE}").returncode


def _json(layout: Layout, kind: str, name: str) -> dict[str, dict[str, str]]:
    content: dict[str, dict[str, str]] = json.loads(
        kubectl(layout, "get", kind, name, f"--namespace={NAMESPACE}", "--output=json")
    )
    return content
