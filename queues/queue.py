"""The fields of a Queue's `spec` that decide something, and how they are read.

The server and the plugin read a Queue object with the same function, `queue_from_fields`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from queues.namespace_selectors import NamespaceSelector, compile_selector
from queues.states import Desired, ParkedPods, StopPolicy

ROOT = "root"
DEFAULT = "default"
#: The queues that always exist and are never deleted.
BUILT_IN = frozenset({ROOT, DEFAULT})


class Queue(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one queue's spec asks for.

    `parent` is None for `root` alone. `revision` changes whenever the object's spec does.
    `namespace_selector`: the namespaces that may use this queue and those below it; None: all.
    `scheduler_policy`: the scheduling policy that it names.
    `parked`: what becomes of pods that wait without a gate; None: as the nearest queue above says, else Keep.
    `placed`: the generation since which it is known to have had this parent (`with_placement`); None: the
    present one.
    """

    name: str
    uid: str = ""
    generation: int = 0
    parent: str | None = ROOT
    desired: Desired = Desired.OPEN
    stop_policy: StopPolicy = StopPolicy.NONE
    resume_at: datetime | None = None
    reason: str = ""
    namespace_selector: NamespaceSelector | None = None
    scheduler_policy: str = ""
    parked: ParkedPods | None = None
    placed: int | None = None

    def desired_at(self, now: datetime) -> Desired:
        """The desired state once `resumeAt` is taken into account; it never undoes Closed."""
        if self.desired is Desired.SUSPENDED and self.is_resumed(now):
            return Desired.OPEN
        return self.desired

    def stop_policy_at(self, now: datetime) -> StopPolicy:
        return StopPolicy.NONE if self.is_resumed(now) else self.stop_policy

    def is_resumed(self, now: datetime) -> bool:
        return self.resume_time is not None and self.resume_time <= now

    @property
    def resume_time(self) -> datetime | None:
        """`resume_at` with its zone; one without is UTC."""
        at = self.resume_at
        return at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at

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


#: Stands for `root` until the controller has made it.
IMPLIED_ROOT = Queue(name=ROOT, parent=None)

#: What the words of a spec mean; absent and empty ones are the default.
_DESIRED: Mapping[str | None, Desired] = {
    None: Desired.OPEN,
    "": Desired.OPEN,
    **{word.value: word for word in Desired},
}
_STOP_POLICIES: Mapping[str | None, StopPolicy] = {
    None: StopPolicy.NONE,
    "": StopPolicy.NONE,
    **{word.value: word for word in StopPolicy},
}
_PARKED: Mapping[str | None, ParkedPods] = {word.value: word for word in ParkedPods}


def queue_from_fields(  # noqa: PLR0913 - one for each field of the object
    *,
    name: str,
    uid: str,
    generation: int,
    parent: str | None,
    state: str | None,
    stop_policy: str | None,
    resume_at: datetime | None,
    reason: str | None,
    namespace_selector: object,
    scheduler_policy: str | None,
    parked: str | None,
) -> Queue:
    """Return the queue for fields of `metadata` and `spec`; None and "" count as absent.

    An unknown word stops the queue, since it cannot be what its author meant: a state counts as Suspended, a
    stop policy as Hold. One in `parked` counts as absent: nothing is deleted for it. `root` has no parent,
    whatever is written.
    """
    return Queue(
        name=name,
        uid=uid,
        generation=generation,
        parent=None if name == ROOT else (parent or ROOT),
        desired=_DESIRED.get(state, Desired.SUSPENDED),
        stop_policy=_STOP_POLICIES.get(stop_policy, StopPolicy.HOLD),
        resume_at=resume_at,
        reason=reason or "",
        namespace_selector=None if namespace_selector is None else compile_selector(namespace_selector),
        scheduler_policy=scheduler_policy or "",
        parked=_PARKED.get(parked),
    )


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
