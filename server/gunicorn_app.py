"""How gunicorn serves the app: its settings, the application, and what happens when a worker ends.

gunicorn replaces a worker that has died. That is right for one that has served: its clients are served again
within a second. A worker that dies at its start would be started over and over, and nobody would notice. So
then the server ends instead, with exit code `FAILED` and the reason in its log: `make up` fails and shows the
log, and a kubelet restarts the container and counts the restarts.

| the worker ends                              | what follows                            |
|----------------------------------------------|-----------------------------------------|
| after it was ready (the cluster was read)    | gunicorn starts another worker          |
| before, by a signal or with any exit code    | the server ends with `FAILED`           |
| while the server is being stopped            | the server ends as it would have        |

This holds for each worker anew: one that replaces another has a start of its own.

A new worker has the master's signal handlers until it has its own. They would note a SIGTERM for the master's
loop, which does not run in the worker. So `HELD_SIGNALS` are blocked from before the fork on: the worker
takes them once its handlers are there (`Worker.init_signals`), the master at once.
"""

from __future__ import annotations

import mmap
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]
from gunicorn.errors import HaltServer  # type: ignore[import-untyped]

from server.http.authorization import ClientCertificates
from server.http.limits import Limits
from server.http.refusals import Count
from server.http.responses import WsgiApp
from server.http.worker import HELD_SIGNALS, Worker

Hooks = Mapping[str, Callable[..., Any]]

FAILED = 1
MEMORY = Path("/dev/shm")  # noqa: S108 - for the heartbeat file, which must not wait for a disk


def gunicorn_settings(
    *,
    bind: str,
    health_bind: str = "",
    certfile: Path | None = None,
    keyfile: Path | None = None,
    hooks: Hooks | None = None,
) -> dict[str, Any]:
    """gunicorn's settings by name; hooks are settings too. Without a certificate: plain HTTP.

    `health_bind`: one more address, for probes alone, plain HTTP always.
    """
    return {
        "bind": [bind, *([health_bind] if health_bind else [])],
        "certfile": None if certfile is None else str(certfile),
        "keyfile": None if keyfile is None else str(keyfile),
        "worker_class": Worker,
        "workers": 1,  # one cache and one controller thread per process
        "backlog": 2048,
        "timeout": 30,
        "graceful_timeout": 20,
        "worker_tmp_dir": str(MEMORY) if MEMORY.is_dir() else None,
        "control_socket_disable": True,  # it would be a second way to control the server
        **(hooks or {}),
    }


class ServedApp(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """`ServedApp(app, settings=gunicorn_settings(...)).run()` serves until a signal ends it.

    It never returns.
    """

    def __init__(
        self,
        app: WsgiApp,
        *,
        settings: Mapping[str, Any],
        limits: Limits | None = None,
        count_refusal: Count = lambda _path, _status: None,
        client_certificates: ClientCertificates | None = None,
    ) -> None:
        """`count_refusal`: called with the path and the status of each request that never reaches the app.

        `client_certificates`: who may call; None: everybody.
        """
        self.client_certificates = client_certificates
        self.limits = limits or Limits()
        self.count_refusal = count_refusal
        self._app = app
        self._settings = settings
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._settings.items():
            if value is not None:
                self.cfg.set(name, value)
        self.cfg.set("pre_fork", _holding_signals(self.cfg.pre_fork))

    def load(self) -> WsgiApp:
        return self._app


def _holding_signals(pre_fork: Callable[..., Any]) -> Callable[..., Any]:
    """The hook `pre_fork`, which also blocks `HELD_SIGNALS`; gunicorn calls it right before the fork."""
    os.register_at_fork(after_in_parent=_release_signals)

    def hold(server: Any, worker: Any) -> None:
        pre_fork(server, worker)
        signal.pthread_sigmask(signal.SIG_BLOCK, HELD_SIGNALS)

    return hold


def _release_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_SIGNALS)


class BootWatch:
    """Whether the worker has been ready: one byte that master and worker share. Create it before the fork."""

    def __init__(self) -> None:
        self._ready = mmap.mmap(-1, 1)

    def set_ready(self) -> None:
        """The worker is ready; called in the worker."""
        self._ready[0] = 1

    def hooks(self) -> dict[str, Callable[..., Any]]:
        """gunicorn's hooks; gunicorn calls them in the master."""
        return {"pre_fork": self._on_pre_fork, "child_exit": self._on_child_exit}

    def _on_pre_fork(self, _server: Any, _worker: Any) -> None:
        self._ready[0] = 0

    def _on_child_exit(self, server: Any, worker: Any) -> None:
        is_stopping = not server.LISTENERS
        if not self._ready[0] and not is_stopping:
            raise HaltServer(f"the worker (pid {worker.pid}) ended before it was ready", FAILED)
