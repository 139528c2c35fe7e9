"""Whether a stop may be acknowledged: a function of values, no clock, no I/O.

The promise: once a stop is acknowledged, no pod of the queue or of a queue below it is bound, until a spec on
the queue's chain changes or a queue comes below it.

A pod is bound in three steps. Filter lets the pod pass on one replica, by that replica's view of the queues.
The scheduler sends the bind, sooner or later (a volume may take minutes). The API server calls the bind guard
where it is on, and stores the bind. A pod of a scheduler that does not call filter takes the last two steps.

Invariants. A stop that the queues have since version `since` is acknowledged only if

0. each replica that may answer from older queues is among the live ones. It took a Lease before it read
   them. So all Leases that were there at version `since` must have been seen (`leases`), those that somebody
   has deleted among them; and what was deleted before they were watched must have been waited out
   (`certain_at`);
1. every live replica answers from queues of version `since` or later, so filter lets no pod pass any more;
2. every live replica, the leader included, knows the pods at least as they were when (1) was read
   (`pods_since`, a resource version of that moment; `cluster.cache.watch_progress` makes views catch up).
   From then on each pod that was let pass is known to the leader, which turns the guard on where a member
   could be bound, and to every replica that the guard may call;
3. all passes that a lost replica may have given are accounted for;
4. the guard is known to be on in each namespace where a member could be bound; for members whose scheduler
   does not call filter since `bypass_seconds`, longer than a bind takes from admission to storage;
5. no open pass can lead to a bind any more. A pass of filter can, unless its bind must meet the guard: the
   guard has been on for longer than the API server lets a request take, or the bind had not been sent when
   the guard was on already (`unsent_at`). A bind that the guard itself let pass is stored within the time of
   a request, whichever replica answered it, and however long the guard has been on;
6. each member that could be bound has its label, so every replica has it in its cache: all pods without the
   label are known as of (2), by what namespaces named then, and none of them is such a member. A member
   that left the watch may exist without its label, and counts until a list shows that it is gone. If it
   left after the stop waited for nothing else (`departures_until`), it was a member in that evidence, and
   counts as one that left after the acknowledgement: a steady stream of departures cannot delay a stop
   forever;
7. a value that a replica does not report counts as unknown: an older version reports less. A replica that
   does not report that it knows change windows lets pods pass that only a window stops;
8. the API server asks us about all pods (`queues.registration.coverage`). While it does not, nothing above is
   known, and acknowledgements are withdrawn. Evidence counts only from the time when it asks again.

====================================================  ==============================================
what is known                                          what is missing (`Obstacle.reason`)
====================================================  ==============================================
the API server does not ask us about all pods, or did  NotAsked
not, and what was made meanwhile is not known yet
the Leases of the other replicas cannot be read, or    ReplicasUnknown
not all that were there at the stop were seen
a replica's queues are older than the stop             ReplicaBehind
a window alone stops the queue, which a replica's      ReplicaUnaware
version does not know
a replica's pods are older, or it does not report      PodsBehind
a replica is gone, its passes are not counted yet      ReplicaLost
a namespace with a bindable member, guard not on       Unguarded
the same, on, but not for long enough (no filter)      GuardTooNew
a pass that may still lead to a bind                   PassOpen
pods without a label have not been listed, or a member Unlabelled
is or may be among them; then, namespaces are late
====================================================  ==============================================
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec


class ObstacleReason(StrEnum):
    """Why a stop is not acknowledged yet."""

    NOT_ASKED = "NotAsked"
    REPLICAS_UNKNOWN = "ReplicasUnknown"
    REPLICA_BEHIND = "ReplicaBehind"
    REPLICA_UNAWARE = "ReplicaUnaware"
    PODS_BEHIND = "PodsBehind"
    REPLICA_LOST = "ReplicaLost"
    UNGUARDED = "Unguarded"
    GUARD_TOO_NEW = "GuardTooNew"
    PASS_OPEN = "PassOpen"  # noqa: S105 - no password
    UNLABELLED = "Unlabelled"


class Obstacle(msgspec.Struct, frozen=True):
    """One thing that the acknowledgement of a stop waits for; `text` names it for users."""

    reason: ObstacleReason
    text: str


class PodPass(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that was let pass and, as far as is known, is neither bound nor gone.

    `bind`: the guard let its bind pass, or may have; otherwise filter let the pod pass. `unsent_at`: a time
    in monotonic seconds at which its bind had certainly not been sent; None if no such time is known.
    """

    queue: str
    namespace: str
    name: str
    bind: bool = False
    unsent_at: float | None = None


class ReplicaView(msgspec.Struct, frozen=True, kw_only=True):
    """What another live replica reports. `None`: it does not report this.

    `queues`, `pods`: the versions up to which it knows them. `open_queues`: the stopped queues of which it
    has open passes. `bind_queues`: those of which some are binds that the guard let pass. `passes`: the
    open passes; None also where they are too many to be named. `windows`: it knows change windows.
    """

    name: str
    queues: int
    pods: int | None
    open_queues: frozenset[str] | None
    passes: tuple[PodPass, ...] | None
    bind_queues: frozenset[str] | None = None
    windows: bool = False


class BindableNamespace(msgspec.Struct, frozen=True):
    """A namespace where a member of a queue could be bound.

    `bypasses_filter`: the scheduler of that member may not call filter.
    """

    queue: str
    namespace: str
    bypasses_filter: bool = False


class UnlabelledView(msgspec.Struct, frozen=True, kw_only=True):
    """What the leader knows of members of the queues that could be bound and lack their label.

    `at`: when. `listed`: the pods on no node without the label are known as of `pods_since`; if a list of
    them failed, `failure` says why. `member`: what such a member waits for; "" if none is known to exist.
    `departed`: the same of the member that left the watch first, at `departed_at`, and may still exist.
    `namespaces_late`: a namespace that is not known as of `pods_since` could make a listed pod a member.
    """

    at: float
    listed: bool
    failure: str = ""
    member: str = ""
    departed: str = ""
    departed_at: float = math.inf
    namespaces_late: bool = False


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """All that the leader knows when it decides. Times are its monotonic seconds.

    `queues`: the stopped queue and those below it. `since`: the version of the queues that has the stop.
    `pods_since`: a version that was current after all replicas had reported to have seen the stop; None until
    they have. `pods`: the version up to which the leader knows the pods. `replica_views`: those of the other
    live replicas; None if they cannot be read. `unaccounted`: a replica is gone, and its passes are not among
    `passes` yet. `guards`: since when binds in a namespace are known to be guarded. `passes`: the leader's
    own, and those that a replica which is gone is assumed to have let through. `unlabelled`: gathered after
    all the others, so that a member that leaves the watch is in one of them; None before `pods_since` is
    known. `departures_until`: members that left the watch later are not waited for. `by_window`: nothing but
    change windows stops the queue. `leases`: the version up to which each Lease of a replica was seen;
    `replica_views` is of that moment or later, and has those that are gone and may still answer.
    `certain_at`: from when on no replica answers whose Lease was deleted before Leases were watched.
    """

    queues: frozenset[str]
    since: int
    pods_since: int | None
    pods: int
    replica_views: tuple[ReplicaView, ...] | None
    unaccounted: bool
    bindable_namespaces: tuple[BindableNamespace, ...]
    guards: Mapping[str, float]
    passes: tuple[PodPass, ...]
    unlabelled: UnlabelledView | None
    departures_until: float
    now: float
    request_seconds: float
    bypass_seconds: float
    leases: int
    certain_at: float
    by_window: bool = False


def not_asked(text: str) -> Obstacle:
    """The obstacle of (8), in place of all that evidence would show. `text`: what is lacking."""
    return Obstacle(ObstacleReason.NOT_ASKED, text)


def may_acknowledge(evidence: Evidence) -> bool:
    """Whether the stop may be acknowledged."""
    return next(obstacles(evidence), None) is None


def departures_until(evidence: Evidence) -> float:
    """The time up to which members that left the watch count for the stop: that of this evidence if the stop
    waits for nothing else; else infinity.
    """
    unlabelled = evidence.unlabelled
    without = msgspec.structs.replace(evidence, departures_until=-math.inf)
    return unlabelled.at if unlabelled is not None and may_acknowledge(without) else math.inf


def replicas_have_seen(views: tuple[ReplicaView, ...] | None, *, since: int) -> bool:
    """Whether every other live replica answers from queues of that version or later."""
    return views is not None and all(view.queues >= since for view in views)


def obstacles(evidence: Evidence) -> Iterator[Obstacle]:
    """What the stop waits for, in the order in which it is obtained; nothing if it holds."""
    if evidence.replica_views is None:
        yield Obstacle(ObstacleReason.REPLICAS_UNKNOWN, "the Leases of the other replicas cannot be read")
        return
    if evidence.leases < evidence.since:
        text = "the Leases of the replicas are not known as of the stop"
        yield Obstacle(ObstacleReason.REPLICAS_UNKNOWN, text)
    if evidence.now < evidence.certain_at:
        text = "a replica whose Lease was deleted before this one began to lead may answer for some seconds"
        yield Obstacle(ObstacleReason.REPLICAS_UNKNOWN, text)
    for view in evidence.replica_views:
        if view.queues < evidence.since:
            yield Obstacle(ObstacleReason.REPLICA_BEHIND, _behind_text(view))
        if evidence.by_window and not view.windows:
            text = f"replica {view.name} is of a version that does not know change windows; update it"
            yield Obstacle(ObstacleReason.REPLICA_UNAWARE, text)
    if evidence.pods_since is None:
        yield Obstacle(
            ObstacleReason.PODS_BEHIND, "the pods have not been read since all replicas have seen the stop"
        )
        return
    yield from _pods_behind(evidence, evidence.replica_views, since=evidence.pods_since)
    if evidence.unaccounted:
        yield Obstacle(
            ObstacleReason.REPLICA_LOST, "a replica is gone; the pods it may have let through are counted"
        )
    yield from _unguarded(evidence)
    yield from _open_passes(evidence, evidence.replica_views)
    texts = unlabelled_texts(evidence.unlabelled, departures_until=evidence.departures_until)
    yield from (Obstacle(ObstacleReason.UNLABELLED, text) for text in texts)


def unlabelled_texts(
    unlabelled: UnlabelledView | None, *, departures_until: float = math.inf
) -> Iterator[str]:
    """What of the labels of members is not as (6) wants it."""
    if unlabelled is None or not unlabelled.listed:
        failure = "" if unlabelled is None or not unlabelled.failure else f": {unlabelled.failure}"
        yield f"pods without a label are looked for{failure}"
        return
    if unlabelled.member:
        yield unlabelled.member
    if unlabelled.departed and unlabelled.departed_at <= departures_until:
        yield unlabelled.departed
    if unlabelled.namespaces_late:
        yield "what namespaces name is known as of before the stop"


def _behind_text(view: ReplicaView) -> str:
    if view.queues:
        return f"replica {view.name} has not seen the stop"
    lease = f"sluice-replica-{view.name}"
    return f"replica {view.name} has not read the queues; if there is none of that name, delete Lease {lease}"


def _pods_behind(evidence: Evidence, views: tuple[ReplicaView, ...], *, since: int) -> Iterator[Obstacle]:
    if evidence.pods < since:
        yield Obstacle(ObstacleReason.PODS_BEHIND, "the leader's view of the pods is older than the stop")
    for view in views:
        if view.pods is None or view.pods < since:
            state = "says nothing of its pods" if view.pods is None else "knows pods older than the stop"
            yield Obstacle(ObstacleReason.PODS_BEHIND, f"replica {view.name} {state}")


def _unguarded(evidence: Evidence) -> Iterator[Obstacle]:
    for place in evidence.bindable_namespaces:
        if place.queue not in evidence.queues:
            continue
        since = evidence.guards.get(place.namespace)
        if since is None:
            text = f"binds in namespace {place.namespace} do not meet the guard yet"
            yield Obstacle(ObstacleReason.UNGUARDED, text)
        elif place.bypasses_filter and since > evidence.now - evidence.bypass_seconds:
            text = f"a bind in namespace {place.namespace} may have begun before the guard was on"
            yield Obstacle(ObstacleReason.GUARD_TOO_NEW, text)


def _open_passes(evidence: Evidence, views: tuple[ReplicaView, ...]) -> Iterator[Obstacle]:
    for bind_pass in evidence.passes:
        if bind_pass.queue in evidence.queues and can_land(bind_pass, evidence):
            yield _open(bind_pass, "this replica")
    for view in views:
        if view.open_queues is None:
            yield Obstacle(ObstacleReason.PASS_OPEN, f"replica {view.name} does not say what it let through")
            continue
        concerned = view.open_queues & evidence.queues
        if met_guard := evidence.queues & (concerned if view.bind_queues is None else view.bind_queues):
            text = f"replica {view.name} let binds of {', '.join(sorted(met_guard))} pass the guard"
            yield Obstacle(ObstacleReason.PASS_OPEN, text)
        if view.passes is not None:
            named = [bind_pass for bind_pass in view.passes if bind_pass.queue in concerned]
            yield from (_open(bind_pass, view.name) for bind_pass in named if can_land(bind_pass, evidence))
            concerned -= {bind_pass.queue for bind_pass in named}
        # Passes without names: the pods are known, so each is in one of these namespaces, or bound, or gone.
        if any(
            p.queue in concerned and not _guarded_long(p.namespace, evidence)
            for p in evidence.bindable_namespaces
        ):
            text = f"replica {view.name} let pods of {', '.join(sorted(concerned))} through"
            yield Obstacle(ObstacleReason.PASS_OPEN, text)


def can_land(bind_pass: PodPass, evidence: Evidence) -> bool:
    """Whether a bind of this pod may still be stored without having met the guard."""
    if bind_pass.bind:
        return True
    since = evidence.guards.get(bind_pass.namespace)
    if since is not None and bind_pass.unsent_at is not None and bind_pass.unsent_at >= since:
        return False
    return not _guarded_long(bind_pass.namespace, evidence)


def _guarded_long(namespace: str, evidence: Evidence) -> bool:
    """Whether each bind that was sent before the guard was on has been stored or has failed."""
    since = evidence.guards.get(namespace)
    return since is not None and since <= evidence.now - evidence.request_seconds


def _open(bind_pass: PodPass, replica: str) -> Obstacle:
    where = f"pod {bind_pass.namespace}/{bind_pass.name}"
    return Obstacle(ObstacleReason.PASS_OPEN, f"{where} was let through by {replica} and may still be bound")
