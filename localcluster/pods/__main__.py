"""`python -m localcluster.pods up|down|status|build`: real nodes and pods on this machine.

Linux on x86_64 and root only.

Environment: LOCAL, the cluster's folder (default .local-pods); NODES, how many nodes (default 2).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence

from localcluster import processes
from localcluster.exceptions import LocalClusterError
from localcluster.layout import Layout
from localcluster.pods import lifecycle
from localcluster.pods.lifecycle import Options


def main(arguments: Sequence[str] | None = None, *, env: Mapping[str, str] = os.environ) -> int:
    """The exit code: 0 done, 1 failed with a message, 128 + n ended by signal n."""
    args = _parser(env).parse_args(arguments)
    layout = Layout.at(args.local)
    try:
        if args.action == "up":
            lifecycle.up(layout, Options(nodes=args.nodes, server=args.server), say=_say)
        elif args.action == "down":
            lifecycle.down(layout, say=_say)
        elif args.action == "build":
            lifecycle.build_all(layout, say=_say)
        else:
            return lifecycle.print_status(layout, say=_say)
    except LocalClusterError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    return 0


def _parser(env: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m localcluster.pods", description=__doc__)
    parser.add_argument("action", choices=["up", "down", "status", "build"])
    parser.add_argument("--local", default=env.get("LOCAL") or ".local-pods", help="the cluster's folder")
    parser.add_argument("--nodes", type=int, default=int(env.get("NODES") or 2), help="how many nodes")
    parser.add_argument("--no-server", dest="server", action="store_false", help="without our manifests")
    return parser


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    processes.exit_on_signals()
    sys.exit(main())
