"""Opens the book and writes it: a ConfigMap in the server's namespace (`queues.quota.book`).

What is found at the opening:

| the ConfigMap                                 | then                                                       |
|-----------------------------------------------|------------------------------------------------------------|
| is not there                                  | it is made; the book is new                                |
| holds a book                                  | it goes on with a greater term                             |
| holds none, or one that cannot be read        | the book is written into it, and is new                    |
| has other keys, finalizers, owners            | these are removed: they take its room, or its life         |
| takes no such write: it is immutable, or the  | it is deleted, with its finalizers, and made anew, where a |
| write is refused for what is in it            | dry run says that it can be made; the book is new          |
| none of that can be done                      | it fails, and is tried again after a back-off (`BACKOFF`)  |

Invariants
- Each write names the resource version that was read or written last. So once a new leader has opened the
  book, no write of the former one is stored.
- A write whose outcome is not known, or that was refused, closes the book: it is opened anew, and what it
  says then counts.
- A book that was made is written once before it counts: one that can be made and not written is of no use,
  and pods would be changed for it again and again.
- The back-off grows until a write is stored, or until nothing fails for `WELL_SECONDS` after an opening: to
  open the book alone is no success where its writes fail.
- While it cannot be written that is said: by `fault`, and as loop `quota-book` (`cluster.retries`). At once,
  unless somebody else has only written or deleted it meanwhile; of that the fifth time in a row.

Threads: the controller's thread decides; the status writers send.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from cluster.api.client import Client, decode_response
from cluster.backoff import Backoff
from cluster.exceptions import ClusterError, Conflict, NotFound, Overloaded, Refused
from cluster.objects import Metadata
from cluster.write_queue import OBJECT_FAULT_STATUS, OUTDATED_STATUSES, TOO_LARGE
from cluster.write_ranks import WriteRank
from controller.context import ControllerContext
from queues.quota.book import BadBook, Book, encode, parse
from queues.text import printable

NAME = "sluice-quota"
KEY = "book"
LOOP = "quota-book"
BACKOFF = Backoff(0.5, 10.0)
#: A book that was opened again after a write that failed, and of which nothing fails for so long, is well.
WELL_SECONDS = 60.0
#: Somebody else may write or delete the book now and then; so many times in a row are a fault.
MANY = 5
#: The statuses of a write that is refused for what is in the object, as it may be by what it had before.
CONTENT_STATUSES = frozenset({400, 413, 422})
#: Characters of what is said.
WHY_LIMIT = 300


class StoredBook(msgspec.Struct, frozen=True):
    """The book as the API server has it. `version`: its resource version. `repair`: the patch that removes
    what is not ours in it. `has_finalizers`: it stays until these are gone, too.
    """

    book: Book
    uid: str
    version: int
    repair: Mapping[str, Mapping[str, None]] = {}
    has_finalizers: bool = False

    @property
    def new_since(self) -> int:
        """A version at which the former book was lost already; 0 where this one is not new."""
        return (self.book.since or self.version) if self.book.is_new else 0


class _Metadata(Metadata, frozen=True):
    finalizers: list[str] | None = None


class _ConfigMap(msgspec.Struct, frozen=True, rename="camel"):
    metadata: _Metadata
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
        self._clear()

    def forget(self) -> None:
        """Close the book, and try nothing: a term begins or ends, or nothing needs a book."""
        self._close()
        self._clear()
        self._context.metrics.retries.forget(LOOP)

    def _close(self) -> None:
        self._session += 1
        self._is_under_way = False
        self.stored = None

    def _clear(self) -> None:
        #: Failures since a success; whether a write was the last one; why it fails, where that is said.
        self._failures, self._has_write_failed, self._fault = 0, False, ""
        #: When the book may be opened again, and from when on it is well, unless something fails before.
        self.retry_at, self.well_at = -math.inf, math.inf

    @property
    def fault(self) -> str:
        """Why the book cannot be written; "" where it can, or where that is not certain yet. The same text
        for as long as it lasts.
        """
        if self._context.store.clock.monotonic() >= self.well_at:
            self._succeed()
        return self._fault

    @property
    def has_failed(self) -> bool:
        return self._failures > 0 or bool(self._fault)

    @property
    def is_under_way(self) -> bool:
        return self._is_under_way

    def open(self, opened: Callable[[], object]) -> None:
        """Read the book, and write a term of our own into it; `opened` is called then."""

        def receive(stored: StoredBook | None) -> None:
            self.stored = stored
            if stored is None:
                return
            if self._has_write_failed:
                self.well_at = self._context.store.clock.monotonic() + WELL_SECONDS
            else:
                self._succeed()
            opened()

        send = partial(open_book, self._context.client, self._context.namespace)
        self._submit(send, receive, is_write=False)

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
            self.stored = after
            if after is not None:
                self._succeed()
            written(after is not None)

        send = partial(write_book, self._context.client, self._context.namespace, stored, book)
        self._submit(send, receive, is_write=True)

    def _submit(
        self,
        send: Callable[[], StoredBook],
        receive: Callable[[StoredBook | None], object],
        *,
        is_write: bool,
    ) -> None:
        session = self._session
        failures: list[ClusterError] = []

        def attempt() -> StoredBook:
            try:
                return send()
            except ClusterError as exc:
                failures.append(exc)
                if isinstance(exc, Refused) and exc.status == OBJECT_FAULT_STATUS:
                    # As where a webhook of somebody else is dead: it is tried again for a while before it is
                    # given up, and said at once.
                    self._context.work_queue.deliver(partial(self._say, session, exc))
                raise

        def receive_if_current(stored: StoredBook | None) -> None:
            if session != self._session:
                return
            self._is_under_way = False
            if stored is None:
                self._fail(failures[-1] if failures else None, is_write=is_write)
            receive(stored)

        self._is_under_way = self._context.submit(
            self._context.status_writers,
            ("quota-book", session),
            attempt,
            receive_if_current,
            rank=WriteRank.BOOK,
        )
        if not self._is_under_way:
            self.retry_at = self._context.store.clock.monotonic() + BACKOFF.first

    def _fail(self, why: ClusterError | None, *, is_write: bool) -> None:
        """Close the book, to be opened again later."""
        self._close()
        self._failures += 1
        self._has_write_failed |= is_write
        self.well_at = math.inf
        is_outdated = isinstance(why, Refused) and why.status in OUTDATED_STATUSES
        failures = self._failures - is_outdated  # what has changed is read anew at once
        self.retry_at = self._context.store.clock.monotonic() + BACKOFF.seconds(failures)
        if not is_outdated or self._failures >= MANY:
            self._say(self._session, why)
        else:
            self._context.metrics.retries.failed(LOOP, why)

    def _say(self, session: int, why: ClusterError | None) -> None:
        if session != self._session:
            return
        self._context.metrics.retries.failed(LOOP, why or "a fault of the server", urgent=True)
        self._fault = self._fault or printable(str(why or "see its log"), limit=WHY_LIMIT)

    def _succeed(self) -> None:
        self._clear()
        self._context.metrics.retries.succeeded(LOOP)


def open_book(client: Client, namespace: str) -> StoredBook:
    """Return the book with a greater term than before; one that was not there, or cannot be read, is new.

    Sends the requests. Raises `ClusterError`, `Conflict` where somebody else was first.
    """
    try:
        found = decode_response(client.get(_path(namespace)), _config_map)
    except NotFound:
        return _create(client, namespace, Book(term=1, is_new=True))
    try:
        before = parse((found.data or {}).get(KEY, ""))
    except BadBook:
        before = Book(term=0, is_new=True)
    stored = StoredBook(
        before,
        found.metadata.uid,
        found.metadata.version,
        _repair(found),
        has_finalizers=bool(found.metadata.finalizers),
    )
    if not found.immutable:
        since = stored.new_since if before.term else 0  # one that was not read is new with this write
        after = msgspec.structs.replace(before, term=before.term + 1, since=since)
        try:
            return write_book(client, namespace, stored, after)
        except Refused as exc:
            if not _is_for_its_content(exc):
                raise
            _require_creatable(client, namespace, otherwise=exc)
    _delete(client, namespace, stored)
    return _create(client, namespace, Book(term=before.term + 1, intents=before.intents, is_new=True))


def _repair(found: _ConfigMap) -> dict[str, dict[str, None]]:
    """One that is being deleted keeps its finalizers: it can be written, and would be gone without them."""
    meta = found.metadata
    others = {
        "data": dict.fromkeys(key for key in found.data or () if key != KEY),
        "binaryData": dict.fromkeys(found.binary_data or ()),
        "metadata": {
            **({"ownerReferences": None} if meta.owner_references else {}),
            **({"finalizers": None} if meta.finalizers and meta.deletion_timestamp is None else {}),
        },
    }
    return {field: keys for field, keys in others.items() if keys}


def _is_for_its_content(exc: Refused) -> bool:
    return exc.status in CONTENT_STATUSES or any(words in exc.message for words in TOO_LARGE)


def _require_creatable(client: Client, namespace: str, *, otherwise: Refused) -> None:
    """Raise `otherwise` where the API server would refuse a new one too: then what is there stays."""
    try:
        client.create(_collection(namespace), _body(Book(term=1)), dryRun="All")
    except Conflict:
        return  # it would be taken, but for its name
    except Overloaded:
        raise
    except Refused as exc:
        raise otherwise from exc


def _delete(client: Client, namespace: str, stored: StoredBook) -> None:
    """As it was read, and with what keeps it."""
    condition: dict[str, Any] = {"uid": stored.uid, "resourceVersion": str(stored.version)}
    if stored.has_finalizers:
        answer = client.patch(_path(namespace), {"metadata": {**condition, "finalizers": None}})
        condition["resourceVersion"] = decode_response(answer, _config_map).metadata.resource_version
    try:
        client.delete(_path(namespace), {"preconditions": condition})
    except NotFound:
        return  # it was being deleted, and only its finalizers kept it


def write_book(client: Client, namespace: str, stored: StoredBook, book: Book) -> StoredBook:
    """Store the book, unless somebody has written it since. Raises `Conflict`."""
    precondition = {"uid": stored.uid, "resourceVersion": str(stored.version)}
    body = {
        **stored.repair,
        "metadata": {**stored.repair.get("metadata", {}), **precondition},
        "data": {KEY: encode(book), **stored.repair.get("data", {})},
    }
    answer = client.patch(_path(namespace), body)
    found = decode_response(answer, _config_map)
    return StoredBook(book, found.metadata.uid, found.metadata.version)


def _create(client: Client, namespace: str, book: Book) -> StoredBook:
    """Where another leader was first, `Conflict` is raised, and it is opened once more."""
    found = decode_response(client.create(_collection(namespace), _body(book)), _config_map)
    created = StoredBook(book, found.metadata.uid, found.metadata.version)
    return write_book(client, namespace, created, msgspec.structs.replace(book, since=created.version))


def _body(book: Book) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/part-of": "sluice"}},
        "data": {KEY: encode(book)},
    }


def _collection(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def _path(namespace: str) -> str:
    return f"{_collection(namespace)}/{NAME}"
