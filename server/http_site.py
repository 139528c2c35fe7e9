"""What all connections of a worker share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from server.http_answering import Environ, WsgiApp
from server.http_crowd import Crowd
from server.http_limits import Limits


@dataclass(kw_only=True, slots=True)
class Site:
    """What all connections of a worker share. Owned by the loop's thread."""

    app: WsgiApp
    limits: Limits
    crowd: Crowd
    shared: Environ
    log: Any  # gunicorn's Logger: logging.Logger without being one
    soon: Callable[..., Any]
    clock: Callable[[], float]
    date: str = ""
    stopping: bool = False
