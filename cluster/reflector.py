"""Keeps one kind of object up to date: list, then watch, for ever.

Invariants
- The sink hears of everything there is: a list replaces all it held, events change it, and no
  event is applied twice or left out between a list and its watch.
- It never stops by itself: whatever the API server does, it goes on after a jittered
  back-off of at most `BACKOFF_MOST` seconds, and begins anew with a list where its place is lost
  (410, as a status or as an event).
- An object that cannot be read is logged and left out, also of what was known of it; the others go on. That
  holds for whatever the API server takes, nested `DEEPEST` times.
- `stop()` returns within the time a read takes to be cut, from any thread.

=====================================  ============================================
what happens                           what follows
=====================================  ============================================
the server ends the watch              the next watch, from the last version seen
the connection is cut or times out     back-off, then a watch from there
410 on the watch, or as ERROR event    a list at once; after a back-off if it happens again
an answer that is no list              back-off; nothing of it is believed
410 in the middle of a paged list      the list from its start
429 or 5xx                             back-off, at least Retry-After
403, 404 (CRD missing)                 back-off; the sink is told it is not synced
404 of an optional kind                there are none; it is looked for again after a while
=====================================  ============================================

Source of the protocol: Kubernetes API concepts, "Efficient detection of changes".
"""

from __future__ import annotations

import logging
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import msgspec

from cluster.client import Client, decode
from cluster.exceptions import ClusterError, Expired, NotFound, Overloaded, Refused, Unreachable
from cluster.objects import Bookmark, Metadata, RawEvent, RawList, StatusObject
from cluster.paging import Paging, Query
from cluster.trimming import LARGE, trimmed

PAGE = 500
#: A quiet watch gets no bookmark either while nothing in the cluster changes; so the server is asked to end
#: it soon, and silence beyond that is a dead connection.
WATCH_SECONDS = (50, 70)
SILENCE_SECONDS = 80.0
BACKOFF_LEAST = 0.2
BACKOFF_MOST = 10.0
#: A watch that ends sooner, without a word, is not asked for again at once.
AT_ONCE_SECONDS = 1.0
#: How soon an optional kind that is not installed is looked for again.
OPTIONAL_SECONDS = 10.0
#: Levels of an object that the API server takes. One that we could not even pass over would end every list.
DEEPEST = 10_000
CUT_SECONDS = 0.1
CUTS = 50

log = logging.getLogger(__name__)

_EVENT = msgspec.json.Decoder(RawEvent)
_BOOKMARK = msgspec.json.Decoder(Bookmark)


class Stored(Protocol):
    """Whatever the API server holds."""

    @property
    def metadata(self) -> Metadata: ...


T = TypeVar("T", bound=Stored)


class Sink(Protocol[T]):
    """Where a reflector's findings go; called from its thread alone."""

    def replace(self, objects: list[T]) -> None:
        """These are all there are."""

    def upsert(self, obj: T) -> None:
        """This one came or changed."""

    def remove(self, obj: T) -> None:
        """This one, in its last state, is gone."""


class Counters(Protocol):
    """What the reflector tells the metrics."""

    def reflected(self, kind: str, what: str) -> None:
        """`what` is list, event, error, or unreadable."""


class Reflector(Generic[T]):
    """One kind. Owner: whoever made it; it runs in a thread of its own between start and stop."""

    def __init__(  # noqa: PLR0913 - all but three have their reason at one place, `cluster.watching`
        self,
        *,
        kind: str,
        path: str,
        decode: Callable[[msgspec.Raw | bytes], T],
        sink: Sink[T],
        client: Client,
        counters: Counters,
        selector: str = "",
        random_source: random.Random | None = None,
        optional: bool = False,
    ) -> None:
        """`selector`: of the fields of those that are kept. `optional`: the kind may not be installed."""
        self.kind = kind
        self._optional = optional
        self._path = path
        self._selected: dict[str, str | int] = {"fieldSelector": selector} if selector else {}
        self._decode = decode
        self._sink = sink
        self._client = client.line()
        self._paging = Paging(self._fetch)
        self._counters = counters
        self._random = random_source or random.Random()  # noqa: S311 - jitter, no secret
        self._stopped = threading.Event()
        self.synced = threading.Event()
        self._begun = 0
        #: The list that was asked for last, by number, and the last one that was completed.
        self._wanted = 1
        self.completed = 0
        #: The last resource version applied; what a bookmark says counts.
        self.version = ""
        self._expired = 0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread; made here, since one made before a fork counts as dead after it."""
        sys.setrecursionlimit(max(sys.getrecursionlimit(), DEEPEST + 1_000))  # all of the process's
        self._thread = threading.Thread(target=self._run, name=f"reflector-{self.kind}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, cutting a read under way."""
        self._stopped.set()
        thread = self._thread
        for _ in range(CUTS):  # again, for it may have been between two requests
            self._client.cut()
            if thread is None or not thread.is_alive():
                return
            thread.join(timeout=CUT_SECONDS)

    def relist(self) -> int:
        """Begin anew with a list, soon; the number that `completed` has once one begun after this is."""
        self._wanted = self._begun + 1
        self._client.cut()
        return self._wanted

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def _list_is_due(self) -> bool:
        return not self.version or self.completed < self._wanted

    def _run(self) -> None:
        failures = 0
        while not self._stopped.is_set():
            try:
                if self._list_is_due:
                    self._list()
                failures = 0 if self._watch() else failures + 1
                self._expired = 0
                self._rest(failures)
            except Expired:
                self.version = ""
                self._expired += 1
                self._rest(self._expired - 1)
            except Exception as exc:
                if self._was_asked_to(exc):
                    continue
                if self._optional and isinstance(exc, NotFound):
                    self._absent()
                    continue
                failures += 1
                self._report(exc, failures)
                self._rest(failures, exc)

    def _absent(self) -> None:
        """The kind is not installed: there are none of it."""
        self.version = ""
        self._sink.replace([])
        self.completed = max(self._begun, 1)
        self.synced.set()
        self._stopped.wait(OPTIONAL_SECONDS)

    def _was_asked_to(self, exc: Exception) -> bool:
        """Whether the failure is a cut of our own, for a stop or a list."""
        return isinstance(exc, Unreachable) and (self._stopped.is_set() or self._begun < self._wanted)

    def _report(self, exc: Exception, failures: int) -> None:
        self._counters.reflected(self.kind, "error")
        if isinstance(exc, Refused) and exc.status in {403, 404}:
            self.synced.clear()
            self.version = ""
        if isinstance(exc, ClusterError):
            log.warning("%s cannot be reflected (%d in a row): %s", self.kind, failures, exc)
        else:
            self.version = ""
            log.exception("%s: the reflector failed; it begins anew with a list", self.kind)

    def _rest(self, failures: int, exc: Exception | None = None) -> None:
        """Wait before the next try: not at all after none, or one that says to come back at once."""
        if failures <= 0:
            return
        longest = min(BACKOFF_MOST, BACKOFF_LEAST * 2.0 ** min(failures, 10))
        least = exc.retry_after if isinstance(exc, Overloaded) else 0.0
        self._stopped.wait(max(longest * self._random.uniform(0.5, 1.0), least))

    def _list(self) -> None:
        self._begun += 1
        number = self._begun
        found: list[T] = []
        token = ""
        while not self._stopped.is_set():
            query: dict[str, str | int] = dict(self._selected)
            if token:
                query["continue"] = token
            page = self._page(self._paging.read(query, limit=PAGE))
            found.extend(obj for raw in page.items or () if (obj := self._read(raw)) is not None)
            token = page.metadata.continue_
            if not token:
                self._sink.replace(found)
                self.version = page.metadata.resource_version
                self._counters.reflected(self.kind, "list")
                self.completed = number
                self.synced.set()
                return

    def _fetch(self, query: Query, most: int | None) -> bytes:
        return self._client.request("GET", self._path, query=query, most=most)

    def _page(self, data: bytes) -> RawList:
        """A page of a list; an answer without a version is none, whatever its status said."""
        page: RawList = decode(data, RawList)
        if not page.metadata.resource_version:
            raise Unreachable(f"list {self._path}: the answer is no list")
        return page

    def _watch(self) -> bool:
        """Watch until the server ends it; False if it ended at once without a word."""
        if self._stopped.is_set() or self._list_is_due:
            return True
        began, events = time.monotonic(), 0
        stream = self._client.stream(
            self._path,
            query={
                **self._selected,
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": self.version,
                "timeoutSeconds": self._random.randint(*WATCH_SECONDS),
            },
            read_seconds=SILENCE_SECONDS,
        )
        try:
            if self._stopped.is_set() or self._list_is_due:
                return True  # the cut that asked for it came while there was nothing to be cut
            for line in stream.lines():
                if self._stopped.is_set() or self._list_is_due:
                    return True
                self._apply(line)
                events += 1
        finally:
            stream.release()
        return events > 0 or time.monotonic() - began > AT_ONCE_SECONDS

    def _apply(self, line: bytes) -> None:
        event = _EVENT.decode(line)
        if event.type == "ERROR":
            status = msgspec.json.decode(event.object, type=StatusObject)
            if status.code == 410:
                raise Expired(410, status.reason, status.message)
            raise Overloaded(status.code, status.reason, status.message, retry_after=1.0)
        if event.type == "BOOKMARK":
            self.version = _BOOKMARK.decode(event.object).metadata.resource_version
            return
        self._change(event)
        self._counters.reflected(self.kind, "event")

    def _change(self, event: RawEvent) -> None:
        obj = self._read(event.object)
        if obj is not None and event.type != "DELETED":
            self._sink.upsert(obj)
        elif event.type != "ADDED":
            gone = obj if obj is not None else self._bare(event.object)
            if gone is not None:
                self._sink.remove(gone)
        told = obj if obj is not None else _BOOKMARK.decode(event.object)
        self.version = told.metadata.resource_version

    def _read(self, raw: msgspec.Raw) -> T | None:
        try:
            obj = self._decode(raw)
            return trimmed(obj) if len(raw) > LARGE else obj
        except msgspec.DecodeError as exc:
            self._counters.reflected(self.kind, "unreadable")
            log.warning("%s: an object cannot be read and is left out: %s", self.kind, exc)
            return None

    def _bare(self, raw: msgspec.Raw) -> T | None:
        """The object with nothing but its metadata: what was known of it is true no more."""
        try:
            meta = msgspec.json.decode(raw, type=Bookmark)
            return self._decode(msgspec.json.encode(meta))
        except msgspec.DecodeError:
            return None
