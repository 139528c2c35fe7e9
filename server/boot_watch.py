"""A worker that ends before it was ready once ends the server: a start that crashes is a failure.

gunicorn starts another worker in the place of one that has died. That is right for one that has served: its
callers are served again within a second. One that dies at its start would be started over and over, unseen.
So the server ends instead, with exit code `FAILED` and the reason in its log, and whoever has started it
decides: `make up` fails and shows the log, a kubelet starts the container again and counts.

| the worker ends                              | what follows                            |
|----------------------------------------------|-----------------------------------------|
| after it was ready (the cluster was read)    | another worker                          |
| before, of a signal or with any exit code    | the server ends with `FAILED`           |
| while the server is being stopped            | the server ends as it would have        |

Each worker begins anew: one that takes the place of another has a start of its own.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any

from gunicorn.errors import HaltServer  # type: ignore[import-untyped]

FAILED = 1


class BootWatch:
    """Whether the worker has been ready: one byte that master and worker share. Make it before the fork."""

    def __init__(self) -> None:
        self._ready = mmap.mmap(-1, 1)

    def set_ready(self) -> None:
        """The worker is ready; called in the worker."""
        self._ready[0] = 1

    def hooks(self) -> dict[str, Callable[..., Any]]:
        """gunicorn's, all of them called in the master."""
        return {"pre_fork": self._on_pre_fork, "child_exit": self._on_child_exit}

    def _on_pre_fork(self, _server: Any, _worker: Any) -> None:
        self._ready[0] = 0

    def _on_child_exit(self, server: Any, worker: Any) -> None:
        is_stopping = not server.LISTENERS
        if not self._ready[0] and not is_stopping:
            raise HaltServer(f"the worker (pid {worker.pid}) ended before it was ready", FAILED)
