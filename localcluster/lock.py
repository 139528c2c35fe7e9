"""One at a time starts or stops components of a cluster."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from localcluster.build import Say
from localcluster.layout import Layout


@contextmanager
def locked(layout: Layout, *, say: Say) -> Iterator[None]:
    """Hold the cluster's lock; says so when another start or stop has to end first.

    The lock ends with the process that holds it, however that ends.
    """
    layout.folder.mkdir(parents=True, exist_ok=True)
    with layout.lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another start or stop of {layout.folder} is at work; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
