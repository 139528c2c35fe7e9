"""Passes over pods that wait, timed in this process: the controller's own parts, with a cache of their own.

A pass reads the pods from the cache, puts them in order, and chooses; writing the book is no part of it.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

from cluster.cache.store import Clock, Store
from cluster.objects import Pod, PodGroup, QueueObject
from controller.context import ControllerContext
from controller.quota.gang_placements import GangsInPlacement
from controller.quota.waiting_pods import WaitingPods
from queues.apimachinery.conversion import Converter
from queues.membership import GROUP_ANNOTATION, MembershipSettings
from queues.well_known import QUEUE, QUOTA_GATE, RELEASED

_queue_from, _pod_from = Converter[QueueObject](QueueObject), Converter[Pod](Pod)
_podgroup_from = Converter[PodGroup](PodGroup)
QUEUES = 100
#: Different requests of a queue's pods.
SIZES = 5
#: CPUs that a queue may use in all: so many pods run that each size has run, and the rest waits.
ROOM = 20


class Waiting:
    """So many pods of `queues` queues that wait; `runs`: more that run, none of which is in the way.
    `gang`: the pods of each PodGroup, all of which start together; 0: there is none.
    """

    def __init__(self, count: int, *, room: int, runs: int = 0, queues: int = QUEUES, gang: int = 0) -> None:
        """`room`: the CPUs of each queue's capability."""
        self._version = 0
        self._room, self._queues, self._gang = room, queues, gang
        self.store = Store(membership_settings=MembershipSettings(), clock=Clock())
        self.store.queue_cache.replace([self._queue(number) for number in range(queues)])
        if gang:
            self.store.podgroups.replace([self._podgroup(number) for number in range(count // gang)])
        context = cast(ControllerContext, SimpleNamespace(store=self.store))  # nothing is sent
        self.waiting = WaitingPods(
            self.store,
            pause=lambda: None,
            placements=GangsInPlacement(context, changed=lambda _key: None),
        )
        self.store.add_listener(lambda queue, change: self.waiting.record({queue: [change]}))
        self.uids = [self.add(number) for number in range(count)]
        for number in range(runs):
            self.add(count + number, node="node-1", size=0)

    def add(self, number: int, *, node: str = "", size: int | None = None) -> str:
        uid = f"00000000-0000-4000-8000-{number:012}"
        self.store.members.upsert(self._pod(uid, node=node, size=size))
        return uid

    def end(self, uid: str) -> None:
        """A pod that was released is gone."""
        self.store.members.remove(self._pod(uid, node="node-1"))

    def run(self, uid: str) -> None:
        """A pod that was chosen has lost its gates, and is on a node."""
        self.store.members.upsert(self._pod(uid, node="node-1"))

    def pass_over_all(self, *, most: int = 10**9) -> list[str]:
        """The UIDs of the chosen pods; what else waits has its reason."""
        self.waiting.read(())
        chosen = self.waiting.choose(most, goes_on=lambda: True)
        for _ in self.waiting.take_reasons():
            pass
        return [member.uid for member in chosen]

    def _queue(self, number: int) -> QueueObject:
        spec = {"capability": {"cpu": str(self._room)}, "deserved": {"cpu": "10"}, "weight": 1 + number % 3}
        metadata = {"name": f"q{number}", "uid": f"q{number}", "generation": 1, **self._next_version()}
        return _queue_from({"metadata": metadata, "spec": spec})

    def _podgroup(self, number: int) -> PodGroup:
        metadata = {
            "name": f"gang-{number}",
            "namespace": "bench",
            "uid": f"gang-{number}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **self._next_version(),
        }
        spec = {"queue": f"q{number % self._queues}", "minMember": self._gang}
        return _podgroup_from({"metadata": metadata, "spec": spec})

    def _pod(self, uid: str, *, node: str, size: int | None = None) -> Pod:
        number = int(uid[-12:])
        own = number // self._gang if self._gang else number
        name = f"q{own % self._queues}"
        cpu = own // self._queues % SIZES + 1 if size is None else size
        group = {GROUP_ANNOTATION: f"gang-{own}"} if self._gang and not node else {}
        time_of_day = f"{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}"
        metadata = {
            "name": f"pod-{number}",
            "namespace": "bench",
            "uid": uid,
            "creationTimestamp": f"2026-01-01T{time_of_day}Z",
            "labels": {QUEUE: name, **({RELEASED: uid} if node else {})},
            "annotations": {QUEUE: name, **group},
            **self._next_version(),
        }
        spec = {
            "containers": [{"resources": {"requests": {"cpu": str(cpu), "memory": "1Gi"}}}],
            **({"nodeName": node} if node else {"schedulingGates": [{"name": QUOTA_GATE}]}),
        }
        status = {"phase": "Running" if node else "Pending"}
        return _pod_from({"metadata": metadata, "spec": spec, "status": status})

    def _next_version(self) -> dict[str, str]:
        self._version += 1
        return {"resourceVersion": str(self._version)}


def milliseconds(work: Callable[[], object]) -> float:
    """CPU time of this thread, after a collection of garbage."""
    gc.collect()
    began = time.thread_time()
    work()
    return 1000 * (time.thread_time() - began)


def all_released(count: int) -> float:
    return _timed(Waiting(count, room=10**6), count)


def none_fits(count: int) -> float:
    return _timed(Waiting(count, room=0), 0)


def of_gangs(gangs: int, *, gang: int, queues: int, fits: bool, grouped: bool = True) -> float:
    """All are released, or none: what runs leaves no room for one pod. `grouped`: with PodGroups."""
    count, room = gangs * gang, 10**6 if fits else SIZES * gang
    case = Waiting(count, room=room, queues=queues, gang=gang if grouped else 0)
    for number in range(0 if fits else queues):
        case.add(count + number * (gang if grouped else 1), node="node-1", size=room)
    return _timed(case, count if fits else 0)


def _timed(case: Waiting, number: int) -> float:
    found: list[str] = []
    took = milliseconds(lambda: found.extend(case.pass_over_all()))
    _check(len(found) == number)
    return took


def one_ends(count: int, *, ends: int) -> list[float]:
    """CPU time, in ms, from the event that a pod is gone until the next is chosen, each time."""
    case = Waiting(count, room=ROOM)
    running = case.pass_over_all()
    for uid in running:
        case.run(uid)
    case.pass_over_all()
    took = []
    for uid in running[:ends]:
        began = time.thread_time()
        case.end(uid)
        chosen = case.pass_over_all()
        took.append(1000 * (time.thread_time() - began))
        for each in chosen:
            case.run(each)
        case.pass_over_all()
    return took


def memory(*, members: int, waiting: int) -> float:
    """MiB that are held for the pods that wait, beyond what the cache holds of all members.

    As Python's allocator counts them: what the process has in memory says nothing after it has freed some.
    """
    case = Waiting(waiting, room=0, runs=members - waiting)
    gc.collect()
    tracemalloc.start()
    case.pass_over_all()
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held / 2**20


def _check(holds: bool) -> None:
    if not holds:
        raise RuntimeError("the pass chose others than it had to")
