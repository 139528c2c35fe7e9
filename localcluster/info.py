"""What whoever tests from outside has to know of a running cluster: `info.json`."""

from __future__ import annotations

import json
from typing import Any

from certs import authority
from localcluster import processes
from localcluster.addresses import Ports
from localcluster.layout import COMPONENTS, Layout


def write(layout: Layout, ports: Ports) -> None:
    """Bring `info.json` up to date; all its paths are absolute."""
    authority.write(layout.info, json.dumps(collected(layout, ports), indent=2).encode(), mode=0o644)


def collected(layout: Layout, ports: Ports) -> dict[str, Any]:
    living = processes.leaders(layout.folder)
    return {
        "kubeconfig": str(layout.kubeconfig),
        "bin_dir": str(layout.bin),
        "server_url": ports.server_url,
        "metrics_url": f"{ports.server_url}/metrics",
        "ca_file": str(layout.server_ca),
        "logs_dir": str(layout.logs),
        "audit_log": str(layout.audit_log),
        "pids": {name: living[name] for name in COMPONENTS if name in living},
    }
