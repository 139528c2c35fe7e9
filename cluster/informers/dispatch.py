"""Passes a reflector's objects to its event handler, and isolates the ones that fail.

Invariants
- An exception that the handler raises for one object affects that object alone. All others are passed on.
- An object that failed is passed on again after a growing back-off (`backoff`), at the next event or
  bookmark of its kind. A newer state of it is passed on at once. A state older than the latest is never
  passed on.
- After a list, the handler has exactly the objects of the list. An object that the handler rejects is left
  out, and its former state is removed.

Threads: the reflector's thread only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from cluster.key_backoff import KeyBackoff
from cluster.objects import Metadata


class ApiObject(Protocol):
    """Any object of the API server."""

    @property
    def metadata(self) -> Metadata: ...


T = TypeVar("T", bound=ApiObject)


class EventHandler(Protocol[T]):
    """Receives the objects of a reflector; called from the reflector's thread only."""

    def replace(self, objects: list[T]) -> None:
        """Replace all objects: these are all that exist."""

    def upsert(self, obj: T) -> None:
        """Store an object that was added or changed."""

    def remove(self, obj: T) -> None:
        """Remove an object; `obj` is its last state."""


class IsolatedEventHandler(Generic[T]):
    """A handler that raises nothing for a single object. `kind` names the kind in the log."""

    def __init__(self, handler: EventHandler[T], *, kind: str, backoff: KeyBackoff) -> None:
        self._handler = handler
        self._step = f"handle {kind}"
        self._backoff = backoff
        #: The calls to repeat, with the last state of each object.
        self._failed: dict[tuple[str, str], tuple[Callable[[T], None], T]] = {}

    def replace(self, objects: list[T]) -> None:
        """Raise only if the handler fails even with the objects that it accepted one by one."""
        self._failed.clear()
        self._backoff.forget_all(self._step)
        try:
            self._handler.replace(objects)
        except Exception as exc:
            self._backoff.record_failure(self._step, "the list", exc)
            accepted = [obj for obj in objects if self.upsert(obj)]
            self._handler.replace(accepted)

    def upsert(self, obj: T) -> bool:
        """Return whether the handler accepted the object."""
        return self._pass_on(self._handler.upsert, obj)

    def remove(self, obj: T) -> None:
        self._pass_on(self._handler.remove, obj)

    def retry(self) -> None:
        """Pass on again the objects that failed and whose back-off is over."""
        if self._failed:
            for method, obj in list(self._failed.values()):
                self._pass_on(method, obj)

    def _pass_on(self, method: Callable[[T], None], obj: T) -> bool:
        key = _key(obj)
        accepted = self._backoff.attempt(
            self._step, key, lambda: method(obj), version=(obj.metadata.uid, obj.metadata.version)
        )
        if accepted:
            self._failed.pop(key, None)
        else:
            self._failed[key] = (method, obj)
        return accepted


def _key(obj: ApiObject) -> tuple[str, str]:
    return obj.metadata.namespace, obj.metadata.name
