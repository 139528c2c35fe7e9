"""How gunicorn serves the app: its settings as values, and the application that carries them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]

from server.http.limits import Limits
from server.http.responses import WsgiApp
from server.http.worker import Worker

Hooks = Mapping[str, Callable[..., Any]]

MEMORY = Path("/dev/shm")  # noqa: S108 - the heartbeat's file, which must not wait for a disk


def gunicorn_settings(
    *, bind: str, certfile: Path | None = None, keyfile: Path | None = None, hooks: Hooks | None = None
) -> dict[str, Any]:
    """gunicorn's settings by name, and hooks by gunicorn's names. Without a certificate: plain HTTP."""
    return {
        "bind": bind,
        "certfile": None if certfile is None else str(certfile),
        "keyfile": None if keyfile is None else str(keyfile),
        "worker_class": Worker,
        "workers": 1,  # one cache and one controller thread a process
        "backlog": 2048,
        "timeout": 30,
        "graceful_timeout": 20,
        "worker_tmp_dir": str(MEMORY) if MEMORY.is_dir() else None,
        "control_socket_disable": True,  # nobody needs a second way in
        **(hooks or {}),
    }


class ServedApp(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """`ServedApp(app, settings=gunicorn_settings(...)).run()` serves until a signal ends it; no return."""

    def __init__(self, app: WsgiApp, *, settings: Mapping[str, Any], limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._app = app
        self._settings = settings
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._settings.items():
            if value is not None:
                self.cfg.set(name, value)

    def load(self) -> WsgiApp:
        return self._app
