"""What runs of a cluster: a table for people, and `info.json` for programs that test from outside."""

from __future__ import annotations

import json
from typing import Any

from certs import authority
from localcluster import processes
from localcluster.build import Say
from localcluster.components import BY_NAME, current_mode
from localcluster.layout import COMPONENTS, OWN_SCHEDULER, Layout
from localcluster.ports import Ports, load_ports
from queues.mode import Mode


def print_status(layout: Layout, *, say: Say) -> int:
    """One line per component; returns 0 if all are ready, else 1."""
    running = processes.leaders(layout.folder)
    own = [OWN_SCHEDULER] if current_mode(layout) is Mode.SCHEDULER else []
    states = {name: _state(layout, name, running) for name in (*COMPONENTS, *own)}
    for name, state in states.items():
        say(f"{name:<24} {running.get(name, '-'):>8}  {state}")
    return 0 if set(states.values()) == {"ready"} else 1


def _state(layout: Layout, name: str, running: dict[str, int]) -> str:
    if name not in running:
        return "not running"
    if not layout.ports.exists():
        return "running, its files are gone"
    problem = BY_NAME[name].problem(layout, load_ports(layout.ports))
    return "ready" if problem is None else f"not ready: {problem}"


def write_info(layout: Layout, ports: Ports) -> None:
    """Write `info.json` anew."""
    authority.write(layout.info, json.dumps(build_info(layout, ports), indent=2).encode(), mode=0o644)


def build_info(layout: Layout, ports: Ports) -> dict[str, Any]:
    """The content of `info.json`; all paths are absolute."""
    running = processes.leaders(layout.folder)
    certificate, key = layout.caller_certificate("caller")
    return {
        "kubeconfig": str(layout.kubeconfig),
        "bin_dir": str(layout.bin),
        "server_url": ports.server_url,
        "metrics_url": f"{ports.health_url}/metrics",
        "ca_file": str(layout.server_ca),
        "client_cert": str(certificate),
        "client_key": str(key),
        "logs_dir": str(layout.logs),
        "audit_log": str(layout.audit_log),
        "pids": {name: running[name] for name in (*COMPONENTS, OWN_SCHEDULER) if name in running},
    }
