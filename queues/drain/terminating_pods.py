"""Terminating pods: how long each counts as in flight, what delays it, and when its grace period is cut.

A pod ends when its containers do, its kubelet says so and its finalizers are removed. Users write its grace
period (any number of seconds) and its finalizers, so neither may hold up the drain of other pods.

Invariants
- A terminating pod counts as in flight for the grace period that it was given, at most for the longest grace
  period of its drain, and `SPARE_SECONDS` more. Then its place goes to another pod, and it is a blocker.
- The longest grace period of a drain is `drain.gracePeriodSeconds`, else the server's setting
  `drain_grace_limit`.
- A grace period is cut only where an administrator has set that: to `drain.gracePeriodSeconds`; and, past a
  deadline with `afterDeadline: Delete` or `Scale`, to the longest grace period. The time that has passed
  counts.
- A grace period is never cut to 0: that would take the pod out of the API while its containers may still run,
  and a StatefulSet would start a second copy. The pod garbage collector deletes pods of a Node that does not
  exist.
- Pods that stay by rule keep their grace periods.

The first delay that holds is named:

===================  ==========================================================================
delay                when
===================  ==========================================================================
NodeGone             its grace period is over, and its Node does not exist
LongGracePeriod      its grace period is longer than the drain's longest, and not over
Finalizers           its grace period is over, and it has finalizers
NotEnded             its grace period is over, and it still exists
NotTerminated        its workload is suspended or scaled to zero, and no controller deletes the pod
===================  ==========================================================================

Source: `BeforeDelete` of `k8s.io/apiserver/pkg/registry/rest`: a second deletion moves `deletionTimestamp` to
the time of the first one plus the shorter grace period; kubelet then ends the containers within that.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import msgspec

from queues.drain.model import (
    DrainSpec,
    RunningPod,
    Termination,
    keep_rule,
)
from queues.text import printable

#: The time after its grace period in which the kubelet reports that a pod has ended.
SPARE_SECONDS = 10.0
#: The default of setting `drain_grace_limit`.
GRACE_LIMIT = 300
#: The shortest that a grace period is cut to.
MIN_GRACE = 1
#: How many finalizers of a pod a message names.
FINALIZERS_NAMED = 3
_START_OF_CALENDAR = datetime.min.replace(tzinfo=UTC)


class Delay(StrEnum):
    """What delays a leaving pod."""

    NODE_GONE = "NodeGone"
    GRACE = "LongGracePeriod"
    FINALIZERS = "Finalizers"
    NOT_ENDED = "NotEnded"
    NOT_TERMINATED = "NotTerminated"


class DelayedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that has lost its place in flight; `message`: what delays it, and the way out."""

    pod: RunningPod
    delay: Delay
    message: str


def requested_at(deletion_timestamp: datetime, *, grace: int) -> datetime:
    """When the deletion was first requested; the start of the calendar if the grace period is too long."""
    try:
        return deletion_timestamp - timedelta(seconds=grace)
    except OverflowError:
        return _START_OF_CALENDAR


def longest_grace(spec: DrainSpec, *, limit: int) -> int:
    """The longest grace period of the drain, in seconds. `limit`: the server's setting."""
    return limit if spec.grace_seconds is None else max(spec.grace_seconds, MIN_GRACE)


def requested_grace(pod: RunningPod, spec: DrainSpec, *, delete: bool, limit: int) -> int | None:
    """`gracePeriodSeconds` of an eviction, or of a deletion past the deadline; None for the pod's own."""
    if spec.grace_seconds is not None:
        return max(spec.grace_seconds, MIN_GRACE)
    return limit if delete and pod.grace_period > limit else None


def cut_grace(pod: RunningPod, spec: DrainSpec, *, now: datetime, limit: int) -> int | None:
    """The seconds to which the grace period of a terminating pod is to be cut; None if it stays."""
    termination = pod.termination
    overdue = spec.overdue(now)
    may_cut = spec.delete_after_deadline if overdue else spec.grace_seconds is not None
    if termination is None or not may_cut or spec.unreadable or keep_rule(pod, spec) is not None:
        return None
    longest = longest_grace(spec, limit=limit)
    if termination.grace <= longest:
        return None
    elapsed = (now - termination.requested_at).total_seconds()
    return min(longest, max(MIN_GRACE, math.ceil(longest - elapsed)))


def counts_as_in_flight(termination: Termination, *, now: datetime, longest: int) -> bool:
    """Whether the pod still counts as in flight."""
    seconds = min(termination.grace, longest) + SPARE_SECONDS
    return (now - termination.requested_at).total_seconds() <= seconds


def delay_of(
    pod: RunningPod, *, now: datetime, longest: int, gone_nodes: Container[str]
) -> DelayedPod | None:
    """Why a terminating pod has lost its place in flight; None while it has it."""
    termination = pod.termination
    if termination is None or counts_as_in_flight(termination, now=now, longest=longest):
        return None
    ends_at = _ends_at(termination)
    if ends_at is None or ends_at > now:
        until = f"{ends_at:%Y-%m-%dT%H:%M:%SZ}" if ends_at is not None else "the end of the calendar"
        return DelayedPod(
            pod=pod, delay=Delay.GRACE, message=_GRACE_TEXT.format(at=until, grace=termination.grace)
        )
    if termination.node in gone_nodes:
        message = f"its node {printable(termination.node)} is gone"
        return DelayedPod(pod=pod, delay=Delay.NODE_GONE, message=message)
    if termination.finalizers:
        return DelayedPod(pod=pod, delay=Delay.FINALIZERS, message=_finalizers_text(termination.finalizers))
    message = f"it does not end on its node {printable(termination.node)}"
    return DelayedPod(pod=pod, delay=Delay.NOT_ENDED, message=message)


def find_delays(
    leaving: Iterable[RunningPod],
    spec: DrainSpec,
    *,
    now: datetime,
    limit: int,
    gone_nodes: Container[str],
    undeleted_workloads: Container[str] = (),
) -> dict[str, DelayedPod]:
    """The pods that have lost their places in flight, by UID.

    `undeleted_workloads`: UIDs of suspended workloads whose pods no controller deletes.
    """
    longest = longest_grace(spec, limit=limit)
    delays: dict[str, DelayedPod] = {}
    for pod in leaving:
        if pod.termination is not None:
            delay = delay_of(pod, now=now, longest=longest, gone_nodes=gone_nodes)
            if delay is not None:
                delays[pod.uid] = delay
        elif pod.workload is not None and pod.workload.suspended and pod.workload.uid in undeleted_workloads:
            delays[pod.uid] = undeleted(pod)
    return delays


def undeleted(pod: RunningPod) -> DelayedPod:
    """The delay of a pod whose workload is suspended, and that no controller deletes."""
    scaled = pod.workload is not None and pod.workload.scaled
    state = "scaled to zero" if scaled else "suspended"
    message = f"{pod.workload} is {state} and its pods still run: does its controller run?"
    return DelayedPod(pod=pod, delay=Delay.NOT_TERMINATED, message=message)


def long_grace_warning(pod: RunningPod, spec: DrainSpec, *, limit: int) -> str:
    """A warning for a pod whose grace period is longer than it counts as in flight; else empty."""
    if spec.grace_seconds is not None or pod.grace_period <= limit:
        return ""
    return f"has {pod.grace_period} s to end, and counts as in flight for {limit} s; {_CUT_TEXT}"


def _ends_at(termination: Termination) -> datetime | None:
    """When the grace period is over; None where that is beyond the calendar."""
    try:
        return termination.requested_at + timedelta(seconds=termination.grace)
    except OverflowError:
        return None


def _finalizers_text(finalizers: tuple[str, ...]) -> str:
    names = ", ".join(printable(each) for each in finalizers[:FINALIZERS_NAMED])
    more = len(finalizers) - FINALIZERS_NAMED
    return f"it waits for its finalizers to be removed: {names}" + (f" and {more} more" if more > 0 else "")


_CUT_TEXT = (
    "cut it: set spec.drain.gracePeriodSeconds, or spec.drain.deadline with afterDeadline Scale or Delete"
)
_GRACE_TEXT = "it has until {at} to end, for its grace period is {grace} s; " + _CUT_TEXT
