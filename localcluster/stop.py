"""Stopping a cluster: all of it, or one component."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from localcluster import processes
from localcluster.build import Say
from localcluster.layout import COMPONENTS, Layout
from localcluster.lock import locked

GRACE = 10
#: Killed at once: etcd loses nothing by it, and an API server with clients takes a minute to end.
STORE = frozenset({"etcd", "kube-apiserver"})


def down(layout: Layout, *, say: Say) -> None:
    """No process of the cluster is left, and none of its files but the logs. Fine if nothing runs."""
    if not layout.folder.exists() and not processes.find(layout.folder):
        say(f"nothing runs in {layout.folder}")
        return
    with locked(layout, say=say):
        running = [name for name in COMPONENTS if name in processes.leaders(layout.folder)]
        processes.stop(layout.folder, components=set(COMPONENTS) - STORE, grace=GRACE)
        processes.stop(layout.folder, grace=0)
        for path in layout.perishable:
            _remove(path)
    say(f"stopped {', '.join(running) or 'nothing'}; logs are kept in {layout.logs}")


def stop(layout: Layout, names: Sequence[str], *, say: Say) -> None:
    """These components are gone afterwards; the rest runs on."""
    with locked(layout, say=say):
        for name in names:
            processes.stop(layout.folder, components=[name], grace=0 if name in STORE else GRACE)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
