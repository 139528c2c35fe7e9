"""A server whose worker dies as it is told. A script.

    python -m tests.support.http.booting_worker start|later|told

`start`: each worker dies at its start, before it is ready. `later`: each is ready at once, and lives.
`told`: the first gets SIGTERM as soon as it is a process of its own.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from server.gunicorn_app import BootWatch, ServedApp, gunicorn_settings


def main() -> None:
    boot = BootWatch()

    def start(_worker: Any) -> None:
        if sys.argv[1] == "start":
            os.kill(os.getpid(), signal.SIGSEGV)
        boot.set_ready()
        print("ready", file=sys.stderr, flush=True)

    def fork(_server: Any, worker: Any) -> None:
        if sys.argv[1] == "told" and worker.age == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    hooks: dict[str, Callable[..., Any]] = {**boot.hooks(), "post_fork": fork, "post_worker_init": start}
    ServedApp(lambda _environ, _start: [], settings=gunicorn_settings(bind="127.0.0.1:0", hooks=hooks)).run()


if __name__ == "__main__":
    main()
