"""The requests of one drain, by pod or workload: their states, and when each may be sent again.

Owner: the controller's thread, through `controller.drain.state`. Times are monotonic seconds.

A request is for one pod, or for one workload as a whole, and has its UID:

=======  ==================================  ===================  ====================  =====================
state    entered when                        counts as leaving    pending disruptions   sent again
=======  ==================================  ===================  ====================  =====================
(none)   nothing was requested               if the cache says    none                  at once
pending  the request is sent                 yes                  those of its budgets  no
granted  the API server has granted it       yes                  until its budgets     after
                                                                  were read again       `GRANTED_SECONDS`
shown    the cache shows what was granted    as the cache says    as when granted       no: it is on its way
waiting  it failed or was dropped; a         if the cache says    none                  from `not_before` on
         Command or a cut was granted, or a
         Command was taken
=======  ==================================  ===================  ====================  =====================

Invariants
- A UID has one request at most, and no second one while that is pending or granted. A grant that does not
  show in the cache within `GRANTED_SECONDS` counts as not given.
- A disruption is pending from the moment of the request until its budget was read after the answer. So
  no plan spends it twice.
- A request that fails delays its own pod or workload, for longer each time (`RETRY`; where a budget
  refuses, `BUDGET_RETRY`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from cluster.backoff import Backoff
from controller.drain.snapshot import DrainSnapshot
from controller.evictions.answers import EvictionOutcome
from controller.requests import RequestState, RequestTable
from queues.drain.disruption_budgets import BudgetKey
from queues.drain.model import DrainAction, RunningPod, Unit
from queues.workload_kinds import KINDS, Suspension

#: When a request that failed is sent again; and where a budget refused it.
RETRY, BUDGET_RETRY = Backoff(1.0, 60.0), Backoff(1.0, 4.0)
#: After so many failures in a row the refusal is a blocker; one that the eviction API repeats for ever is at
#: once. Characters of its message.
REFUSALS_TO_BLOCK, REFUSAL_LIMIT = 2, 300
#: How long it takes until a suspended workload shows as suspended, a Command is taken, or pods are deleted.
SUSPEND_SECONDS = 10.0
#: How long a granted request may take to show in the cache.
GRANTED_SECONDS = 60.0
#: The actions that are one request for a workload, and none for its pods.
OF_WORKLOAD = frozenset({DrainAction.SUSPEND, DrainAction.SUSPEND_ANYWAY, DrainAction.SCALE})


class RequestResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one request of a drain, for one pod of a unit or for the unit's workload as a whole.

    `drain`: the queue whose policy it is. `pod`: None where the request is for the workload. `retry_after`:
    seconds. `grace`: the requested grace period in seconds; None is the pod's own.
    """

    drain: str
    unit: Unit
    outcome: EvictionOutcome
    pod: RunningPod | None = None
    message: str = ""
    retry_after: float = 0.0
    grace: int | None = None

    @property
    def uid(self) -> str:
        """The UID of the pod or of the workload."""
        if self.pod is not None:
            return self.pod.uid
        return self.unit.workload.uid if self.unit.workload is not None else ""

    @property
    def queue(self) -> str:
        return (self.pod or self.unit.pods[0]).queue

    @property
    def action(self) -> DrainAction:
        return self.unit.action


class DrainRequest(RequestState, kw_only=True):
    """The request for one pod or workload; see the table of states.

    `queue`: whose counts get its result. `budgets` and `pods`: the disruptions that are pending.
    `answered_at`: since when they are granted. `command_at`: when a Command for the workload was sent.
    """

    queue: str = ""
    budgets: tuple[BudgetKey, ...] = ()
    pods: int = 0
    answered_at: float | None = None
    command_at: float | None = None


class DrainRequestTable(RequestTable[DrainRequest]):
    """All requests of one drain."""

    def __init__(self) -> None:
        super().__init__(DrainRequest, backoff=RETRY)

    def set_granted(self, uids: Collection[str], *, at: float) -> None:
        """Record the pods that leave already: an earlier leader has evicted them."""
        for uid in uids:
            self._state(uid).granted_at = at

    def record_pods(self, present: Collection[str], *, is_leaving: Callable[[str], bool], now: float) -> None:
        """Record which granted requests the cache shows by now: the pod leaves, or is gone.

        `present`: UIDs of the pods and workloads that run.
        """
        self.settle_shown(
            is_shown=lambda uid: uid not in present or is_leaving(uid), now=now, within=GRANTED_SECONDS
        )

    @property
    def pending_queues(self) -> frozenset[str]:
        """The queues with requests that were sent and not answered."""
        return frozenset(each.queue for _, each in self.items() if each.is_sent)

    def pending_disruptions(self, snapshot: DrainSnapshot | None) -> dict[BudgetKey, int]:
        """By budget: the disruptions that were requested and that the snapshot does not count yet."""
        pending: dict[BudgetKey, int] = {}
        for _, request in self.items():
            if request.answered_at is not None and _were_read(request, snapshot):
                request.budgets, request.answered_at = (), None
            for budget in request.budgets:
                pending[budget] = pending.get(budget, 0) + request.pods
        return pending

    def may_send_all(self, unit: Unit, *, now: float) -> bool:
        return all(self.may_send(uid, now=now) for uid, _ in _uids(unit))

    def send_all(self, unit: Unit) -> None:
        for part in unit.parts or (unit,):
            queues, first = {pod.uid: pod.queue for pod in part.pods}, part.pods[0].queue
            for uid, pods in _uids(part):
                request = self.send(uid)
                request.answered_at = None
                request.queue, request.budgets, request.pods = queues.get(uid, first), part.budgets, pods

    def has_command(self, unit: Unit) -> bool:
        """Whether a Command was sent for the unit's workload.

        If the unit is a step again, the Command had no effect so far.
        """
        request = self.get(unit.workload.uid) if unit.workload is not None else None
        return request is not None and request.command_at is not None

    def refusal(self, unit: Unit) -> str | None:
        """The message of the last of several failures in a row."""
        requests = (self.get(uid) for uid, _ in _uids(unit))
        refused = (each for each in requests if each is not None and each.failures >= REFUSALS_TO_BLOCK)
        return next((each.message for each in refused), None)

    def record_grant(self, result: RequestResult, *, now: float) -> None:
        workload = result.unit.workload
        is_command = workload is not None and KINDS[workload.kind].suspension is Suspension.COMMAND
        is_cut = result.action is DrainAction.CUT_GRACE
        # Neither shows on the pods: it is asked again after a time.
        request = self.drop(result.uid) if is_cut or is_command else self.grant(result.uid, now=now)
        request.failures, request.answered_at = 0, now
        if is_cut:
            self.postpone(result.uid, until=now + SUSPEND_SECONDS)
        elif result.pod is None and workload is not None:
            self.postpone(result.uid, until=now + SUSPEND_SECONDS)
            request.command_at = now if is_command else None

    def record_failure(self, result: RequestResult, *, now: float, budgets_known: bool) -> None:
        """The request may be sent again after a back-off.

        `budgets_known`: whether the budgets of the pod were read. If not, the eviction API looks through very
        many for each try.
        """
        refused_for_ever = result.outcome is EvictionOutcome.SEVERAL_BUDGETS
        request = self.refuse(
            result.uid,
            now=now,
            message=result.message,
            seconds=RETRY.longest if refused_for_ever else None,
            backoff=BUDGET_RETRY if result.outcome is EvictionOutcome.BUDGET and budgets_known else None,
        )
        request.budgets = ()
        if refused_for_ever:
            request.failures = max(request.failures, REFUSALS_TO_BLOCK)

    def record_drop(self, result: RequestResult, *, now: float) -> None:
        """Nothing was requested: this is no failure."""
        is_dropped = result.outcome is EvictionOutcome.DROPPED
        self.drop(result.uid, until=now + RETRY.first if is_dropped else None).budgets = ()

    def record_taken(self, result: RequestResult, *, now: float) -> float:
        """The Command was taken: ask again later. Returns the seconds since it was sent."""
        request = self.drop(result.uid, until=now + SUSPEND_SECONDS)
        request.answered_at = now
        return now - request.command_at if request.command_at is not None else 0.0

    def forget_gone(self, present: Collection[str]) -> None:
        """Forget pods and workloads that are gone, once the budgets count them."""
        self.forget_absent(present, but=lambda each: each.is_sent or bool(each.budgets))


def _uids(unit: Unit) -> list[tuple[str, int]]:
    """The UID of each request that a unit takes, and how many pods go by it."""
    if unit.parts:
        return [each for part in unit.parts for each in _uids(part)]
    if unit.action in OF_WORKLOAD and unit.workload is not None:
        return [(unit.workload.uid, len(unit.pods))]
    return [(pod.uid, 1) for pod in unit.pods]


def _were_read(request: DrainRequest, snapshot: DrainSnapshot | None) -> bool:
    """Whether all its budgets were read after the answer."""
    if snapshot is None or request.answered_at is None:
        return False
    return all(request.answered_at < snapshot.read_at(namespace) for namespace, _ in request.budgets)
