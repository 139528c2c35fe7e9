"""The cursor in its ConfigMap."""

from __future__ import annotations

from typing import cast

import pytest

from cluster.api.client import Client
from cluster.exceptions import Conflict
from controller.notices.storage import KEY, CursorStorage
from queues.notices.cursor import Cursor, decode
from tests.queues.notices.values import NOW
from tests.support.controller.notice_stage import ConfigMapServer

FIRST = Cursor(since=NOW)
TOLD = Cursor(since=NOW, told={"a": NOW})


def storage(server: ConfigMapServer) -> CursorStorage:
    return CursorStorage(cast(Client, server), namespace="sluice-system")


def test_the_first_cursor_is_stored_and_the_next_reader_has_what_was_written_last() -> None:
    server = ConfigMapServer()
    first = storage(server)
    assert first.read(otherwise=FIRST) == FIRST
    first.write(TOLD)
    assert storage(server).read(otherwise=FIRST) == TOLD


def test_of_two_leaders_one_alone_writes() -> None:
    server = ConfigMapServer()
    one, other = storage(server), storage(server)
    for each in (one, other):
        each.read(otherwise=FIRST)
    one.write(TOLD)
    with pytest.raises(Conflict):
        other.write(FIRST)
    assert decode(server.stored["data"][KEY]) == TOLD


@pytest.mark.parametrize("data", [{}, {KEY: "junk"}, {KEY: "{}"}])
def test_a_cursor_that_cannot_be_read_is_begun_anew(data: dict[str, str]) -> None:
    server = ConfigMapServer()
    storage(server).read(otherwise=TOLD)
    server.stored["data"] = data
    assert storage(server).read(otherwise=FIRST) == FIRST
    assert decode(server.stored["data"][KEY]) == FIRST


@pytest.mark.parametrize("data", [{}, {"other": "x"}])
def test_what_else_somebody_has_put_there_is_removed_with_the_next_write(data: dict[str, str]) -> None:
    """A key may be in one of `data` and `binaryData`: each write was refused for ever."""
    server = ConfigMapServer()
    storage(server).read(otherwise=TOLD)
    server.stored |= {"data": data, "binaryData": {KEY: "/////w==", "more": "AA=="}}
    again = storage(server)
    again.read(otherwise=FIRST)
    again.write(TOLD)
    assert (list(server.stored["data"]), server.stored["binaryData"]) == ([KEY], {})
    assert storage(server).read(otherwise=FIRST) == TOLD
