"""Has gangs give back what they were released for, if they are not on nodes in time.

The phases of a gang are those of `queues.quota.gang_life`. Here is what is done in each:

| phase       | what is done                                                                              |
|-------------|-------------------------------------------------------------------------------------------|
| ASKED       | nothing; what waits for room is read by `gang_reading`                                    |
| RELEASED    | its pods are looked at with each change of one. The time begins with the release, or when |
|             | room is kept for its pods                                                                 |
| PLACED      | nothing: enough of its pods are on nodes, as `queues.quota.gangs.is_placed` says          |
| GIVING_BACK | its released pods go, one by one; also those whose release was under way as it began, and |
|             | those that come to count meanwhile                                                        |
| PAUSED      | nothing, until the time that its PodGroup says. It begins once none of its pods counts,   |
|             | and none of its releases is under way                                                     |

`queues.quota.gang_rivals` decides who gives back, and when.

| a pod of a gang that gives back | goes by                                                               |
|---------------------------------|-----------------------------------------------------------------------|
| without a node                  | deletion, at the version that has none                                |
| on a node                       | eviction: budgets are heeded, and asked again every `REFUSED_SECONDS` |
| of a Job or a JobSet            | the suspension of that: deleted pods would count as failed. It is     |
|                                 | resumed once they are gone, by whoever leads                          |
| that nobody makes again         | it does not go, and so none of its gang does: an event says so        |

Invariants
- A new leader begins the time of each gang anew, and knows no failures. It resumes what the one before has
  suspended, at once.
- The UID is a precondition: another pod of that name is left alone. A pod that got its node meanwhile is not
  deleted, but evicted.
- Before each request it is asked again whether this replica leads.
- While no gang is in placement or has a pause nothing is done.
- While its queue is stopped a gang keeps what it has: what runs goes on. One that has begun to give back goes
  on with it.
- Room that is kept for pods that do not exist is bounded by `RESERVED_SECONDS`. A gang without pods lacks no
  nodes: no other one gives back for it, and it waits for none.
- Owner: the controller's thread. The drains' writers send.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from random import SystemRandom

import msgspec

from cluster.api.client import JSON_PATCH, decode_response
from cluster.cache.changes import NO_QUEUE, PodGroupChange, QueueChange, StoreChange
from cluster.cache.members import Member
from cluster.cache.podgroups import PodGroupKey
from cluster.cache.workloads import Workload
from cluster.exceptions import Conflict, Refused
from cluster.objects import WorkloadObject
from controller.context import ControllerContext, pod_subject, podgroup_subject, workload_subject
from controller.evictions.answers import EvictionAnswer, EvictionOutcome, answer_to
from controller.evictions.granted import EvictionRequest, Granted, GrantedEvent, ask
from controller.evictions.pods import send_away
from controller.evictions.suspend_patches import UNPROCESSABLE, mark_patch, workload_path
from controller.requests import NEVER, RequestState
from queues import well_known
from queues.quota.gang_life import GangPhase
from queues.quota.gang_placement import GangPlacements
from queues.quota.gang_rivals import Placing
from queues.quota.gangs import Gang, NotAsked, NotAskedKind, is_placed
from queues.quota.placement_time import placement_seconds
from queues.quota.pod_classes import Rank, WaitingPod
from queues.quota.usage import PODS, scope_of
from queues.snapshot import QueueSnapshot
from queues.text import quoted
from queues.workload_kinds import MAX_OWNERS, Suspension
from queues.world.workloads import is_paused

#: What is refused is asked for again after so long; the API server is left alone, where it is busy.
REFUSED_SECONDS, BUSY_SECONDS = 10.0, 2.0
#: All gangs in placement are looked at together at most so often: there may be ten thousand.
PAUSE = 0.5
#: Room is kept for pods that do not exist yet for so long, whatever an annotation says.
RESERVED_SECONDS = 300.0
#: So long the watch may take to show what was granted.
LATE_SECONDS = 30.0
GAVE_BACK, CANNOT = "GangGaveBack", "GangKeepsQuota"
_chance = SystemRandom()
_workload = msgspec.json.Decoder(WorkloadObject)


class _Watched(msgspec.Struct):
    """A gang in placement. `due`: the end of its time; `until`: the same as others read it. `is_reserved`:
    room is kept for it until its pods are made. `giving`: what goes, by UID, while it gives back.
    `suspended`: of these, the workloads. `seconds`: its time; while `is_held` it stands still.
    """

    key: PodGroupKey
    uid: str
    queue: str
    due: float
    until: datetime
    is_able: bool
    least: int
    seconds: float
    is_reserved: bool = False
    is_held: bool = False
    placed: int = 0
    giving: dict[str, None] = {}
    suspended: dict[str, Workload] = {}
    is_told: bool = False


class GangsInPlacement:
    """Owner: the controller's thread."""

    def __init__(
        self,
        context: ControllerContext,
        *,
        changed: Callable[[PodGroupKey], object],
        is_under_way: Callable[[str], bool] = lambda _uid: False,
    ) -> None:
        """`changed`: called for each gang that may be asked for otherwise than before. `is_under_way`:
        whether the release of the pod of this UID was begun, and may happen yet.
        """
        self._context = context
        self._store = context.store
        self._changed_gang = changed
        self._is_under_way = is_under_way
        #: Pods that go, and workloads that are suspended.
        self._requests = context.requests.table("PodOrWorkload", "give back a gang", RequestState)
        self.forget()

    def forget(self) -> None:
        """Forget everything: a term begins or ends."""
        self.rules = GangPlacements()
        self._requests.clear()
        self._is_begun = False
        self._watched: dict[str, _Watched] = {}
        #: The gangs that `rules` remembers: those that are watched, and those that have failed.
        self._by_key: dict[PodGroupKey, str] = {}
        self._keys: dict[str, PodGroupKey] = {}
        self._changed: set[PodGroupKey] = set()
        self._due = -math.inf
        #: The queues as they were when it was looked at last which gangs are held.
        self._snapshot: QueueSnapshot | None = None
        #: Of those that have failed, since when each waits for room again: the end of its pause.
        self._since: dict[str, datetime] = {}

    # What is asked

    def asked_again(self, entry: WaitingPod) -> WaitingPod:
        """The entry of a gang; one that has given back goes behind its equals, and asks for the turn."""
        since = self._since.get(entry.uid)
        if since is None:
            return entry
        requests = tuple(sorted((*entry.requests, *self.rules.turn(entry.uid))))
        return msgspec.structs.replace(entry, requests=requests, since=since)

    def is_asked_for(self, uid: str) -> bool:
        """Whether something of it may be asked for, in its phase."""
        return self.rules.phase(uid).is_asked_for

    def not_asked(self, gang: Gang) -> NotAsked | None:
        """Why nothing of it is asked for, whatever waits; None where its phase is no reason."""
        match self.rules.phase(gang.uid):
            case GangPhase.GIVING_BACK:
                return NotAsked(kind=NotAskedKind.GIVES_BACK, least=gang.least)
            case GangPhase.PAUSED:
                until = self._since.get(gang.uid)
                return NotAsked(kind=NotAskedKind.PAUSED, least=gang.least, until=until)
        return None

    def is_reserved(self, uid: str) -> bool:
        """Whether room is kept for it, though its minimum was not released."""
        watched = self._watched.get(uid)
        return watched is not None and watched.is_reserved

    def until(self, uid: str) -> datetime | None:
        """By when it is to be on nodes; None if it is not in placement."""
        watched = self._watched.get(uid)
        return None if watched is None else watched.until

    def is_held(self, workload: str) -> bool:
        """Whether the workload of this UID is suspended until its pods are gone."""
        return any(workload in watched.suspended for watched in self._watched.values())

    def turns(self) -> set[tuple[str, tuple[str, ...]]]:
        """As `GangPlacements.turns`."""
        return self.rules.turns(self._now())

    # What happens

    def record(self, changes: Mapping[str, Iterable[StoreChange]]) -> None:
        if not self._by_key:
            return
        for queue, changes_of_queue in changes.items():
            for change in changes_of_queue:
                if isinstance(change, PodGroupChange):
                    if change.key in self._by_key:
                        self._changed.add(change.key)
                elif change is QueueChange.RESYNC and queue != NO_QUEUE:
                    self._changed.update(self._by_key)

    def begin(self, key: PodGroupKey, *, is_reserved: bool = False) -> None:
        """The minimum of this gang was released, or what was missing of it. `is_reserved`: or room is kept
        for it, since its pods are made only then; what was released of it before is gone.
        """
        gang = self._store.podgroups.gang(*key)
        podgroup = self._store.podgroups.get(*key)
        if gang is None or podgroup is None:
            return
        before = self._watched.get(gang.uid)
        if before is not None and not (before.is_reserved or is_reserved):
            return
        members = self._members(key, gang.queue)
        now, is_able = self._now(), is_reserved or all(map(_is_made_again, members))
        annotations = podgroup.metadata.annotations or {}
        seconds, _ = placement_seconds(annotations.get(well_known.PLACE_WITHIN, ""))
        if is_reserved:
            seconds = min(seconds, RESERVED_SECONDS)
        placing = Placing(
            gang.uid,
            _rank(gang, members),
            frozenset(() if is_reserved else _resources(gang, members)),
            since=now,
            progressed=now,
            queue=gang.queue,
            scope=scope_of(self._store.snapshot.tree, gang.queue),
            priority=_priority(members),
            seconds=seconds,
            is_able=is_able,
        )
        if not self.rules.released(placing):
            return
        self._remember(key, gang.uid)
        self._watched[gang.uid] = _Watched(
            key,
            gang.uid,
            gang.queue,
            now + seconds,
            self._store.clock.now() + timedelta(seconds=seconds),
            is_able,
            gang.least,
            seconds,
            is_reserved=is_reserved,
        )
        self._due = min(self._due, now + PAUSE)
        if any(member.node for member in members):  # else there is nothing to be seen yet
            self._changed.add(key)

    def cancel(self, uid: str) -> None:
        """No room is kept for it any more: its queue was stopped, or it is over."""
        watched = self._watched.get(uid)
        if watched is not None and watched.is_reserved:
            self.rules.cancel(uid)
            self._drop(watched)

    @property
    def due(self) -> float:
        """When the next step is due though nothing changes, in monotonic seconds."""
        if self._changed:
            return -math.inf
        return self._due if self._watched or self.rules.has_pauses else math.inf

    def _next_due(self) -> float:
        times = [self.rules.due(self._now())]
        for watched in self._watched.values():
            states = map(self._requests.get, watched.giving)
            times += [NEVER if state is None else state.not_before for state in states]
            if watched.is_held:  # its queue may come to select its namespace again, too
                times.append(self._now() + REFUSED_SECONDS)
            elif not (watched.is_able or watched.is_told):
                times.append(watched.due)
        return min(times)

    # A step

    def step(self) -> None:
        if not self._is_begun:
            self._is_begun = True
            self._begin()
        now = self._now()
        changed, self._changed = self._changed, set()
        for key in changed:
            self._look(key, now)
        if not (self._watched or self.rules.has_pauses):
            return
        if now < self._due and self._store.snapshot is self._snapshot:
            return
        self._hold(now)
        for uid in self.rules.take_giving_back(now):
            self._changed_gang(self._watched[uid].key)
        for watched in list(self._watched.values()):
            if self._gives_back(watched):
                self._give_back(watched, now)
            elif not (watched.is_able or watched.is_told or watched.is_held) and now >= watched.due:
                watched.is_told = True
                self._say_that_it_cannot(watched)
        for uid in self.rules.take_resumed(now):
            self._changed_gang(self._keys[uid])
        self._due = max(now + PAUSE, self._next_due())

    def _hold(self, now: float) -> None:
        """Have the time of each gang stand still whose queue is stopped, and begin anew with the resume."""
        self._snapshot = self._store.snapshot
        for watched in self._watched.values():
            gang = self._store.podgroups.gang(*watched.key)
            if gang is None:
                continue
            decision = self._store.decisions.of_queue(gang.queue, namespace=watched.key.namespace)
            is_held = not decision.schedules
            if is_held is watched.is_held:
                continue
            watched.is_held = is_held
            self.rules.hold(watched.uid, is_held=is_held, now=now)
            if not is_held:
                watched.due = now + watched.seconds
                watched.until = self._store.clock.now() + timedelta(seconds=watched.seconds)
                self._changed_gang(watched.key)

    def _begin(self) -> None:
        """Begin the time of each gang that was released and is not on nodes."""
        for podgroup in self._store.podgroups.all():
            key = PodGroupKey(podgroup.metadata.namespace, podgroup.metadata.name)
            gang = self._store.podgroups.gang(*key)
            if gang is None or not self._store.snapshot.decision(gang.queue).has_quota:
                continue
            members = self._members(key, gang.queue)
            if any(each.uses_quota and not each.node for each in members) and not _is_on_nodes(gang, members):
                self.begin(key)

    def _look(self, key: PodGroupKey, now: float) -> None:
        uid = self._by_key.get(key, "")
        gang, watched = self._store.podgroups.gang(*key), self._watched.get(uid)
        if gang is None or gang.uid != uid:
            self._forget_former(key)
            return
        if watched is None:
            return
        self._due = min(self._due, now + PAUSE)
        if self._gives_back(watched):
            return  # it has had nodes when it began, and so it counts until all of it is gone
        members = self._members(key, watched.queue)
        watched.placed = sum(_is_on_node(each) for each in members)
        if _is_on_nodes(gang, members):
            self.rules.completed(uid)
            self._drop(watched)
            return
        lacking = [each for each in members if not each.node]
        resources = () if watched.is_reserved else _resources(gang, lacking)
        self.rules.observe(
            uid, placed=watched.placed, resources=resources, now=now, priority=_priority(members)
        )

    def _drop(self, watched: _Watched) -> None:
        """It is in placement no more. Afterwards the rules say what is remembered of it."""
        del self._watched[watched.uid]
        for uid in watched.giving:
            self._requests.forget(uid)
        if not self.rules.knows(watched.uid):
            self._forget(watched.key)
        self._resume(watched)
        self._changed_gang(watched.key)

    def _remember(self, key: PodGroupKey, uid: str) -> None:
        if self._by_key.get(key, uid) != uid:
            self._forget_former(key)
        self._by_key[key], self._keys[uid] = uid, key

    def _forget_former(self, key: PodGroupKey) -> None:
        """The PodGroup was deleted, or made anew."""
        uid = self._by_key.get(key, "")
        self.rules.forget(uid)
        if (watched := self._watched.get(uid)) is not None:
            self._drop(watched)
        self._forget(key)

    def _forget(self, key: PodGroupKey) -> None:
        uid = self._by_key.pop(key, "")
        self._keys.pop(uid, None)
        self._since.pop(uid, None)

    def _gives_back(self, watched: _Watched) -> bool:
        return self.rules.phase(watched.uid) is GangPhase.GIVING_BACK

    # Giving back

    def _add_targets(self, watched: _Watched, members: Iterable[Member]) -> None:
        """All that counts goes, also what came to count since it began."""
        for member in members:
            if not member.uses_quota or member.uid in watched.giving:
                continue
            watched.giving[member.uid] = None
            workload = self._suspendable(member)
            if workload is not None and workload.uid not in watched.suspended:
                watched.suspended[workload.uid] = workload
                watched.giving[workload.uid] = None

    def _give_back(self, watched: _Watched, now: float) -> None:
        members = self._members(watched.key, watched.queue)
        self._add_targets(watched, members)
        giving, may_send = watched.giving, partial(self._requests.may_send, now=now)
        for uid in list(giving):
            workload, member = watched.suspended.get(uid), self._store.members.by_uid(uid)
            if workload is not None:
                if self._is_suspended(uid):
                    self._settle(watched, uid)
                elif may_send(uid):
                    self._suspend(watched, workload)
            elif member is None or not member.uses_quota:
                self._settle(watched, uid)
            elif may_send(uid) and not member.leaving and self._suspendable(member) is None:
                self._evict(watched, member)
        if not (giving or any(self._is_under_way(each.uid) for each in members)):
            self._gave_back(watched, now)

    def _settle(self, watched: _Watched, uid: str) -> None:
        """The cache shows that it has gone."""
        del watched.giving[uid]
        self._requests.forget(uid)

    def _gave_back(self, watched: _Watched, now: float) -> None:
        self.rules.gave_back(watched.uid, now=now, chance=_chance.random())
        until = self.rules.paused_until(watched.uid)
        self._since[watched.uid] = self._store.clock.now() + timedelta(seconds=until - now)
        self._record(
            watched,
            GAVE_BACK,
            f"{_failure(watched)}: it gave back what it had, and is asked for again in "
            f"{math.ceil(until - now)} s, behind its equals",
        )
        self._drop(watched)

    def _evict(self, watched: _Watched, member: Member) -> None:
        request = partial(send_away, self._context.client, member)
        self._ask(member.uid, member.namespace, request, granted=lambda: _granted_of(watched, member))

    def _suspend(self, watched: _Watched, workload: Workload) -> None:
        path, client = workload_path(workload.kind, workload.namespace, workload.name), self._context.client

        def request() -> None:
            obj = decode_response(client.get(path), _workload)
            patch = [
                *mark_patch(workload.uid, obj.metadata.annotations, workload.queue),
                {"op": "test", "path": "/spec/suspend", "value": obj.spec.suspend},
                {"op": "add", "path": "/spec/suspend", "value": True},
            ]
            try:
                if not is_paused(workload.kind, obj):
                    client.patch(path, patch, content_type=JSON_PATCH)
            except Refused as exc:
                if exc.status != UNPROCESSABLE:
                    raise
                raise Conflict(409, "Conflict", exc.message) from exc

        self._ask(
            workload.uid, workload.namespace, request, granted=lambda: _granted_suspension(watched, workload)
        )

    def _ask(
        self, uid: str, namespace: str, request: Callable[[], None], *, granted: Callable[[], Granted]
    ) -> None:
        def answer() -> EvictionAnswer:
            return answer_to(request) if self._context.leading() else EvictionAnswer(EvictionOutcome.DROPPED)

        self._requests.send(uid)
        self._requests.postpone(uid, until=self._now() + LATE_SECONDS)
        record = partial(self._record_answer, uid)
        asked = EvictionRequest(
            purpose="gang-gives-back", uid=uid, namespace=namespace, answer=answer, granted=granted
        )
        if not ask(self._context, asked, record):
            record(EvictionAnswer(EvictionOutcome.OVERLOADED))

    def _record_answer(self, uid: str, answer: EvictionAnswer) -> None:
        if uid not in self._requests:
            return  # it has gone, as the cache shows
        now = self._now()
        match answer.outcome:
            case EvictionOutcome.GRANTED | EvictionOutcome.ABSENT:
                seconds = LATE_SECONDS
            case EvictionOutcome.OVERLOADED | EvictionOutcome.DROPPED:
                seconds = max(BUSY_SECONDS, answer.retry_after)
            case _:
                seconds = REFUSED_SECONDS
        self._requests.drop(uid, until=now + seconds)
        self._due = min(self._due, now + max(PAUSE, seconds))

    def _members(self, key: PodGroupKey, queue: str) -> list[Member]:
        """The pods that count for it."""
        return [each for each in self._store.members.in_podgroup(*key) if each.queue == queue]

    # Workloads

    def _suspendable(self, member: Member) -> Workload | None:
        """The topmost of its owners that is suspended by its spec.

        Users can write owner references: it has to be of the same namespace, and of no other queue. One that
        names its queue by the PodGroup of its pods alone is of none.
        """
        found, uid = None, member.owner_uid
        for _ in range(MAX_OWNERS):
            workload = self._store.workloads.by_uid(uid) if uid else None
            if workload is None or workload.namespace != member.namespace:
                break
            is_meant = workload.kind.suspension is Suspension.SPEC and not workload.delegated
            if is_meant and workload.queue in {"", member.queue}:
                found = workload
            uid = workload.owner_uid
        return found

    def _is_suspended(self, uid: str) -> bool:
        workload = self._store.workloads.by_uid(uid)
        return workload is None or not workload.live or workload.paused

    def _resume(self, watched: _Watched) -> None:
        """What bears the mark is resumed by the drains, once nobody holds it."""
        for workload in watched.suspended.values():
            self._store.notify(workload.queue, QueueChange.MEMBERS)

    # What is said

    def _say_that_it_cannot(self, watched: _Watched) -> None:
        self._record(
            watched,
            CANNOT,
            f"{watched.placed} of at least {watched.least} pods got nodes in its time; it keeps what it has, "
            "since nobody would make all of its pods again",
        )

    def _record(self, watched: _Watched, reason: str, message: str) -> None:
        podgroup = self._store.podgroups.get(*watched.key)
        if podgroup is not None:
            self._context.recorder.record(
                podgroup_subject(podgroup), reason=reason, message=message, warning=True, repeat_after=0.0
            )

    def _now(self) -> float:
        return self._store.clock.monotonic()


def _is_on_node(member: Member) -> bool:
    return (bool(member.node) and member.live and not member.leaving) or member.phase == "Succeeded"


def _is_on_nodes(gang: Gang, members: Iterable[Member]) -> bool:
    """Whether its minimum is."""
    return is_placed(gang, (member.task for member in members if _is_on_node(member)))


def _is_made_again(member: Member) -> bool:
    return bool(member.owner_uid) and member.owner_kind != "Node"


def _resources(gang: Gang, members: Iterable[Member]) -> set[str]:
    """What the pods request that have no node; of a gang without pods, what it does."""
    requests = {id(member.requests): member.requests for member in members}  # many have the same
    found = {name for each in requests.values() for name, _ in each}
    return found or {name for name, _ in gang.resources if name != PODS} or {PODS}


def _rank(gang: Gang, members: Iterable[Member]) -> Rank:
    priority = gang.priority
    if priority is None:
        priority = max((member.priority for member in members), default=0)
    return -priority, gang.since, gang.uid


def _priority(members: Iterable[Member]) -> int:
    """That by which it is compared with gangs of other queues: of pods, which a ResourceQuota can bound."""
    return min((member.priority for member in members), default=0)


def _granted_of(watched: _Watched, member: Member) -> Granted:
    event = GrantedEvent(
        subject=pod_subject(member),
        reason=GAVE_BACK,
        message=_text(watched),
        rate_limit_key=f"gangs/{member.queue}",
    )
    return Granted(reason=GAVE_BACK, how="Evict" if member.node else "Delete", events=(event,))


def _granted_suspension(watched: _Watched, workload: Workload) -> Granted:
    event = GrantedEvent(subject=workload_subject(workload), reason=GAVE_BACK, message=_text(watched))
    return Granted(reason=GAVE_BACK, how="Suspend", events=(event,))


def _failure(watched: _Watched) -> str:
    if watched.is_reserved:
        return f"room was kept for {watched.seconds:.0f} s, and too few of its pods were made to be released"
    return f"{watched.placed} of at least {watched.least} pods got nodes in its time"


def _text(watched: _Watched) -> str:
    return (
        f"PodGroup {quoted(watched.key.name)} gives back what it has: {watched.placed} of at least "
        f"{watched.least} pods got nodes in its time"
    )
