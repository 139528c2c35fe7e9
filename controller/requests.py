"""What was asked of the API server and does not show yet: one memory of requests, by kind, UID and purpose.

A part has a table for each purpose (`RequestTables.table`). The state of a request:

========  ======================================  ==========================================================
state     entered when                            may be sent again
========  ======================================  ==========================================================
(none)    nothing was asked, or it is settled     at once
sent      it is handed to the writers             no; a part that asks once for each version (`is_asked`)
                                                  may ask for another one
granted   the API server has granted it           once it shows, or has not within a time (`settle_shown`)
refused   it failed                               from `not_before` on, later after each failure
dropped   nothing was asked after all             at once, or from `not_before` on: it is no failure
========  ======================================  ==========================================================

Invariants
- An object has one request for a purpose at most, and no second one while that is sent or granted.
- A term begins with empty tables, and ends with them: another leader may have asked for anything. The table
  of `quota.voided` alone is not one of them.
- An answer is recorded in the term that asked, and in no later one (`RequestTables.of_term`). Events and
  metrics say what was granted in any case.
- A pod that is gone is forgotten in all tables of pods (`RequestUpkeep`). Tables of pods and workloads forget
  what is gone by themselves.
- What is not idempotent is read before it is asked again: a Command by its name and by what its Job shows, an
  eviction by its pod, of which the UID is a precondition.
- One thread, no clock, no I/O. Times are monotonic seconds.

Who has such a table, and what settles a request:

=============================  ============================  =================================  ==============
module                         what is asked                 settled by                         back-off
=============================  ============================  =================================  ==============
`drain.request_states`         pods, workloads go            the cache; budgets that were read  1 to 60 s
`drain.job_suspension`         workloads are resumed         their mark is gone                 10 s
`quota.give_backs`             victims go                    the cache, or 30 s                 10 to 1800 s
`quota.gang_placements`        pods go, workloads suspended  the cache                          10 s; 2 s
`quota.voided`                 releases come to nothing      the release, or its end; no term   0.5 to 30 s
`pods.ungating`                gates, retries, queues        another version of the pod         1 to 64 s
`pods.pod_conditions`          why a pod waits               another version or text            none
`pods.recreation`              pods, Jobs go                 the answer                         30 s for a Job
`stops.windows`                edges are written             the answer                         none
=============================  ============================  =================================  ==============

What is no request of a term stays where it is:

=============================  ===============================================================================
module                         what it has, and why it is not here
=============================  ===============================================================================
`quota.releases`               releases that were begun: the book has them, for the next leader, too
`quota.lost_pods`              who was asked to go for others: it is known until the gang was read without it
`pods.untaken_pods`            of each pod how far giving it up has come; its times begin anew with a term
`pods.label_backoff`           how often others changed a label: that is no request, and no term ends it
`pods.unlabelled_members`      what lists found; of a write it has a flag, which goes with what was found
`status.closing`               answers to questions: each holds for one close, whoever leads
`status.queue_records`         one write of a status at a time, in order; the writers' order knows no term
`status.podgroup_status`       the version that was written last: no older one is written over, whoever leads
`stops.bind_guard`             tokens and probes, which prove something; they are forgotten within a term, too
=============================  ===============================================================================
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from cluster.backoff import Backoff
from cluster.cache.changes import PodChange, StoreChange
from cluster.cache.store import Store
from controller.parts import Part

NEVER = -math.inf
#: After failures in a row, where a part does not say otherwise.
BACKOFF = Backoff(1.0, 60.0)
#: A heap has so many outdated entries at least before it is built again.
MIN_OUTDATED = 64

A = TypeVar("A")


class RequestKey(NamedTuple):
    """Which table: the kind of the objects that requests are for, and what is asked of them."""

    kind: str
    purpose: str


class RequestState(msgspec.Struct, kw_only=True):
    """One request; see the table of states.

    `version`: of the object, as it was when it was asked, or what else was asked for. `failures`: in a row;
    `message`: of the last one.
    """

    version: Hashable = None
    is_sent: bool = False
    granted_at: float | None = None
    not_before: float = NEVER
    failures: int = 0
    message: str = ""


S = TypeVar("S", bound=RequestState)


class RequestTable(Generic[S]):
    """The requests of one kind and purpose, by the UID of their objects."""

    def __init__(self, make: Callable[[], S], *, backoff: Backoff = BACKOFF) -> None:
        """`make`: an empty state. `backoff`: after failures in a row."""
        self._make = make
        self._backoff = backoff
        self._states: dict[str, S] = {}
        #: When which may be asked again; an entry is outdated where its state has another time.
        self._heap: list[tuple[float, int, str]] = []
        self._numbers = itertools.count()

    # Questions

    def __contains__(self, uid: str) -> bool:
        return uid in self._states

    def __len__(self) -> int:
        return len(self._states)

    def items(self) -> Iterable[tuple[str, S]]:
        return self._states.items()

    def get(self, uid: str) -> S | None:
        return self._states.get(uid)

    @property
    def sent(self) -> frozenset[str]:
        """UIDs of those that were sent and not answered."""
        return frozenset(uid for uid, each in self._states.items() if each.is_sent)

    @property
    def unshown(self) -> frozenset[str]:
        """UIDs of those that were sent or granted, and not settled."""
        return frozenset(uid for uid, each in self._states.items() if is_open(each))

    def is_sent(self, uid: str) -> bool:
        state = self._states.get(uid)
        return state is not None and state.is_sent

    def is_asked(self, uid: str, version: Hashable) -> bool:
        """Whether it was asked for this version."""
        state = self._states.get(uid)
        return state is not None and state.version == version

    def may_send(self, uid: str, *, now: float) -> bool:
        """Whether it is neither sent nor granted, and no back-off holds."""
        state = self._states.get(uid)
        return state is None or not (is_open(state) or state.not_before > now)

    def is_postponed(self, uid: str, *, now: float) -> bool:
        state = self._states.get(uid)
        return state is not None and state.not_before > now

    def postponed(self, now: float) -> frozenset[str]:
        """UIDs of those for which a back-off holds."""
        return frozenset(uid for _, _, uid in self._heap if self.is_postponed(uid, now=now))

    def failures(self, uid: str) -> int:
        """In a row."""
        state = self._states.get(uid)
        return 0 if state is None else state.failures

    # What happens

    def send(self, uid: str, *, version: Hashable = None) -> S:
        """It is handed to the writers."""
        state = self._state(uid)
        state.is_sent, state.version = True, version
        return state

    def grant(self, uid: str, *, now: float) -> S:
        """The API server has granted it."""
        state = self._answer(uid)
        state.failures, state.granted_at = 0, now
        return state

    def refuse(
        self,
        uid: str,
        *,
        now: float,
        message: str = "",
        seconds: float | None = None,
        backoff: Backoff | None = None,
    ) -> S:
        """It failed. `seconds`: until it may be asked again; else as the back-off says."""
        state = self._answer(uid)
        state.failures += 1
        state.message = message
        wait = (backoff or self._backoff).seconds(state.failures) if seconds is None else seconds
        if wait > 0:
            self.postpone(uid, until=now + wait)
        return state

    def drop(self, uid: str, *, until: float | None = None) -> S:
        """Nothing was asked. `until`: it may not be asked again before."""
        state = self._answer(uid)
        if until is not None:
            self.postpone(uid, until=until)
        return state

    def postpone(self, uid: str, *, until: float) -> None:
        """It may not be asked again before, whatever its state."""
        state = self._state(uid)
        if state.not_before != until:
            state.not_before = until
            heapq.heappush(self._heap, (until, next(self._numbers), uid))
            if len(self._heap) > 2 * len(self._states) + MIN_OUTDATED:
                self._heap = [each for each in self._heap if self._is_current(each)]
                heapq.heapify(self._heap)

    def settle_shown(
        self, *, is_shown: Callable[[str], bool], now: float = NEVER, within: float = math.inf
    ) -> None:
        """Settle what was granted and shows by now. What does not show within so many seconds counts as not
        granted.
        """
        for uid, state in self._states.items():
            if state.granted_at is not None and (now >= state.granted_at + within or is_shown(uid)):
                state.granted_at = None

    def forget(self, uid: str, *, version: Hashable = None) -> None:
        """It is settled, or gone. `version`: only if it was asked for that."""
        if version is None or self.is_asked(uid, version):
            self._states.pop(uid, None)

    def forget_absent(
        self, present: Container[str], *, but: Callable[[S], bool] = lambda _state: False
    ) -> None:
        """Forget objects that are gone; `but`: except those of which something is still to be known."""
        self._states = {uid: each for uid, each in self._states.items() if uid in present or but(each)}

    def clear(self) -> None:
        self._states.clear()
        self._heap.clear()

    # When

    @property
    def due(self) -> float:
        """When the first may be asked again that was postponed; infinity for none."""
        while self._heap and not self._is_current(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf

    def take_due(self, now: float) -> Iterator[tuple[str, S]]:
        """Those that may be asked again, once each."""
        while self.due <= now and self._heap:
            _, _, uid = heapq.heappop(self._heap)
            yield uid, self._states[uid]

    def _is_current(self, entry: tuple[float, int, str]) -> bool:
        until, _, uid = entry
        state = self._states.get(uid)
        return state is not None and state.not_before == until

    def _answer(self, uid: str) -> S:
        state = self._state(uid)
        state.is_sent = False
        return state

    def _state(self, uid: str) -> S:
        state = self._states.get(uid)
        if state is None:
            state = self._states[uid] = self._make()
        return state


def is_open(state: RequestState) -> bool:
    """Whether it was sent or granted, and does not show yet."""
    return state.is_sent or state.granted_at is not None


class RequestTables:
    """All tables of this replica's term. Owner: the context; for the controller's thread."""

    def __init__(self) -> None:
        self._tables: list[tuple[RequestKey, RequestTable[Any]]] = []
        #: How many terms have begun or ended.
        self._terms = 0

    def table(
        self, kind: str, purpose: str, make: Callable[[], S], *, backoff: Backoff = BACKOFF
    ) -> RequestTable[S]:
        """A new table. `make`: an empty state."""
        made = RequestTable(make, backoff=backoff)
        self._tables.append((RequestKey(kind, purpose), made))
        return made

    def begin_term(self) -> None:
        """A term begins or ends."""
        self._terms += 1
        for _, table in self._tables:
            table.clear()

    def of_term(self, receive: Callable[[A], object]) -> Callable[[A], None]:
        """What receives an answer in the term that asks now, and drops it in a later one."""
        term = self._terms

        def receive_in_term(answer: A) -> None:
            if term == self._terms:
                receive(answer)

        return receive_in_term

    def forget(self, kind: str, uids: Collection[str]) -> None:
        """These objects are gone."""
        for key, table in self._tables:
            if key.kind == kind:
                for uid in uids:
                    table.forget(uid)


class RequestUpkeep(Part):
    """Begins the terms of all requests, and forgets those of pods that are gone."""

    name = "requests"

    def __init__(self, store: Store, requests: RequestTables) -> None:
        self._store = store
        self._requests = requests

    def begin_term(self) -> None:
        self._requests.begin_term()

    def record(self, changes: Mapping[str, Iterable[StoreChange]]) -> None:
        by_uid = self._store.members.by_uid
        pods = (each for of_queue in changes.values() for each in of_queue if isinstance(each, PodChange))
        gone = [change.uid for change in pods if by_uid(change.uid) is None]
        if gone:
            self._requests.forget("Pod", gone)
