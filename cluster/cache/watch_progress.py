"""Up to which resource version the cache of each kind is complete, and how it is made to catch up.

A reflector has applied a version when the cache has every change of the kind up to it; an event, a bookmark
or a list tells so. A quiet watch and a dead watch look alike. So a caller that needs the cache to be as new
as a version demands this version, and the reflector is brought there:

======================  ===========================================================================
time after the demand   step
======================  ===========================================================================
`MARKER_SECONDS`        write a marker: create an object of the kind and delete it at once. Its events
                        come after every earlier change, on the watch of every replica
`REWATCH_SECONDS`       make the API server bring its watch cache up to date (a consistent list of one
                        object), and watch on a new connection: the old one may be half open
`RELIST_SECONDS`        list the kind
======================  ===========================================================================

The steps are repeated until the version is applied, each round later (at most `ROUND_MOST` times as late).
A marker that is refused is tried again after a back-off. That, and a round that came to nothing, counts as
failing of loop `progress-` and the kind (`cluster.retries`), until a version that is demanded is applied or a
marker is written.

A caller that knows that it will demand a version soon has a marker begun at once (`prompt`): its version is
known as soon as it is created. It is ended when that is not enough for a demand, or after `OPEN_SECONDS`.

Invariants
- `applied` never falls: what was applied stays applied, whatever happens to the watch.
- `demand` returns at once and sends no request. It is True only for a version that has been applied.
- Each listener is called after a demanded version that was not applied yet has been applied.
- A repeated demand changes nothing.
- Threads: any thread may demand. The reflectors' threads report progress. A thread of our own (`progress`)
  sends the requests.

Resource versions of several kinds are comparable if all of them are in one etcd. They are, unless
`--etcd-servers-overrides` moves some kinds to another etcd.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from cluster.background_thread import BackgroundThread
from cluster.backoff import Backoff
from cluster.exceptions import ClusterError
from cluster.retries import Retries

#: In a busy cluster some object of the kind usually changes by itself, and a marker costs two writes.
MARKER_SECONDS = 0.001
MARKER_GAP_SECONDS = 0.1
#: So long a prompted marker has for its event before it is ended for a demand.
PROMPT_EVENT_SECONDS = 0.01
#: A marker is ended after this time, if no demand needs that sooner.
OPEN_SECONDS = 0.05
#: The wait after a marker that was refused.
MARKER_BACKOFF = Backoff(1.0, 30.0)
#: An event arrives within milliseconds after its write.
REWATCH_SECONDS = 1.0
#: A watch ends, or gets a bookmark, within `reflector.SHORT_WATCH_SECONDS`; this is for a server without
#: bookmarks.
RELIST_SECONDS = 6.0
ROUND_MOST = 8

log = logging.getLogger(__name__)

#: Causes an event of the kind. Raises `cluster.exceptions.ClusterError`.
Marker = Callable[[], None]
#: Called with the kind, in a reflector's thread: it must only record the call and return.
OnReached = Callable[[str], None]


class TwoStepMarker(Protocol):
    """A marker in two steps. Each raises `cluster.exceptions.ClusterError`."""

    def begin(self) -> int:
        """Cause an event; return its version, or 0 if there is none. Then `end` causes one."""

    def end(self) -> None:
        """Cause another event."""


class WatchedKind(Protocol):
    """The part of a reflector that is used here."""

    @property
    def applied(self) -> int: ...

    def advance_watch_cache(self) -> None: ...

    def rewatch(self) -> None: ...

    def relist(self) -> int: ...


class _Pending(msgspec.Struct):
    """The open demands of one kind; written under the lock."""

    versions: set[int]
    #: When the present round began; its number, doubled each round; whether its new watch was requested.
    since: float
    times: int = 1
    rewatched: bool = False
    #: When a marker is due; None if none is needed.
    mark_at: float | None = None


class _TwoSteps(msgspec.Struct):
    """A marker in two steps. `at`: it was begun then or later, in monotonic seconds; `version`: 0 until it is
    known; `is_open`: it is to be ended.
    """

    at: float
    version: int = 0
    is_begun: bool = False
    is_open: bool = False


class WatchProgress:
    """Brings reflectors to demanded versions.

    The store has it, for whoever demands a version. The informers attach their reflectors before they start
    it, and stop it.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        written: Callable[[float, int], object] = lambda _at, _version: None,
        retries: Retries | None = None,
    ) -> None:
        """`written`: called after the first step of a prompted marker with a time before it, in monotonic
        seconds, and its version. `retries`: is told what comes to nothing.
        """
        self._retries = retries or Retries()
        self._clock = clock
        self._written = written
        self._watched: dict[str, WatchedKind] = {}
        self._markers: dict[str, Marker] = {}
        self._two_steps: dict[str, TwoStepMarker] = {}
        #: By kind: the last marker that has two steps.
        self._last: dict[str, _TwoSteps] = {}
        self._pending: dict[str, _Pending] = {}
        #: By kind: the version for which the last marker was begun, when, and how many failed in a row.
        self._marked: dict[str, tuple[int, float, int]] = {}
        #: By kind: the version for which a marker is needed by other replicas.
        self._announced: dict[str, int] = {}
        self._listeners: list[OnReached] = []
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = BackgroundThread(self._run, name="progress")

    # Wiring

    def attach(
        self,
        kind: str,
        watched: WatchedKind,
        *,
        marker: Marker | None = None,
        two_steps: TwoStepMarker | None = None,
    ) -> None:
        self._watched[kind] = watched
        if marker is not None:
            self._markers[kind] = marker
        if two_steps is not None:
            self._two_steps[kind] = two_steps

    def listen(self, reached: OnReached) -> None:
        """Add a callback; it is called with the kind after each demanded version has been applied, and when
        the version of a prompted marker is known.
        """
        self._listeners.append(reached)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join(timeout=5)

    @property
    def alive(self) -> bool:
        return self._thread.alive

    # Questions and demands

    def applied(self, kind: str) -> int:
        """Return the version up to which the store has every change of the kind; 0 before its first list."""
        watched = self._watched.get(kind)
        return watched.applied if watched is not None else 0

    def demand(self, kind: str, version: int, *, marker: bool = True) -> bool:
        """Return whether this version is applied; if not, listeners are called as soon as it is.

        `marker`: whether a marker may be written for it. One replica is enough: its events reach all of them.
        """
        if self.applied(kind) >= version:
            return True
        if kind not in self._watched:
            return False
        with self._changed:
            self._add_demand(kind, version, marker=marker and kind in self._markers)
        self.advanced(kind, self.applied(kind))  # it may have been applied before the demand was recorded
        return self.applied(kind) >= version

    def prompt(self, kind: str) -> None:
        """Begin a marker now: a version that is current by now will be demanded soon. At most one is begun in
        `MARKER_GAP_SECONDS`.
        """
        now = self._clock()
        with self._changed:
            last = self._last.get(kind)
            is_early = last is not None and (last.is_open or now < last.at + MARKER_GAP_SECONDS)
            is_early = is_early or self._marker_gap_ends(kind) > now
            if kind in self._two_steps and not (is_early or self._stopped):
                self._last[kind] = _TwoSteps(at=now, is_open=True)
                self._changed.notify()

    def prompted_version(self, kind: str, *, since: float) -> int:
        """Return the version of a marker prompted at `since` (monotonic seconds) or later; 0 if there is
        none, or its version is not known yet.
        """
        last = self._last.get(kind)
        return last.version if last is not None and last.at >= since else 0

    def announce(self, kind: str, version: int) -> None:
        """Write a marker newer than this version for other replicas, unless there is one already."""
        with self._changed:
            if kind in self._markers and self._marked.get(kind, (0, 0.0, 0))[0] < version:
                self._announced[kind] = max(version, self._announced.get(kind, 0))
                self._changed.notify()

    def _add_demand(self, kind: str, version: int, *, marker: bool) -> None:
        now = self._clock()
        pending = self._pending.get(kind)
        if pending is None:
            pending = self._pending[kind] = _Pending(versions=set(), since=now)
        pending.versions.add(version)
        if marker and pending.mark_at is None and self._marked.get(kind, (0, 0.0, 0))[0] < version:
            pending.mark_at = max(now + MARKER_SECONDS, self._marker_gap_ends(kind))
            last = self._last.get(kind)
            if last is not None and last.is_open:
                pending.mark_at = max(pending.mark_at, last.at + PROMPT_EVENT_SECONDS)
        self._changed.notify()

    def _marker_gap_ends(self, kind: str) -> float:
        if kind not in self._marked:
            return float("-inf")
        _, at, failures = self._marked[kind]
        return at + (MARKER_BACKOFF.seconds(failures) if failures else MARKER_GAP_SECONDS)

    # Reflectors' threads

    def advanced(self, kind: str, applied: int) -> None:
        """Record that the cache of the kind is complete up to this version."""
        if kind not in self._pending:
            return
        with self._changed:
            pending = self._pending.get(kind)
            if pending is None:
                return
            met = {version for version in pending.versions if version <= applied}
            pending.versions -= met
            if not pending.versions:
                del self._pending[kind]
        if met:
            self._retries.succeeded(_loop(kind))
            self._call_listeners(kind)

    def _call_listeners(self, kind: str) -> None:
        """Call the listeners. Their exceptions are logged: they must not reach the reflector."""
        for reached in self._listeners:
            try:
                reached(kind)
            except Exception:
                log.exception("%s: a listener failed on hearing that it is up to date", kind)

    # Our own thread

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._stopped:
                    break
                step = self._next_request()
                if step is None:
                    self._changed.wait(self._seconds_until_due())
                    continue
            self._carry_out(step)
        for kind, last in self._last.items():
            if last.is_begun and last.is_open:
                self._carry_out(self._two_steps[kind].end)

    def _carry_out(self, step: Callable[[], None]) -> None:
        """Carry out a step. After any exception the next step follows."""
        try:
            step()
        except ClusterError as exc:
            log.warning("a watch could not be made to catch up: %s", exc)
        except Exception:
            log.exception("a watch could not be made to catch up")

    def _seconds_until_due(self) -> float | None:
        times = [min(self._due_times(pending)) for pending in self._pending.values()]
        times += [self._marker_gap_ends(kind) for kind in self._announced]
        times += [each.at + OPEN_SECONDS for each in self._last.values() if each.is_open]
        return max(0.0, min(times) - self._clock()) if times else None

    def _due_times(self, pending: _Pending) -> list[float]:
        after = RELIST_SECONDS if pending.rewatched else REWATCH_SECONDS
        times = [pending.since + after * pending.times]
        return times if pending.mark_at is None else [*times, pending.mark_at]

    def _next_request(self) -> Callable[[], None] | None:
        """Return the next request that is due, already recorded as begun."""
        now = self._clock()
        if (step := self._next_step(now)) is not None:
            return step
        for kind, version in list(self._announced.items()):
            if self._marked.get(kind, (0, 0.0, 0))[0] >= version:
                del self._announced[kind]
            elif self._marker_gap_ends(kind) <= now:
                del self._announced[kind]
                return self._marker_request(kind, version=version, at=now)
        for kind, pending in self._pending.items():
            if pending.mark_at is not None and pending.mark_at <= now:
                pending.mark_at = None
                return self._marker_request(kind, version=max(pending.versions), at=now)
            if not pending.rewatched and pending.since + REWATCH_SECONDS * pending.times <= now:
                pending.rewatched = True
                return self._rewatch_request(kind)
            if pending.since + RELIST_SECONDS * pending.times <= now:
                pending.since, pending.rewatched = now, False
                pending.times = min(2 * pending.times, ROUND_MOST)
                return self._relist_request(kind)
        return None

    def _next_step(self, now: float) -> Callable[[], None] | None:
        """Return a prompted marker's beginning, or the end of a marker that is due; recorded as begun."""
        for kind, last in self._last.items():
            if last.is_open and not last.is_begun:
                last.is_begun = True
                return partial(self._begin_prompted, kind, last)
            if last.is_open and last.at + OPEN_SECONDS <= now:
                last.is_open = False
                return self._two_steps[kind].end
        return None

    def _begin_prompted(self, kind: str, marker: _TwoSteps) -> None:
        try:
            self._begin(kind, marker)
        except BaseException as exc:
            self._record_refused(kind, exc)
            raise
        self._call_listeners(kind)

    def _begin(self, kind: str, marker: _TwoSteps) -> None:
        """Take the first step, which stays open; or both, if the first causes no event."""
        try:
            version = self._two_steps[kind].begin()
        except BaseException:
            marker.is_open = False
            raise
        if not version:
            marker.is_open = False
            self._two_steps[kind].end()
            return
        self._written(marker.at, version)
        marker.version = version

    def _marker_request(self, kind: str, *, version: int, at: float) -> Callable[[], None]:
        """Record a marker before it is written: it serves later demands up to this version as well."""
        _, _, failures = self._marked.get(kind, (0, 0.0, 0))
        self._marked[kind] = (version, at, 0)
        pending = self._pending.get(kind)
        if pending is not None and max(pending.versions) <= version:
            pending.mark_at = None
        write = self._next_event(kind)

        def mark() -> None:
            try:
                write()
            except BaseException as exc:
                with self._changed:
                    self._marked[kind] = (0, self._clock(), failures)
                self._record_refused(kind, exc)
                raise
            self._retries.succeeded(_loop(kind))

        return mark

    def _next_event(self, kind: str) -> Callable[[], None]:
        """Return what causes the next event: the end of an open marker, or a whole one. Other replicas
        report their pods when a marker is deleted.
        """
        last = self._last.get(kind)
        if last is not None and last.is_open:
            last.is_open = False
            return self._two_steps[kind].end
        return self._markers[kind]

    def _record_refused(self, kind: str, why: BaseException) -> None:
        """A marker was refused: the next one is written after a back-off."""
        with self._changed:
            _, _, failures = self._marked.get(kind, (0, 0.0, 0))
            self._marked[kind] = (0, self._clock(), failures + 1)
            if kind in self._pending:
                self._pending[kind].mark_at = self._marker_gap_ends(kind)
        self._retries.failed(_loop(kind), why)

    def _rewatch_request(self, kind: str) -> Callable[[], None]:
        def rewatch() -> None:
            log.info("%s: the watch is behind what has been asked for, and begins anew", kind)
            try:
                self._watched[kind].advance_watch_cache()
            finally:
                self._watched[kind].rewatch()

        return rewatch

    def _relist_request(self, kind: str) -> Callable[[], None]:
        def relist() -> None:
            log.warning("%s: the watch stays behind what has been asked for; all are listed", kind)
            self._retries.failed(_loop(kind), "the watch stays behind what has been asked for")
            self._watched[kind].relist()

        return relist


def _loop(kind: str) -> str:
    return f"progress-{kind}"
