"""Says of pods that no scheduler takes that their scheduler was not seen, and leaves their room to others
(`queues.untaken`).

A scheduler that comes back may have sent a bind of such a pod, and the API server may store it later. So the
room is left in two steps:

| step | what is written on the pod | its binds                                | its room                  |
|------|----------------------------|------------------------------------------|---------------------------|
| 1    | annotation                 | are refused wherever the bind guard is   | counts as used            |
|      | `sluice.dev/untaken`       | on and the replica knows the annotation  |                           |
| 2    | label `sluice.dev/released`| are refused                              | is left to others         |
|      | is removed                 |                                          |                           |

Step 2 follows once each replica has known the pod, and the bind guard has been on in its namespace, for as
long as the API server lets a request take.

Invariants
- Each step is written at the version of the pod that was read: a bind that was stored before wins.
- If the pod changes between the steps, the time of step 2 begins anew.
- A pod of a gang keeps its room here: its gang gives back whole.
- A new leader begins the time of each pod anew. How far giving it up has come goes with that time, so it is
  in no table of requests (`controller.requests`).
- Each workload gets one event for the pods of one scheduler.
- Owner: the controller's thread. The writers send.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from cluster.api.client import MERGE_PATCH, STRATEGIC_MERGE_PATCH
from cluster.cache.members import Member
from cluster.exceptions import Conflict, NotFound
from cluster.write_ranks import WriteRank
from controller.context import ControllerContext, pod_path, pod_subject, workload_subject
from controller.parts import Part
from queues import well_known
from queues.untaken import SCHEDULER_NOT_SEEN, is_untaken, pause_seconds, untaken_text

#: How often all of them are looked at, at most.
LOOK_SECONDS = 1.0
#: Workloads whose event is remembered; when there are more, each gets one more event.
MAX_REMEMBERED = 10_000


class _Waiting(msgspec.Struct):
    """A pod that could be taken. `since`: since when this leader knows that.

    `said`: the version of the pod at which its condition was written. `gave`, `left`: those of step 1 and
    step 2. 0: not written. `times`: how often step 1 was written. `until`: when the pod is asked for again,
    in monotonic seconds. `refused`: the version of a given-up pod, and since when all replicas know it, in
    monotonic seconds.
    """

    since: datetime
    said: int = 0
    gave: int = 0
    left: int = 0
    times: int = 0
    until: float = math.inf
    refused: tuple[int, float] = (0, math.inf)


class UntakenPods(Part):
    """Owner: the controller's thread."""

    name = "untaken"

    def __init__(
        self,
        context: ControllerContext,
        *,
        is_refused_by_all: Callable[[int], bool],
        guarded_since: Callable[[str], float],
    ) -> None:
        """`is_refused_by_all`: whether each replica refuses a pod that was given up at a resource version.

        `guarded_since`: when the bind guard came on in a namespace, in monotonic seconds; infinite where it
        is not on.
        """
        self._context = context
        self._store = context.store
        self._is_refused_by_all = is_refused_by_all
        self._guarded_since = guarded_since
        self.begin_term()

    def begin_term(self) -> None:
        self._waiting: dict[str, _Waiting] = {}
        self._told: set[tuple[str, str]] = set()
        self._looks_at = -math.inf

    @property
    def due(self) -> float:
        """When the next step is due, in monotonic seconds."""
        return self._looks_at if self._store.members.has_untaken or self._waiting else math.inf

    def step(self) -> None:
        now = self._store.clock.monotonic()
        if now < self.due:
            return
        self._looks_at = now + LOOK_SECONDS
        members = {member.uid: member for member in self._store.members.untaken()}
        for uid in self._waiting.keys() - members.keys():
            del self._waiting[uid]
        for uid, member in members.items():
            known = self._waiting.get(uid)
            if known is None:
                known = self._waiting[uid] = _Waiting(self._store.clock.now())
            self._look(member, known, now)

    def _look(self, member: Member, known: _Waiting, now: float) -> None:
        scheduler = member.untaken or member.given_up
        sign = self._store.members.schedulers.last_sign(scheduler)
        wall = self._store.clock.now()
        if self._store.decisions.of_member(member).keeps_gate:
            known.since = wall  # its queue is stopped: nobody may take it
        elif self._waits_for_room(member):
            known.since = wall  # the same: its time begins with its release
        elif member.given_up:
            if known.until is math.inf:  # a former leader gave it up
                known.until = now + pause_seconds(max(1, known.times))
            if now >= known.until or not member.untaken or (sign is not None and sign > known.since):
                self._ask_again(member, known)
            elif known.left != member.version and self._is_refused(member, known, now):
                self._leave_room(member, known)
        elif not is_untaken(since=known.since, seconds=member.take_seconds, sign=sign, now=wall):
            if sign is not None and sign > known.since:
                known.since = wall  # it runs, and has its reasons
        else:
            self._say(member, known)
            if self._has_room(member) and known.gave != member.version and not self._is_of_gang(member):
                self._give_up(member, known, now)

    def _waits_for_room(self, member: Member) -> bool:
        has_quota = self._store.snapshot.decision(member.queue).has_quota
        return has_quota and member.unreleased and not member.given_up

    def _has_room(self, member: Member) -> bool:
        """Whether it keeps others from room."""
        return member.released and self._store.snapshot.decision(member.queue).has_quota

    def _is_refused(self, member: Member, known: _Waiting, now: float) -> bool:
        """Whether a given-up pod has its room still, and no bind of it can be stored any more."""
        if not member.holds_room or self._is_of_gang(member):
            return False
        if known.refused[0] != member.version:
            known.refused = member.version, math.inf
        if known.refused[1] > now and self._is_refused_by_all(member.version):
            known.refused = member.version, now
        since = max(self._guarded_since(member.namespace), known.refused[1])
        return since + self._store.bind_passes.request_seconds <= now

    def _is_of_gang(self, member: Member) -> bool:
        return self._store.podgroups.gang(member.namespace, member.podgroup) is not None

    # Writes

    def _say(self, member: Member, known: _Waiting) -> None:
        if known.said:
            return
        known.said = member.version
        text = untaken_text(member.untaken)
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": SCHEDULER_NOT_SEEN,
            "message": text,
        }
        body = {"metadata": {"uid": member.uid}, "status": {"conditions": [condition]}}
        write = partial(self._patch, f"{pod_path(member)}/status", body, STRATEGIC_MERGE_PATCH)
        self._submit("untaken-condition", member, write, lambda: setattr(known, "said", 0))
        self._context.recorder.record(
            pod_subject(member),
            reason=SCHEDULER_NOT_SEEN,
            message=text,
            warning=True,
            rate_limit_key=member.queue,
        )
        work = self._store.workloads.top_of(member.owner_uid, namespace=member.namespace)
        if work is None or (work.uid, member.untaken) in self._told:
            return
        if len(self._told) >= MAX_REMEMBERED:
            self._told.clear()
        self._told.add((work.uid, member.untaken))
        self._context.recorder.record(
            workload_subject(work),
            reason=SCHEDULER_NOT_SEEN,
            message=f"a pod of it waits: {text}",
            warning=True,
            rate_limit_key=f"workloads/{member.queue}",
        )

    def _give_up(self, member: Member, known: _Waiting, now: float) -> None:
        known.times, known.gave = known.times + 1, member.version
        known.until = now + pause_seconds(known.times)

        def again() -> None:
            known.times, known.gave, known.until = known.times - 1, 0, math.inf

        self._change("untaken", member, {"annotations": {well_known.UNTAKEN: member.untaken}}, again)

    def _leave_room(self, member: Member, known: _Waiting) -> None:
        known.left = member.version
        metadata = {"labels": {well_known.RELEASED: None}}
        self._change("untaken-room", member, metadata, lambda: setattr(known, "left", 0))

    def _change(
        self, what: str, member: Member, metadata: dict[str, Any], not_written: Callable[[], object]
    ) -> None:
        """Change the pod at the version that was read."""
        body = {"metadata": {"uid": member.uid, "resourceVersion": str(member.version), **metadata}}
        write = partial(self._patch, pod_path(member), body, MERGE_PATCH)
        self._submit(what, member, write, not_written)

    def _ask_again(self, member: Member, known: _Waiting) -> None:
        known.since, known.said, known.refused = self._store.clock.now(), 0, (0, math.inf)
        body = {"metadata": {"uid": member.uid, "annotations": {well_known.UNTAKEN: None}}}
        write = partial(self._patch, pod_path(member), body, MERGE_PATCH)
        self._submit("untaken", member, write, lambda: None)

    def _patch(self, path: str, body: dict[str, Any], content_type: str) -> bool:
        with suppress(NotFound, Conflict):  # it is gone, or has changed: it is looked at again
            self._context.client.patch(path, body, content_type=content_type)
            return True
        return False

    def _submit(
        self, what: str, member: Member, write: Callable[[], bool], not_written: Callable[[], object]
    ) -> None:
        submitted = self._context.submit_write(
            (what, member.uid),
            write,
            lambda _failed: not_written(),
            rank=WriteRank.POD_CONDITION,
            order=(member.created,),
            queue=member.queue,
            subject=pod_subject(member),
        )
        if not submitted:
            not_written()
