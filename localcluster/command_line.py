"""The command line of `python -m localcluster`, and of `python -m localcluster.pods`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from localcluster.build import Say
from localcluster.exceptions import LocalClusterError, StartFailed
from localcluster.layout import Layout
from queues.mode import Mode
from queues.text import any_of


class Start(Protocol):
    def __call__(self, layout: Layout, *, nodes: int, server: bool) -> None: ...


class ClusterAction(Protocol):
    """An action; a number that it returns is the exit code."""

    def __call__(self, layout: Layout, *, say: Say) -> object: ...


class Program(NamedTuple):
    """One kind of cluster. `folder`, `nodes`: what LOCAL and NODES are by default; `no_server`: the help of
    that flag.
    """

    name: str
    description: str | None
    folder: str
    nodes: int
    no_server: str
    up: Start
    down: ClusterAction
    build: ClusterAction
    status: ClusterAction


def run(program: Program, arguments: Sequence[str] | None, *, env: Mapping[str, str]) -> int:
    """The exit code: 0 done, 1 failed with a message, 128 + n ended by signal n."""
    args = _parser(program, env).parse_args(arguments)
    layout = Layout.at(args.local)
    others = {"down": program.down, "build": program.build, "status": program.status}
    try:
        if args.action == "up":
            program.up(layout, nodes=args.nodes, server=args.server)
            return 0
        code = others[args.action](layout, say=say)
    except LocalClusterError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    return code if isinstance(code, int) else 0


def _parser(program: Program, env: Mapping[str, str]) -> argparse.ArgumentParser:
    nodes = env.get("NODES") or str(program.nodes)
    parser = argparse.ArgumentParser(prog=program.name, description=program.description)
    parser.add_argument("action", choices=["up", "down", "status", "build"])
    parser.add_argument("--local", default=env.get("LOCAL") or program.folder, help="the cluster's folder")
    parser.add_argument("--nodes", type=int, default=nodes, help="how many nodes")
    parser.add_argument("--no-server", dest="server", action="store_false", help=program.no_server)
    return parser


def mode(env: Mapping[str, str]) -> Mode | None:
    """What MODE names; None: as before, or `extender`. Raises `StartFailed`."""
    name = env.get("MODE", "")
    if name and name not in set(Mode):
        raise StartFailed(f"MODE is {name!r}; it may be {any_of(list(Mode))}")
    return Mode(name) if name else None


def managed(env: Mapping[str, str]) -> bool | None:
    """What MANAGED says; None: as before, or false. Raises `StartFailed`."""
    word = env.get("MANAGED", "")
    if word not in ("", "true", "false"):
        raise StartFailed(f"MANAGED is {word!r}; it may be true or false")
    return word == "true" if word else None


def say(line: str) -> None:
    """Print a line of progress at once."""
    print(line, flush=True)
