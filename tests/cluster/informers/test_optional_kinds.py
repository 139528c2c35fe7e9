"""A kind that the API server does not serve: it has no objects, or whoever asks is told."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.api.client import Client
from cluster.exceptions import NotFound, Refused
from cluster.informers.reflector import Reflector, ReflectorOptions
from cluster.metrics import Metrics


def not_found(_method: str, path: str, **_: object) -> bytes:
    raise NotFound(404, "NotFound", path)


def forbidden(_method: str, path: str, **_: object) -> bytes:
    raise Refused(403, "Forbidden", path)


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


def reflector_of(handler: Handler, *, answer: Any, options: ReflectorOptions[Any]) -> Reflector[Any]:
    """One whose requests are all answered so."""
    client = SimpleNamespace(request=answer, interrupt=lambda: None)
    client.interruptible = lambda: client
    return Reflector(
        kind="things",
        path="/apis/example.com/v1/things",
        decode=lambda raw: raw,
        handler=cast(Any, handler),
        client=cast(Client, client),
        counters=Metrics(),
        options=options,
    )


@pytest.mark.parametrize(("asks", "told"), [(False, "0 objects"), (True, "not served")])
def test_a_kind_that_is_not_served_has_no_objects_or_is_said_to_be_none(asks: bool, told: str) -> None:
    handler = Handler()
    options: ReflectorOptions[Any] = ReflectorOptions(
        optional=True, missing=handler.not_served if asks else None
    )
    reflector = reflector_of(handler, answer=not_found, options=options)
    reflector.start()
    try:
        assert handler.was_told.wait(10)
        assert reflector.synced.wait(10)
    finally:
        reflector.stop()
    assert handler.told == [told]


@pytest.mark.parametrize("answer", [not_found, forbidden])
def test_a_kind_that_may_not_be_read_or_is_not_served_is_said_to_be_refused(answer: Any) -> None:
    handler = Handler()
    options: ReflectorOptions[Any] = ReflectorOptions(refused=lambda: handler.note("refused"))
    reflector = reflector_of(handler, answer=answer, options=options)
    reflector.start()
    try:
        assert handler.was_told.wait(10)
    finally:
        reflector.stop()
    assert set(handler.told) == {"refused"}
    assert not reflector.synced.is_set()
