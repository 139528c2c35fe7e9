"""Condition QuotaEnforced: whether a queue's own capability holds, and if not, what it still waits for.

Promise. While it is True, the queue uses no more than its capability, with all queues below it, and no
release takes it over that. It says so for what the quota covers (`QuotaScope`): the resources that the
capability names, and the queues below. It does not go False where only amounts change, unless more is used
than they allow.

===========  ================  ============================================================================
status       reason            when
===========  ================  ============================================================================
False        NotAsked          the API server does not ask us about all pods, or did not, and what was made
                               meanwhile is not known yet
False        ReplicaUnaware    a live replica does not know quotas: it gives pods no gate
False        ReplicaBehind     a live replica has not seen this capability, or a queue that came below
False        BookNotWritten    the book of releases cannot be written, so that nothing is released
False        RequestsUnderWay  what was asked for before may still be stored: a pod without the gate, the bind
                               of one, a pod that is made larger in place, a release of a book that was lost
False        DevicesUnknown    it names devices of a class, and what is claimed is not known: the cluster does
                               not serve claims, or they have not been read
False        OverCapability    more is used than the capability allows; nothing is evicted for that
False        NotCounted        it names what nothing counts (`queues.quota.resource_names`); the rest holds
True         Enforced          none of these
===========  ================  ============================================================================

Why that is enough. Once each replica has seen the capability, it gives each pod that is created the gate, and
its filter and its guard pass no pod that was not released. What a replica let through before that has been
stored, or has failed, once the API server's request time-out is over; and the members are known as of a
moment after it. A bind that kube-scheduler sends later meets the guard, where a pod that was not released
could be bound: so the guard has to be on there, for the time of a request.

BookNotWritten is said of each queue with a quota. One without a capability of its own has the condition for
as long as that lasts. No queue uses more for it. But nothing that waits goes, and a quota that is new never
comes to hold.

A queue that had its capability when it was created need not wait, nor need one that was created below it: no
replica lets pods start before it has seen their queue, so each has seen the capability with it.

While the stop of the queue is acknowledged nothing of it starts, whatever its capability still waits for: the
message says so.

What was True once stays so for the same scope: what the leader that wrote it had waited for is over. A new
leader takes it from the status. NotAsked ends that: all is waited for anew.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum

import msgspec

from queues.apimachinery.quantities import Amount
from queues.quota.devices import ClaimFault
from queues.quota.resource_names import NAME_LENGTH
from queues.status.conditions import DerivedCondition
from queues.text import join_limited, printable, quoted

QUOTA_ENFORCED = "QuotaEnforced"
#: Names in a message.
NAMES_LIMIT = 3


class EnforcementReason(StrEnum):
    """The reasons, in the order in which they count."""

    NOT_ASKED = "NotAsked"
    REPLICA_UNAWARE = "ReplicaUnaware"
    REPLICA_BEHIND = "ReplicaBehind"
    BOOK_NOT_WRITTEN = "BookNotWritten"
    REQUESTS_UNDER_WAY = "RequestsUnderWay"
    DEVICES_UNKNOWN = "DevicesUnknown"
    OVER_CAPABILITY = "OverCapability"
    NOT_COUNTED = "NotCounted"
    ENFORCED = "Enforced"


#: What the leader had waited for before it gave one of these.
SETTLED = frozenset(
    {EnforcementReason.OVER_CAPABILITY, EnforcementReason.NOT_COUNTED, EnforcementReason.ENFORCED}
)


#: What only a pod that starts could make use of: none does while the stop of the queue is acknowledged.
COMES_LATER = frozenset(
    {
        EnforcementReason.REPLICA_UNAWARE,
        EnforcementReason.REPLICA_BEHIND,
        EnforcementReason.REQUESTS_UNDER_WAY,
    }
)
_WHILE_STOPPED = "nothing starts while it is stopped, so its capability may come later: "


class QuotaEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one queue, for its present scope. Times are monotonic seconds.

    `not_asked`: why the API server does not ask us about all pods; "" if it does.
    `unaware`: the live replicas that do not say that they know quotas; None: not known yet.
    `was_settled`: it was once known that nothing is under way, or nothing ever was.
    `seen_at`: since when each live replica is known to have seen the scope; None: not yet.
    `are_pods_known`: whether the members are known as of a moment after the requests had ended.
    `is_book_ready`: whether no release that is not in the book can happen. `book_fault`: why the book cannot
    be written; "" where it can.
    `unguarded`: whether a pod that was not released could be bound where the guard has not been on for long
    enough. `devices`: why the devices that the capability names are not counted. `over`: what is used beyond
    the capability. `uncounted`: what it names and nothing counts. `is_stopped`: the stop of the queue is
    acknowledged.
    """

    unaware: Collection[str] | None
    not_asked: str = ""
    was_settled: bool = False
    seen_at: float | None = None
    are_pods_known: bool = False
    is_book_ready: bool = False
    book_fault: str = ""
    unguarded: bool = False
    devices: ClaimFault | None = None
    over: Mapping[str, Amount] = {}
    uncounted: Sequence[str] = ()
    is_stopped: bool = False
    now: float = 0.0
    request_seconds: float = 0.0


def enforcement(evidence: QuotaEvidence) -> EnforcementReason:
    """The first reason of the table that holds."""
    if evidence.not_asked or evidence.unaware:
        return EnforcementReason.NOT_ASKED if evidence.not_asked else EnforcementReason.REPLICA_UNAWARE
    if evidence.unaware is None or (evidence.seen_at is None and not evidence.was_settled):
        return EnforcementReason.REPLICA_BEHIND
    if evidence.book_fault:
        return EnforcementReason.BOOK_NOT_WRITTEN
    if evidence.unguarded or not (evidence.was_settled or _has_ended(evidence)):
        return EnforcementReason.REQUESTS_UNDER_WAY
    if evidence.devices is not None:
        return EnforcementReason.DEVICES_UNKNOWN
    return _settled_reason(evidence)


def _settled_reason(evidence: QuotaEvidence) -> EnforcementReason:
    """Of `SETTLED`."""
    if evidence.over:
        return EnforcementReason.OVER_CAPABILITY
    return EnforcementReason.NOT_COUNTED if evidence.uncounted else EnforcementReason.ENFORCED


def _has_ended(evidence: QuotaEvidence) -> bool:
    """Whether nothing that a replica let through before it saw the scope is under way."""
    seen_at = evidence.seen_at
    is_over = seen_at is not None and evidence.now >= seen_at + evidence.request_seconds
    return is_over and evidence.are_pods_known and evidence.is_book_ready


def over_capability(capability: Mapping[str, Amount], used: Mapping[str, Amount]) -> dict[str, Amount]:
    """What is used beyond the capability, by resource. `used`: with `pods`."""
    return {
        resource: more for resource, most in capability.items() if (more := used.get(resource, 0) - most) > 0
    }


def enforced_condition(queue: str, evidence: QuotaEvidence) -> DerivedCondition:
    """The condition; its text changes with its reason, the names in it, and an acknowledged stop alone."""
    reason = enforcement(evidence)
    if reason is EnforcementReason.BOOK_NOT_WRITTEN:
        return book_fault_condition(evidence.book_fault)
    text = _text(queue, reason, evidence)
    if evidence.is_stopped and reason in COMES_LATER:
        text = while_stopped(text)
    return DerivedCondition(QUOTA_ENFORCED, reason is EnforcementReason.ENFORCED, reason.value, text)


def while_stopped(text: str) -> str:
    """What a capability waits for, of a queue whose stop is acknowledged: that is no danger. Said once."""
    return text if text.startswith(_WHILE_STOPPED) else f"{_WHILE_STOPPED}{text}"


def _text(  # noqa: PLR0911 - one for each reason
    queue: str, reason: EnforcementReason, evidence: QuotaEvidence
) -> str:
    whose = f"the capability of queue {quoted(queue)}"
    match reason:
        case EnforcementReason.NOT_ASKED:
            return f"{whose} does not hold, and nothing is released: {evidence.not_asked}"
        case EnforcementReason.REPLICA_UNAWARE:
            names = join_limited([quoted(name) for name in sorted(evidence.unaware or ())], limit=NAMES_LIMIT)
            return f"{whose} does not hold yet: of an older version that knows no quotas is {names}"
        case EnforcementReason.REPLICA_BEHIND:
            return f"{whose} does not hold yet: not every replica is known to have seen it"
        case EnforcementReason.REQUESTS_UNDER_WAY:
            return f"{whose} does not hold yet: what was let through before it came may still start"
        case EnforcementReason.DEVICES_UNKNOWN:
            return f"{whose} names devices of a class, and pods with claims wait: {_unknown(evidence)}"
        case EnforcementReason.OVER_CAPABILITY:
            names = join_limited(sorted(evidence.over), limit=NAMES_LIMIT, joined=" and ")
            return (
                f"queue {quoted(queue)} uses more {names} than its capability: no pod of it starts until it "
                "uses less; nothing is evicted"
            )
        case EnforcementReason.NOT_COUNTED:
            named = [printable(name, limit=NAME_LENGTH) for name in evidence.uncounted]
            names = join_limited(named, limit=NAMES_LIMIT)
            return f"{whose} does not hold for what nothing counts, {names}; for all else it does"
    return f"no more than {whose} is used"


def book_fault_text(why: str) -> str:
    return f"nothing is released: the book of releases (ConfigMap sluice-quota) cannot be written: {why}"


def book_fault_condition(why: str) -> DerivedCondition:
    """The condition of each queue with a quota, while the book cannot be written for that reason."""
    reason = EnforcementReason.BOOK_NOT_WRITTEN.value
    return DerivedCondition(QUOTA_ENFORCED, False, reason, book_fault_text(why))


def _unknown(evidence: QuotaEvidence) -> str:
    if evidence.devices is ClaimFault.NO_API:
        return "this cluster does not serve resource.k8s.io/v1"
    return "claims and device classes have not been read yet, or may not be read"


class QuotaScope(msgspec.Struct, frozen=True):
    """What a quota covers: the resources that its capability names, and the places of the queues below that
    were not created there.
    """

    resources: frozenset[str]
    places: frozenset[str]

    def covers(self, other: QuotaScope) -> bool:
        """Whether what has ended for this scope has ended for the other, too."""
        return self.resources >= other.resources and self.places >= other.places
