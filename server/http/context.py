"""What all connections of a worker share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from server.http.connections import ConnectionTable
from server.http.large_bodies import LargeBodies
from server.http.limits import Limits
from server.http.responses import Environ, WsgiApp
from server.http.run_queue import RunQueue


@dataclass(kw_only=True, slots=True)
class ConnectionContext:
    """What all connections of a worker share. Owned by the loop's thread."""

    app: WsgiApp
    limits: Limits
    connections: ConnectionTable
    shared: Environ
    log: Any  # gunicorn's Logger: logging.Logger without being one
    run_queue: RunQueue
    large_bodies: LargeBodies
    clock: Callable[[], float]
    #: Moves while a callback runs, as `clock`, which the loop reads once a turn, does not.
    perf_counter: Callable[[], float]
    date: str = ""
    stopping: bool = False
