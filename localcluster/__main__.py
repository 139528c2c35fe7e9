"""`python -m localcluster up|down|status|build`: a control plane on this machine.

Environment: LOCAL, the cluster's folder (default .local); NODES, how many nodes (default 3); VERSION, which
Kubernetes (default: the newest); MODE, how schedulers ask the server about members (extender, scheduler or
gate; default extender); MANAGED=true: only namespaces with label sluice.dev/managed=true are ours.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from localcluster import build, command_line, lifecycle, processes
from localcluster.command_line import Program
from localcluster.layout import Layout
from localcluster.lifecycle import ClusterOptions
from localcluster.status import print_status


def main(arguments: Sequence[str] | None = None, *, env: Mapping[str, str] = os.environ) -> int:
    """The exit code (`command_line.run`)."""
    return command_line.run(PROGRAM, arguments, env=env)


def _up(layout: Layout, *, nodes: int, server: bool) -> None:
    options = ClusterOptions(
        nodes=nodes,
        server=server,
        mode=command_line.mode(os.environ),
        managed=command_line.managed(os.environ),
    )
    lifecycle.up(layout, options, say=command_line.say)
    if server:
        command_line.say(f"its queues in a browser: {page_command(layout)}")


def page_command(layout: Layout) -> str:
    """The command that shows the page of this cluster's queues, for a shell anywhere."""
    plugins = Path(sys.executable).parent
    return f'PATH={layout.bin}:{plugins}:"$PATH" KUBECONFIG={layout.kubeconfig} kubectl queue ui'


PROGRAM = Program(
    name="python -m localcluster",
    description=__doc__,
    folder=".local",
    nodes=3,
    no_server="the control plane alone",
    up=_up,
    down=lifecycle.down,
    build=lambda layout, *, say: build.binaries(layout.bin, say=say),
    status=print_status,
)

if __name__ == "__main__":
    processes.exit_on_signals()
    sys.exit(main())
