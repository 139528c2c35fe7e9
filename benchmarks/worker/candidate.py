"""Serves one candidate until a signal ends it.

python -m benchmarks.worker.candidate CANDIDATE APP CERTFILE KEYFILE [--compute]
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Any

from benchmarks.worker.app import APPS, compute_beside
from benchmarks.worker.asgi import asgi_of
from server.gunicorn_app import ServedApp, gunicorn_settings

#: Those that gunicorn runs, with its settings. A name that ends in `-h2` is asked over HTTP/2.
GUNICORN: dict[str, dict[str, Any]] = {
    "own": {},
    "own-h2": {},
    "asgi": {"worker_class": "asgi", "keepalive": 100, "worker_connections": 4000},
    "gthread": {"worker_class": "gthread", "threads": 64, "keepalive": 100},
    "gthread-h2": {"worker_class": "gthread", "threads": 64, "keepalive": 100, "http_protocols": "h2,h1"},
    "gevent": {"worker_class": "gevent", "keepalive": 100, "worker_connections": 4000},
}
#: granian, by its own command line: one worker, and one thread that holds the interpreter.
GRANIAN = {"granian": "wsgi", "granian-h2": "wsgi"}
CANDIDATES = (*GUNICORN, *GRANIAN)
#: Measured unless others are named. (gevent is no dependency; gthread answers nobody while besieged.)
USUAL = ("own", "own-h2", "granian", "granian-h2", "asgi")


def main() -> None:
    """Serve on a free port, which the log names."""
    name, app, certfile, keyfile, *beside = sys.argv[1:]
    if name in GRANIAN:
        serve_by_granian(app, certfile=certfile, keyfile=keyfile)
    hooks = {"post_worker_init": lambda _: compute_beside()} if beside else {}
    settings = gunicorn_settings(
        bind="127.0.0.1:0", certfile=Path(certfile), keyfile=Path(keyfile), hooks=hooks
    )
    served: Any = asgi_of(APPS[app]) if name == "asgi" else APPS[app]
    ServedApp(served, settings=settings | GUNICORN[name]).run()


def serve_by_granian(app: str, *, certfile: str, keyfile: str) -> None:
    """In place of this process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    print(f"Listening at: https://127.0.0.1:{port} (chosen)", file=sys.stderr, flush=True)
    where = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1", "--interface", "wsgi"]
    tls = ["--ssl-certificate", certfile, "--ssl-keyfile", keyfile]
    target = f"benchmarks.worker.app:{app}_app"
    os.execv(sys.executable, [sys.executable, "-m", "granian", *where, *tls, "--no-log", target])  # noqa: S606


if __name__ == "__main__":
    main()
