"""Keeps the cache of one kind up to date: list, then watch, without end.

Invariants
- The event handler learns of every object. A list replaces its whole content, and events change it. No event
  is applied twice or lost between a list and its watch.
- The reflector never stops by itself. After any failure it continues after a jittered back-off by
  `BACKOFF` (`UNANSWERED_BACKOFF` if there was no answer). It starts again with a list if its
  resource version is lost (410, as a status or as an event).
- Failures with an answer and without one are counted apart: a server that starts is asked as if for the first
  time. Both counts grow until all of a try succeeds: the handler has the list, if one was due, and the watch
  brought something new or was open for `SHORT_WATCH_END_SECONDS`. A list alone is no success.
- The first reflector that gets an answer, or a good answer after a failure, wakes the others (`answered`,
  `retry_now`), so that no reflector keeps waiting for an API server that is back. So does a requested list or
  watch. Each wake-up without a success after it ends a rest later than the last one (`WAKE_BACKOFF`):
  whatever wakes a reflector, one that fails is not hot.
- Failures are counted, and said once they last (`cluster.retries`).
- A silent watch is given up `SILENCE_SECONDS` after its end was due (`watch_seconds`). A half-open connection
  is noticed then.
- Cached objects stay cached while requests are refused. `synced` says whether the cache may be relied upon:
  it is cleared when the kind no longer exists (404), and when reading it has been forbidden for
  `FORBIDDEN_SECONDS` without a break.
- An object that cannot be read in full is logged and stored with its readable fields (`lenient`,
  `unreadable`). An object of which nothing can be read is left out, and its former state is removed. The
  other objects are not affected. This holds for every object that the API server accepts, up to
  `MAX_NESTING` levels deep.
- A list under way is finished, even if another one is requested meanwhile; the other one follows it.
- `stop()` may be called from any thread. It returns within the time that interrupting a read takes.

=====================================  ============================================
what happens                           what the reflector does
=====================================  ============================================
the server ends the watch              watch again from the last version seen; back off if it ends at once
                                       without anything new
the connection is cut or times out     back off, then watch from the last version
410 on the watch, or as ERROR event    list at once; back off first if another try has failed before
an answer that is not a list           back off; the answer is discarded
410 in the middle of a paged list      start the list again
a watch is silent beyond its end       as if the connection had been cut
429 or 5xx                             back off, at least Retry-After
401, 403                               back off; not in sync after `FORBIDDEN_SECONDS` of it
404 (CRD missing)                      back off; not in sync; list when the kind exists again
404 of an optional kind                the cache is empty, or `missing` is called; look again after
                                       `OPTIONAL_SECONDS`
=====================================  ============================================

Source of the protocol: Kubernetes API concepts, "Efficient detection of changes".
"""

from __future__ import annotations

import logging
import math
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Generic, Protocol, TypeVar

import msgspec

from cluster.api.client import Client
from cluster.api.pages import ListPager
from cluster.background_thread import BackgroundThread
from cluster.backoff import Backoff
from cluster.cache.unreadable_objects import UnreadableObjects
from cluster.exceptions import ClusterError, Expired, NotFound, Overloaded, Refused, Unreachable
from cluster.informers.dispatch import (
    ApiObject,
    EventHandler,
    IsolatedEventHandler,
)
from cluster.key_backoff import KeyBackoff
from cluster.objects import PartialObjectMetadata, RawEvent, StatusObject, version_number
from cluster.retries import Retries
from queues.apimachinery.lenient import fault_text
from queues.world.trimming import TRIM_FROM_BYTES, trim

#: While nothing in the cluster changes, a watch gets no bookmarks either. So the server is asked to end the
#: watch soon, and a watch that is silent beyond its end is a dead connection. Each watch costs the API server
#: 1 ms. The least and the greatest duration of a watch; of each watch a random one in between.
WATCH_SECONDS = (20, 30)
#: The same for the kinds that stops and Commands wait for (`informers.SHORT_WATCH_KINDS`: queues, pods,
#: namespaces, PodGroups and Commands), so that a dead watch of them is noticed soon. A bookmark, if the
#: server sends one, comes two seconds before the end of the watch.
SHORT_WATCH_SECONDS = (3, 4)
#: A watch that is still open and silent so long after its end was due is given up.
SILENCE_SECONDS = 2.0
BACKOFF = Backoff(0.4, 10.0)
#: A refused connection is cheap for both sides.
UNANSWERED_BACKOFF = Backoff(0.4, 2.0)
#: The first wake-up since a success ends a rest at once, the next one when it has lasted so long.
WAKE_BACKOFF = Backoff(0.4, 10.0)
#: A starting API server answers 403 until it has read its roles, for seconds. After this time the right to
#: read has been taken away.
FORBIDDEN_SECONDS = 10.0
FORBIDDEN = frozenset({401, 403})
_RIGHTS = "give the server's account the rights of manifests/rbac/server.yaml"
#: A watch that ends sooner and without anything new is not repeated at once.
SHORT_WATCH_END_SECONDS = 1.0
#: How often to look for an optional kind that is not installed.
OPTIONAL_SECONDS = 10.0
#: Nesting levels that the API server accepts. An object that we could not even skip would end every list.
MAX_NESTING = 10_000
CUT_SECONDS = 0.1
CUTS = 50

log = logging.getLogger(__name__)

_EVENT = msgspec.json.Decoder(RawEvent)
_BOOKMARK = msgspec.json.Decoder(PartialObjectMetadata)
_STATUS = msgspec.json.Decoder(StatusObject)


T = TypeVar("T", bound=ApiObject)
Kept_contra = TypeVar("Kept_contra", bound=ApiObject, contravariant=True)


class Trouble(Enum):
    """The outcome of the last request, if it failed."""

    NONE = auto()
    NO_ANSWER = auto()
    REFUSED = auto()


class Counters(Protocol):
    """The metrics of a reflector."""

    @property
    def retries(self) -> Retries: ...

    def reflected(self, kind: str, what: str) -> None:
        """`what` is list, event, error, or unreadable."""


class Selection(Protocol[Kept_contra]):
    """Which objects of a kind are kept and watched, where a label selector alone does not say it.

    Called from the reflector's thread. `relist_seconds`: how often the kind is listed although no watch
    failed.
    """

    @property
    def relist_seconds(self) -> float: ...

    def new_filter(self) -> Callable[[Kept_contra], bool]:
        """Return what says of each object of a list that begins now whether it is kept."""

    @property
    def watch_labels(self) -> str:
        """The label selector of the watches until the next list; asked for after each list."""


@dataclass(frozen=True, kw_only=True)
class ReflectorOptions(Generic[T]):
    """How a reflector reads its kind, and who learns of it.

    `selector`: a field selector; `labels`: a label selector. `optional`: the kind may not be installed;
    `missing`: then called in place of a list without objects.
    `watch_seconds`: the least and the greatest duration of a watch (None: `WATCH_SECONDS`).
    `advanced`: called with the kind and `applied` when `applied` has grown. `answered`: called after the
    first answer after no answer, and after the first good answer after failures. `backoff`: remembers the
    objects that the handler failed for. `lenient`: reads an object that `decode` cannot read. `unreadable`:
    records those objects. `synced`: set while the kind has been listed and is watched.
    `selection`: which objects are kept and watched; None: all that the selectors select.
    `refused`: called when the kind may not be read, or is not served.
    """

    selector: str = ""
    labels: str = ""
    optional: bool = False
    missing: Callable[[], object] | None = None
    watch_seconds: tuple[int, int] | None = None
    advanced: Callable[[str, int], object] = lambda _kind, _applied: None
    answered: Callable[[], object] = lambda: None
    backoff: KeyBackoff = field(default_factory=KeyBackoff)
    lenient: Callable[[msgspec.Raw | bytes], tuple[T, list[str]]] | None = None
    unreadable: UnreadableObjects = field(default_factory=UnreadableObjects)
    synced: threading.Event = field(default_factory=threading.Event)
    selection: Selection[T] | None = None
    refused: Callable[[], object] = lambda: None


class Reflector(Generic[T]):
    """The reflector of one kind. It runs in a thread of its own between `start` and `stop`."""

    def __init__(
        self,
        *,
        kind: str,
        path: str,
        decode: Callable[[msgspec.Raw | bytes], T],
        handler: EventHandler[T],
        client: Client,
        counters: Counters,
        options: ReflectorOptions[T] | None = None,
    ) -> None:
        options = options or ReflectorOptions()
        self.kind = kind
        self._optional = options.optional
        self._missing = options.missing
        self._refused = options.refused
        self.path = path
        selectors = {"fieldSelector": options.selector, "labelSelector": options.labels}
        self._selected: dict[str, str | int] = {key: text for key, text in selectors.items() if text}
        self._selection = options.selection
        #: What the watches of the present list select besides.
        self._watched: dict[str, str | int] = {}
        self._relist_at = math.inf
        self._decode = decode
        self._shared_client = client
        self._handler = IsolatedEventHandler(handler, kind=kind, backoff=options.backoff)
        self._lenient = options.lenient
        self._unreadable = options.unreadable
        self._client = client.interruptible()
        self._pages = ListPager()
        self._counters = counters
        self._random = random.Random()  # noqa: S311 - jitter, no secret
        self._watch_seconds = options.watch_seconds
        self._answered = options.answered
        self._stopped = threading.Event()
        #: Set to end a rest: by a stop, by a requested list or watch, or when the API server answers again.
        self._awake = threading.Event()
        #: Failed tries since all of one succeeded; how many of them got no answer; how many rests were ended
        #: by a wake-up since then; whether the others were woken since then, or since the last outage; and
        #: whether the version was lost since then.
        self.failures = 0
        self._unanswered = 0
        self._wakes = 0
        self._has_woken_others = self._has_expired = False
        #: The outcome of the last request; whether the request of this try succeeded.
        self._trouble = Trouble.NONE
        self._accepted = False
        #: Since when reading the kind has been forbidden, in monotonic seconds.
        self._forbidden_at: float | None = None
        self.synced = options.synced
        #: Held briefly: to request a list or a watch, and when a list begins or ends.
        self._lock = threading.Lock()
        self._listing = False
        self._begun = 0
        #: The number of the last requested list, and of the last completed one.
        self._wanted = 1
        self.completed = 0
        #: The last resource version applied, bookmarks included. Empty while a list is due.
        self.version = ""
        #: The greatest applied version as a number: the handler has every change up to it. It never falls.
        self.applied = 0
        self._advanced = options.advanced
        #: The number of watches begun, and the number of the first one that is new enough.
        self._watches = 0
        self._watch_wanted = 0
        self._name = f"reflector-{self.kind}"
        self._thread = BackgroundThread(self._run, name=self._name)

    def start(self) -> None:
        sys.setrecursionlimit(max(sys.getrecursionlimit(), MAX_NESTING + 1_000))  # of the whole process
        self._thread.start()

    def stop(self) -> None:
        """End the thread and interrupt a read under way."""
        self._stopped.set()
        self._awake.set()
        for _ in range(CUTS):  # repeated: the thread may have been between two requests
            self._client.interrupt()
            self._thread.join(timeout=CUT_SECONDS)  # first: a start under way in another thread counts
            if not self._thread.alive:
                break
        self._counters.retries.forget(self._name)

    def relist(self) -> int:
        """Request a new list; return the value that `completed` reaches once such a list is done."""
        with self._lock:
            self._wanted = self._begun + 1
            self._interrupt()
            return self._wanted

    def rewatch(self) -> None:
        """Request a new watch from the last version applied, on a new connection; from any thread."""
        with self._lock:
            self._watch_wanted = self._watches + 1
            self._interrupt()

    def retry_now(self) -> None:
        """End a back-off that is under way; from any thread."""
        if self.failures:
            self._awake.set()

    def _interrupt(self) -> None:
        """End a rest or a watch, but not a list under way: all earlier requests still need it."""
        self._awake.set()
        if not self._listing:
            self._client.interrupt()

    def advance_watch_cache(self) -> None:
        """Make the API server bring its watch cache up to date, by a consistent read.

        This holds since Kubernetes 1.31; an older API server answers from etcd. From any thread. Raises
        `ClusterError`.
        """
        self._shared_client.get(self.path, **self._selected, limit=1)

    @property
    def alive(self) -> bool:
        return self._thread.alive

    @property
    def has_died(self) -> bool:
        """Whether the thread was started and has ended without `stop`."""
        return self._thread.started and not self._thread.alive and not self._stopped.is_set()

    @property
    def _watch_is_due(self) -> bool:
        """Whether a newer watch than the one under way was requested."""
        return self._watches < self._watch_wanted

    @property
    def _is_interrupted(self) -> bool:
        """Whether reading must end for a stop, a list or a new watch."""
        return self._stopped.is_set() or self._list_is_due or self._watch_is_due

    @property
    def _list_is_due(self) -> bool:
        if not self.version or self.completed < self._wanted:
            return True
        return self._relist_at < math.inf and time.monotonic() >= self._relist_at

    def _run(self) -> None:
        while True:
            self._awake.clear()  # a request that comes from here on ends the rest after this try
            if self._stopped.is_set():  # asked after that: `stop` sets the other one later
                return
            self._accepted = False
            requested = self._wanted, self._watch_wanted
            try:
                if self._list_is_due:
                    self._list()
                if not self._watch():
                    self._count_failure("its watch ends at once, without anything new")
                    self._rest()
            except Expired as exc:
                self.version = ""
                if self._has_expired or self.failures:  # a single one is what becomes of an old version
                    self._count_failure(exc)
                    self._rest()
                self._has_expired = True
            except Exception as exc:
                if not self._is_own_interrupt(exc, requested=requested):
                    self._fail(exc)

    def _is_own_interrupt(self, exc: Exception, *, requested: tuple[int, int]) -> bool:
        """Whether our own interrupt, for a stop, a list or a new watch, caused the failure. `requested`: the
        list and the watch that were requested when this try began: these interrupt it no more.
        """
        if not isinstance(exc, Unreachable):
            return False
        return self._stopped.is_set() or (self._wanted, self._watch_wanted) != requested

    def _fail(self, exc: Exception) -> None:
        """Rest before the next try. An exception in here does not end the thread."""
        try:
            if self._optional and isinstance(exc, NotFound):
                self._take_as_empty()
                return
            self._note_failure(exc)
            self._count_failure(exc)
            self._report(exc)
            self._rest(least=exc.retry_after if isinstance(exc, Overloaded) else 0.0)
        except Exception:
            log.exception("%s: the reflector failed on a failure", self.kind)
            self._stopped.wait(BACKOFF.first)

    def _count_failure(self, why: object) -> None:
        self.failures += 1
        self._unanswered += self._trouble is Trouble.NO_ANSWER
        self._counters.reflected(self.kind, "error")
        self._counters.retries.failed(self._name, why)

    def _succeed(self) -> None:
        """Record that all of a try succeeded."""
        self.failures = self._unanswered = self._wakes = 0
        self._has_woken_others = self._has_expired = False
        self._forbidden_at = None
        self._counters.retries.succeeded(self._name)

    def _take_as_empty(self) -> None:
        """Treat a kind that is not installed as a kind without objects."""
        self.version = ""
        self._accept()
        if self._missing is not None:
            self._missing()
        else:
            self._handler.replace([])
        self.completed = max(self._begun, 1)
        self.synced.set()
        self._succeed()
        self._sleep(OPTIONAL_SECONDS)

    def _note_failure(self, exc: Exception) -> None:
        """Record whether there was an answer. The first answer after none wakes the others."""
        if self._accepted:
            return  # the request was answered and failed after that
        before = self._trouble
        self._trouble = Trouble.NO_ANSWER if isinstance(exc, Unreachable) else Trouble.REFUSED
        if self._trouble is Trouble.NO_ANSWER:
            self._has_woken_others = False
        elif before is Trouble.NO_ANSWER:
            self._answered()

    def _accept(self) -> None:
        """Record that the request of this try got the answer that it asked for. The first one after failures
        (a watch that was cut is one, though it had been answered) wakes the others.
        """
        self._accepted = True
        self._trouble = Trouble.NONE
        if self.failures and not self._has_woken_others:
            self._has_woken_others = True
            self._answered()

    def _report(self, exc: Exception) -> None:
        if isinstance(exc, NotFound):
            self.synced.clear()
            self.version = ""
        is_forbidden = isinstance(exc, Refused) and exc.status in FORBIDDEN
        if is_forbidden and self._forbidden_at is None:
            self._forbidden_at = time.monotonic()
        if is_forbidden or isinstance(exc, NotFound):
            self._refused()
        if isinstance(exc, ClusterError):
            log.warning("%s cannot be reflected (%d in a row): %s", self.kind, self.failures, exc)
        else:
            self.version = ""
            log.exception("%s: the reflector failed; it begins anew with a list", self.kind, exc_info=exc)

    def _rest(self, *, least: float = 0.0) -> None:
        """Wait before the next try. A wake-up does not shorten `least`."""
        if self._stopped.wait(least):
            return
        if self._trouble is Trouble.NO_ANSWER:
            longest = UNANSWERED_BACKOFF.seconds(self._unanswered)
        else:
            longest = BACKOFF.seconds(self.failures - self._unanswered)
        self._sleep(longest * self._random.uniform(0.5, 1.0) - least)

    def _sleep(self, seconds: float) -> None:
        """Wait until a wake-up. Clear `synced` once reading has been forbidden for `FORBIDDEN_SECONDS`."""
        began = time.monotonic()
        end = began + seconds
        if self._forbidden_at is not None and self.synced.is_set():
            allowed_until = self._forbidden_at + FORBIDDEN_SECONDS
            if self._is_woken(began, until=min(end, allowed_until)):
                return
            if time.monotonic() >= allowed_until:
                log.error("%s may not be read any more: %s", self.kind, _RIGHTS)
                self.synced.clear()
                self.version = ""
        self._is_woken(began, until=end)

    def _is_woken(self, began: float, *, until: float) -> bool:
        """Wait for a wake-up of the rest that began then, and for as long as one has to wait by now."""
        if not self._awake.wait(max(0.0, until - time.monotonic())):
            return False
        least = began + WAKE_BACKOFF.seconds(self._wakes)
        self._stopped.wait(max(0.0, min(least, until) - time.monotonic()))
        self._wakes += 1
        return True

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
        selection = self._selection
        is_kept = selection.new_filter() if selection is not None else None
        for page in self._pages.read(self._client, self.path, query=self._selected, seen=self._accept):
            read = (obj for raw in page.items or () if (obj := self._read(raw)) is not None)
            objects.extend(filter(is_kept, read) if is_kept is not None else read)
            version = page.metadata.resource_version
            if self._stopped.is_set():
                return
        self._unreadable.keep_only(self.kind, {obj.metadata.uid for obj in objects})
        self._handler.replace(objects)
        if selection is not None:
            labels = selection.watch_labels
            self._watched = {"labelSelector": labels} if labels else {}
            self._relist_at = time.monotonic() + self._random.uniform(0.9, 1.1) * selection.relist_seconds
        self._advance(version)
        self._counters.reflected(self.kind, "list")
        self.completed = number
        self.synced.set()

    def _watch(self) -> bool:
        """Watch until the server ends it. Return False if it ended at once without anything new."""
        if self._stopped.is_set() or self._list_is_due:
            return True
        began, version = time.monotonic(), self.version
        self._watches = max(self._watches + 1, self._watch_wanted)
        seconds = self._random.randint(*(self._watch_seconds or WATCH_SECONDS))
        stream = self._client.stream(
            self.path,
            query={
                **self._selected,
                **self._watched,
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": self.version,
                "timeoutSeconds": seconds,
            },
            read_seconds=seconds + SILENCE_SECONDS,
        )
        try:
            self._accept()
            self._forbidden_at = None  # to read is to watch, too
            self._counters.retries.succeeded(self._name, unless_within=SHORT_WATCH_END_SECONDS)
            if self._is_interrupted:
                return True  # the interrupt came when there was no connection to cut
            for line in stream.lines():
                if self._is_interrupted:
                    return True
                self._apply(line)
        finally:
            stream.release()
            succeeded = self.version != version or time.monotonic() - began > SHORT_WATCH_END_SECONDS
            if succeeded:
                self._succeed()
        return succeeded

    def _apply(self, line: bytes) -> None:
        self._handler.retry()
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
            self._handler.upsert(obj)
        elif event.type != "ADDED":
            if obj is not None:
                self._unreadable.forget(self.kind, obj.metadata.uid)
            gone = obj if obj is not None else self._bare(event.object)
            if gone is not None:
                self._handler.remove(gone)
        latest = obj if obj is not None else _BOOKMARK.decode(event.object)
        self._advance(latest.metadata.resource_version)

    def _advance(self, version: str) -> None:
        """Record that the handler has every change up to this version."""
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
        """Read the fields that can be read."""
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
        """Return the object with its metadata only: its former state is no longer valid."""
        try:
            meta = _BOOKMARK.decode(raw)
            return self._decode(msgspec.json.encode(meta))
        except (msgspec.DecodeError, ClusterError):
            return None
