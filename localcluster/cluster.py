"""One running cluster, as tests and benchmarks hold it."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localcluster import (
    addresses,
    apiserver,
    kubectl,
    processes,
    schedulers,
    users,
)
from localcluster import audit_log as auditing
from localcluster import start as starting
from localcluster import stop as stopping
from localcluster.addresses import Ports
from localcluster.audit_log import Bind
from localcluster.build import Say
from localcluster.exceptions import NotRunning
from localcluster.layout import Layout
from localcluster.schedulers import Edit
from localcluster.start import Options


def _quietly(_: str) -> None: ...


@dataclass(frozen=True)
class LocalCluster:
    """A cluster in a folder. It holds no state of its own: two of them may mean the same cluster."""

    layout: Layout
    say: Say = _quietly

    @classmethod
    def start(
        cls,
        folder: Path,
        *,
        nodes: int = 3,
        server: bool = True,
        edit_scheduler: Edit | None = None,
        say: Say = _quietly,
    ) -> LocalCluster:
        """A cluster that is ready; raises `LocalClusterError` or `BuildFailed` and leaves nothing."""
        layout = Layout.at(folder)
        starting.up(layout, Options(nodes=nodes, server=server, edit_scheduler=edit_scheduler), say=say)
        return cls(layout, say)

    @classmethod
    def running(cls, folder: Path) -> LocalCluster:
        """The cluster that `make up` started there. Raises `NotRunning`."""
        layout = Layout.at(folder)
        if not layout.info.exists():
            raise NotRunning(f"no cluster runs in {layout.folder}; start one with: make up")
        return cls(layout)

    def stop(self) -> None:
        """End it; the logs stay."""
        stopping.down(self.layout, say=self.say)

    @property
    def client_kubeconfig(self) -> Path:
        """The administrator's."""
        return self.layout.kubeconfig

    @property
    def ports(self) -> Ports:
        return addresses.load(self.layout.ports)

    @property
    def info(self) -> dict[str, Any]:
        """What `info.json` says."""
        read: dict[str, Any] = json.loads(self.layout.info.read_bytes())
        return read

    @property
    def pids(self) -> dict[str, int]:
        """The living components, as they are now."""
        return processes.leaders(self.layout.folder)

    def user(self, name: str, *groups: str) -> Path:
        """The kubeconfig of a user without any right but what is granted to that name or group."""
        return users.kubeconfig(self.layout, name=name, groups=groups)

    def kubectl(self, *arguments: str, kubeconfig: Path | None = None, given: str | None = None) -> str:
        """What kubectl prints. Raises `SetUpFailed` with its complaint."""
        return kubectl.run(self.layout, *arguments, kubeconfig=kubeconfig, given=given)

    def api(self) -> apiserver.Https:
        """A connection to the API server as the administrator. Close it, or use it in a `with`."""
        return apiserver.Https(port=self.ports.apiserver, context=apiserver.context(self.layout))

    def audit(self) -> tuple[Bind, ...]:
        """Every bind request so far, refused ones included."""
        return auditing.binds(self.layout.audit_log)

    def start_components(self, *names: str) -> None:
        """Start these and wait until they are ready; `server` brings its webhooks."""
        starting.start(self.layout, names, say=self.say)

    def stop_components(self, *names: str) -> None:
        """End these and wait until they are gone."""
        stopping.stop(self.layout, names, say=self.say)

    def restart_components(self, *names: str) -> None:
        self.stop_components(*names)
        self.start_components(*names)

    def signal_component(self, name: str, number: signal.Signals) -> None:
        """To its whole process group: SIGKILL is a crash, SIGSTOP a hang."""
        processes.kill(self.layout.folder, name, number=number)

    def configure_scheduler(self, edit: Edit | None = None) -> None:
        """Start kube-scheduler again with the project's example, changed by `edit`."""
        schedulers.configure(self.layout, self.ports, edit=edit)
        self.restart_components("kube-scheduler")
