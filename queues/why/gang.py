"""How the pods of a PodGroup stand, and what it waits for: `kubectl queue why podgroup/x`. Pure.

Promises
- What is asked for, and why nothing is, is what `queues.quota.gangs` says of the pods that were read.
- What kube-scheduler says is told once for all pods of which it says the same; those of most pods first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from queues.apimachinery.timestamps import rfc3339
from queues.quota.gangs import (
    USING,
    Gang,
    GangPod,
    NeverLack,
    NotAsked,
    NotAskedKind,
    PodState,
    RequestedPods,
    ask,
    is_placed,
    is_started,
    own_pods,
)
from queues.quota.pod_classes import WaitingPod
from queues.status.podgroup_phases import Phase
from queues.text import printable
from queues.why.explanation import GangReport, Said

#: Different texts of kube-scheduler that are shown, and characters of each.
MOST_SAID, TEXT = 5, 1000
#: The kind that says how many pods have completed, as it is told where it may not be read.
JOBS = "Jobs"


def gang_report(
    gang: Gang,
    pods: Sequence[GangPod],
    *,
    phase: str,
    said: Iterable[str] = (),
    until: datetime | None = None,
    never: NeverLack = lambda _requests: None,
    is_held: bool = True,
    may_reserve: bool = True,
) -> tuple[GangReport, WaitingPod | None]:
    """And the entry that waits for room, where its pods are all there. `said`: by kube-scheduler, of each pod
    that was released and has no node. `until`: when it gives back. `is_held`: a queue of its chain has a
    capability. `may_reserve`: its queue schedules, so that room may be kept for it before its pods exist.
    """
    own = own_pods(gang, pods)
    number = Counter(pod.state for pod in own)
    reservation = _reservation(gang, pods, phase=phase) if may_reserve else None
    placed = number[PodState.PLACED] + number[PodState.SUCCEEDED]
    on_nodes = [pod.task for pod in own if pod.state in {PodState.PLACED, PodState.SUCCEEDED}]
    is_complete = is_placed(gang, on_nodes)
    asked = ask(gang, pods, started=is_started(own), never=never)
    if not is_held or (isinstance(asked, NotAsked) and asked.kind.never):
        reservation = None
    is_refused = isinstance(asked, NotAsked)
    report = GangReport(
        phase=phase,
        least=gang.least,
        pods=placed + number[PodState.WAITS] + number[PodState.HELD] + number[PodState.RELEASED],
        released=placed + number[PodState.RELEASED],
        placed=placed,
        is_complete=is_complete,
        asks_before=reservation is not None,
        lacks=str(asked) if is_held and not (is_complete or reservation) and is_refused else "",
        never=is_held and isinstance(asked, NotAsked) and asked.kind.never,
        gives_back_at=rfc3339(until) if until is not None and not is_complete else "",
        said=tuple(_most_said(said)),
        is_held=is_held,
    )
    if not is_held:
        return report, None
    return report, reservation if isinstance(asked, NotAsked) else asked.minimum


class GangLine(NamedTuple):
    """What of a gang stands in line: its minimum as one, else the pods beyond that one by one, or what it
    asks for before its pods exist. `not_asked`: why nothing of its pods does.
    """

    entries: Sequence[WaitingPod]
    not_asked: NotAsked | None = None


def in_line(
    gang: Gang,
    pods: Collection[GangPod],
    *,
    phase: str,
    may_reserve: bool = True,
    never: NeverLack = lambda _requests: None,
) -> GangLine:
    """`pods`: all that name it. `may_reserve`: as in `gang_report`.

    What a leader remembers of `minResources` is not known: once pods use something, all of it was granted.
    """
    own = own_pods(gang, pods)
    uses = any(pod.state in USING for pod in own)
    asked = ask(gang, pods, keeps_once_started=uses, started=is_started(own), never=never)
    if isinstance(asked, RequestedPods):
        return GangLine(asked.others if asked.minimum is None else (asked.minimum,))
    may_ask = may_reserve and not asked.kind.never
    reservation = _reservation(gang, pods, phase=phase) if may_ask else None
    return GangLine(() if reservation is None else (reservation,), asked)


def may_ask_before(gang: Gang, *, phase: str) -> bool:
    """Whether it may ask for room before its pods exist, as its phase says."""
    return phase in {"", Phase.PENDING} and bool(gang.resources)


def _reservation(gang: Gang, pods: Iterable[GangPod], *, phase: str) -> WaitingPod | None:
    """What a PodGroup waits for that asks for room before its pods exist; else None."""
    if not may_ask_before(gang, phase=phase) or any(pod.state in USING for pod in own_pods(gang, pods)):
        return None
    if isinstance(asked := ask(gang, pods), NotAsked) and asked.kind is NotAskedKind.TOO_FEW:
        return WaitingPod(gang.uid, gang.queue, gang.resources, gang.priority or 0, gang.since)
    return None


def _most_said(texts: Iterable[str]) -> Iterable[Said]:
    counted = Counter(printable(text, limit=TEXT) for text in texts if text)
    most = sorted(counted.items(), key=lambda each: (-each[1], each[0]))
    return (Said(pods=number, text=text) for text, number in most[:MOST_SAID])


def as_far_as_read(lacks: str) -> str:
    """What a gang lacks, where the Jobs may not be read that say how many of its pods have completed and are
    gone: these count.
    """
    return f"{lacks}, as far as known: you may not read {JOBS}, which say how many pods have completed"


def gang_text(report: GangReport) -> str:
    """What it waits for, after "is not stopped, and"."""
    return _of_gang(report) if report.is_held else _of_single_pods(report)


def _of_gang(report: GangReport) -> str:
    if report.is_complete:
        return f"its minimum is on nodes: {report.placed} of at least {report.least} pods"
    if report.asks_before:
        return "waits for room before its pods are made"
    if report.lacks:
        return f"{'can never start' if report.never else 'waits'}: {report.lacks}"
    if report.pods and report.released >= report.least:
        return f"waits for nodes: {report.placed} of at least {report.least} pods are on nodes"
    if 0 < report.placed == report.released:
        there = f"{report.placed} of at least {report.least} pods are on nodes"
        return f"runs with fewer pods than its minimum: {there}, and the others go one by one"
    return "waits for room for its minimum" if report.pods else "has no pods yet"


def _of_single_pods(report: GangReport) -> str:
    on_nodes = f"{report.placed} of {report.pods} are on nodes" if report.pods else "it has none yet"
    return f"its pods start one by one, since no queue of its chain has a capability: {on_nodes}"
