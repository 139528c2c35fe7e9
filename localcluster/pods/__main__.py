"""`python -m localcluster.pods up|down|status|build`: real nodes and pods on this machine.

Linux on x86_64 and root only.

Environment: LOCAL, the cluster's folder (default .local-pods); NODES, how many nodes (default 2); MODE, how
schedulers ask the server about members (extender, scheduler or gate; default extender).
"""

from __future__ import annotations

import os
import sys

from localcluster import command_line, processes
from localcluster.command_line import Program
from localcluster.layout import Layout
from localcluster.pods import lifecycle
from localcluster.pods.lifecycle import PodClusterOptions


def _up(layout: Layout, *, nodes: int, server: bool) -> None:
    options = PodClusterOptions(nodes=nodes, server=server, mode=command_line.mode(os.environ))
    lifecycle.up(layout, options, say=command_line.say)


PROGRAM = Program(
    name="python -m localcluster.pods",
    description=__doc__,
    folder=".local-pods",
    nodes=2,
    no_server="without our manifests",
    up=_up,
    down=lifecycle.down,
    build=lifecycle.fill_cache,
    status=lifecycle.print_status,
)

if __name__ == "__main__":
    processes.exit_on_signals()
    sys.exit(command_line.run(PROGRAM, None, env=os.environ))
