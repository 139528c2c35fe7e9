"""Member pods as the rules take them, with what follows from a pod alone.

Promises
- A `Member` is a function of the stored pod, of its membership, and of which schedulers call the extender.
- What a user may make as large as they like is cut (`trimming`).
"""

from __future__ import annotations

from collections.abc import Container
from contextlib import suppress
from datetime import datetime
from sys import intern

import msgspec

from queues import well_known
from queues.apimachinery.pod_requests import Requests
from queues.causes import StartReason
from queues.membership import GROUP_ANNOTATION, TASK, Membership, fits_label
from queues.messages import quoted_reason
from queues.policies.preemptable import preemptable_in
from queues.quota.devices import ClaimRef, claim_refs
from queues.quota.gangs import task_of
from queues.quota.placement_time import placement_seconds
from queues.untaken import SCHEDULER_NOT_SEEN, TAKE_SECONDS
from queues.workload_gangs import is_made_by_leader
from queues.world.held_requests import held_requests
from queues.world.objects import Condition, Metadata, OwnerReference, Pod
from queues.world.trimming import NAME, trim_finalizers, trim_labels

#: The reason of the condition PodScheduled while the pod has a scheduling gate.
GATED_REASON = "SchedulingGated"
#: The scheduler of pods that name none.
DEFAULT_SCHEDULER = "default-scheduler"
#: Reasons of that condition which no scheduler writes.
_NO_SIGN = frozenset({GATED_REASON, SCHEDULER_NOT_SEEN})
FINISHED_PHASES = frozenset({"Succeeded", "Failed"})


class Member(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A member pod. `gated`: it has our scheduling gate of stops; `quota_gated`: that of quotas;
    `other_gate`: the first gate that is not ours, "" without one; `holds_room`: the leader has written on it
    that a quota has room for it, so that it counts; `released`: the same, and it was not given up since: it
    may be bound.

    `podgroup`: the PodGroup that it names, which may not exist. `written`: its label and its annotation name
    its queue; or its label is empty, and it waits for its PodGroup.
    `filtered`: a scheduler calls filter for it (`is_filtered`). `requests`: its resource requests.
    `leaves_at`: the end of its grace period, if it is being deleted; `deletion_grace`: the length of that
    period in seconds. `own_grace`: the grace period of its spec in seconds. `scheduler_policy`: the policy
    that it names itself. `says_gated`: it has no gate, and its condition still says so; no
    scheduler that we know of will write another. `claims`: of devices (DRA). `task`: in its
    PodGroup. `untaken`: the scheduler that it names, which has said no word of it, though it could.
    `given_up`: that scheduler, while the pod is refused so that others get its room; `take_seconds`: its time
    (`queues.untaken`). `gang`: annotation `sluice.dev/gang`, while it waits for its PodGroup. `bound`: when
    it got its node, if the API server has written that. `preemptable`: whether it says that it may be evicted
    for others; None where it says nothing.
    """

    uid: str
    namespace: str
    name: str
    queue: str
    podgroup: str
    written: bool
    version: int
    phase: str
    node: str
    nominated: str
    gated: bool
    other_gate: str
    filtered: bool
    priority: int
    created: datetime
    owner_uid: str
    condition: str
    retried_for: str
    leaving: bool
    requests: Requests = ()
    labels: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_kind: str = ""
    owner_name: str = ""
    ready: bool = False
    leaves_at: datetime | None = None
    deletion_grace: int = 0
    own_grace: int = 0
    scheduler_policy: str = ""
    priority_class: str = ""
    says_gated: bool = False
    quota_gated: bool = False
    holds_room: bool = False
    released: bool = False
    claims: tuple[ClaimRef, ...] = ()
    task: str = ""
    gang: str = ""
    untaken: str = ""
    given_up: str = ""
    take_seconds: float = TAKE_SECONDS
    bound: datetime | None = None
    preemptable: bool | None = None

    @property
    def live(self) -> bool:
        return self.phase not in FINISHED_PHASES

    @property
    def others_gated(self) -> bool:
        return bool(self.other_gate)

    @property
    def waiting(self) -> bool:
        """Whether it is live and on no node yet."""
        return not self.node and self.live

    @property
    def uses_quota(self) -> bool:
        """Whether what it requests counts (`queues.quota`): it is on a node, or was released. One that was
        given up counts until its bind is known to be refused everywhere (`queues.untaken`).

        One that is being deleted and never had a node is bound no more.
        """
        if self.node or not self.live:
            return self.live
        return self.holds_room and not (self.gated or self.quota_gated or self.leaving)

    @property
    def unreleased(self) -> bool:
        """Whether it waits without a gate of ours, and no quota was asked for room: it may have none."""
        return self.waiting and not (self.released or self.leaving or self.gated or self.quota_gated)

    @property
    def bindable(self) -> bool:
        """Whether it could be bound now: it waits, has no gate, and is not being deleted."""
        return self.waiting and not self.leaving and not self.is_gated

    @property
    def is_gated(self) -> bool:
        """Whether it has any gate."""
        return self.gated or self.quota_gated or self.others_gated

    @property
    def may_be_bound(self) -> bool:
        """Whether it is bindable, or unfiltered: then its gate may go and its bind needs no filter call."""
        return self.bindable or (self.waiting and not self.leaving and not self.filtered)

    @property
    def refusal(self) -> StartReason | None:
        """Why filter refused it, as its own condition says; None if it is not bindable, or filter did not."""
        if not self.condition or not self.bindable:
            return None
        return quoted_reason(self.condition, queue=self.queue, podgroup=self.podgroup)

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


def read_member(pod: Pod, membership: Membership, *, filtered: bool) -> Member:
    """Return the member that a stored pod is. `filtered`: whether a scheduler calls filter for it."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    gates = [gate.name for gate in spec.scheduling_gates or ()]
    owner = controller_reference(meta.owner_references)
    return Member(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        queue=membership.queue or "",
        podgroup=membership.podgroup or meta.annotation(GROUP_ANNOTATION),
        written=_is_written(meta, membership.queue or ""),
        version=meta.version,
        phase=status.phase,
        node=spec.node_name,
        nominated=status.nominated_node_name,
        gated=well_known.GATE in gates,
        quota_gated=well_known.QUOTA_GATE in gates,
        holds_room=holds_room(meta),
        released=is_released(meta),
        other_gate=next((intern(gate) for gate in gates if gate not in well_known.OWN_GATES), ""),
        filtered=filtered,
        priority=spec.priority or 0,
        created=meta.created,
        owner_uid=owner.uid if owner else "",
        condition=_scheduling_message(pod),
        retried_for=meta.annotation(well_known.RETRIED_FOR),
        leaving=meta.deletion_timestamp is not None,
        requests=held_requests(pod),
        claims=claim_refs(
            spec.resource_claims,
            namespace=meta.namespace,
            uid=meta.uid,
            made=status.resource_claim_statuses,
        ),
        labels=trim_labels(meta.labels),
        finalizers=trim_finalizers(meta.finalizers),
        owner_kind=owner.kind if owner else "",
        owner_name=intern(owner.name[:NAME]) if owner else "",
        ready=_is_ready(pod),
        leaves_at=meta.deletion_timestamp,
        deletion_grace=meta.deletion_grace_period_seconds or 0,
        own_grace=spec.termination_grace_period_seconds or 0,
        # Many pods share the few values of these.
        scheduler_policy=intern(meta.annotation(well_known.SCHEDULER_POLICY)),
        priority_class=intern(spec.priority_class_name or ""),
        task=intern(task_of(meta.annotation(TASK), meta.label(TASK))[:NAME]),
        gang="" if membership.queue else intern(meta.annotation(well_known.GANG)[: NAME + 11]),
        untaken=(untaken := _untaken(pod, filtered=filtered)),
        given_up="" if spec.node_name else intern(meta.annotation(well_known.UNTAKEN)[:NAME]),
        take_seconds=placement_seconds(meta.annotation(well_known.PLACE_WITHIN))[0]
        if untaken
        else TAKE_SECONDS,
        says_gated=not filtered and not gates and _says_gated(pod),
        bound=_bound(pod) if spec.node_name else None,
        preemptable=preemptable_in(meta.annotations, meta.labels),
    )


def _is_written(meta: Metadata, queue: str) -> bool:
    label = (meta.labels or {}).get(well_known.QUEUE)
    if not queue:
        return label == ""
    return bool(label) and meta.annotation(well_known.QUEUE) == queue and fits_label(queue, label or "")


def controller_reference(references: list[OwnerReference] | None) -> OwnerReference | None:
    """Return the owner with `controller: true`."""
    return next((owner for owner in references or () if owner.controller), None)


def is_podgroup_made(member: Member) -> bool:
    """Return whether the leader creates the PodGroup that the member names (`queues.workload_gangs`)."""
    return bool(member.gang) and is_made_by_leader(
        member.podgroup, gang=member.gang, owner_kind=member.owner_kind, owner_uid=member.owner_uid
    )


def is_filtered(pod: Pod, calling_schedulers: Container[str]) -> bool:
    """Return whether no scheduler binds the pod without a filter call (`queues.mode`)."""
    return is_marked(pod) or pod.spec.scheduler_name in calling_schedulers


def holds_room(meta: Metadata) -> bool:
    """Return whether the leader has written on the pod that a quota has room for it."""
    return bool(meta.uid) and meta.label(well_known.RELEASED) == meta.uid


def is_released(meta: Metadata) -> bool:
    """Return whether that is so, and the pod was not given up since (`queues.untaken`)."""
    return holds_room(meta) and not meta.annotation(well_known.UNTAKEN)


def is_marked(pod: Pod) -> bool:
    """Return whether the pod requests the marker, for which kube-scheduler calls our extender."""
    return any(
        container.resources is not None and well_known.MARKER in (container.resources.requests or {})
        for container in pod.spec.containers or ()
    )


def _is_ready(pod: Pod) -> bool:
    return any(
        condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions or ()
    )


def _bound(pod: Pod) -> datetime | None:
    """Since when its condition PodScheduled is True."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "True" and condition.last_transition_time:
            return _time_of(condition)
    return None


def _time_of(condition: Condition) -> datetime | None:
    """Since when the condition is as it is; None where it does not say so."""
    with suppress(ValueError):
        at = datetime.fromisoformat(condition.last_transition_time or "")
        return at if at.tzinfo is not None else None
    return None


def _untaken(pod: Pod, *, filtered: bool) -> str:
    """The scheduler that the pod names, if that has said no word of it, though it could; else ""."""
    spec, scheduler = pod.spec, pod.spec.scheduler_name
    if filtered or scheduler == DEFAULT_SCHEDULER or spec.node_name or spec.scheduling_gates:
        return ""
    is_over = pod.status.phase in FINISHED_PHASES or pod.metadata.deletion_timestamp is not None
    if is_over or pod.status.nominated_node_name or scheduler_sign(pod) is not None:
        return ""
    return intern(scheduler[:NAME])


def scheduler_sign(pod: Pod) -> datetime | None:
    """When the pod's scheduler last did something with it; None: it has done nothing."""
    condition = _unscheduled_condition(pod)
    if condition is not None and condition.reason not in _NO_SIGN:
        return _time_of(condition) or pod.metadata.created
    return _bound(pod) or pod.metadata.created if pod.spec.node_name else None


def _scheduling_message(pod: Pod) -> str:
    """Return the message of its PodScheduled condition while that is False.

    A message from the time when it had gates is void once they are gone, though it stays in the condition
    until kube-scheduler tries the pod.
    """
    condition = _unscheduled_condition(pod)
    if condition is None or condition.reason == SCHEDULER_NOT_SEEN:
        return ""
    if condition.reason == GATED_REASON and not pod.spec.scheduling_gates:
        return ""
    return condition.message


def _says_gated(pod: Pod) -> bool:
    """Whether its condition is of the time when it had gates, if a scheduler other than Kubernetes' own is to
    write the next one: nobody may run that.
    """
    condition = _unscheduled_condition(pod) if pod.spec.scheduler_name != DEFAULT_SCHEDULER else None
    return condition is not None and condition.reason == GATED_REASON


def _unscheduled_condition(pod: Pod) -> Condition | None:
    """Its condition PodScheduled while that is False."""
    return next(
        (
            condition
            for condition in pod.status.conditions or ()
            if condition.type == "PodScheduled" and condition.status == "False"
        ),
        None,
    )
