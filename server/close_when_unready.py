"""A replica that cannot be relied upon sends its callers elsewhere.

Callers keep their connections: kube-scheduler and kube-apiserver would ask a replica that is cut off for as
long as it answers "not ready", however many others there are. So each such answer ends its connection, and
the next one is dialled anew, which is for whoever stands in front of the replicas to direct.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cluster.cache.store import Store

Environ = dict[str, Any]
WsgiApp = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


class CloseWhenUnready:
    """A WSGI app in front of another, which is asked all the same."""

    def __init__(self, app: WsgiApp, *, store: Store) -> None:
        self._app = app
        self._store = store

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        if self._store.synced:
            return self._app(environ, start_response)

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            return start_response(status, [*headers, ("Connection", "close")], exc_info)

        return self._app(environ, start)
