"""One running cluster, as tests and benchmarks use it."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localcluster import apiserver, audit_log, credentials, lifecycle, processes, scheduler_config
from localcluster.audit_log import Bind
from localcluster.build import Say
from localcluster.exceptions import NotRunning
from localcluster.layout import Layout
from localcluster.lifecycle import ClusterOptions
from localcluster.ports import Ports, load_ports
from localcluster.scheduler_config import Edit
from queues.mode import Mode


def _print_nothing(_: str) -> None: ...


@dataclass(frozen=True)
class LocalCluster:
    """The cluster in a folder. It has no state of its own: two objects may stand for the same cluster."""

    layout: Layout
    say: Say = _print_nothing

    @classmethod
    def start(  # noqa: PLR0913 - one for each of `ClusterOptions`
        cls,
        folder: Path,
        *,
        nodes: int = 3,
        server: bool = True,
        edit_scheduler: Edit | None = None,
        audit_policy: Path = lifecycle.AUDIT_POLICY,
        mode: Mode | None = None,
        managed: bool | None = None,
        apiserver_flags: Sequence[str] = (),
        scheduler_flags: Sequence[str] = (),
        say: Say = _print_nothing,
    ) -> LocalCluster:
        """Start a cluster and wait until it is ready. Raises `LocalClusterError`, and then nothing runs."""
        layout = Layout.at(folder)
        options = ClusterOptions(
            nodes=nodes,
            server=server,
            edit_scheduler=edit_scheduler,
            audit_policy=audit_policy,
            mode=mode,
            managed=managed,
            apiserver_flags=apiserver_flags,
            scheduler_flags=scheduler_flags,
        )
        lifecycle.up(layout, options, say=say)
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
        lifecycle.down(self.layout, say=self.say)

    @property
    def client_kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.layout.kubeconfig

    @property
    def ports(self) -> Ports:
        return load_ports(self.layout.ports)

    @property
    def info(self) -> dict[str, Any]:
        """The content of `info.json`."""
        content: dict[str, Any] = json.loads(self.layout.info.read_bytes())
        return content

    @property
    def pids(self) -> dict[str, int]:
        """The pid of each component that runs now."""
        return processes.leaders(self.layout.folder)

    def user(self, name: str, *groups: str) -> Path:
        """The kubeconfig of a user with no rights except those granted to that name or those groups."""
        return credentials.user_kubeconfig(self.layout, name=name, groups=groups)

    def kubectl(self, *arguments: str, kubeconfig: Path | None = None, stdin: str | None = None) -> str:
        """What kubectl prints. Raises `SetUpFailed` with its error message."""
        return apiserver.kubectl(self.layout, *arguments, kubeconfig=kubeconfig, stdin=stdin)

    def api(self) -> apiserver.Https:
        """A connection to the API server as the administrator. Close it, or use it in a `with`."""
        return apiserver.Https(port=self.ports.apiserver, context=apiserver.context(self.layout))

    def audit(self) -> tuple[Bind, ...]:
        """Every bind request so far, refused ones included."""
        return audit_log.binds(self.layout.audit_log)

    def start_components(self, *names: str) -> None:
        """Start these and wait until they are ready; with `server`, its webhooks too."""
        lifecycle.start_components(self.layout, names, say=self.say)

    def stop_components(self, *names: str) -> None:
        """End these and wait until they are gone."""
        lifecycle.stop_components(self.layout, names, say=self.say)

    def restart_components(self, *names: str) -> None:
        self.stop_components(*names)
        self.start_components(*names)

    def change_mode(self, mode: Mode) -> None:
        """Restart the server in another mode; the way of the former mode stays."""
        lifecycle.change_mode(self.layout, mode, say=self.say)

    def set_managed(self, managed: bool) -> None:
        """Have the next start of the server be for managed namespaces alone, or for all."""
        lifecycle.set_managed(self.layout, managed)

    def signal_component(self, name: str, number: signal.Signals) -> None:
        """Signal its whole process group: SIGKILL is a crash, SIGSTOP a hang."""
        processes.kill(self.layout.folder, name, number=number)

    def configure_scheduler(self, edit: Edit | None = None) -> None:
        """Restart kube-scheduler with the project's example, changed by `edit`."""
        scheduler_config.configure(self.layout, self.ports, edit=edit)
        self.restart_components("kube-scheduler")
