"""Serves one candidate until a signal ends it.

python -m benchmarks.worker.candidate CANDIDATE APP CERTFILE KEYFILE [--compute]
"""

import sys
from pathlib import Path
from typing import Any

from benchmarks.worker.app import APPS, compute_beside
from server.gunicorn_settings import ServedApp, gunicorn_settings

CANDIDATES: dict[str, dict[str, Any]] = {
    "own": {},
    "gthread": {"worker_class": "gthread", "threads": 64, "keepalive": 100},
    "gthread-h2": {"worker_class": "gthread", "threads": 64, "keepalive": 100, "http_protocols": "h2,h1"},
    "gevent": {"worker_class": "gevent", "keepalive": 100, "worker_connections": 4000},
}


def main() -> None:
    """Serve on a free port, which gunicorn's log names."""
    name, app, certfile, keyfile, *beside = sys.argv[1:]
    hooks = {"post_worker_init": lambda _: compute_beside()} if beside else {}
    settings = gunicorn_settings(
        bind="127.0.0.1:0", certfile=Path(certfile), keyfile=Path(keyfile), hooks=hooks
    )
    ServedApp(APPS[app], settings=settings | CANDIDATES[name]).run()


if __name__ == "__main__":
    main()
