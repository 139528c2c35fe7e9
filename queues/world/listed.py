"""A world of lists (`world`): what the plugin and the page have read, at one time.

Promises
- What was not read is not there, but for two things that would make an answer of it: where PodGroups may not
  be listed, each pod goes by itself; where the labels of a namespace may not be read, it counts as selected.
- Scheduling policies are not read: a pod whose policy lacks an action for it counts as one that may start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from queues.quota.devices import ClaimCount, ClaimFault, ClaimRef, Devices
from queues.quota.gangs import Gang
from queues.snapshot import QueueDecision, QueueSnapshot, decision_for_namespace
from queues.start_decision import MAY_START, StartDecision, start_decision
from queues.world.members import Member
from queues.world.objects import Metadata, PodGroup
from queues.world.podgroups import gang_of_podgroup, queue_of
from queues.world.workloads import Workload

#: What stands for a PodGroup that may not be read: its pods go by themselves.
_UNREAD = PodGroup(metadata=Metadata())


class UnreadDevices:
    """Where claims and classes of devices were not read."""

    fault = ClaimFault.UNREAD

    def count(self, claim: ClaimRef) -> ClaimCount:
        return ClaimCount(fault=self.fault)

    def classes_of(self, resource: str) -> Sequence[str]:
        return ()


class ListedMembers:
    def __init__(self, members: Iterable[Member]) -> None:
        self._waiting: dict[str, list[Member]] = {}
        self._of_group: dict[tuple[str, str], list[Member]] = {}
        self._quota_gated: dict[str, int] = {}
        for member in {each.uid: each for each in members}.values():
            if member.waiting:
                self._waiting.setdefault(member.queue, []).append(member)
                gated = self._quota_gated.get(member.queue, 0)
                self._quota_gated[member.queue] = gated + member.quota_gated
            if member.podgroup:
                self._of_group.setdefault((member.namespace, member.podgroup), []).append(member)

    def waiting_in(self, queue: str) -> Sequence[Member]:
        return self._waiting.get(queue, ())

    def in_podgroup(self, namespace: str, podgroup: str) -> Sequence[Member]:
        return self._of_group.get((namespace, podgroup), ())

    def quota_gated_in(self, queue: str) -> int:
        return self._quota_gated.get(queue, 0)


class ListedPodGroups:
    def __init__(
        self,
        groups: Iterable[PodGroup] | None,
        *,
        value_of: Callable[[str], int | None] = lambda _name: None,
    ) -> None:
        """`groups`: None where they may not be listed. `value_of`: that of a PriorityClass."""
        self.is_unread = groups is None
        self._groups = {(each.metadata.namespace, each.metadata.name): each for each in groups or ()}
        found = {key: gang_of_podgroup(each, value_of=value_of) for key, each in self._groups.items()}
        self._gangs = {key: gang for key, gang in found.items() if not gang.is_single}

    def get(self, namespace: str, name: str) -> PodGroup | None:
        return _UNREAD if self.is_unread else self._groups.get((namespace, name))

    def gang(self, namespace: str, name: str) -> Gang | None:
        return self._gangs.get((namespace, name))

    def in_queue(self, queue: str) -> Sequence[PodGroup]:
        return [each for each in self._groups.values() if queue_of(each) == queue]


class ListedWorkloads:
    def __init__(self, workloads: Iterable[Workload] = ()) -> None:
        self._by_uid = {each.uid: each for each in workloads}

    def by_uid(self, uid: str) -> Workload | None:
        return self._by_uid.get(uid)


class ListedDecisions:
    """`labels_of`: the labels of a namespace; None where they may not be read."""

    def __init__(self, snapshot: QueueSnapshot, labels_of: Callable[[str], Mapping[str, str] | None]) -> None:
        self._snapshot = snapshot
        self._labels_of = labels_of

    def of_queue(self, queue: str, *, namespace: str) -> QueueDecision:
        decision = self._snapshot.decision(queue)
        if decision.restricted and (labels := self._labels_of(namespace)) is not None:
            return decision_for_namespace(decision, namespace=namespace, labels=labels)
        return decision

    def of_member(self, member: Member) -> StartDecision:
        """A queue that was not read counts as one that schedules."""
        if not member.queue:
            return start_decision(None, podgroup=member.podgroup)
        if member.queue not in self._snapshot.tree:
            return MAY_START
        return start_decision(self.of_queue(member.queue, namespace=member.namespace))


class ListedWorld:
    """Implements `queues.world.world.World`."""

    def __init__(
        self,
        snapshot: QueueSnapshot,
        *,
        members: Iterable[Member],
        podgroups: ListedPodGroups,
        devices: Devices | None = None,
        workloads: Iterable[Workload] = (),
        labels_of: Callable[[str], Mapping[str, str] | None] = lambda _namespace: None,
    ) -> None:
        self.snapshot = snapshot
        self.members = ListedMembers(members)
        self.podgroups = podgroups
        self.workloads = ListedWorkloads(workloads)
        self.decisions = ListedDecisions(snapshot, labels_of)
        self.device_claims: Devices = devices if devices is not None else UnreadDevices()
