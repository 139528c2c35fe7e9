"""`python -m localcluster up|down|status|build`: a control plane on this machine.

Environment: LOCAL, the cluster's folder (default .local); NODES, how many nodes (default 3).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence

from localcluster import build as building
from localcluster import signals
from localcluster import start as starting
from localcluster import stop as stopping
from localcluster.build import BuildFailed
from localcluster.exceptions import LocalClusterError
from localcluster.layout import Layout
from localcluster.start import Options
from localcluster.status import report


def main(arguments: Sequence[str] | None = None, *, env: Mapping[str, str] = os.environ) -> int:
    """The exit code: 0 done, 1 failed with a message, 128 + n ended by signal n."""
    given = _parser(env).parse_args(arguments)
    layout = Layout.at(given.local)
    try:
        if given.action == "up":
            starting.up(layout, Options(nodes=given.nodes, server=given.server), say=_say)
        elif given.action == "down":
            stopping.down(layout, say=_say)
        elif given.action == "build":
            building.binaries(layout.bin, say=_say)
        else:
            return report(layout, say=_say)
    except (LocalClusterError, BuildFailed) as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    return 0


def _parser(env: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m localcluster", description=__doc__)
    parser.add_argument("action", choices=["up", "down", "status", "build"])
    parser.add_argument("--local", default=env.get("LOCAL") or ".local", help="the cluster's folder")
    parser.add_argument("--nodes", type=int, default=int(env.get("NODES") or 3), help="how many nodes")
    parser.add_argument("--no-server", dest="server", action="store_false", help="the control plane alone")
    return parser


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    signals.heed()
    sys.exit(main())
