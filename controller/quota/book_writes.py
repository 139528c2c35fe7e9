"""Opens the book and writes it: a ConfigMap in the server's namespace (`queues.quota.book`).

Invariants
- Each write names the resource version that was read or written last. So once a new leader has opened the
  book, no write of the former one is stored.
- A write whose outcome is not known, or that was refused, closes the book: it is opened anew, and what it
  says then counts.
- Opening the book removes whatever else is in the ConfigMap: it would leave no room for the book. One that
  somebody has made immutable takes no write any more: it is deleted, and the book is new.

Threads: the controller's thread decides; the status writers send.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from cluster.api.client import Client, decode_response
from cluster.exceptions import NotFound
from cluster.objects import Metadata
from controller.context import ControllerContext
from queues.quota.book import BadBook, Book, encode, parse

NAME = "sluice-quota"
KEY = "book"


class StoredBook(msgspec.Struct, frozen=True):
    """The book as the API server has it. `version`: its resource version. `others`: what is not ours in it,
    as the patch that removes it.
    """

    book: Book
    uid: str
    version: int
    others: Mapping[str, Mapping[str, None]] = {}

    @property
    def new_since(self) -> int:
        """A version at which the former book was lost already; 0 where this one is not new."""
        return (self.book.since or self.version) if self.book.is_new else 0


class _ConfigMap(msgspec.Struct, frozen=True, rename="camel"):
    metadata: Metadata
    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None
    immutable: bool | None = None


_config_map = msgspec.json.Decoder(_ConfigMap)


class BookWrites:
    """Owner: `QuotaReleases`. At most one request is under way."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._is_under_way = False
        #: Which open book a request belongs to: the answer for a former one is not received.
        self._session = 0
        self.stored: StoredBook | None = None

    def forget(self) -> None:
        """Close the book: a term begins or ends, or it is not known what it says."""
        self._session += 1
        self._is_under_way = False
        self.stored = None

    @property
    def is_under_way(self) -> bool:
        return self._is_under_way

    def open(self, opened: Callable[[], object]) -> None:
        """Read the book, and write a term of our own into it; `opened` is called then."""

        def receive(stored: StoredBook | None) -> None:
            self.stored = stored
            if stored is not None:
                opened()

        self._submit(partial(open_book, self._context.client, self._context.namespace), receive)

    def write(
        self, intents: Mapping[str, int], written: Callable[[bool], object], *, is_new: bool = False
    ) -> None:
        """Write these intents; `written` is called with whether that is known to be stored.

        `is_new`: the book stays new, since when it is.
        """
        stored = self.stored
        if stored is None:
            raise LookupError("the book is not open")
        since = stored.new_since if is_new else 0
        book = Book(term=stored.book.term, intents=intents, is_new=bool(since), since=since)

        def receive(after: StoredBook | None) -> None:
            if after is None:
                self.forget()
            else:
                self.stored = after
            written(after is not None)

        self._submit(
            partial(write_book, self._context.client, self._context.namespace, stored, book), receive
        )

    def _submit(self, send: Callable[[], StoredBook], receive: Callable[[StoredBook | None], object]) -> None:
        session = self._session

        def receive_if_current(stored: StoredBook | None) -> None:
            if session == self._session:
                self._is_under_way = False
                receive(stored)

        self._is_under_way = self._context.submit(
            self._context.status_writers, ("quota-book", session), send, receive_if_current, rank=(0,)
        )


def open_book(client: Client, namespace: str) -> StoredBook:
    """Return the book with a greater term than before; one that was not there, or cannot be read, is new.

    Sends the requests. Raises `Conflict`.
    """
    try:
        found = decode_response(client.get(_path(namespace)), _config_map)
    except NotFound:
        return _create(client, namespace, Book(term=1, is_new=True))
    try:
        before = parse((found.data or {}).get(KEY, ""))
    except BadBook:
        before = Book(term=0, is_new=True)
    stored = StoredBook(before, found.metadata.uid, found.metadata.version, _others(found))
    if found.immutable:
        precondition = {"uid": stored.uid, "resourceVersion": str(stored.version)}
        client.delete(_path(namespace), {"preconditions": precondition})
        after = Book(term=before.term + 1, intents=before.intents, is_new=True)
        return _create(client, namespace, after)
    since = stored.new_since if before.term else 0  # one that was not read is new with this write
    after = msgspec.structs.replace(before, term=before.term + 1, since=since)
    return write_book(client, namespace, stored, after)


def _others(found: _ConfigMap) -> dict[str, dict[str, None]]:
    fields = {"data": found.data, "binaryData": found.binary_data}
    others = {field: dict.fromkeys(key for key in keys or () if key != KEY) for field, keys in fields.items()}
    return {field: keys for field, keys in others.items() if keys}


def write_book(client: Client, namespace: str, stored: StoredBook, book: Book) -> StoredBook:
    """Store the book, unless somebody has written it since. Raises `Conflict`."""
    precondition = {"uid": stored.uid, "resourceVersion": str(stored.version)}
    data = {KEY: encode(book), **stored.others.get("data", {})}
    body = {"metadata": precondition, **stored.others, "data": data}
    answer = client.patch(_path(namespace), body)
    found = decode_response(answer, _config_map)
    return StoredBook(book, found.metadata.uid, found.metadata.version)


def _create(client: Client, namespace: str, book: Book) -> StoredBook:
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/part-of": "sluice"}},
        "data": {KEY: encode(book)},
    }
    # Where another leader was first, it is opened once more.
    answer = client.create(f"/api/v1/namespaces/{namespace}/configmaps", body)
    found = decode_response(answer, _config_map)
    return StoredBook(book, found.metadata.uid, found.metadata.version)


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/{NAME}"
