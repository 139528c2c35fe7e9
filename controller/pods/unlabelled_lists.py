"""When pods without label `sluice.dev/queue` are listed (`unlabelled_pods`), for `member_labels`.

Invariants
- `WaitingPodLists.version` is that of the newest list that was read: every pod on no node without the label
  that existed then has been passed on.
- A list that is needed is requested once more if it has no answer for `HEDGE_SECONDS`, at most `AT_ONCE` at a
  time; after a failure it is requested again after a back-off.
- A list of all pods counts only from its beginning: what is requested meanwhile is listed again. It is read
  on after a page that failed.
- Pages of all pods are read by one lister at a time, so that the lists that stops wait for find the others
  free.
- Owner: the controller's thread, which also gets what was read. The listers' threads read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

import msgspec

from cluster.backoff import Backoff
from cluster.exceptions import ClusterError
from cluster.write_ranks import WriteRank
from controller.context import ControllerContext
from controller.pods.unlabelled_pods import (
    PodSelection,
    UnlabelledPages,
    UnlabelledPods,
    UnlabelledWaitingPods,
    read_waiting,
)
from queues.text import truncated

#: Stands for a namespace where the pods of all of them are meant.
ALL_NAMESPACES = ""
#: How often all pods without the label are listed.
FULL_SECONDS = 600.0
#: Between two pages of such a list, unless it is the first one of a term or something waits for it.
PAGE_SECONDS = 0.05
#: How soon the next page is tried again while too many labels are to be written.
FULL_WAIT_SECONDS = 0.1
#: A list of waiting pods without an answer is requested once more after this time.
HEDGE_SECONDS, AT_ONCE = 1.0, 2
RETRY = Backoff(0.1, 5.0)
#: Characters of a failure in `status.stop.waitingFor`.
FAILURE_LIMIT = 160


class _Scan(msgspec.Struct, frozen=True):
    """A list of waiting pods that is under way. `version`: 0 for a consistent one; `at`: when it began."""

    version: int
    at: float


class WaitingPodLists:
    """Lists of the pods on no node."""

    def __init__(
        self,
        context: ControllerContext,
        selection: PodSelection,
        *,
        receive: Callable[[int, UnlabelledWaitingPods], object],
    ) -> None:
        """`receive`: is given each list that was read, with its number."""
        self._context = context
        self._clock = context.store.clock
        self._selection = selection
        self._receive = receive
        self._generation = 0
        self.forget()

    def forget(self) -> None:
        self._generation += 1
        #: The lists under way by number; the number of the last one.
        self._under_way: dict[int, _Scan] = {}
        self._number = 0
        #: The version that is needed, and the one that has been read.
        self._wanted = self.version = 0
        self._is_requested = self._consistent_wanted = False
        #: When the next list may begin, if no stop waits for it.
        self._at = 0.0
        self._failures, self.failure = 0, ""

    @property
    def is_wanted(self) -> bool:
        return self._wanted > self.version or self._is_requested or self._consistent_wanted

    @property
    def due(self) -> float:
        """When a list is to be begun, in monotonic seconds."""
        return self._at if self.is_wanted and not self._under_way else math.inf

    def demand(self, version: int) -> bool:
        """Whether a list of this version or later has been read; else one is begun."""
        if self.version >= version:
            return True
        self._wanted = max(self._wanted, version)
        self.start()
        return False

    def request(self, version: int, *, delay: float = 0.0) -> int:
        """Have a list read that begins after this call, of this version or later; returns its number, or a
        greater one's. `delay`: not sooner.
        """
        if not self.is_wanted:
            self._at = max(self._at, self._clock.monotonic() + delay)
        self._wanted = max(self._wanted, version)
        self._is_requested = True
        return self._number + 1

    def request_consistent(self) -> int:
        """Have a list read as of now, whatever version that is; returns its number, or a greater one's."""
        self._consistent_wanted = True
        return self._number + 1

    def start_if_due(self) -> None:
        if self.is_wanted and self._clock.monotonic() >= self._at:
            self.start()

    def start(self) -> None:
        """Begin a list, unless lists under way will do."""
        now = self._clock.monotonic()
        if self._failures and now < self._at:
            return
        newest = max((scan.at for scan in self._under_way.values()), default=-math.inf)
        is_new_enough = not (self._consistent_wanted or self._is_requested) and any(
            scan.version >= self._wanted for scan in self._under_way.values()
        )
        if len(self._under_way) >= AT_ONCE or (is_new_enough and now < newest + HEDGE_SECONDS):
            return
        self._number += 1
        number, generation = self._number, self._generation
        # A list that is requested once more is consistent as well: it may answer first.
        is_consistent = self._consistent_wanted or any(not scan.version for scan in self._under_way.values())
        version = 0 if is_consistent else self._wanted
        failures = list[str]()

        def read() -> UnlabelledWaitingPods:
            try:
                return read_waiting(self._context.list_client, self._selection, version=version)
            except ClusterError as exc:
                failures.append(str(exc))
                raise

        def receive(waiting: UnlabelledWaitingPods | None) -> None:
            if generation == self._generation:
                self._receive_list(number, waiting, failures[-1] if failures else "")

        if self._context.submit(
            self._context.pod_listers, ("waiting pods", number), read, receive, rank=WriteRank.EVIDENCE
        ):
            self._under_way[number] = _Scan(version, now)
            self._consistent_wanted = self._is_requested = False

    def _receive_list(self, number: int, waiting: UnlabelledWaitingPods | None, failure: str) -> None:
        scan = self._under_way.pop(number)
        if waiting is None:
            self._failures += 1
            self.failure = truncated(failure, limit=FAILURE_LIMIT)
            self._at = self._clock.monotonic() + RETRY.seconds(self._failures)
            self._consistent_wanted = self._consistent_wanted or not scan.version
            return
        self._failures, self.failure = 0, ""
        self.version = max(self.version, waiting.version)
        self._receive(number, waiting)


class Listing(msgspec.Struct):
    """A list of all pods without the label, or of those of a namespace, page by page.

    `queue`: the one that the namespace names. `seen`: the UIDs that it has shown. `began`: when it was begun;
    `due`: when its next page is read. `again_at`: it is begun again when it has ended, since it was requested
    meanwhile. Times are monotonic seconds.
    """

    namespace: str
    queue: str
    due: float
    number: int = 0
    began: float = 0.0
    pages: UnlabelledPages | None = None
    seen: set[str] = msgspec.field(default_factory=set)
    is_reading: bool = False
    failures: int = 0
    again_at: float = math.inf


class AllPodLists:
    """Lists of all pods: of the cluster when a term begins and now and then, and of namespaces."""

    def __init__(
        self,
        context: ControllerContext,
        selection: PodSelection,
        *,
        receive: Callable[[UnlabelledPods], object],
        end: Callable[[Listing], object],
        has_room: Callable[[], bool],
    ) -> None:
        """`receive`: is given each page. `end`: is given each list that has ended. `has_room`: whether a
        further page may be read.
        """
        self._context = context
        self._store = context.store
        self._selection = selection
        self._receive = receive
        self._end = end
        self._has_room = has_room
        self._generation = 0
        self.forget()

    def forget(self) -> None:
        """Begin anew with a list of all pods of the cluster."""
        self._generation += 1
        #: By namespace, or `ALL_NAMESPACES`.
        self._listings: dict[str, Listing] = {ALL_NAMESPACES: Listing(ALL_NAMESPACES, "", due=0.0)}
        #: Whether all pods of the cluster have been listed.
        self.is_complete = False
        #: When the last list of all pods that has ended was begun, in monotonic seconds.
        self._complete_since = -math.inf
        self._is_demanded = False

    @property
    def due(self) -> float:
        """When the next page is to be read, in monotonic seconds."""
        times = (listing.due for listing in self._listings.values() if not listing.is_reading)
        return min(times, default=math.inf)

    def namespace_of(self, queues: Collection[str]) -> str:
        """A namespace that names one of these queues and is being listed; "" if there is none."""
        listed = (
            each.namespace
            for each in self._listings.values()
            if each.namespace != ALL_NAMESPACES and each.queue in queues
        )
        return next(listed, "")

    def request(self, namespace: str, *, delay: float = 0.0) -> None:
        """Have all pods of the namespace, or of `ALL_NAMESPACES`, listed; `delay`: not sooner."""
        if namespace in self._store.membership_settings.exempt_namespaces:
            return
        at = self._now() + delay
        listing = self._listings.get(namespace)
        queue = self._store.namespaces.queue_of(namespace) if namespace != ALL_NAMESPACES else ""
        if listing is None:
            self._listings[namespace] = Listing(namespace, queue, due=at)
            return
        listing.queue = queue or listing.queue
        if listing.pages is not None or at > listing.due:
            listing.again_at = at
        if listing.pages is None:
            listing.due = min(listing.due, at)

    def demand(self, since: float) -> bool:
        """Whether a list of all pods of the cluster begun then or later has ended; else one is begun.

        All that is demanded while one list is read is served by the next one.
        """
        if self._complete_since >= since:
            return True
        self._is_demanded = True
        listing = self._listings[ALL_NAMESPACES]
        if listing.pages is None:
            listing.due = listing.due if listing.failures else min(listing.due, self._now())
        elif listing.began < since:
            self.request(ALL_NAMESPACES)
        return False

    def read_due(self) -> None:
        """Have the pages read that are due."""
        now = self._now()
        for listing in list(self._listings.values()):
            if listing.is_reading or listing.due > now:
                continue
            if self._has_room():
                self._read_page(listing)
            else:
                listing.due = now + FULL_WAIT_SECONDS

    def _read_page(self, listing: Listing) -> None:
        if listing.pages is None:
            listing.pages = UnlabelledPages(
                self._context.list_client, self._selection, namespace=listing.namespace
            )
            listing.number += 1
            listing.began = self._now()
            listing.seen.clear()
        pages, generation = listing.pages, self._generation
        key = ("unlabelled pods", (generation, listing.namespace, listing.number))

        def receive(result: tuple[UnlabelledPods | None] | None) -> None:
            if generation == self._generation:
                self._receive_page(listing, result)

        listers = self._context.pod_listers
        if self._context.submit(
            listers, key, lambda: (pages.read_page(),), receive, rank=WriteRank.LABEL, lane="unlabelled pods"
        ):
            listing.is_reading = True
        else:
            listing.due = self._now() + max(listers.wait(key), RETRY.first)

    def _receive_page(self, listing: Listing, result: tuple[UnlabelledPods | None] | None) -> None:
        """`result`: None if the page could not be read; then it is read again later."""
        now = self._now()
        listing.is_reading = False
        if result is None:
            listing.failures += 1
            listing.due = now + RETRY.seconds(listing.failures)
            return
        (pods,) = result
        if pods is None:
            self._end_listing(listing, now)
            return
        listing.failures = 0
        listing.seen |= pods.uids
        self._receive(pods)
        is_awaited = listing.namespace != ALL_NAMESPACES or self._is_demanded or not self.is_complete
        listing.due = now if is_awaited else now + PAGE_SECONDS

    def _end_listing(self, listing: Listing, now: float) -> None:
        listing.pages = None
        self._end(listing)
        if listing.again_at < math.inf:
            listing.due, listing.again_at = max(now, listing.again_at), math.inf
        elif listing.namespace != ALL_NAMESPACES:
            del self._listings[listing.namespace]
        else:
            listing.due = now + FULL_SECONDS
        if listing.namespace == ALL_NAMESPACES:
            self.is_complete, self._complete_since = True, listing.began
            self._is_demanded = self._is_demanded and listing.due <= now
        listing.seen.clear()

    def _now(self) -> float:
        return self._store.clock.monotonic()
