"""Waiting for components, all at once, with the reason when it was in vain."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from localcluster import processes
from localcluster.addresses import Ports
from localcluster.build import Say
from localcluster.components import BY_NAME
from localcluster.exceptions import SetUpFailed, StartFailed
from localcluster.layout import Layout

PAUSE = 0.05
TAIL = 15


@dataclass(frozen=True)
class Awaited:
    """A component to wait for: since when (monotonic), and whether it was started just then."""

    since: float
    new: bool


def until_ready(layout: Layout, ports: Ports, *, awaited: Mapping[str, Awaited], say: Say) -> None:
    """Return once every component of `awaited` is ready; says so of those that are new.

    Raises `StartFailed`, naming the first one that died or took too long.
    """
    waiting = dict(awaited)
    while waiting:
        for name, each in list(waiting.items()):
            trouble = BY_NAME[name].trouble(layout, ports)
            if trouble is None:
                if each.new:
                    say(f"{name} ready after {time.monotonic() - each.since:.1f} s")
                del waiting[name]
            else:
                _hopeful(layout, name, each.since, trouble)
        if waiting:
            time.sleep(PAUSE)


def until(holds: Callable[[], bool], *, what: str, seconds: float = 30, pause: float = PAUSE) -> None:
    """Return once `holds()`; raises `SetUpFailed` with `what` after `seconds`. `pause`: between looks."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise SetUpFailed(f"waited {seconds:.0f} s for {what}")
        time.sleep(pause)


def _hopeful(layout: Layout, name: str, since: float, trouble: str) -> None:
    limit = BY_NAME[name].seconds
    if name not in processes.leaders(layout.folder):
        raise StartFailed(f"{name} ended while it was starting; {tail(layout.log(name))}")
    if time.monotonic() - since > limit:
        raise StartFailed(f"{name} is not ready after {limit:.0f} s: {trouble}; {tail(layout.log(name))}")


def tail(log: Path) -> str:
    """The end of a log, with its place."""
    try:
        lines = log.read_text(errors="replace").splitlines()[-TAIL:]
    except OSError:
        return f"it has no log at {log}"
    return "\n".join([f"the end of {log}:", *lines])
