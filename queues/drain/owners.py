"""Which of a pod's owners a drain suspends, or scales, in place of evicting the pod. Pure.

The leader asks it of its cache, `kubectl queue drain --dry-run` of what it has listed.

Users can write owner references, so an owner counts only if it exists, by its UID, in the namespace of the
pod, as its controller (`controller: true`):

| the owner                                                        | is suspended                            |
|------------------------------------------------------------------|-----------------------------------------|
| a Job, JobSet or `batch.volcano.sh` Job of a queue of the drain  | the topmost one                         |
| the same, finished, or of a queue that the drain does not cover  | no; an owner of it may be               |
| the same, of which no controller takes notice (`unsuspendable`)  | no; an owner of it may be               |
| a workload that another controller acts on (`spec.managedBy`)    | no, nor is any owner of it              |
| a Deployment, StatefulSet or ReplicaSet that no other object     | it is scaled to zero, past a deadline   |
| controls, and that is not being deleted                          | with `afterDeadline: Scale`             |
| one that is gone, or in another namespace                        | no, nor is any owner of it              |
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Protocol

from queues.drain.model import SuspendableWorkload
from queues.workload_kinds import KINDS, MAX_OWNERS, SUSPENDABLE, Life, WorkloadKind

_DAEMON_SET = KINDS["daemonsets"]


class DrainOwner(Protocol):
    """A workload that was read. `queue` is "" for one of none; `owner_uid`: of its controller, "" for none.

    `live`, `paused`: `queues.workload_life`. `delegated`: its `spec.managedBy` names another controller than
    the kind's own. `leaving`: it is being deleted. `kept_at_zero`: the replicas that a drain keeps from it.
    """

    @property
    def kind(self) -> WorkloadKind: ...
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def live(self) -> bool: ...
    @property
    def owner_uid(self) -> str: ...
    @property
    def paused(self) -> bool: ...
    @property
    def delegated(self) -> bool: ...
    @property
    def leaving(self) -> bool: ...
    @property
    def kept_at_zero(self) -> int: ...


@dataclass(frozen=True, kw_only=True)
class DrainOwners:
    """The owners that one drain may suspend.

    `by_uid`: None for one that does not exist. `queues`: those of the drain. `unsuspendable`: UIDs of
    workloads that no controller suspends. `scales`: whether workloads that can be scaled are brought to zero
    now.
    """

    by_uid: Callable[[str], DrainOwner | None]
    queues: Container[str]
    unsuspendable: Container[str] = frozenset()
    scales: bool = False

    def suspendable(self, uid: str, *, namespace: str) -> DrainOwner | None:
        """The topmost owner that can be suspended and resumed, and is drained itself.

        `uid`: of the pod's controller, "" for none; `namespace`: the pod's.
        """
        topmost: DrainOwner | None = None
        for _ in range(MAX_OWNERS):
            owner = self.by_uid(uid) if uid else None
            if owner is None or owner.namespace != namespace or owner.delegated:
                break
            if self._is_suspendable(owner):
                topmost = owner
            uid = owner.owner_uid
        return topmost

    def is_daemon(self, uid: str, *, namespace: str) -> bool:
        """Whether the pod's controller is a DaemonSet that exists."""
        owner = self.by_uid(uid) if uid else None
        return owner is not None and owner.kind is _DAEMON_SET and owner.namespace == namespace

    def _is_suspendable(self, owner: DrainOwner) -> bool:
        is_drained = owner.live and owner.queue in self.queues and owner.uid not in self.unsuspendable
        return is_drained and (owner.kind.key in SUSPENDABLE or self._is_scalable(owner))

    def _is_scalable(self, owner: DrainOwner) -> bool:
        """One that is at zero already counts whatever the drain says by now: its pods are leaving."""
        is_meant = self.scales or owner.kept_at_zero > 0
        is_free = not owner.owner_uid and not owner.leaving
        return is_meant and owner.kind.life is Life.WHILE_SCALED and is_free


def suspendable_workload(
    owner: DrainOwner, *, requested: bool = False, stalled: bool = False
) -> SuspendableWorkload:
    """`requested`: its suspension was asked for, and may not be seen yet."""
    return SuspendableWorkload(
        kind=owner.kind.key,
        namespace=owner.namespace,
        name=owner.name,
        uid=owner.uid,
        scaled=owner.kind.life is Life.WHILE_SCALED,
        suspended=owner.paused or requested,
        stalled=stalled,
    )
