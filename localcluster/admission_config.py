"""kube-apiserver's admission configuration: the project's own example with this machine's files.

With it kube-apiserver shows its client certificate to our webhooks, at the URL of one machine and by the name
of the Service.
"""

from __future__ import annotations

from typing import Any

import yaml

from certs.authority import write
from localcluster.components import NAMESPACE
from localcluster.layout import Layout
from localcluster.manifests import MANIFESTS
from localcluster.ports import LOOPBACK, Ports

EXAMPLE = MANIFESTS / "apiserver" / "admission-config.yaml"
KUBECONFIG_EXAMPLE = MANIFESTS / "apiserver" / "webhook-kubeconfig.yaml"
SERVICE = f"sluice.{NAMESPACE}.svc"


def configure(layout: Layout, ports: Ports) -> None:
    """Write both files, for kube-apiserver's next start."""
    configuration = yaml.safe_load(EXAMPLE.read_text())
    for plugin in configuration["plugins"]:
        plugin["configuration"]["kubeConfigFile"] = str(layout.webhook_kubeconfig)
    kubeconfig = yaml.safe_load(KUBECONFIG_EXAMPLE.read_text())
    kubeconfig["users"] = [
        {"name": name, "user": shown}
        for shown in [_shown(layout, kubeconfig)]
        for name in (SERVICE, f"localhost:{ports.server}", f"{LOOPBACK}:{ports.server}")
    ]
    write(layout.admission_config, yaml.safe_dump(configuration, sort_keys=False).encode(), mode=0o644)
    write(layout.webhook_kubeconfig, yaml.safe_dump(kubeconfig, sort_keys=False).encode(), mode=0o600)


def _shown(layout: Layout, kubeconfig: dict[str, Any]) -> dict[str, str]:
    """The user of the example, with this machine's certificate."""
    [user] = kubeconfig["users"]
    certificate, key = layout.caller_certificate("kube-apiserver")
    return {**user["user"], "client-certificate": str(certificate), "client-key": str(key)}
