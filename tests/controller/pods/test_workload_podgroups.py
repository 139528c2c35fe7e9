"""Which PodGroups the leader makes for workloads that ask for a gang (`queues.workload_gangs`)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from cluster.cache.changes import NO_QUEUE, QueueChange
from controller.pods.workload_podgroups import LOOK_AGAIN, WorkloadPodGroups
from queues.well_known import GANG, QUEUE
from tests.support.cases import each_case
from tests.support.controller.contexts import ImmediateWrites, context_with
from tests.support.controller.controller_harness import ControllerHarness, GrantingBoundary
from tests.support.http.asking import Server
from tests.support.http.wire_objects import GROUP, Wire, pod, queue, workload

PATH = "/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups"
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-train", "controller": True}


def waiting(name: str = "train-a", *, gang: str = "research/3", group: str = "", **more: Any) -> Wire:
    """A pod as the webhook leaves it while its PodGroup is not there."""
    named = {GROUP: group or "podgroup-uid-train", GANG: gang}
    return pod(name, annotations=named, labels={QUEUE: ""}, gates=[QUEUE], **{"owner": OWNER, **more})


def job() -> Wire:
    return workload("jobs.batch", "train", annotations={QUEUE: "research"}, labels={QUEUE: "research"})


def made(*objects: Wire) -> list[Wire]:
    stage = ControllerHarness(GrantingBoundary())
    stage.receive_events(queue("research", capability={"cpu": "8"}), *objects)
    stage.sync()
    return list(stage.bodies(PATH, "POST"))


def test_the_podgroup_of_a_workload_is_made_once_for_all_its_pods() -> None:
    [group] = made(job(), waiting("train-a"), waiting("train-b"))
    assert group["metadata"]["name"] == "podgroup-uid-train"
    assert group["spec"] == {"minMember": 3, "queue": "research"}
    assert [each["uid"] for each in group["metadata"]["ownerReferences"]] == ["uid-train"]


def test_none_is_made_for_an_owner_that_is_not_known() -> None:
    """A user can write any owner reference, and nobody would remove what has an owner that is not there."""
    assert made(waiting()) == []


class RecordedTimes:
    """A work queue that says after how many seconds it was asked to look again."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def add_after(self, queue: str, change: object, *, seconds: float) -> None:
        assert (queue, change) == (NO_QUEUE, QueueChange.MEMBERS)
        self.seconds.append(seconds)


class Looking:
    """Pods that wait for the PodGroup of an owner."""

    def __init__(self, *pods: Wire) -> None:
        self.server = Server().has(queue("research"), *pods)
        self.times, self.writes = RecordedTimes(), ImmediateWrites()
        self.created: list[str] = []
        client = SimpleNamespace(create=lambda path, _: self.created.append(path))
        self.podgroups = WorkloadPodGroups(
            context_with(store=self.server.store, work_queue=self.times, writers=self.writes, client=client)
        )

    def look(self, *names: str) -> None:
        for name in names:
            found = self.server.store.members.get("team", name)
            assert found is not None
            self.podgroups.make(found)

    def pass_time(self, seconds: float) -> None:
        self.server.clock.seconds += seconds


def test_an_owner_that_never_comes_is_looked_for_after_growing_pauses() -> None:
    """A user can write any owner: each look is at all members without a queue, for one of its pods."""
    looking = Looking(waiting("train-a"), waiting("train-b"))
    for _ in range(12):
        looking.look("train-a", "train-b", "train-a")
        looking.pass_time(looking.times.seconds[-1])
    pauses = looking.times.seconds
    assert len(pauses) == 12
    assert pauses[0] <= 2.0
    assert pauses == sorted(pauses)
    assert pauses[-1] == pauses[-2] == LOOK_AGAIN.seconds(1_000)
    assert (looking.created, looking.writes.keys) == ([], [])


def test_before_its_time_it_is_not_looked_for_again_whatever_changes() -> None:
    looking = Looking(waiting("train-a"))
    looking.look("train-a")
    [first] = looking.times.seconds
    looking.pass_time(first / 2)
    looking.look("train-a")
    assert looking.times.seconds == [first]


def test_an_owner_that_comes_late_has_its_podgroup_at_once_and_begins_anew() -> None:
    looking = Looking(waiting("train-a"))
    for _ in range(4):
        looking.look("train-a")
        looking.pass_time(looking.times.seconds[-1])
    looking.server.has(job())
    looking.look("train-a")
    assert looking.created == [PATH]
    looking.server.lacks(job())
    looking.look("train-a")
    assert looking.times.seconds[-1] == looking.times.seconds[0]


@each_case(
    "other",
    [
        waiting(gang=""),
        waiting(gang="3"),
        waiting(gang="research/1"),
        waiting(group="podgroup-another"),
        waiting(owner={**OWNER, "kind": "ReplicaSet"}),
        waiting(owner=None),
        waiting(namespace="elsewhere"),
    ],
    ids=str,
)
def test_none_is_made_for_a_pod_that_asks_for_none(other: Wire) -> None:
    assert made(job(), other) == []
