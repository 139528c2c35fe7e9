"""The fields of a Queue's `spec` that decide something."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from queues.namespace_selectors import NamespaceSelector
from queues.states import Desired, StopPolicy

ROOT = "root"
DEFAULT = "default"
#: The queues that always exist and are never deleted.
BUILT_IN = frozenset({ROOT, DEFAULT})


class Queue(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one queue's spec asks for.

    `parent` is None for `root` alone. `revision` changes whenever the object's spec does.
    `namespace_selector`: the namespaces that may use this queue and those below it; None: all.
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


#: Stands for `root` until the controller has made it.
IMPLIED_ROOT = Queue(name=ROOT, parent=None)
