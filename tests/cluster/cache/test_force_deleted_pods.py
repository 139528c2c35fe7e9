"""What pods use that were deleted by force, and until when."""

from __future__ import annotations

import math

from cluster.cache.force_deleted_pods import ForceDeletedPods
from queues.quota.usage import PODS
from tests.support.cases import each_case
from tests.support.http.asking import Server
from tests.support.http.wire_objects import Wire, member

GPU = "example.com/gpu"


class Now:
    seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_what_was_deleted_counts_for_its_time_and_each_end_is_known() -> None:
    now = Now()
    pods = ForceDeletedPods(clock=now)
    pods.record("lab", (("cpu", 1), (PODS, 1)), seconds=32.0)
    now.seconds = 100.5
    pods.record("lab", (("cpu", 2), (GPU, 1), (PODS, 1)), seconds=31.9)
    pods.record("lab", (("cpu", 4), (PODS, 1)), seconds=2.0)
    pods.record("other", ((PODS, 1),), seconds=2.0)
    assert pods.used("lab") == {"cpu": 7, GPU: 1, PODS: 3}
    assert pods.next_end("lab") == 103
    now.seconds = 103.0
    assert pods.used("lab") == {"cpu": 3, GPU: 1, PODS: 2}
    assert pods.used("other") == {}
    assert (pods.next_end("lab"), pods.next_end("other")) == (132, math.inf)
    now.seconds = 132.0
    assert pods.used("lab") == {"cpu": 2, GPU: 1, PODS: 1}
    now.seconds = 133.0
    assert pods.used("lab") == {}


def test_what_has_ended_is_dropped_and_many_deletions_take_no_more_room_than_seconds() -> None:
    now = Now()
    pods = ForceDeletedPods(clock=now)
    for number in range(1000):
        now.seconds = 100 + number / 100
        pods.record("lab", ((PODS, 1),), seconds=30.0)
    pods.record("other", ((PODS, 1),), seconds=30.0)
    assert pods.used("lab") == {PODS: 1000}
    assert len(pods._by_queue["lab"]) == len(pods._ends) - 1 == 11
    now.seconds = 200.0
    pods.record("third", ((PODS, 1),), seconds=30.0)
    assert pods.queues() == ["third"]
    assert len(pods._ends) == 1


def running(**more: object) -> Wire:
    made = member("work", "lab", resources={"requests": {"cpu": "2"}}, nodeName="node-1", **more)
    made["spec"]["terminationGracePeriodSeconds"] = 30
    return made


def deleted(made: Wire) -> Wire:
    metadata = {"deletionTimestamp": "2030-01-01T12:00:00Z", "deletionGracePeriodSeconds": 0}
    return {**made, "metadata": {**made["metadata"], "resourceVersion": "99", **metadata}}


@each_case(
    ("before", "gone", "used"),
    [
        (running(), True, {"cpu": 2, PODS: 1}),
        (deleted(running()), True, {"cpu": 2, PODS: 1}),
        (running(status={"phase": "Failed"}), True, {PODS: 0}),
        (member("work", "lab"), True, {PODS: 0}),
        (running(), False, {PODS: 0}),
    ],
    ids=["by force", "by force while it ends", "by its node", "without a node", "by its label alone"],
)
def test_the_use_of_a_queue_falls_once_nothing_of_the_pod_runs(
    before: Wire, gone: bool, used: dict[str, int]
) -> None:
    server = Server()
    server.has(before)
    server.lacks(deleted(before) if gone else before)
    assert server.store.quota_use("lab") == used
    server.clock.seconds += 33.0
    assert server.store.quota_use("lab") == {PODS: 0}
