"""Hands a reflector's objects to its sink, one failing or not.

Invariants
- What the sink raises for one object concerns that object alone: all others are handed over.
- An object that failed is handed over again after a back-off that grows (`backoff`), at the next event or
  bookmark of its kind; its next state at once. Nothing older than what came last is handed over.
- What is left of a kind after a list is what the list has. An object that its sink does not take is left out,
  also of what was known of it.

Threads: the reflector's alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from cluster.key_backoff import KeyBackoff
from cluster.objects import Metadata


class ApiObject(Protocol):
    """Whatever the API server holds."""

    @property
    def metadata(self) -> Metadata: ...


T = TypeVar("T", bound=ApiObject)


class EventHandler(Protocol[T]):
    """Where a reflector's findings go; called from its thread alone."""

    def replace(self, objects: list[T]) -> None:
        """These are all there are."""

    def upsert(self, obj: T) -> None:
        """This one came or changed."""

    def remove(self, obj: T) -> None:
        """This one, in its last state, is gone."""


class IsolatedEventHandler(Generic[T]):
    """A sink that raises nothing for an object. `kind`: for the name in the log."""

    def __init__(self, sink: EventHandler[T], *, kind: str, backoff: KeyBackoff) -> None:
        self._sink = sink
        self._step = f"handle {kind}"
        self._backoff = backoff
        #: What is to be done once more: with the last state of an object.
        self._failed: dict[tuple[str, str], tuple[Callable[[T], None], T]] = {}

    def replace(self, objects: list[T]) -> None:
        """Raises what the sink does only where it takes not even what it took one by one."""
        self._failed.clear()
        self._backoff.forget_all(self._step)
        try:
            self._sink.replace(objects)
        except Exception as exc:
            self._backoff.record_failure(self._step, "the list", exc)
            taken = [obj for obj in objects if self.upsert(obj)]
            self._sink.replace(taken)

    def upsert(self, obj: T) -> bool:
        """Whether the sink took it."""
        return self._hand_over(self._sink.upsert, obj)

    def remove(self, obj: T) -> None:
        self._hand_over(self._sink.remove, obj)

    def retry(self) -> None:
        """Hand over again what failed and whose time has come."""
        if self._failed:
            for method, obj in list(self._failed.values()):
                self._hand_over(method, obj)

    def _hand_over(self, method: Callable[[T], None], obj: T) -> bool:
        key = _key(obj)
        taken = self._backoff.attempt(
            self._step, key, lambda: method(obj), version=(obj.metadata.uid, obj.metadata.version)
        )
        if taken:
            self._failed.pop(key, None)
        else:
            self._failed[key] = (method, obj)
        return taken


def _key(obj: ApiObject) -> tuple[str, str]:
    return obj.metadata.namespace, obj.metadata.name
