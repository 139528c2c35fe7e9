"""Up to which resource version the view of each kind is complete, and how it is made to catch up.

A reflector has applied a version when its sink has every change of the kind up to it: an event, a bookmark
or a list said so. A quiet kind and a watch that has died look alike, so whoever needs a view that is as new
as some version demands it, and the reflector is brought there:

======================  ===========================================================================
after the demand         what is done
======================  ===========================================================================
`MARKER_SECONDS`        a marker is written: an object of the kind, made and deleted at once. Its events
                        come after every earlier change, on the watch of every replica
`REWATCH_SECONDS`       the watch cache is asked to read on (a consistent list of one object), and the
                        watch begins anew on a new connection: the old one may be half open
`RELIST_SECONDS`        the kind is listed
======================  ===========================================================================

and all of it again, ever later (at most `ROUND_MOST` times as late), until the version is applied.

Invariants
- `applied` never falls: what was applied stays applied, whatever happens to the watch.
- `demand` returns at once and makes no request; it is True only for what has been applied.
- Whoever listens is called once for each version that was demanded and not applied yet, after it is.
- Demands are cheap to repeat: the same one again changes nothing.
- Threads: any may demand; the reflectors' threads report; one of our own (`progress`) makes the requests.

Resource versions of several kinds are comparable while all of them are in one etcd, as they are unless
`--etcd-servers-overrides` puts some of them elsewhere.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

import msgspec

from cluster.exceptions import ClusterError

#: Something of the kind as a rule changes by itself in a busy cluster, and a marker costs two writes.
MARKER_SECONDS = 0.003
MARKER_GAP_SECONDS = 0.1
#: After a marker that was refused, doubled up to the greatest.
MARKER_RETRY_SECONDS = 1.0
MARKER_RETRY_MOST = 30.0
#: An event takes milliseconds from the write to us.
REWATCH_SECONDS = 1.0
#: A watch gets a bookmark within `reflector.WATCH_SECONDS`, so this is for a server that sends none.
RELIST_SECONDS = 6.0
ROUND_MOST = 8

log = logging.getLogger(__name__)

#: Makes an event of the kind. Raises `cluster.exceptions.ClusterError`.
Marker = Callable[[], None]
#: Called with the kind; in a reflector's thread, so it must only take note and return.
OnReached = Callable[[str], None]


class WatchedKind(Protocol):
    """What is asked of a reflector."""

    @property
    def applied(self) -> int: ...

    def advance_watch_cache(self) -> None: ...

    def rewatch(self) -> None: ...

    def relist(self) -> int: ...


class _Pending(msgspec.Struct):
    """The demands of one kind that are not met; written under the lock."""

    versions: set[int]
    #: When the ladder began, which round it is in, and which of its steps are done.
    since: float
    times: int = 1
    rewatched: bool = False
    #: When a marker is due; None if none is wanted.
    mark_at: float | None = None


class WatchProgress:
    """Owner: the store. Kinds are attached before it is started."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._watched: dict[str, WatchedKind] = {}
        self._markers: dict[str, Marker] = {}
        self._pending: dict[str, _Pending] = {}
        #: Up to which version a marker of a kind was begun after it was demanded, when, and how many failed.
        self._marked: dict[str, tuple[int, float, int]] = {}
        #: Up to which version a marker of a kind is wanted for other replicas' sake.
        self._announced: dict[str, int] = {}
        self._listeners: list[OnReached] = []
        self._changed = threading.Condition()
        self._stopped = False
        self._thread: threading.Thread | None = None

    # Wiring

    def attach(self, kind: str, watched: WatchedKind, *, marker: Marker | None = None) -> None:
        self._watched[kind] = watched
        if marker is not None:
            self._markers[kind] = marker

    def listen(self, reached: OnReached) -> None:
        """`reached` is called whenever a version that was demanded has been applied."""
        self._listeners.append(reached)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout=5)

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    # Questions and demands

    def applied(self, kind: str) -> int:
        """Every change of the kind up to this version is in the store; 0 before its first list."""
        watched = self._watched.get(kind)
        return watched.applied if watched is not None else 0

    def demand(self, kind: str, version: int, *, marker: bool = True) -> bool:
        """Whether this version is applied; if not, it will be soon, and those who listen hear of it.

        `marker`: whether one may be written for it. One replica is enough: its events reach all of them.
        """
        if self.applied(kind) >= version:
            return True
        if kind not in self._watched:
            return False
        with self._changed:
            self._add_demand(kind, version, marker=marker and kind in self._markers)
        self.advanced(kind, self.applied(kind))  # it may have come before the demand was noted
        return self.applied(kind) >= version

    def announce(self, kind: str, version: int) -> None:
        """Have a marker written that is younger than this version, if none was, for other replicas' sake."""
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
        self._changed.notify()

    def _marker_gap_ends(self, kind: str) -> float:
        if kind not in self._marked:
            return float("-inf")
        _, at, failures = self._marked[kind]
        wait = MARKER_RETRY_SECONDS * 2.0 ** min(failures - 1, 10) if failures else MARKER_GAP_SECONDS
        return at + min(wait, MARKER_RETRY_MOST)

    # Reflectors' threads

    def advanced(self, kind: str, applied: int) -> None:
        """The view of the kind is complete up to this version."""
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
            self._call_listeners(kind)

    def _call_listeners(self, kind: str) -> None:
        """What a listener raises is none of the reflector's business."""
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
                    return
                step = self._due()
                if step is None:
                    self._changed.wait(self._pause())
                    continue
            self._take(step)

    def _take(self, step: Callable[[], None]) -> None:
        """Whatever goes wrong, the next step comes."""
        try:
            step()
        except ClusterError as exc:
            log.warning("a watch could not be made to catch up: %s", exc)
        except Exception:
            log.exception("a watch could not be made to catch up")

    def _pause(self) -> float | None:
        times = [min(self._times(pending)) for pending in self._pending.values()]
        times += [self._marker_gap_ends(kind) for kind in self._announced]
        return max(0.0, min(times) - self._clock()) if times else None

    def _times(self, pending: _Pending) -> list[float]:
        after = RELIST_SECONDS if pending.rewatched else REWATCH_SECONDS
        times = [pending.since + after * pending.times]
        return times if pending.mark_at is None else [*times, pending.mark_at]

    def _due(self) -> Callable[[], None] | None:
        """The next request that it is time for, taken note of as begun."""
        now = self._clock()
        for kind, version in list(self._announced.items()):
            if self._marked.get(kind, (0, 0.0, 0))[0] >= version:
                del self._announced[kind]
            elif self._marker_gap_ends(kind) <= now:
                del self._announced[kind]
                return self._marking(kind, version=version, at=now)
        for kind, pending in self._pending.items():
            if pending.mark_at is not None and pending.mark_at <= now:
                pending.mark_at = None
                return self._marking(kind, version=max(pending.versions), at=now)
            if not pending.rewatched and pending.since + REWATCH_SECONDS * pending.times <= now:
                pending.rewatched = True
                return self._rewatching(kind)
            if pending.since + RELIST_SECONDS * pending.times <= now:
                pending.since, pending.rewatched = now, False
                pending.times = min(2 * pending.times, ROUND_MOST)
                return self._relisting(kind)
        return None

    def _marking(self, kind: str, *, version: int, at: float) -> Callable[[], None]:
        """Noted before it is written: what is demanded meanwhile, and not younger, is served by it."""
        _, _, failures = self._marked.get(kind, (0, 0.0, 0))
        self._marked[kind] = (version, at, 0)

        def mark() -> None:
            try:
                self._markers[kind]()
            except BaseException:
                with self._changed:
                    self._marked[kind] = (0, self._clock(), failures + 1)
                    if kind in self._pending:
                        self._pending[kind].mark_at = self._marker_gap_ends(kind)
                raise

        return mark

    def _rewatching(self, kind: str) -> Callable[[], None]:
        def rewatch() -> None:
            log.info("%s: the watch is behind what has been asked for, and begins anew", kind)
            try:
                self._watched[kind].advance_watch_cache()
            finally:
                self._watched[kind].rewatch()

        return rewatch

    def _relisting(self, kind: str) -> Callable[[], None]:
        def relist() -> None:
            log.warning("%s: the watch stays behind what has been asked for; all are listed", kind)
            self._watched[kind].relist()

        return relist
