"""Members and workloads counted anew from what was held, and random histories to hold them against."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from hypothesis import strategies as st

from cluster.cache.members import Member, MemberCounts
from cluster.objects import Pod, WorkloadObject
from queues.apimachinery.quantities import Amount
from queues.world.members import FINISHED_PHASES
from tests.support.http.wire_objects import (
    GROUP,
    Wire,
    job,
    pod,
)

GATE, QUOTA_GATE = "sluice.dev/queue", "sluice.dev/quota"
MARKED = {"requests": {"sluice.dev/member": "1"}}
CORE = {"requests": {"cpu": "1"}}


def read_pod(obj: Wire) -> Pod:
    return msgspec.json.decode(json.dumps(obj), type=Pod)


def read_job(obj: Wire) -> WorkloadObject:
    return msgspec.json.decode(json.dumps(obj), type=WorkloadObject)


def counted(members: Iterable[Member], queue: str) -> MemberCounts:
    """The counts of one queue, the long way round."""
    of = [one for one in members if one.queue == queue]
    waiting = [one for one in of if one.phase not in FINISHED_PHASES and not one.node]
    running = [one for one in of if one.phase not in FINISHED_PHASES and one.node]
    holding = [one for one in waiting if one.holds_room and not one.leaving]
    using = [*running, *(one for one in holding if not one.gated and not one.quota_gated)]
    return MemberCounts(
        pending=len(waiting),
        gated=sum(one.gated for one in waiting),
        quota_gated=sum(one.quota_gated for one in waiting),
        held=sum(one.gated or one.quota_gated or one.unreleased for one in waiting),
        running=len(running),
        allocated=requested(running),
        releasing=requested(one for one in running if one.leaving),
        used=requested(using),
        using=len(using),
        succeeded=sum(one.phase == "Succeeded" for one in of),
        failed=sum(one.phase == "Failed" for one in of),
        live=sum(one.phase not in FINISHED_PHASES for one in of),
        live_by_namespace=dict(Counter(one.namespace for one in of if one.phase not in FINISHED_PHASES)),
    )


def requested(members: Iterable[Member]) -> dict[str, Amount]:
    total: Counter[str] = Counter()
    for one in members:
        total.update({resource: int(amount) for resource, amount in one.requests})
    return dict(total)


def unreleased(members: Iterable[Member], queue: str) -> set[str]:
    """The namespaces where one of the queue's members could be bound that no quota was asked about."""
    return {one.namespace for one in members if one.queue == queue and one.unreleased and one.bindable}


def bindable(members: Iterable[Member], queue: str, *, unfiltered: bool = False) -> set[str]:
    """The namespaces where one of the queue's members could be bound at any moment, or without our being
    asked once its gate is off."""
    return {
        one.namespace
        for one in members
        if one.queue == queue
        and one.phase not in FINISHED_PHASES
        and not one.node
        and not one.leaving
        and (not one.filtered or not one.is_gated)
        and not (unfiltered and one.filtered)
    }


QUEUES = ("research", "labs", "held")


@st.composite
def pods(draw: st.DrawFn) -> Wire:
    """A pod in any state: few names and UIDs, so that they meet; small versions, so that some are old."""
    name = draw(st.sampled_from(["a", "b", "c", "d"]))
    queue = draw(st.sampled_from([*QUEUES, None]))
    annotations = {"sluice.dev/queue": queue} if queue else {}
    if draw(st.booleans()) and not queue:
        annotations[GROUP] = "gang"
    namespace = draw(st.sampled_from(["team", "other"]))
    spec_fields: st.SearchStrategy[dict[str, Any]] = st.sampled_from([{}, {"nodeName": "node-1"}])
    made = pod(
        name,
        namespace=namespace,
        uid=f"{namespace}/{name}/{draw(st.sampled_from([1, 2]))}",
        version=draw(st.integers(1, 9)),
        annotations=annotations,
        gates=draw(st.sampled_from([None, [], [GATE], ["x"], ["x", GATE], [QUOTA_GATE], [GATE, QUOTA_GATE]])),
        resources=draw(st.sampled_from([None, MARKED, CORE])),
        status={"phase": draw(st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]))},
        **draw(spec_fields),
    )
    if draw(st.integers(0, 2)) == 0:
        made["metadata"]["labels"] = {"sluice.dev/released": made["metadata"]["uid"]}
        is_given_up: bool = draw(st.booleans())
        if annotations and is_given_up:
            made["metadata"]["annotations"] = {**annotations, "sluice.dev/untaken": "volcano"}
    if draw(st.integers(0, 3)) == 0:
        made["metadata"]["deletionTimestamp"] = "2030-01-01T12:00:00Z"
    return made


@st.composite
def jobs(draw: st.DrawFn) -> Wire:
    return job(
        draw(st.sampled_from(["a", "b", "c"])),
        queue=draw(st.sampled_from([*QUEUES, ""])),
        done=draw(st.sampled_from(["", "Complete", "Failed", "Suspended"])),
        version=draw(st.integers(1, 9)),
    )


def histories(objects: st.SearchStrategy[Wire]) -> st.SearchStrategy[list[tuple[str, Any]]]:
    """Events as reflectors tell them, those of the past and repeated ones among them, and lists."""
    event = st.tuples(st.sampled_from(["upsert", "upsert", "upsert", "remove"]), objects)
    whole = st.tuples(st.just("replace"), st.lists(objects, max_size=5, unique_by=_uid))
    return st.lists(event | event | event | whole, min_size=1, max_size=25)


def _uid(obj: Wire) -> str:
    return str(obj["metadata"]["uid"])


def is_member(obj: Wire) -> bool:
    return bool(obj["metadata"]["annotations"])


class Oracle:
    """What there is to be held, by UID: the latest version that was told of, while it `is_kept`."""

    def __init__(self, is_kept: Callable[[Wire], bool] = lambda _: True) -> None:
        self.held: dict[str, Wire] = {}
        self._is_kept = is_kept

    def tell(self, what: str, obj: Any) -> None:
        if what == "replace":
            self.held = {uid: self.held[uid] for uid in map(_uid, obj) if uid in self.held}
            for one in obj:
                self.tell("upsert", one)
        elif what == "remove":
            self.held.pop(_uid(obj), None)
        elif _version(obj) >= _version(self.held.get(_uid(obj))):
            self.held.pop(_uid(obj), None)
            if self._is_kept(obj):
                self.held[_uid(obj)] = obj

    def versions(self) -> dict[str, int]:
        return {uid: _version(obj) for uid, obj in self.held.items()}


def _version(obj: Wire | None) -> int:
    return int(obj["metadata"]["resourceVersion"]) if obj else 0
