"""What pods use that were deleted by force, and until when."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

import pytest

from cluster.cache.force_deleted_pods import ForceDeletedPods
from queues.apimachinery.timestamps import rfc3339
from queues.quota.usage import PODS
from queues.well_known import FORCE_DELETED_ENDED
from tests.support.cases import each_case
from tests.support.http.asking import Server
from tests.support.http.wire_objects import Wire, member, queue

GPU = "example.com/gpu"


class Now:
    seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_what_was_deleted_counts_for_its_time_and_each_end_is_known() -> None:
    now = Now()
    pods = ForceDeletedPods(clock=now, grace_limit=300)
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
    pods = ForceDeletedPods(clock=now, grace_limit=300)
    for number in range(1000):
        now.seconds = 100 + number / 100
        pods.record("lab", ((PODS, 1),), seconds=30.0)
    pods.record("other", ((PODS, 1),), seconds=30.0)
    assert pods.used("lab") == {PODS: 1000}
    assert len(pods._counted.by_queue["lab"]) == len(pods._counted.ends) - 1 == 11
    now.seconds = 200.0
    pods.record("third", ((PODS, 1),), seconds=30.0)
    assert pods.queues() == ["third"]
    assert len(pods._counted.ends) == len(pods._going.ends) == 1


def test_of_what_counts_only_what_a_drain_would_wait_for_is_going() -> None:
    now = Now()
    pods = ForceDeletedPods(clock=now, grace_limit=300)
    pods.record("lab", (("cpu", 1), (PODS, 1)), seconds=30.0)
    pods.record("lab", (("cpu", 2), (PODS, 1)), seconds=3600.0)
    assert pods.used("lab") == pods.going("lab") == {"cpu": 3, PODS: 2}
    now.seconds += 30.0
    assert pods.used("lab") == pods.going("lab") == {"cpu": 2, PODS: 1}
    now.seconds += 280.0
    assert pods.used("lab") == {"cpu": 2, PODS: 1}
    assert pods.going("lab") == {}


def test_what_an_admin_says_has_ended_counts_no_more_and_what_was_deleted_later_does() -> None:
    now = Now()
    pods = ForceDeletedPods(clock=now, grace_limit=300)
    pods.record("lab", (("cpu", 1), (PODS, 1)), seconds=3600.0)
    pods.record("other", ((PODS, 1),), seconds=3600.0)
    now.seconds = 110.0
    pods.record("lab", (("cpu", 2), (PODS, 1)), seconds=3600.0)
    assert pods.have_ended("lab", until=105.0)
    assert pods.used("lab") == pods.going("lab") == {"cpu": 2, PODS: 1}
    assert pods.next_end("lab") == 3710
    assert pods.used("other") == {PODS: 1}
    assert not pods.have_ended("lab", until=105.0), "it was said before"
    assert not pods.have_ended("lab", until=90.0), "so was less"
    pods.record("lab", (("cpu", 4), (PODS, 1)), seconds=1.0)
    assert pods.used("lab") == {"cpu": 6, PODS: 2}
    assert pods.have_ended("lab", until=110.0)
    assert (pods.used("lab"), pods.next_end("lab")) == ({}, math.inf)


def ended(at: datetime, *, name: str = "lab", version: int = 200) -> Wire:
    made = queue(name, version=version, parent="root")
    made["metadata"]["annotations"] = {FORCE_DELETED_ENDED: rfc3339(at)}
    return made


def test_the_annotation_of_a_queue_counts_for_it_and_all_below_it() -> None:
    server = Server()
    server.has(queue("top", parent="root"), queue("lab", parent="top"), running())
    server.lacks(deleted(running()))
    server.clock.at += timedelta(seconds=5)
    server.clock.seconds += 5
    server.has(ended(server.clock.at, name="other"))
    server.has(ended(server.clock.at - timedelta(seconds=60), name="top"))
    assert server.store.quota_use("lab") == {"cpu": 2, PODS: 1}, "it was deleted after that"
    server.has(ended(server.clock.at, name="top", version=201))
    assert server.store.quota_use("lab") == {PODS: 0}


def test_a_time_to_come_ends_nothing_for_good() -> None:
    server = Server()
    server.has(queue("lab", parent="root"), running())
    server.has(ended(server.clock.at + timedelta(days=300)))
    server.lacks(deleted(running()))
    server.has(ended(server.clock.at + timedelta(days=300), version=201))
    assert server.store.quota_use("lab") == {"cpu": 2, PODS: 1}


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


@pytest.mark.parametrize("read", ["counts", "force_deleted"])
def test_what_is_deleted_by_force_while_use_is_counted_is_never_left_out(
    read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of the two is being read: too much for a moment, and never too little."""
    server = Server().has(running())
    store, before = server.store, server.store.quota_use("lab")
    holder, name = (store.members, "counts") if read == "counts" else (store.force_deleted, "used")
    look = getattr(holder, name)

    def late(queue: str) -> object:
        found = look(queue)
        monkeypatch.setattr(holder, name, look)
        server.lacks(deleted(running()))
        return found

    monkeypatch.setattr(holder, name, late)
    used = store.quota_use("lab")
    assert all(used[resource] >= amount for resource, amount in before.items())
