"""Has gangs give back what they were released for, if they are not on nodes in time.

Who gives back, and when, is decided by `queues.quota.gang_placement`. Here are the steps:

1. the minimum of a gang was released, or room is kept for it until its pods are made: its time begins. Its
   pods are looked at with each change of one;
2. enough of them are on nodes, as `queues.quota.gangs.is_placed` says: it is forgotten here;
3. its turn to give back has come: its released pods go, one by one;
4. none of them counts any more: it waits for another try, for so long as it says on the PodGroup.

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
- While no gang is in placement nothing is done.
- While its queue is stopped a gang keeps what it has: what runs goes on. One that has begun to give back goes
  on with it.
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
from cluster.cache.changes import NO_QUEUE, Change, PodGroupChange, QueueChange
from cluster.cache.members import Member
from cluster.cache.podgroups import PodGroupKey
from cluster.cache.workloads import Workload, is_paused
from cluster.exceptions import Conflict, Refused
from cluster.objects import WorkloadObject
from controller.context import ControllerContext, pod_subject, podgroup_subject, workload_subject
from controller.drain.eviction import Answer, answer_to, lane_of, send_away
from controller.drain.request_states import Outcome
from controller.drain.suspend_patches import UNPROCESSABLE, mark_patch, workload_path
from queues import well_known
from queues.quota.gang_placement import GangPlacements, placement_seconds
from queues.quota.gangs import Gang, is_placed
from queues.quota.pod_classes import Rank, WaitingPod
from queues.quota.usage import PODS
from queues.snapshot import QueueSnapshot
from queues.text import quoted
from queues.workload_kinds import MAX_OWNERS, Suspension

#: What is refused is asked for again after so long; the API server is left alone, where it is busy.
REFUSED_SECONDS, BUSY_SECONDS = 10.0, 2.0
#: All gangs in placement are looked at together at most so often: there may be ten thousand.
PAUSE = 0.5
#: So long the watch may take to show what was granted.
LATE_SECONDS = 30.0
GAVE_BACK, CANNOT = "GangGaveBack", "GangKeepsQuota"
_chance = SystemRandom()
_workload = msgspec.json.Decoder(WorkloadObject)


class _Target(msgspec.Struct):
    """A pod that goes, or whose workload is suspended. `again_at`: when it is asked for again."""

    uid: str
    again_at: float = -math.inf


class _Watched(msgspec.Struct):
    """A gang in placement. `due`: the end of its time; `until`: the same as others read it. `is_reserved`:
    room is kept for it until its pods are made. `giving`: what goes, by UID; None before it gives back.
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
    giving: dict[str, _Target] | None = None
    suspended: dict[str, Workload] = {}
    is_told: bool = False


class GangsInPlacement:
    """Owner: the controller's thread."""

    def __init__(
        self,
        context: ControllerContext,
        *,
        changed: Callable[[PodGroupKey], object],
    ) -> None:
        """`changed`: called for each gang that may be asked for otherwise than before."""
        self._context = context
        self._store = context.store
        self._changed_gang = changed
        self.forget()

    def forget(self) -> None:
        """Forget everything: a term begins or ends."""
        self.rules = GangPlacements()
        self._is_begun = False
        self._watched: dict[str, _Watched] = {}
        self._by_key: dict[PodGroupKey, str] = {}
        self._changed: set[PodGroupKey] = set()
        self._due = -math.inf
        #: The queues as they were when it was looked at last which gangs are held.
        self._snapshot: QueueSnapshot | None = None
        #: When a gang that waits for another try may be asked for; and since when it waits then.
        self._paused: dict[str, tuple[float, PodGroupKey]] = {}
        self._since: dict[str, datetime] = {}

    # What is asked

    def asked_again(self, entry: WaitingPod) -> WaitingPod:
        """The entry of a gang; one that has given back goes behind its equals, and asks for the turn."""
        since = self._since.get(entry.uid)
        if since is None:
            return entry
        requests = tuple(sorted((*entry.requests, *self.rules.turn(entry.uid))))
        return msgspec.structs.replace(entry, requests=requests, since=since)

    def is_paused(self, uid: str) -> bool:
        """Whether it is not to be asked for now."""
        paused = self._paused.get(uid)
        return paused is not None and self._now() < paused[0]

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

    def turn_is_taken(self) -> bool:
        return self.rules.turn_is_taken(self._now())

    # What happens

    def record(self, changes: Mapping[str, Iterable[Change]]) -> None:
        if not self._watched:
            return
        for queue, changes_of_queue in changes.items():
            for change in changes_of_queue:
                if isinstance(change, PodGroupChange):
                    self._changed.add(change.key)
                elif change is QueueChange.RESYNC and queue != NO_QUEUE:
                    self._changed.update(self._by_key)

    def begin(self, key: PodGroupKey, *, is_reserved: bool = False) -> None:
        """The minimum of this gang was released, or what was missing of it. `is_reserved`: or room is kept
        for it, since its pods are made only then.
        """
        gang = self._store.podgroups.gang(*key)
        podgroup = self._store.podgroups.get(*key)
        if gang is None or podgroup is None:
            return
        before = self._watched.get(gang.uid)
        if before is not None and not before.is_reserved:
            return
        members = self._members(key, gang.queue)
        now, is_able = self._now(), all(map(_is_made_again, members))
        annotations = podgroup.metadata.annotations or {}
        seconds, _ = placement_seconds(annotations.get(well_known.PLACE_WITHIN, ""))
        self._paused.pop(gang.uid, None)
        self.rules.released(
            gang.uid,
            _rank(gang, members),
            resources=_resources(gang, members),
            now=now,
            seconds=seconds,
            is_able=is_able,
        )
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
        self._by_key[key] = gang.uid
        self._due = min(self._due, now + PAUSE)
        if any(member.node for member in members):  # else there is nothing to be seen yet
            self._changed.add(key)

    def cancel(self, uid: str) -> None:
        """No room is kept for it any more: its queue was stopped, or it is over."""
        watched = self._watched.get(uid)
        if watched is not None and watched.is_reserved:
            self._drop(watched)
            self.rules.cancel(uid)

    @property
    def due(self) -> float:
        """When the next step is due though nothing changes, in monotonic seconds."""
        if not (self._watched or self._paused):
            return math.inf
        return -math.inf if self._changed else self._due

    def _next_due(self) -> float:
        times = [self.rules.due(self._now()), *(until for until, _ in self._paused.values())]
        for watched in self._watched.values():
            times += [target.again_at for target in (watched.giving or {}).values()]
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
        if not (self._watched or self._paused):
            return
        now = self._now()
        changed, self._changed = self._changed, set()
        for key in changed:
            watched = self._watched.get(self._by_key.get(key, ""))
            if watched is not None:
                self._look(watched, now)
                self._due = min(self._due, now + PAUSE)
        if now < self._due and self._store.snapshot is self._snapshot:
            return
        self._hold(now)
        for uid in self.rules.take_giving_back(now):
            self._begin_giving_back(self._watched[uid])
        for watched in list(self._watched.values()):
            if watched.giving is not None:
                self._give_back(watched, now)
            elif not (watched.is_able or watched.is_told or watched.is_held) and now >= watched.due:
                watched.is_told = True
                self._say_that_it_cannot(watched)
        for uid, (until, key) in list(self._paused.items()):
            if until <= now:
                del self._paused[uid]
                self._changed_gang(key)
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

    def _look(self, watched: _Watched, now: float) -> None:
        gang = self._store.podgroups.gang(*watched.key)
        if gang is None or gang.uid != watched.uid:
            self._drop(watched)
            self.rules.forget(watched.uid)
            self._since.pop(watched.uid, None)
            return
        if watched.giving is not None:
            return  # it has had nodes when it began, and so it counts until all of it is gone
        members = self._members(watched.key, watched.queue)
        watched.placed = sum(_is_on_node(each) for each in members)
        if _is_on_nodes(gang, members):
            self._drop(watched)
            self.rules.completed(watched.uid)
            self._since.pop(watched.uid, None)
            return
        resources = _resources(gang, [each for each in members if not each.node])
        self.rules.observe(watched.uid, placed=watched.placed, resources=resources, now=now)

    def _drop(self, watched: _Watched) -> None:
        del self._watched[watched.uid]
        self._by_key.pop(watched.key, None)
        self._resume(watched)
        self._changed_gang(watched.key)

    # Giving back

    def _begin_giving_back(self, watched: _Watched) -> None:
        members = self._members(watched.key, watched.queue)
        watched.giving = {each.uid: _Target(each.uid) for each in members if each.uses_quota}
        watched.suspended = {}
        for member in members:
            workload = self._suspendable(member) if member.uses_quota else None
            if workload is not None and workload.uid not in watched.suspended:
                watched.suspended[workload.uid] = workload
                watched.giving[workload.uid] = _Target(workload.uid)

    def _give_back(self, watched: _Watched, now: float) -> None:
        giving = watched.giving or {}
        for uid, target in list(giving.items()):
            workload = watched.suspended.get(uid)
            if workload is not None:
                if self._is_suspended(uid):
                    del giving[uid]
                elif target.again_at <= now:
                    self._suspend(watched, target, workload)
                continue
            member = self._store.members.by_uid(uid)
            if member is None or not member.uses_quota:
                del giving[uid]
            elif target.again_at <= now and not member.leaving and self._suspendable(member) is None:
                self._evict(watched, target, member)
        if not giving:
            self._gave_back(watched, now)

    def _gave_back(self, watched: _Watched, now: float) -> None:
        self.rules.gave_back(watched.uid, now=now, chance=_chance.random())
        until = self.rules.paused_until(watched.uid)
        self._paused[watched.uid] = until, watched.key
        self._since[watched.uid] = self._store.clock.now() + timedelta(seconds=until - now)
        self._record(
            watched,
            GAVE_BACK,
            f"{watched.placed} of at least {watched.least} pods got nodes in its time: it gave back what it "
            f"had, and is asked for again in {math.ceil(until - now)} s, behind its equals",
        )
        self._drop(watched)

    def _evict(self, watched: _Watched, target: _Target, member: Member) -> None:
        request = partial(send_away, self._context.client, member)
        self._submit(target, member.namespace, request, lambda: self._record_eviction(watched, member))

    def _suspend(self, watched: _Watched, target: _Target, workload: Workload) -> None:
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

        def granted() -> None:
            self._context.metrics.evicted(GAVE_BACK, "Suspend")
            self._context.recorder.record(
                workload_subject(workload), reason=GAVE_BACK, message=_text(watched), repeat_after=0.0
            )

        self._submit(target, workload.namespace, request, granted)

    def _submit(
        self,
        target: _Target,
        namespace: str,
        request: Callable[[], None],
        granted: Callable[[], None],
    ) -> None:
        def send() -> Answer:
            return answer_to(request) if self._context.leading() else Answer(Outcome.DROPPED)

        def receive(answer: Answer | None) -> None:
            now, answer = self._now(), answer or Answer(Outcome.OVERLOADED)
            match answer.outcome:
                case Outcome.GRANTED:
                    target.again_at = now + LATE_SECONDS
                    granted()
                case Outcome.ABSENT:
                    target.again_at = now + LATE_SECONDS
                case Outcome.OVERLOADED | Outcome.DROPPED:
                    target.again_at = now + max(BUSY_SECONDS, answer.retry_after)
                case _:
                    target.again_at = now + REFUSED_SECONDS
            self._due = min(self._due, max(now + PAUSE, target.again_at))

        target.again_at = self._now() + LATE_SECONDS
        if not self._context.submit(
            self._context.drain_writers,
            ("gang-gives-back", target.uid),
            send,
            receive,
            rank=(1,),
            lane=lane_of(namespace, uid=target.uid, budget=None),
            batched=True,
        ):
            receive(None)

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

    def _record_eviction(self, watched: _Watched, member: Member) -> None:
        self._context.metrics.evicted(GAVE_BACK, "Evict" if member.node else "Delete")
        self._context.recorder.record(
            pod_subject(member),
            reason=GAVE_BACK,
            message=_text(watched),
            rate_limit_key=f"gangs/{member.queue}",
            repeat_after=0.0,
        )

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


def _text(watched: _Watched) -> str:
    return (
        f"PodGroup {quoted(watched.key.name)} gives back what it has: {watched.placed} of at least "
        f"{watched.least} pods got nodes in its time"
    )
