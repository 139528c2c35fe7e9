"""What runs of a cluster, for people."""

from __future__ import annotations

from localcluster import addresses, processes
from localcluster.build import Say
from localcluster.components import BY_NAME
from localcluster.layout import COMPONENTS, Layout


def report(layout: Layout, *, say: Say) -> int:
    """One line per component; 0 if all are ready, else 1."""
    living = processes.leaders(layout.folder)
    states = {name: _state(layout, name, living) for name in COMPONENTS}
    for name, state in states.items():
        say(f"{name:<24} {living.get(name, '-'):>8}  {state}")
    return 0 if set(states.values()) == {"ready"} else 1


def _state(layout: Layout, name: str, living: dict[str, int]) -> str:
    if name not in living:
        return "not running"
    if not layout.ports.exists():
        return "running, its files are gone"
    trouble = BY_NAME[name].trouble(layout, addresses.load(layout.ports))
    return "ready" if trouble is None else f"not ready: {trouble}"
