"""The files of one cluster: paths only, nothing is read or written here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

#: Every component, in the order in which they are started.
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok", "kube-scheduler", "server")
#: Our own kube-scheduler, where the mode is or was `scheduler`; started after all others.
OWN_SCHEDULER = "sluice-scheduler"

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Layout:
    """The files of the cluster in `folder`, an absolute path that no other cluster has."""

    folder: Path

    @classmethod
    def at(cls, folder: Path | str) -> Layout:
        return cls(Path(folder).expanduser().resolve())

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.folder / "kubeconfig"

    @property
    def info(self) -> Path:
        return self.folder / "info.json"

    @property
    def lock(self) -> Path:
        """Locked while components are started or stopped."""
        return self.folder / ".lock"

    @property
    def ports(self) -> Path:
        return self.folder / "ports.json"

    @property
    def version(self) -> Path:
        """Which Kubernetes it is, such as 1.36."""
        return self.folder / "version"

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def audit_log(self) -> Path:
        return self.logs / "audit.log"

    @property
    def etcd(self) -> Path:
        return self.folder / "etcd"

    @property
    def pki(self) -> Path:
        return self.folder / "pki"

    @property
    def kubeconfigs(self) -> Path:
        return self.folder / "kubeconfigs"

    @property
    def config(self) -> Path:
        return self.folder / "config"

    @property
    def scheduler_config(self) -> Path:
        return self.config / "scheduler.yaml"

    @property
    def apiserver_flags(self) -> Path:
        """More flags of kube-apiserver, one per line."""
        return self.config / "apiserver.flags"

    @property
    def scheduler_flags(self) -> Path:
        """More of its flags, one per line."""
        return self.config / "scheduler.flags"

    @property
    def own_scheduler_config(self) -> Path:
        """The configuration of our own kube-scheduler (mode `scheduler`)."""
        return self.config / "sluice-scheduler.yaml"

    @property
    def mode(self) -> Path:
        """The mode in which the server is started: one word."""
        return self.config / "mode"

    @property
    def managed(self) -> Path:
        """Exists if the server is started for managed namespaces alone; their selector."""
        return self.config / "managed-namespaces"

    @property
    def kwok_config(self) -> Path:
        return self.config / "kwok.yaml"

    @property
    def audit_policy(self) -> Path:
        return self.config / "audit-policy.yaml"

    @property
    def server_certs(self) -> Path:
        """The server's own authority and certificates."""
        return self.folder / "server-certs"

    @property
    def server_ca(self) -> Path:
        return self.server_certs / "ca.crt"

    @property
    def callers(self) -> Path:
        """The authority of those who may call the server, and their certificates."""
        return self.folder / "callers"

    @property
    def caller_authorities(self) -> Path:
        return self.callers / "ca.crt"

    def caller_certificate(self, name: str) -> tuple[Path, Path]:
        """Certificate and key of `kube-scheduler`, `kube-apiserver` or `caller`."""
        return self.callers / f"{name}.crt", self.callers / f"{name}.key"

    @property
    def admission_config(self) -> Path:
        """kube-apiserver's."""
        return self.config / "admission.yaml"

    @property
    def webhook_kubeconfig(self) -> Path:
        """What kube-apiserver shows to webhooks."""
        return self.kubeconfigs / "webhooks.kubeconfig"

    @property
    def kubectl_cache(self) -> Path:
        return self.folder / "kubectl-cache"

    @property
    def perishable(self) -> tuple[Path, ...]:
        """What `make down` removes: everything of ours except the logs."""
        return (
            self.kubeconfig,
            self.info,
            self.ports,
            self.version,
            self.bin,
            self.etcd,
            self.pki,
            self.kubeconfigs,
            self.config,
            self.server_certs,
            self.callers,
            self.kubectl_cache,
        )

    def component_kubeconfig(self, name: str) -> Path:
        return self.kubeconfigs / f"{name}.kubeconfig"

    def log(self, component: str) -> Path:
        return self.logs / f"{component}.log"
