"""Members that were refused a node or victims, and what may let them go: their pods are looked at again.

| Cause | Members looked at |
|---|---|
| the scheduling policies changed, or the pods that policies are served by are known | all |
| another replica answers by the policies of this version | all |
| another queue lends what victims may be taken from | all |
| a PodGroup names another policy | those of the PodGroup |

Threads: those of the reflectors, and the controller's for reports. Only the number of these is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cluster.cache.members import Member, Members
from cluster.cache.scheduling_policies import SchedulingPolicies
from cluster.objects import PodGroup


class RefusedMembers:
    """Owner: the store. `look_at` has a member's pod looked at; it must only record that and return."""

    def __init__(
        self, *, members: Members, policies: SchedulingPolicies, look_at: Callable[[Member], None]
    ) -> None:
        self._members = members
        self._policies = policies
        self._look_at = look_at

    def retry_all(self) -> None:
        for queue in self._members.queues():
            self._retry(self._members.waiting_in(queue))

    def replica_reported(self, version: int) -> None:
        """Another replica answers by the policies of this version.

        It may have been without its Lease for a while, so that nobody waited for its report.
        """
        if self._policies.policies.entries and version == self._policies.version:
            self._policies.reports += 1
            self.retry_all()

    def lending_changed(self) -> None:
        """Another queue may lend now what it did not before."""
        if self._policies.policies.entries:
            self.retry_all()

    def policy_of_podgroup_changed(self, group: PodGroup) -> None:
        if self._policies.policies.entries:
            self._retry(self._members.in_podgroup(group.metadata.namespace, group.metadata.name))

    def _retry(self, members: Iterable[Member]) -> None:
        for member in members:
            if member.bindable and member.condition:
                self._look_at(member)
