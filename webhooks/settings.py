"""The settings that admission depends on."""

from __future__ import annotations

import msgspec

from queues.admission.queue_edits import DEPTH_LIMIT
from queues.mode import SCHEDULER_NAME, Mode
from queues.workload_kinds import KINDS

#: The controllers of all kinds of workload.
CONTROLLER_USERS = frozenset(user for kind in KINDS.values() for user in kind.controller_users)


class AdmissionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between clusters.

    `own_user`: the server's own user at the API server. `mode`: what new members of `marked_schedulers` get
    (`queues.mode`); in mode `extender` these are the schedulers that are configured to call the extender.
    `scheduler_name`: of our own kube-scheduler. `scheduler_users`: the users by which schedulers bind.
    `controller_users`: the users that create the pods of workloads; a name that ends in `*` stands for all
    names that begin so.
    """

    own_user: str = "system:serviceaccount:sluice-system:sluice"
    mode: Mode = Mode.EXTENDER
    scheduler_name: str = SCHEDULER_NAME
    marked_schedulers: frozenset[str] = frozenset({"default-scheduler"})
    scheduler_users: frozenset[str] = frozenset({"system:kube-scheduler"})
    controller_users: frozenset[str] = CONTROLLER_USERS
    depth_limit: int = DEPTH_LIMIT

    def is_controller(self, user: str) -> bool:
        return user in self.controller_users or any(
            name.endswith("*") and user.startswith(name[:-1]) for name in self.controller_users
        )
