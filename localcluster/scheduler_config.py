"""kube-scheduler's configuration: the project's own example with this machine's addresses and files. Likewise
that of our own kube-scheduler (mode `scheduler`).

An `Edit` changes the finished configuration in place, for tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from certs.authority import write
from localcluster.layout import Layout
from localcluster.manifests import MANIFESTS
from localcluster.ports import Ports

EXAMPLE = MANIFESTS / "scheduler" / "scheduler-config.yaml"
#: With client certificates, for which a server asks that is started here.
OWN = MANIFESTS / "ways" / "scheduler-client-certificates" / "scheduler-config.yaml"
QPS = 5000  # with the default of 50 a benchmark would measure only that

SchedulerConfigBody = dict[str, Any]
Edit = Callable[[SchedulerConfigBody], None]


def configure(
    layout: Layout,
    ports: Ports,
    *,
    edit: Edit | None = None,
    flags: Sequence[str] = (),
    example: Path = EXAMPLE,
) -> None:
    """Write the configuration for the scheduler's next start; `flags`: options that exist only as flags."""
    configuration = filled_in(
        yaml.safe_load(example.read_text()),
        kubeconfig=layout.component_kubeconfig("kube-scheduler"),
        server_url=ports.server_url,
        tls=_tls_config(layout),
    )
    if edit is not None:
        edit(configuration)
    write(layout.scheduler_config, yaml.safe_dump(configuration, sort_keys=False).encode(), mode=0o644)
    write(layout.scheduler_flags, "".join(f"{flag}\n" for flag in flags).encode(), mode=0o644)


def configure_own(layout: Layout, ports: Ports) -> None:
    """Write the configuration of our own kube-scheduler; it keeps its Lease, as in its pod."""
    own = yaml.safe_load(OWN.read_text())
    certificate, key = layout.caller_certificate("kube-scheduler")
    configuration = filled_in(
        own,
        kubeconfig=layout.component_kubeconfig("server"),
        server_url=ports.server_url,
        # As in its pod: it verifies nothing on its own loopback, and shows its certificate.
        tls={"insecure": True, "certFile": str(certificate), "keyFile": str(key)},
    )
    configuration["leaderElection"] = own["leaderElection"]
    write(layout.own_scheduler_config, yaml.safe_dump(configuration, sort_keys=False).encode(), mode=0o644)


def _tls_config(layout: Layout) -> Mapping[str, str]:
    certificate, key = layout.caller_certificate("kube-scheduler")
    return {"caFile": str(layout.server_ca), "certFile": str(certificate), "keyFile": str(key)}


def filled_in(
    example: SchedulerConfigBody, *, kubeconfig: Path, server_url: str, tls: Mapping[str, Any]
) -> SchedulerConfigBody:
    """The example, with the clients, extenders and leader election of one machine."""
    return {
        **example,
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": QPS, "burst": QPS},
        "leaderElection": {"leaderElect": False},
        "extenders": [_with_local_url(each, server_url, tls) for each in example.get("extenders", [])],
    }


def without_extenders(configuration: SchedulerConfigBody) -> None:
    """A scheduler that does not call the server."""
    configuration["extenders"] = []


def without_preempt(configuration: SchedulerConfigBody) -> None:
    """Extenders that are not called for preemption."""
    for extender in configuration["extenders"]:
        extender.pop("preemptVerb", None)


def scoring(percentage: int) -> Edit:
    """Score only this share of the nodes (percentageOfNodesToScore)."""

    def edit(configuration: SchedulerConfigBody) -> None:
        configuration["percentageOfNodesToScore"] = percentage

    return edit


def _with_local_url(
    extender: SchedulerConfigBody, server_url: str, tls: Mapping[str, Any]
) -> SchedulerConfigBody:
    path = urlsplit(extender["urlPrefix"]).path
    return {
        **extender,
        "urlPrefix": server_url + path,
        "enableHTTPS": True,
        "tlsConfig": dict(tls),
    }
