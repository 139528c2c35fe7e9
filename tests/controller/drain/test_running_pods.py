"""Which pods of a drain run, and which of their owners is suspended instead of evicting them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import pytest

from controller.drain.running_pods import UNKNOWN_OWNER_WAIT, RunningPodReader, gang_minimums
from queues.drain.model import RunningPod
from tests.support.cases import each_case
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    CREATED,
    NAMED,
    Wire,
    member,
    namespace,
    owner,
    podgroup,
    queue,
    workload,
)

#: When every pod of these tests was created, and long after.
MADE = datetime.fromisoformat(CREATED)
LATER = MADE + timedelta(hours=1)
RUNS = {"phase": "Running"}
RESEARCH = {NAMED: "research"}


def server(*objects: Wire) -> Server:
    queues = (queue("root", parent=None), queue("research"), queue("other"))
    return Server().has(*queues, namespace("lab"), *objects)


def read(
    made: Server,
    *,
    now: datetime = LATER,
    requested: Collection[str] = (),
    unsuspendable: Collection[str] = (),
    delayed: Collection[str] = (),
    scales: bool = False,
) -> list[RunningPod]:
    reader = RunningPodReader(
        store=made.store,
        queues=frozenset(["research"]),
        requested=requested,
        unsuspendable=unsuspendable,
        delayed=delayed,
        now=now,
        scales=scales,
    )
    return sorted(reader.pods(), key=lambda pod: pod.name)


def running(name: str = "work", **more: Any) -> Wire:
    return member(name, nodeName="node-0", status=RUNS, **more)


def job(name: str = "train", **more: Any) -> Wire:
    return workload("jobs.batch", name, **{"annotations": RESEARCH, **more})


def test_pods_on_nodes_that_have_not_finished_are_read() -> None:
    made = server(
        running("runs"),
        member("waits"),
        member("ended", nodeName="node-0", status={"phase": "Succeeded"}),
        running("elsewhere", queue="other"),
    )
    assert [pod.name for pod in read(made)] == ["runs"]


@each_case(
    ("train", "suspended"),
    [
        (job(), True),
        (job(annotations={NAMED: "other"}), False),
        (job(namespace="lab"), False),
        (job(status={"conditions": [{"type": "Complete", "status": "True"}]}), False),
        (job(managedBy="example.com/controller"), False),
        (workload("deployments.apps", annotations=RESEARCH), False),
    ],
    ids=["a Job", "of another queue", "of another namespace", "ended", "managed by another", "a Deployment"],
)
def test_an_owner_is_suspended_if_its_drain_may_suspend_it(train: Wire, suspended: bool) -> None:
    """Else its pods are evicted."""
    [pod] = read(server(train, running(owner=owner(train))))
    assert (pod.workload is not None, pod.bare) == (suspended, False)


def test_the_topmost_owner_that_can_be_suspended_is_suspended() -> None:
    """A JobSet, not the Job that it makes; nothing if another controller acts on the Job."""
    whole = workload("jobsets.jobset.x-k8s.io", "whole", annotations=RESEARCH)
    part = job("part", owner=owner(whole))
    [pod] = read(server(whole, part, running(owner=owner(part))))
    assert pod.workload is not None
    assert str(pod.workload) == "jobset team/whole"
    delegated = job("part", owner=owner(whole), managedBy="example.com/controller")
    [pod] = read(server(whole, delegated, running(owner=owner(delegated))))
    assert pod.workload is None


DEPLOYMENT = workload("deployments.apps", "web", annotations=RESEARCH, replicas=2)
REPLICAS = workload("replicasets.apps", "web-1", annotations=RESEARCH, replicas=2, owner=owner(DEPLOYMENT))
FREE = workload("replicasets.apps", "free", annotations=RESEARCH, replicas=2)
STATEFUL = workload("statefulsets.apps", "db", annotations=RESEARCH, replicas=2)
FOREIGN = workload("replicasets.apps", "canary", annotations=RESEARCH, owner=owner(job("rollout")))


@each_case(
    ("made_by", "expected"),
    [
        ([REPLICAS, DEPLOYMENT], "deployment team/web"),
        ([FREE], "replicaset team/free"),
        ([STATEFUL], "statefulset team/db"),
        ([FOREIGN], None),
        ([REPLICAS], None),
        ([{**STATEFUL, "metadata": {**STATEFUL["metadata"], "deletionTimestamp": CREATED}}], None),
        ([workload("statefulsets.apps", "db", annotations={NAMED: "other"})], None),
    ],
    ids=[
        "a Deployment",
        "a ReplicaSet",
        "a StatefulSet",
        "of another project's",
        "its Deployment is not known",
        "being deleted",
        "of another queue",
    ],
)
def test_past_the_deadline_the_topmost_owner_is_scaled(made_by: list[Wire], expected: str | None) -> None:
    """If no other object controls it. Before the deadline none is."""
    made = server(*made_by, running(owner=owner(made_by[0])))
    [pod] = read(made, scales=True)
    assert (str(pod.workload) if pod.workload else None) == expected
    assert pod.workload is None or (pod.workload.scaled, pod.workload.suspended) == (True, False)
    [pod] = read(made)
    assert pod.workload is None


@pytest.mark.parametrize("scales", [False, True])
def test_the_pods_of_what_is_kept_at_zero_are_on_their_way_whatever_the_drain_says_by_now(
    scales: bool,
) -> None:
    kept = {**RESEARCH, "sluice.dev/suspended": "research/2"}
    at_zero = workload("statefulsets.apps", "db", annotations=kept, replicas=0)
    [pod] = read(server(at_zero, running(owner=owner(at_zero))), scales=scales)
    assert pod.workload is not None
    assert (pod.workload.scaled, pod.workload.suspended) == (True, True)


def test_a_pod_waits_for_an_owner_that_may_be_scaled_in_its_place() -> None:
    """Until it was looked up, where the cache lacks the ReplicaSet, or its Deployment."""
    for objects in ([], [REPLICAS]):
        made = server(*objects, running(owner=owner(REPLICAS)))
        made.store.record_owner(kind="Deployment", namespace="team", name="web", uid="uid-web")
        for now in (MADE, LATER):
            [pod] = read(made, now=now, scales=True)
            assert pod.leaving
        for absent in (REPLICAS, DEPLOYMENT):
            made.store.missing_owners.forget(absent["metadata"]["uid"])
        [pod] = read(made, now=LATER, scales=True)
        assert not pod.leaving
        [pod] = read(made, now=MADE)
        assert not pod.leaving


def test_a_workload_that_no_controller_suspends_is_not_suspended_again() -> None:
    train = job()
    [pod] = read(server(train, running(owner=owner(train))), unsuspendable={"uid-train"})
    assert pod.workload is None


def test_a_request_counts_before_the_cache_shows_it() -> None:
    train = job()
    made = server(train, running("part", owner=owner(train)), running("single"))
    part, single = read(made, requested={"uid-train", "uid-single"}, delayed={"uid-part"})
    assert part.workload is not None
    assert (part.workload.suspended, part.workload.stalled, part.leaving) == (True, True, False)
    assert single.leaving


@pytest.mark.parametrize(("kind", "daemon", "leaving"), [("DaemonSet", True, False), ("Job", False, True)])
def test_a_young_pod_waits_for_an_owner_that_the_cache_does_not_have_yet(
    kind: str, daemon: bool, leaving: bool
) -> None:
    """Until then a pod of a DaemonSet stays, and a pod of a Job is not evicted."""
    unknown = {"apiVersion": "v1", "kind": kind, "name": "new", "uid": "uid-new", "controller": True}
    made = server(running(owner=unknown))
    [young] = read(made, now=MADE + UNKNOWN_OWNER_WAIT - timedelta(seconds=1))
    assert (young.daemon, young.leaving) == (daemon, leaving)
    [old] = read(made)
    assert (old.daemon, old.leaving) == (daemon, leaving), "its owner is being looked up"
    made.store.missing_owners.forget("uid-new")
    [old] = read(made)
    assert (old.daemon, old.leaving) == (False, False)


def test_a_pod_waits_while_its_namespace_has_just_come_to_name_the_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its Job has been read before, as one of no queue. It is evicted only if the Job stays that."""
    train = job(annotations={})
    made = server(train, running(owner=owner(train)))
    [pod] = read(made)
    assert not pod.leaving
    monkeypatch.setattr(type(made.store), "membership_relist_pending", True)
    [pod] = read(made)
    assert (pod.leaving, pod.workload) == (True, None)


def test_a_daemon_set_counts_in_its_own_namespace() -> None:
    """Users can write owner references."""
    ours, theirs = (
        workload("daemonsets.apps", "agent", namespace=each, annotations=RESEARCH) for each in ("team", "lab")
    )
    assert [pod.daemon for pod in read(server(ours, running(owner=owner(ours))))] == [True]
    assert [pod.daemon for pod in read(server(theirs, running(owner=owner(theirs))))] == [False]


def test_a_terminating_pod_was_requested_to_end_a_grace_period_before() -> None:
    going = running()
    going["metadata"] |= {"deletionTimestamp": "2030-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}
    [pod] = read(server(going))
    assert pod.leaving
    assert pod.termination is not None
    assert (pod.termination.requested_at.isoformat(), pod.termination.grace, pod.termination.node) == (
        "2030-01-01T00:00:00+00:00",
        30,
        "node-0",
    )
    [stays] = read(server(running()))
    assert stays.termination is None


GROUPED = {"scheduling.k8s.io/group-name": "ring"}


def test_what_a_gang_needs_is_counted_with_its_pods_that_the_drain_does_not_cover() -> None:
    """Those on nodes that do not leave, and those that have succeeded, each with its task."""
    task = {**GROUPED, "volcano.sh/task-spec": "launcher"}
    going = running("going", queue="other", annotations=GROUPED)
    going["metadata"] |= {"deletionTimestamp": "2030-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}
    made = server(
        podgroup("ring", queue="research", minMember=4, minTaskMember={"worker": 3}),
        podgroup("single", queue="research", minMember=1),
        running("covered", annotations=GROUPED),
        running("alone", annotations={"scheduling.k8s.io/group-name": "single"}),
        running("beside", queue="other", annotations=task),
        member("ended", annotations=GROUPED, nodeName="node-0", status={"phase": "Succeeded"}),
        member("failed", annotations=GROUPED, nodeName="node-0", status={"phase": "Failed"}),
        member("waits", queue="other", annotations=GROUPED),
        going,
    )
    (key, minimum), *others = gang_minimums(made.store, read(made)).items()
    assert (key, others) == (("team", "ring"), [])
    assert (minimum.least, minimum.tasks) == (4, (("worker", 3),))
    assert sorted(minimum.beside) == ["", "launcher"]
