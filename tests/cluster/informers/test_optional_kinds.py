"""A kind that the API server does not serve: it has no objects, or whoever asks is told."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.api.client import Client
from cluster.exceptions import NotFound
from cluster.informers.reflector import Reflector, ReflectorOptions
from cluster.metrics import Metrics


def not_found(_method: str, path: str, **_: object) -> bytes:
    raise NotFound(404, "NotFound", path)


class Handler:
    """What it is told, by name."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.was_told = Event()

    def note(self, what: str) -> None:
        self.told.append(what)
        self.was_told.set()

    def replace(self, objects: list[Any]) -> None:
        self.note(f"{len(objects)} objects")

    def not_served(self) -> None:
        self.note("not served")

    def upsert(self, obj: Any) -> None: ...
    def remove(self, obj: Any) -> None: ...


@pytest.mark.parametrize(("asks", "told"), [(False, "0 objects"), (True, "not served")])
def test_a_kind_that_is_not_served_has_no_objects_or_is_said_to_be_none(asks: bool, told: str) -> None:
    handler = Handler()
    client = SimpleNamespace(request=not_found, interrupt=lambda: None)
    client.interruptible = lambda: client
    reflector = Reflector(
        kind="things",
        path="/apis/example.com/v1/things",
        decode=lambda raw: raw,
        handler=cast(Any, handler),
        client=cast(Client, client),
        counters=Metrics(),
        options=ReflectorOptions(optional=True, missing=handler.not_served if asks else None),
    )
    reflector.start()
    try:
        assert handler.was_told.wait(10)
        assert reflector.synced.wait(10)
    finally:
        reflector.stop()
    assert handler.told == [told]
