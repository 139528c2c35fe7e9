"""Keeps one kind of object up to date: list, then watch, for ever.

Invariants
- The sink hears of everything there is: a list replaces all it held, events change it, and no
  event is applied twice or left out between a list and its watch.
- It never stops by itself: whatever the API server does, it goes on after a jittered back-off of at most
  `BACKOFF_MOST` seconds (`UNANSWERED_MOST` where there is no answer), and begins anew with a list where its
  place is lost (410, as a status or as an event).
- The back-off starts anew with the first answer after none. The first of the reflectors that is answered, or
  answered well after a failure, wakes the others (`answered`, `retry_now`), so that no reflector goes on
  waiting for an API server that is back.
- A watch that says nothing is given up `SILENCE_SECONDS` after its end was due (`watch_seconds`), so a
  connection that is half open is noticed then.
- What was read stays known through refusals. `synced` says whether it may be relied upon: it falls when the
  kind is not there any more (404), and when reading it has been forbidden for `FORBIDDEN_SECONDS` on end.
- An object that cannot be read as a whole is logged, and taken with what can be read of it (`lenient`,
  `unreadable`). One of which nothing can be is left out, also of what was known of it. The others go on. That
  holds for whatever the API server takes, nested `MAX_NESTING` times.
- A list under way is finished, whatever is asked for meanwhile: another comes after it.
- `stop()` returns within the time a read takes to be cut, from any thread.

=====================================  ============================================
what happens                           what follows
=====================================  ============================================
the server ends the watch              the next watch, from the last version seen
the connection is cut or times out     back-off, then a watch from there
410 on the watch, or as ERROR event    a list at once; after a back-off if it happens again
an answer that is no list              back-off; nothing of it is believed
410 in the middle of a paged list      the list from its start
a watch is silent beyond its end       as if it had been cut
429 or 5xx                             back-off, at least Retry-After
401, 403                               back-off; not in sync once that has lasted `FORBIDDEN_SECONDS`
404 (CRD missing)                      back-off; not in sync; a list when it is there again
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
from enum import Enum, auto
from typing import Generic, Protocol, TypeVar

import msgspec

from cluster.api.client import Client
from cluster.api.pages import ListPager
from cluster.cache.trimming import TRIM_FROM_BYTES, trim
from cluster.cache.unreadable_objects import UnreadableObjects
from cluster.exceptions import ClusterError, Expired, NotFound, Overloaded, Refused, Unreachable
from cluster.informers.dispatch import (
    ApiObject,
    EventHandler,
    IsolatedEventHandler,
)
from cluster.informers.lenient_decoding import fault_text
from cluster.key_backoff import KeyBackoff
from cluster.objects import Bookmark, RawEvent, StatusObject, version_number

#: A quiet watch gets no bookmark either while nothing in the cluster changes; so the server is asked to end
#: it soon, and silence beyond that is a dead connection. Each watch costs the API server 1 ms.
WATCH_SECONDS = (20, 30)
SILENCE_SECONDS = 2.0
BACKOFF_LEAST = 0.2
BACKOFF_MOST = 10.0
#: A connection that is refused costs nobody much.
UNANSWERED_MOST = 2.0
#: An API server that starts says 403 until it has read its roles: seconds. A right that was taken is gone.
FORBIDDEN_SECONDS = 10.0
FORBIDDEN = frozenset({401, 403})
_RIGHTS = "give the server's account the rights of manifests/rbac/server.yaml"
#: A watch that ends sooner, without a word, is not asked for again at once.
SHORT_WATCH_END_SECONDS = 1.0
#: How soon an optional kind that is not installed is looked for again.
OPTIONAL_SECONDS = 10.0
#: Levels of an object that the API server takes. One that we could not even pass over would end every list.
MAX_NESTING = 10_000
CUT_SECONDS = 0.1
CUTS = 50

log = logging.getLogger(__name__)

_EVENT = msgspec.json.Decoder(RawEvent)
_BOOKMARK = msgspec.json.Decoder(Bookmark)
_STATUS = msgspec.json.Decoder(StatusObject)


T = TypeVar("T", bound=ApiObject)


class Trouble(Enum):
    """What came of the last request that did not do what it should."""

    NONE = auto()
    NO_ANSWER = auto()
    REFUSED = auto()


class Counters(Protocol):
    """What the reflector tells the metrics."""

    def reflected(self, kind: str, what: str) -> None:
        """`what` is list, event, error, or unreadable."""


class Reflector(Generic[T]):
    """One kind. Owner: whoever made it; it runs in a thread of its own between start and stop."""

    def __init__(  # noqa: PLR0913 - all but three have their reason at one place, `cluster.informers.informers`
        self,
        *,
        kind: str,
        path: str,
        decode: Callable[[msgspec.Raw | bytes], T],
        sink: EventHandler[T],
        client: Client,
        counters: Counters,
        selector: str = "",
        random_source: random.Random | None = None,
        optional: bool = False,
        watch_seconds: tuple[int, int] | None = None,
        advanced: Callable[[str, int], object] = lambda _kind, _applied: None,
        answered: Callable[[], object] = lambda: None,
        backoff: KeyBackoff | None = None,
        lenient: Callable[[msgspec.Raw | bytes], tuple[T, list[str]]] | None = None,
        unreadable: UnreadableObjects | None = None,
        synced: threading.Event | None = None,
    ) -> None:
        """`selector`: of the fields of those that are kept. `optional`: the kind may not be installed.

        `watch_seconds`: how long a watch lasts, least and most (`WATCH_SECONDS`). `advanced` is called with
        the kind and `applied` whenever that has grown, `answered` after the first answer after none, and
        after the first good one after others. `backoff`: where it is remembered what the sink failed at.
        `lenient`: reads what `decode` does not; `unreadable`: where it is remembered which objects those are.
        `synced`: set while the kind has been listed and is watched.
        """
        self.kind = kind
        self._optional = optional
        self.path = path
        self._selected: dict[str, str | int] = {"fieldSelector": selector} if selector else {}
        self._decode = decode
        self._shared_client = client
        self._sink = IsolatedEventHandler(sink, kind=kind, backoff=backoff or KeyBackoff())
        self._lenient = lenient
        self._unreadable = unreadable or UnreadableObjects()
        self._client = client.interruptible()
        self._pages = ListPager()
        self._counters = counters
        self._random = random_source or random.Random()  # noqa: S311 - jitter, no secret
        self._watch_seconds = watch_seconds
        self._answered = answered
        self._stopped = threading.Event()
        #: Set to end a rest: by a stop, by what was asked for, by an API server that answers again.
        self._awake = threading.Event()
        #: Tries that failed in a row; what came of the last request; whether that of this try was accepted.
        self.failures = 0
        self._trouble = Trouble.NONE
        self._accepted = False
        #: Since when reading the kind has been forbidden.
        self._forbidden_at: float | None = None
        self.synced = synced or threading.Event()
        #: Held for a moment, by whoever asks for a list or a watch and when a list begins or ends.
        self._lock = threading.Lock()
        self._listing = False
        self._begun = 0
        #: The list that was asked for last, by number, and the last one that was completed.
        self._wanted = 1
        self.completed = 0
        #: The last resource version applied; what a bookmark says counts. Empty where a list is due.
        self.version = ""
        #: The greatest of them as a number: the sink has every change up to it. It never falls.
        self.applied = 0
        self._advanced = advanced
        #: The watches begun, and the number of the first that is new enough.
        self._watches = 0
        self._watch_wanted = 0
        self._expired = 0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread; made here, since one made before a fork counts as dead after it."""
        sys.setrecursionlimit(max(sys.getrecursionlimit(), MAX_NESTING + 1_000))  # all of the process's
        self._thread = threading.Thread(target=self._run, name=f"reflector-{self.kind}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, cutting a read under way."""
        self._stopped.set()
        self._awake.set()
        thread = self._thread
        for _ in range(CUTS):  # again, for it may have been between two requests
            self._client.interrupt()
            if thread is None or not thread.is_alive():
                return
            thread.join(timeout=CUT_SECONDS)

    def relist(self) -> int:
        """Begin anew with a list, soon; the number that `completed` has once one begun after this is."""
        with self._lock:
            self._wanted = self._begun + 1
            self._interrupt()
            return self._wanted

    def rewatch(self) -> None:
        """Begin a new watch, from the last version applied, on a new connection; from any thread."""
        with self._lock:
            self._watch_wanted = self._watches + 1
            self._interrupt()

    def retry_now(self) -> None:
        """Try again now, where a back-off is waited for; from any thread."""
        self._awake.set()

    def _interrupt(self) -> None:
        """End a rest or a watch; a list under way is of use to everybody who did not ask just now."""
        self._awake.set()
        if not self._listing:
            self._client.interrupt()

    def advance_watch_cache(self) -> None:
        """Have the API server's watch cache read up to now: it does so for a consistent read.

        (Since 1.31; an older one answers from etcd.) From any thread. Raises `ClusterError`.
        """
        self._shared_client.get(self.path, **self._selected, limit=1)

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def has_died(self) -> bool:
        """Whether it was started and runs no more, though nobody has stopped it."""
        return self._thread is not None and not self._thread.is_alive() and not self._stopped.is_set()

    @property
    def _watch_is_due(self) -> bool:
        """Whether the watch under way, if any, is not the one that was asked for."""
        return self._watches < self._watch_wanted

    @property
    def _is_interrupted(self) -> bool:
        """Whether there is something else to be done than to read on."""
        return self._stopped.is_set() or self._list_is_due or self._watch_is_due

    @property
    def _list_is_due(self) -> bool:
        return not self.version or self.completed < self._wanted

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._awake.clear()  # whatever is asked for from here on ends the rest after this try
            self._accepted = False
            try:
                if self._list_is_due:
                    self._list()
                self.failures = 0 if self._watch() else self.failures + 1
                self._expired = 0
                self._rest(self.failures)
            except Expired:
                self.version = ""
                self._expired += 1
                self._rest(self._expired - 1)
            except Exception as exc:
                if not self._is_own_interrupt(exc):
                    self._fail(exc)

    def _is_own_interrupt(self, exc: Exception) -> bool:
        """Whether the failure is a cut of our own, for a stop, a list or a new watch."""
        if not isinstance(exc, Unreachable):
            return False
        return self._stopped.is_set() or self._begun < self._wanted or self._watch_is_due

    def _fail(self, exc: Exception) -> None:
        """Rest before the next try; nothing that goes wrong here ends the thread."""
        try:
            if self._optional and isinstance(exc, NotFound):
                self._take_as_empty()
                return
            self._note_failure(exc)
            self.failures += 1
            self._report(exc)
            most = UNANSWERED_MOST if self._trouble is Trouble.NO_ANSWER else BACKOFF_MOST
            least = exc.retry_after if isinstance(exc, Overloaded) else 0.0
            self._rest(self.failures, least=least, most=most)
        except Exception:
            log.exception("%s: the reflector failed on a failure", self.kind)
            self._stopped.wait(BACKOFF_LEAST)

    def _take_as_empty(self) -> None:
        """The kind is not installed: there are none of it."""
        self.version = ""
        self._accept()
        self._sink.replace([])
        self.completed = max(self._begun, 1)
        self.synced.set()
        self._sleep(OPTIONAL_SECONDS)

    def _note_failure(self, exc: Exception) -> None:
        """Note whether there was an answer; the first one after none begins the back-off anew."""
        if self._accepted:
            return  # it was answered, and failed after that
        before = self._trouble
        self._trouble = Trouble.NO_ANSWER if isinstance(exc, Unreachable) else Trouble.REFUSED
        if before is Trouble.NO_ANSWER and self._trouble is Trouble.REFUSED:
            self.failures = 0
            self._answered()

    def _accept(self) -> None:
        """The request of this try is answered with what was asked for."""
        self._accepted = True
        self._forbidden_at = None
        before, self._trouble = self._trouble, Trouble.NONE
        if before is Trouble.NO_ANSWER:
            self.failures = 0
        if before is not Trouble.NONE:
            self._answered()

    def _report(self, exc: Exception) -> None:
        self._counters.reflected(self.kind, "error")
        if isinstance(exc, NotFound):
            self.synced.clear()
            self.version = ""
        if isinstance(exc, Refused) and exc.status in FORBIDDEN and self._forbidden_at is None:
            self._forbidden_at = time.monotonic()
        if isinstance(exc, ClusterError):
            log.warning("%s cannot be reflected (%d in a row): %s", self.kind, self.failures, exc)
        else:
            self.version = ""
            log.exception("%s: the reflector failed; it begins anew with a list", self.kind, exc_info=exc)

    def _rest(self, failures: int, *, least: float = 0.0, most: float | None = None) -> None:
        """Wait before the next try: not at all after no failure. `least` is waited whoever hurries us."""
        if failures <= 0 or self._stopped.wait(least):
            return
        longest = min(most or BACKOFF_MOST, BACKOFF_LEAST * 2.0 ** min(failures, 10))
        self._sleep(longest * self._random.uniform(0.5, 1.0) - least)

    def _sleep(self, seconds: float) -> None:
        """Wait until we are woken, and count as not in sync once we have been forbidden for too long."""
        end = time.monotonic() + seconds
        if self._forbidden_at is not None and self.synced.is_set():
            allowed_until = self._forbidden_at + FORBIDDEN_SECONDS
            if self._awake.wait(max(0.0, min(end, allowed_until) - time.monotonic())):
                return
            if time.monotonic() >= allowed_until:
                log.error("%s may not be read any more: %s", self.kind, _RIGHTS)
                self.synced.clear()
                self.version = ""
        self._awake.wait(max(0.0, end - time.monotonic()))

    def _list(self) -> None:
        with self._lock:
            self._begun += 1
            number = self._begun
            self._listing = True
        try:
            self._list_all(number)
        finally:
            with self._lock:
                self._listing = False

    def _list_all(self, number: int) -> None:
        objects: list[T] = []
        for page in self._pages.read(self._client, self.path, query=self._selected, seen=self._accept):
            objects.extend(obj for raw in page.items or () if (obj := self._read(raw)) is not None)
            version = page.metadata.resource_version
            if self._stopped.is_set():
                return
        self._unreadable.keep_only(self.kind, {obj.metadata.uid for obj in objects})
        self._sink.replace(objects)
        self._advance(version)
        self._counters.reflected(self.kind, "list")
        self.completed = number
        self.synced.set()

    def _watch(self) -> bool:
        """Watch until the server ends it; False if it ended at once without a word."""
        if self._stopped.is_set() or self._list_is_due:
            return True
        began, events = time.monotonic(), 0
        self._watches = max(self._watches + 1, self._watch_wanted)
        seconds = self._random.randint(*(self._watch_seconds or WATCH_SECONDS))
        stream = self._client.stream(
            self.path,
            query={
                **self._selected,
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": self.version,
                "timeoutSeconds": seconds,
            },
            read_seconds=seconds + SILENCE_SECONDS,
        )
        try:
            self._accept()
            if self._is_interrupted:
                return True  # the cut that asked for it came while there was nothing to be cut
            for line in stream.lines():
                if self._is_interrupted:
                    return True
                self._apply(line)
                events += 1
        finally:
            stream.release()
        return events > 0 or time.monotonic() - began > SHORT_WATCH_END_SECONDS

    def _apply(self, line: bytes) -> None:
        self._sink.retry()
        event = _EVENT.decode(line)
        if event.type == "ERROR":
            status = _STATUS.decode(event.object)
            if status.code == 410:
                raise Expired(410, status.reason, status.message)
            raise Overloaded(status.code, status.reason, status.message, retry_after=1.0)
        if event.type == "BOOKMARK":
            self._advance(_BOOKMARK.decode(event.object).metadata.resource_version)
            return
        self._change(event)
        self._counters.reflected(self.kind, "event")

    def _change(self, event: RawEvent) -> None:
        obj = self._read(event.object)
        if obj is not None and event.type != "DELETED":
            self._sink.upsert(obj)
        elif event.type != "ADDED":
            if obj is not None:
                self._unreadable.forget(self.kind, obj.metadata.uid)
            gone = obj if obj is not None else self._bare(event.object)
            if gone is not None:
                self._sink.remove(gone)
        latest = obj if obj is not None else _BOOKMARK.decode(event.object)
        self._advance(latest.metadata.resource_version)

    def _advance(self, version: str) -> None:
        """The sink has every change up to this version."""
        self.version = version
        number = version_number(version)
        if number > self.applied:
            self.applied = number
            self._advanced(self.kind, number)

    def _read(self, raw: msgspec.Raw) -> T | None:
        try:
            obj = self._decode(raw)
        except msgspec.DecodeError as exc:
            self._counters.reflected(self.kind, "unreadable")
            return self._read_leniently(raw, exc)
        self._unreadable.forget(self.kind, obj.metadata.uid)
        return trim(obj) if len(raw) > TRIM_FROM_BYTES else obj

    def _read_leniently(self, raw: msgspec.Raw, why: Exception) -> T | None:
        """With what can be read of it."""
        try:
            obj, faults = self._lenient(raw) if self._lenient is not None else (None, [])
        except msgspec.DecodeError:
            obj, faults = None, []
        if obj is None:
            log.warning("%s: an object cannot be read and is left out: %s", self.kind, why)
            return None
        meta, text = obj.metadata, fault_text(faults)
        log.warning(
            "%s %s/%s cannot be read in full: %s (%s)", self.kind, meta.namespace, meta.name, text, why
        )
        self._unreadable.record(self.kind, meta, text)
        return obj

    def _bare(self, raw: msgspec.Raw) -> T | None:
        """The object with nothing but its metadata: what was known of it is true no more."""
        try:
            meta = _BOOKMARK.decode(raw)
            return self._decode(msgspec.json.encode(meta))
        except (msgspec.DecodeError, ClusterError):
            return None
