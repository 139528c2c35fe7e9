"""What the cache of members asks and tells, in tests."""

from __future__ import annotations

from collections.abc import Callable

from cluster.cache.members import Member
from cluster.objects import Pod
from queues.membership import Membership


class RecordedMemberEvents:
    """Keeps the changes. `membership`: of a pod; `podgroup_uid`: by the PodGroup's name."""

    def __init__(
        self,
        membership: Callable[[Pod], Membership | None] = lambda _pod: None,
        *,
        podgroup_uid: Callable[[str], str] = lambda _name: "",
    ) -> None:
        self.changes: list[tuple[Member | None, Member | None]] = []
        self._membership = membership
        self._podgroup_uid = podgroup_uid

    def pod_membership(self, pod: Pod) -> Membership | None:
        return self._membership(pod)

    def podgroup_uid(self, namespace: str, name: str) -> str:
        return self._podgroup_uid(name)

    def member_arrived(self, admission: str) -> None:
        """Nothing is admitted here."""

    def will_store_member(self, before: Member | None, after: Member | None) -> None:
        """`member_changed` follows."""

    def will_remove_member(self, member: Member, version: int) -> None:
        """`member_changed` follows."""

    def will_delete_member(self, member: Member) -> None:
        """`member_changed` follows."""

    def member_changed(self, before: Member | None, after: Member | None) -> None:
        self.changes.append((before, after))

    def unknown_pod_removed(self, pod: Pod) -> None:
        """Nothing listens for markers."""
