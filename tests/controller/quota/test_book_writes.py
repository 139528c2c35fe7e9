"""What becomes of a book that cannot be written any more."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

from cluster.api.client import Client
from controller.quota.book_writes import KEY, NAME, open_book
from queues.quota.book import Book, encode, parse


def test_a_book_that_is_immutable_is_deleted_as_it_was_read_and_made_anew() -> None:
    """What it says is kept. It is new: between the two requests somebody else may have begun something."""
    before = Book(term=4, intents={"early": 7})
    held = {
        "metadata": {"name": NAME, "uid": "first", "resourceVersion": "9"},
        "data": {KEY: encode(before)},
        "immutable": True,
    }
    sent: list[tuple[str, Any]] = []

    def create(_path: str, body: Any) -> bytes:
        sent.append(("create", body["data"][KEY]))
        return json.dumps(
            {**body, "metadata": {"name": NAME, "uid": "next", "resourceVersion": "11"}}
        ).encode()

    client = SimpleNamespace(
        get=lambda _: json.dumps(held).encode(),
        delete=lambda _, body: sent.append(("delete", body)),
        create=create,
    )
    stored = open_book(cast(Client, client), "sluice-system")
    [(_, deletion), (_, text)] = sent
    assert deletion == {"preconditions": {"uid": "first", "resourceVersion": "9"}}
    assert parse(text) == stored.book == Book(term=5, intents={"early": 7}, is_new=True)
    assert (stored.uid, stored.version) == ("next", 11)
