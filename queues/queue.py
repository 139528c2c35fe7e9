"""A queue as the rules take it: what its spec asks for. `queues.fields` reads it from a Queue object."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from queues.apimachinery.quantities import Amount
from queues.namespace_selectors import NamespaceSelector
from queues.node_groups import NodeGroups
from queues.states import Desired, ParkedPods, StopPolicy
from queues.windows.entries import CurrentWindow
from queues.windows.stops import Strictest, WindowOn, WindowStop, on_by, strictest

ROOT = "root"
DEFAULT = "default"
#: The queues that always exist and are never deleted.
BUILT_IN = frozenset({ROOT, DEFAULT})


#: Amounts by resource, sorted.
Amounts = tuple[tuple[str, Amount], ...]


class DequeueStrategy(StrEnum):
    """What becomes of the pods behind one that has no room."""

    FIFO = "fifo"
    TRAVERSE = "traverse"


class StoppedGuarantee(StrEnum):
    """What becomes of what a queue is guaranteed while it does not schedule."""

    KEEP = "Keep"
    LEND = "Lend"


class Queue(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one queue's spec asks for.

    `parent` is None for `root` alone. `revision` changes whenever the object's spec does.
    `terminating`: it is being deleted, which nothing undoes; a finalizer keeps the object for now.
    `namespace_selector`: the namespaces that may use this queue and those below it; None: all.
    `windows`: what its change windows set. `window_overrides`: a line for each. `in_window`: the windows that
    are on, as the server has written.
    `scheduler_policy`: the scheduling policy that it names.
    `parked`: what becomes of pods that wait without a gate; None: as the nearest queue above says, else Keep.
    `capability`: what it and those below it may use at most; None: no limit of its own. `deserved`: what it
    may count on. `guarantee`: what is set aside for it; `stopped_guarantee`: whether also while it does not
    schedule. `priority`, `weight`, `dequeue`: who of its siblings, and of its pods, goes next.
    `node_groups`: where its new pods run; None: as the nearest queue above says, else anywhere.
    `placed`: the generation since which it is known to have had this parent (`with_placement`); None: the
    present one.
    `contact`: whom to ask about it, as it is shown (`queues.contacts`); "" for none of its own. It is no part
    of the spec: `revision` does not change with it.
    """

    name: str
    uid: str = ""
    generation: int = 0
    terminating: bool = False
    parent: str | None = ROOT
    desired: Desired = Desired.OPEN
    stop_policy: StopPolicy = StopPolicy.NONE
    resume_at: datetime | None = None
    reason: str = ""
    namespace_selector: NamespaceSelector | None = None
    windows: tuple[WindowStop, ...] = ()
    window_overrides: tuple[str, ...] = ()
    in_window: tuple[CurrentWindow, ...] = ()
    scheduler_policy: str = ""
    parked: ParkedPods | None = None
    capability: Amounts | None = None
    deserved: Amounts | None = None
    guarantee: Amounts | None = None
    stopped_guarantee: StoppedGuarantee = StoppedGuarantee.KEEP
    priority: int = 0
    weight: int = 1
    dequeue: DequeueStrategy = DequeueStrategy.TRAVERSE
    node_groups: NodeGroups | None = None
    placed: int | None = None
    contact: str = ""

    def desired_at(self, now: datetime) -> Desired:
        """The desired state of the spec and of the windows that are on. `resumeAt` ends what the spec asks
        for itself, but for Closed."""
        return self.stop_at(now).state

    def stop_policy_at(self, now: datetime) -> StopPolicy:
        """The stop policy of both, likewise."""
        return self.stop_at(now).policy

    def stop_at(self, now: datetime) -> Strictest:
        """What counts of the spec and of the windows that are on; `in_window` alone says which are."""
        own = self.own_desired_at(now), self.own_stop_policy_at(now)
        return strictest(*own, self.windows_on) if self.in_window else Strictest(state=own[0], policy=own[1])

    def closes_at(self, now: datetime) -> bool:
        """Whether it lets run out what it has accepted, and takes nothing new."""
        return self.terminating or self.desired_at(now) is Desired.CLOSED

    def own_desired_at(self, now: datetime) -> Desired:
        """Of the spec without its windows."""
        if self.desired is Desired.SUSPENDED and self.is_resumed(now):
            return Desired.OPEN
        return self.desired

    def own_stop_policy_at(self, now: datetime) -> StopPolicy:
        """Of the spec without its windows."""
        return StopPolicy.NONE if self.is_resumed(now) else self.stop_policy

    def policy_window(self, now: datetime) -> WindowOn | None:
        """The window whose stop policy counts; None where that of the spec does."""
        return self.window_on(self.stop_at(now).policy_by)

    def window_on(self, name: str) -> WindowOn | None:
        """The window of this name, if it is on."""
        return next((each for each in self.windows_on if each.window.name == name), None)

    def is_resumed(self, now: datetime) -> bool:
        return self.resume_time is not None and self.resume_time <= now

    @property
    def resume_time(self) -> datetime | None:
        """`resume_at` with its zone; one without is UTC."""
        at = self.resume_at
        return at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at

    @property
    def windows_on(self) -> tuple[WindowOn, ...]:
        """The windows that are on, with what they set."""
        return on_by(self.in_window, self.windows) if self.in_window else ()

    @property
    def is_suspended_or_held(self) -> bool:
        """Whether its own spec suspends or holds it; `resumeAt` is not considered."""
        return self.desired is Desired.SUSPENDED or self.stop_policy is not StopPolicy.NONE

    @property
    def revision(self) -> str:
        return f"{self.uid}/{self.generation}"

    @property
    def place(self) -> str:
        """Changes whenever the queue is moved; it may change with other edits as well."""
        placed = self.generation if self.placed is None else self.placed
        return f"{self.uid}/{self.parent}/{placed}"

    @property
    def was_created_here(self) -> bool:
        """Whether it has never been moved. False where that is not known."""
        return (self.generation if self.placed is None else self.placed) == 1


#: Stands for `root` until the controller has made it.
IMPLIED_ROOT = Queue(name=ROOT, parent=None)


def with_placement(queue: Queue, *, before: Queue | None) -> Queue:
    """Return the queue with `placed`. `before`: the queue of this name as it was known before.

    Each edit of a spec makes the next generation. Where generations between the two are not known, the queue
    may have been elsewhere meanwhile: so it counts as moved.
    """
    placed: int | None = None
    if before is not None and (before.uid, before.parent) == (queue.uid, queue.parent):
        is_next = before.generation <= queue.generation <= before.generation + 1
        placed = before.placed if is_next else None
    return msgspec.structs.replace(queue, placed=queue.generation if placed is None else placed)
