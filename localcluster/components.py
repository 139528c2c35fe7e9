"""Each component: its command line, its readiness check, and waiting until it is ready."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from localcluster import apiserver, processes, versions
from localcluster.build import Say
from localcluster.exceptions import SetUpFailed, StartFailed
from localcluster.layout import OWN_SCHEDULER, Layout
from localcluster.ports import LOOPBACK, Ports
from queues.mode import Mode

NAMESPACE = "sluice-system"
SCHEDULER_NAME = "default-scheduler"
POD_ADDRESSES = "10.64.0.0/10"
SERVICE_ADDRESSES = "10.0.0.0/24"
#: The common name of each certificate that the server asks for. `caller` is for tests from outside.
CALLERS: Mapping[str, str] = {
    "kube-scheduler": "system:kube-scheduler",
    "kube-apiserver": "kube-apiserver",
    "caller": "local-caller",
}
#: The default is 60. A write with an unknown outcome can land for so long.
REQUEST_SECONDS = 20

Arguments = list[str]


def _more(flags: Path) -> list[str]:
    """Those of a file with one per line, if it exists."""
    return flags.read_text().split() if flags.exists() else []


def _etcd(layout: Layout, ports: Ports) -> Arguments:
    client, peer = f"http://{LOOPBACK}:{ports.etcd}", f"http://{LOOPBACK}:{ports.etcd_peer}"
    return [
        str(layout.bin / "etcd"),
        "--name=local",
        f"--data-dir={layout.etcd}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=local={peer}",
        "--unsafe-no-fsync",  # survives a crash of etcd, not of the machine
        "--quota-backend-bytes=8589934592",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=5m",
        "--log-level=warn",
    ]


def _kube_apiserver(layout: Layout, ports: Ports) -> Arguments:
    pki = layout.pki
    return [
        str(layout.bin / "kube-apiserver"),
        f"--etcd-servers=http://{LOOPBACK}:{ports.etcd}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={ports.apiserver}",
        f"--cert-dir={pki}",
        f"--tls-cert-file={pki / 'serving.crt'}",
        f"--tls-private-key-file={pki / 'serving.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        "--authorization-mode=RBAC",
        # ServiceAccount: pods need no token here. TaintNodesByCondition: a node is usable at once.
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        "--endpoint-reconciler-type=none",
        f"--request-timeout={REQUEST_SECONDS}s",
        f"--service-cluster-ip-range={SERVICE_ADDRESSES}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki / 'service-accounts.pub'}",
        f"--service-account-signing-key-file={pki / 'service-accounts.key'}",
        f"--admission-control-config-file={layout.admission_config}",
        f"--audit-policy-file={layout.audit_policy}",
        f"--audit-log-path={layout.audit_log}",
        "--audit-log-mode=blocking",  # the line is written before the reply is sent
        "--audit-log-maxsize=10240",  # MiB; one file, never rotated away
        "--profiling=false",
        *_more(layout.apiserver_flags),
    ]


def _kube_controller_manager(layout: Layout, ports: Ports) -> Arguments:
    pki, kubeconfig = layout.pki, layout.component_kubeconfig("kube-controller-manager")
    return [
        str(layout.bin / "kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={ports.controller_manager}",
        f"--tls-cert-file={pki / 'serving.crt'}",
        f"--tls-private-key-file={pki / 'serving.key'}",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={pki / 'service-accounts.key'}",
        f"--root-ca-file={pki / 'ca.crt'}",
        f"--cluster-signing-cert-file={pki / 'ca.crt'}",
        f"--cluster-signing-key-file={pki / 'ca.key'}",
        "--kube-api-qps=1000",
        "--kube-api-burst=1000",
        "--concurrent-job-syncs=20",
        # The nodes send no heartbeats (500 of them would be most of the traffic) and never fail.
        "--node-monitor-grace-period=8760h",
        "--profiling=false",
    ]


def _kwok(layout: Layout, ports: Ports) -> Arguments:
    return [
        str(layout.bin / "kwok"),
        f"--kubeconfig={layout.component_kubeconfig('kwok')}",
        f"--config={layout.kwok_config}",
        "--manage-all-nodes=true",
        f"--node-ip={LOOPBACK}",
        f"--cidr={POD_ADDRESSES}",
        f"--server-address={LOOPBACK}:{ports.kwok}",
    ]


def _kube_scheduler(layout: Layout, ports: Ports) -> Arguments:
    pki, kubeconfig = layout.pki, layout.component_kubeconfig("kube-scheduler")
    return [
        str(layout.bin / "kube-scheduler"),
        f"--config={layout.scheduler_config}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={ports.scheduler}",
        f"--tls-cert-file={pki / 'serving.crt'}",
        f"--tls-private-key-file={pki / 'serving.key'}",
        *_more(layout.scheduler_flags),
    ]


def _own_scheduler(layout: Layout, ports: Ports) -> Arguments:
    """As the server's service account, as in its pod."""
    pki, kubeconfig = layout.pki, layout.component_kubeconfig("server")
    return [
        str(layout.bin / "kube-scheduler"),
        f"--config={layout.own_scheduler_config}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--authentication-skip-lookup=true",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={ports.own_scheduler}",
        f"--tls-cert-file={pki / 'serving.crt'}",
        f"--tls-private-key-file={pki / 'serving.key'}",
    ]


def current_mode(layout: Layout) -> Mode:
    """The mode in which the server is started."""
    return Mode(layout.mode.read_text()) if layout.mode.exists() else Mode.EXTENDER


def _server(layout: Layout, ports: Ports) -> Arguments:
    mode = current_mode(layout)
    own = [f"--scheduler-config={layout.own_scheduler_config}"] if mode is Mode.SCHEDULER else []
    return [
        str(Path(sys.executable).with_name("sluice")),
        "serve",
        f"--kubeconfig={layout.component_kubeconfig('server')}",
        f"--bind={LOOPBACK}:{ports.server}",
        f"--health-bind={LOOPBACK}:{ports.health}",
        "--queue-metrics=true",
        f"--client-ca={layout.caller_authorities}",
        f"--scheduler-callers={CALLERS['kube-scheduler']},{CALLERS['caller']}",
        f"--api-server-callers={CALLERS['kube-apiserver']},{CALLERS['caller']}",
        f"--certs-dir={layout.server_certs}",
        f"--webhook-url={ports.webhook_url}",
        f"--namespace={NAMESPACE}",
        f"--mode={mode}",
        f"--schedulers={SCHEDULER_NAME}",
        *own,
        *([f"--managed-namespaces={layout.managed.read_text()}"] if layout.managed.exists() else ()),
        f"--request-timeout={REQUEST_SECONDS}",
    ]


#: None if the component is ready, else what is wrong.
ReadinessCheck = Callable[[Layout, Ports], str | None]


def _etcd_problem(_: Layout, ports: Ports) -> str | None:
    return apiserver.readiness_problem(ports.etcd, "/readyz", context=None)


def _kwok_problem(_: Layout, ports: Ports) -> str | None:
    return apiserver.readiness_problem(ports.kwok, "/readyz", context=None)


def _over_tls(port: str, path: str) -> ReadinessCheck:
    def problem(layout: Layout, ports: Ports) -> str | None:
        return apiserver.readiness_problem(getattr(ports, port), path, context=apiserver.context(layout))

    return problem


def _of_scheduler(port: str) -> ReadinessCheck:
    def problem(layout: Layout, ports: Ports) -> str | None:
        return _over_tls(port, versions.scheduler_readiness_path(layout.version))(layout, ports)

    return problem


def _server_problem(_: Layout, ports: Ports) -> str | None:
    return apiserver.readiness_problem(ports.health, "/readyz", context=None)


@dataclass(frozen=True)
class Component:
    """How a component is started, and how its readiness is checked."""

    command: Callable[[Layout, Ports], Arguments]
    problem: ReadinessCheck
    seconds: float = 180  # until it must be ready; a loaded machine is slow


BY_NAME: Mapping[str, Component] = {
    "etcd": Component(_etcd, _etcd_problem),
    "kube-apiserver": Component(_kube_apiserver, _over_tls("apiserver", "/readyz")),
    "kube-controller-manager": Component(
        _kube_controller_manager, _over_tls("controller_manager", "/healthz")
    ),
    "kwok": Component(_kwok, _kwok_problem),
    "kube-scheduler": Component(_kube_scheduler, _of_scheduler("scheduler")),
    "server": Component(_server, _server_problem),
    OWN_SCHEDULER: Component(_own_scheduler, _of_scheduler("own_scheduler")),
}

POLL_SECONDS = 0.05
LOG_TAIL_LINES = 15


@dataclass(frozen=True)
class Started:
    """A component to wait for: when it was started (monotonic), and whether it was by this command."""

    at: float
    new: bool


def until_ready(layout: Layout, ports: Ports, *, started: Mapping[str, Started], say: Say) -> None:
    """Return once every component of `started` is ready; says so for those that are new.

    Raises `StartFailed`, which names the first component that died or took too long.
    """
    waiting = dict(started)
    while waiting:
        for name, component in list(waiting.items()):
            problem = BY_NAME[name].problem(layout, ports)
            if problem is None:
                if component.new:
                    say(f"{name} ready after {time.monotonic() - component.at:.1f} s")
                del waiting[name]
            else:
                _check_still_starting(layout, name, component.at, problem)
        if waiting:
            time.sleep(POLL_SECONDS)


def until(
    condition: Callable[[], bool], *, what: str, seconds: float = 60, pause: float = POLL_SECONDS
) -> None:
    """Return once `condition()` is true; raises `SetUpFailed` with `what` after `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SetUpFailed(f"waited {seconds:.0f} s for {what}")
        time.sleep(pause)


def _check_still_starting(layout: Layout, name: str, since: float, problem: str) -> None:
    limit = BY_NAME[name].seconds
    if name not in processes.leaders(layout.folder):
        raise StartFailed(f"{name} ended while it was starting; {log_tail(layout.log(name))}")
    if time.monotonic() - since > limit:
        raise StartFailed(f"{name} is not ready after {limit:.0f} s: {problem}; {log_tail(layout.log(name))}")


def log_tail(log: Path) -> str:
    """The end of a log, with its path."""
    try:
        lines = log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
    except OSError:
        return f"it has no log at {log}"
    return "\n".join([f"the end of {log}:", *lines])
