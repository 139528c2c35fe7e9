"""Which parked pods are deleted so that their controllers create them again, when, and how many at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.api.client import Client
from cluster.cache.changes import QueueChange
from cluster.cache.workloads import Workload
from cluster.exceptions import Conflict
from cluster.metrics import Metrics
from cluster.recorder import EventRecorder
from cluster.waiting_writes import WriteKey
from cluster.write_queue import WriteQueue
from controller.pods.missing_pods import LIMIT, OWNER_LIMIT, RECENT_SECONDS
from controller.pods.recreation import (
    IDLE_SECONDS,
    STEP_SECONDS,
    ParkedPodRecreation,
    stopped_since,
)
from controller.status.queue_records import PendingStop, QueueRecords
from controller.workqueue import ChangesByPart, WorkQueue
from tests.support.controller.contexts import ImmediateWrites, context_with
from tests.support.http.asking import Server
from tests.support.http.wire_objects import GROUP, Wire, member, owner, queue, template, workload
from tests.support.rules.cases import NOW

SINCE = NOW - timedelta(minutes=1)
BEFORE = SINCE - timedelta(seconds=1)
REFUSED = '3 queue "research" is Suspended; resume it with: kubectl queue resume research'
ACTIVE = {
    "type": "Active",
    "status": "False",
    "reason": "Suspended",
    "observedGeneration": 1,
    "lastTransitionTime": f"{SINCE:%Y-%m-%dT%H:%M:%SZ}",
}


def of_queue(resource: str, name: str, *, queue: str = "research", **more: Any) -> Wire:
    return workload(resource, name, template(annotations={"sluice.dev/queue": queue}), **more)


REPLICAS = of_queue("replicasets.apps", "web", replicas=1000)
STATEFUL = of_queue("statefulsets.apps", "db", replicas=3)
SCALED_DOWN = of_queue("replicasets.apps", "gone", replicas=0)
KEPT_AT_ZERO = of_queue(
    "replicasets.apps", "kept", replicas=0, annotations={"sluice.dev/suspended": "research/3"}
)
ELSEWHERE = of_queue("replicasets.apps", "moved", queue="web", replicas=3)
GOING = of_queue("replicasets.apps", "going", replicas=3)
GOING["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
JOB = of_queue("jobs.batch", "train")
CRON_JOB = of_queue("cronjobs.batch", "nightly")
NIGHTLY = of_queue("jobs.batch", "nightly-1", owner=owner(CRON_JOB))
FOREIGN = {**REPLICAS, "metadata": {**REPLICAS["metadata"], "uid": "uid-foreign"}}


def stopped(*, state: str = "Suspended", **spec: object) -> Wire:
    made = queue("research", status={"conditions": [ACTIVE]}, state=state)
    made["spec"] |= spec
    return made


def waiting(name: str, *, of: Wire | None = REPLICAS, created: Any = BEFORE, **more: Any) -> Wire:
    """A pod that filter has refused."""
    made = member(name, **more)
    if of is not None:
        made["metadata"]["ownerReferences"] = [owner(of)]
    made["metadata"]["creationTimestamp"] = f"{created:%Y-%m-%dT%H:%M:%SZ}"
    condition = {"type": "PodScheduled", "status": "False", "message": REFUSED}
    made["status"] = {"phase": "Pending", "conditions": [condition]}
    return made


class Writes(ImmediateWrites):
    """A write queue that sends each write at once, or gives each up."""

    def __init__(self) -> None:
        super().__init__()
        self.gives_up = False

    def submit(
        self,
        key: WriteKey,
        write: Callable[[], object],
        *,
        done: Callable[[bool], object] | None = None,
        **_: Any,
    ) -> bool:
        if not self.gives_up:
            return super().submit(key, write, done=done)
        if done is not None:
            done(False)
        return True


class Recreated:
    """A leader that has acknowledged the stop of the queue `research`."""

    def __init__(self, *queues: Wire) -> None:
        self.server = Server().has(queue("root"), *(queues or (stopped(parked="Recreate"),)))
        self.server.has(REPLICAS, STATEFUL, SCALED_DOWN, KEPT_AT_ZERO, ELSEWHERE, GOING, JOB)
        self.deleted: dict[str, Any] = {}
        self.events: list[tuple[str, str]] = []
        self.suspended: list[str] = []
        self.asked: list[str] = []
        self.leads = True
        self.refusal: Exception | None = None
        client = cast(Client, SimpleNamespace(delete=self._delete, create=self._create))
        self.writes = Writes()
        self.metrics = Metrics()
        writers = cast(WriteQueue, self.writes)
        work_queue = WorkQueue(self.server.clock.monotonic)
        self._work_queue = work_queue
        self.changes: ChangesByPart = {}
        self.records = QueueRecords(work_queue)
        self._recreation = ParkedPodRecreation(
            context_with(
                store=self.server.store,
                client=client,
                writers=writers,
                drain_writers=writers,
                work_queue=work_queue,
                recorder=EventRecorder(client=client, writers=writers, metrics=self.metrics),
                metrics=self.metrics,
                leading=lambda: self.leads,
            ),
            suspend_job=self._suspend,
            is_acknowledged=lambda queue: self.records.holds(queue, self.server.store.snapshot),
        )
        self.acknowledge()

    def count(self, how: str, outcome: str) -> float | None:
        """Of pods that were deleted (`how`: Delete), or of Jobs."""
        kind = {"Delete": "pod", "Suspend": "job"}[how]
        return self.metrics.registry.get_sample_value(
            f"sluice_{kind}_recreations_total", {"outcome": outcome}
        )

    def acknowledge(self) -> None:
        store = self.server.store
        self.records.record_of(store.queues["research"])
        scope = store.snapshot.scope("research")
        self.records.begin_stop("research", PendingStop(scope=scope, places="", version=1, at=0.0))
        self.records.acknowledge_stop("research")

    def _delete(self, path: str, body: Any) -> bytes:
        if self.refusal is not None:
            raise self.refusal
        self.deleted[path.rpartition("/")[2]] = body["preconditions"]
        return b"{}"

    def _suspend(self, job: Workload, may_suspend: Callable[[], bool]) -> bool:
        self.asked.append(job.name)
        if self.refusal is not None or not may_suspend():
            return False
        self.suspended.append(job.name)
        return True

    def _create(self, path: str, body: Any) -> bytes:
        self.events.append((body["involvedObject"]["kind"], body["reason"]))
        return b"{}"

    def remaining(self) -> tuple[int, bool]:
        """How many pods are left to be created again, and whether that makes the queue's status due."""
        changes, self.changes = self.changes, {}
        return self._recreation.remaining("research"), QueueChange.STATUS in changes.get("research", ())

    def consider(self) -> None:
        self._recreation.consider("research", self.server.store.members.waiting_in("research"))

    def step(self) -> list[str]:
        """What is deleted in the next second."""
        before = set(self.deleted)
        self.consider()
        self.server.clock.seconds += STEP_SECONDS
        self._recreation.step()
        self.changes = self._work_queue.get([self.server.clock.seconds])  # and the results of the deletions
        return sorted(set(self.deleted) - before)

    def after(self, *pods: Wire) -> list[str]:
        self.server.has(*pods)
        return self.step()


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (waiting("work"), ["work"]),
        (waiting("work", of=STATEFUL), ["work"]),
        (waiting("work", of=None), []),
        (waiting("work", of=SCALED_DOWN), []),
        (waiting("work", of=FOREIGN), []),
        (waiting("work", of=KEPT_AT_ZERO), []),
        (waiting("work", of=ELSEWHERE), []),
        (waiting("work", of=GOING), []),
        (waiting("work", created=SINCE), ["work"]),
        (waiting("work", created=SINCE + timedelta(seconds=1)), []),
        (waiting("work", gates=["sluice.dev/queue"]), []),
        (waiting("work", gates=["example.com/other"]), []),
        (waiting("work", nodeName="node-1"), []),
        (waiting("work", annotations={GROUP: "gang"}), []),
    ],
    ids=[
        "of a ReplicaSet",
        "of a StatefulSet",
        "bare",
        "of a ReplicaSet that wants no replicas",
        "of a controller that is not known",
        "of a ReplicaSet that a drain keeps at zero",
        "of a controller whose new pods are of another queue",
        "of a controller that is being deleted",
        "created in the second of the stop",
        "created in the second after the stop",
        "gated",
        "gated by another",
        "bound",
        "of a PodGroup",
    ],
)
def test_a_refused_pod_is_deleted_if_its_controller_creates_it_again(obj: Wire, expected: list[str]) -> None:
    assert Recreated().after(obj) == expected


@pytest.mark.parametrize("obj", [JOB, NIGHTLY], ids=["of its own", "of a CronJob"])
def test_a_job_is_suspended_once_and_none_of_its_pods_deleted(obj: Wire) -> None:
    """It would count each as failed."""
    recreated = Recreated()
    recreated.server.has(CRON_JOB, obj)
    pods = [waiting(name, of=obj) for name in ("a", "b")]
    for pod in pods:
        pod["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    assert recreated.after(*pods) == []
    assert recreated.suspended == [obj["metadata"]["name"]]
    assert recreated.events == [("Job", "SuspendedByQueue")]


@pytest.mark.parametrize(
    "obj",
    [
        of_queue("jobs.batch", "other", suspend=True),
        of_queue("jobs.batch", "other", owner={**owner(JOB), "kind": "JobSet", "uid": "uid-set"}),
        of_queue("jobs.batch", "other", managedBy="example.com/controller"),
        of_queue("jobs.batch", "other", queue="web"),
    ],
    ids=["suspended already", "of a JobSet", "of another controller", "of another queue"],
)
def test_a_job_that_is_not_ours_to_suspend_is_left_alone(obj: Wire) -> None:
    recreated = Recreated()
    recreated.server.has(obj)
    recreated.after(waiting("work", of=obj))
    assert recreated.asked == []


def test_a_job_of_which_a_pod_runs_is_left_alone() -> None:
    recreated = Recreated()
    recreated.after(waiting("work", of=JOB), waiting("running", of=JOB, nodeName="node-1"))
    assert recreated.asked == []


def test_a_job_that_could_not_be_suspended_is_asked_about_again_after_a_while() -> None:
    recreated = Recreated()
    recreated.refusal = Conflict(409, "Conflict", "a pod of it runs")
    recreated.after(waiting("work", of=JOB))
    recreated.step()
    assert recreated.asked == ["train"]
    recreated.refusal = None
    recreated.server.clock.seconds += IDLE_SECONDS
    recreated.step()
    assert recreated.suspended == ["train"]


def test_a_pod_that_filter_has_not_refused_is_left_alone() -> None:
    obj = waiting("work")
    obj["status"]["conditions"][0]["message"] = "0/3 nodes are available: 3 Insufficient cpu."
    assert Recreated().after(obj) == []


@pytest.mark.parametrize("key", ["finalizers", "deletionTimestamp"])
def test_a_pod_that_would_not_go_at_once_is_left_alone(key: str) -> None:
    obj = waiting("work")
    obj["metadata"][key] = ["example.com/wait"] if key == "finalizers" else "2030-01-01T00:00:00Z"
    assert Recreated().after(obj) == []


@pytest.mark.parametrize(
    "queues",
    [
        (stopped(),),
        (stopped(parked="Keep"),),
        (stopped(parked="Recreate", state="Open"),),
        (stopped(parked="Recreate", state="Closed"),),
        (stopped(parked="Recreate", namespaceSelector={"matchLabels": {"team": "b"}}),),
        (stopped(parked="Keep", parent="above"), queue("above", parked="Recreate")),
    ],
    ids=["by default", "Keep", "Open", "takes no pods", "not for the namespace", "Keep below Recreate"],
)
def test_no_pod_is_deleted_where_the_queue_does_not_say_so(queues: tuple[Wire, ...]) -> None:
    assert Recreated(*queues).after(waiting("work")) == []


def test_what_is_left_to_be_created_again_is_counted_and_a_status_is_due_where_that_changes() -> None:
    """Not the pods that stay."""
    recreated = Recreated()
    recreated.server.has(
        *(waiting(f"web-{number}") for number in range(OWNER_LIMIT + 2)), waiting("bare", of=None)
    )
    assert recreated.remaining() == (0, False)
    recreated.step()
    assert recreated.remaining() == (OWNER_LIMIT + 2, True)
    recreated.step()
    assert recreated.remaining() == (OWNER_LIMIT + 2, False)
    recreated.server.has(stopped(parked="Recreate", state="Open"))
    assert recreated.remaining() == (0, False)


def test_a_queue_that_says_nothing_does_as_the_nearest_above() -> None:
    queues = queue("top", parked="Keep"), queue("above", parent="top", parked="Recreate")
    assert Recreated(*queues, stopped(parent="above")).after(waiting("work")) == ["work"]


def test_a_queue_that_is_held_is_stopped_as_well() -> None:
    assert Recreated(stopped(parked="Recreate", state="Open", stopPolicy="Hold")).after(waiting("work"))


def test_nothing_is_deleted_before_the_stop_is_acknowledged() -> None:
    recreated = Recreated()
    recreated.records.end_stop("research")
    assert recreated.after(waiting("work")) == []
    recreated.acknowledge()
    assert recreated.step() == ["work"]


@pytest.mark.parametrize(
    "changed",
    [{"status": "Unknown"}, {"observedGeneration": 2}, {"lastTransitionTime": None}],
    ids=["not acknowledged", "for another spec", "no time"],
)
def test_a_condition_that_does_not_say_since_when_is_not_believed(changed: Wire) -> None:
    obj = stopped(parked="Recreate")
    obj["status"]["conditions"] = [{**ACTIVE, **changed}]
    recreated = Recreated(obj)
    assert recreated.after(waiting("work")) == []
    assert (
        stopped_since(recreated.server.store.queues["research"].status.condition("Active"), generation=1)
        is None
    )


def test_the_version_that_was_refused_is_what_is_deleted() -> None:
    recreated = Recreated()
    recreated.after(waiting("work", version=7))
    assert recreated.deleted == {"work": {"uid": "uid-work", "resourceVersion": "7"}}


def test_a_pod_that_has_changed_meanwhile_is_looked_at_again() -> None:
    recreated = Recreated()
    recreated.refusal = Conflict(409, "Conflict", "somebody was faster")
    assert recreated.after(waiting("work")) == []
    recreated.refusal = None
    assert recreated.step() == ["work"]
    assert [kind for kind, _ in recreated.events] == ["ReplicaSet", "Queue"]


def test_each_request_is_counted_by_what_was_done_and_what_came_of_it() -> None:
    recreated = Recreated()
    pods = waiting("one"), waiting("two"), waiting("work", of=JOB)
    recreated.after(*pods)
    assert recreated.count("Delete", "done") == 2
    assert recreated.count("Suspend", "done") == 1
    recreated.server.lacks(*pods)
    recreated.refusal = Conflict(409, "Conflict", "somebody was faster")
    recreated.after(waiting("three"))
    assert recreated.count("Delete", "skipped") == 1
    recreated.writes.gives_up = True
    recreated.step()
    assert recreated.count("Delete", "failed") == 1
    assert recreated.count("Delete", "done") == 2


def _resume(recreated: Recreated) -> None:
    recreated.server.has(queue("research", version=2, generation=2))


def _lose_the_lead(recreated: Recreated) -> None:
    recreated.leads = False


@pytest.mark.parametrize("end", [_resume, _lose_the_lead])
def test_nothing_more_is_deleted_after_a_resume_or_by_a_former_leader(
    end: Callable[[Recreated], None],
) -> None:
    recreated = Recreated()
    recreated.server.has(waiting("work"))
    recreated.consider()
    end(recreated)
    assert recreated.step() == []


def old(name: str, number: int, *, of: Wire = REPLICAS) -> list[Wire]:
    """Refused pods of one controller, the last one the oldest."""
    return [waiting(f"{name}-{n:03}", of=of, created=BEFORE - timedelta(seconds=n)) for n in range(number)]


def again(name: str, *, of: Wire = REPLICAS) -> Wire:
    """A pod that its controller has created, with the gate."""
    return waiting(f"{name}-again", of=of, created=NOW, gates=["sluice.dev/queue"])


def test_the_oldest_are_deleted_and_no_more_of_one_controller_than_may_be_missing() -> None:
    pods = old("web", 30)
    recreated = Recreated()
    first = recreated.after(*pods)
    assert first == [f"web-{n:03}" for n in range(30 - OWNER_LIMIT, 30)]
    assert recreated.step() == []  # their watch is late
    recreated.server.lacks(*pods[30 - OWNER_LIMIT :])
    assert recreated.step() == []  # nobody has created them again
    recreated.server.has(again("a"), again("b"), again("c"))
    assert recreated.step() == ["web-017", "web-018", "web-019"]


def test_a_term_begins_with_nothing_missing_and_nothing_left() -> None:
    """Another leader may have waited for the pods, and may have had all of them created again."""
    pods = old("web", 30)
    recreated = Recreated()
    assert len(recreated.after(*pods)) == OWNER_LIMIT
    recreated.server.lacks(*pods[30 - OWNER_LIMIT :])
    assert recreated.step() == []
    assert recreated.remaining()[0] == 20
    recreated._recreation.begin_term()
    assert (recreated.remaining()[0], recreated._recreation.due) == (0, math.inf)
    assert len(recreated.step()) == OWNER_LIMIT


def test_no_more_of_all_controllers_than_may_be_missing() -> None:
    more = [of_queue("replicasets.apps", f"more-{n}", replicas=9) for n in range(4)]
    pods = [pod for n, work in enumerate(more) for pod in old(f"more-{n}", 9, of=work)]
    recreated = Recreated()
    recreated.server.has(*more)
    assert len(recreated.after(*pods)) == LIMIT
    assert recreated.step() == []


def test_a_controller_that_may_not_create_pods_stops_the_others_for_a_while_only() -> None:
    more = [of_queue("replicasets.apps", f"more-{n}", replicas=10) for n in range(3)]
    first, second, third = (old(f"more-{n}", 10, of=work) for n, work in enumerate(more))
    recreated = Recreated()
    recreated.server.has(*more)
    assert len(recreated.after(*first, *second)) == LIMIT
    recreated.server.lacks(*first, *second)
    assert recreated.after(*third) == []
    recreated.server.clock.seconds += RECENT_SECONDS
    assert len(recreated.step()) == OWNER_LIMIT


def test_a_deletion_that_failed_leaves_nothing_missing() -> None:
    recreated = Recreated()
    recreated.refusal = Conflict(409, "Conflict", "somebody was faster")
    assert recreated.after(*old("web", 30)) == []
    recreated.refusal = None
    assert len(recreated.step()) == OWNER_LIMIT


def test_a_controller_that_wants_fewer_pods_now_lacks_none_that_it_does_not_want() -> None:
    pods = old("web", 30)
    recreated = Recreated()
    assert len(recreated.after(*pods)) == OWNER_LIMIT
    recreated.server.lacks(*pods[30 - OWNER_LIMIT :])
    fewer = of_queue("replicasets.apps", "web", replicas=20, version=2)
    recreated.server.has(fewer)
    assert len(recreated.step()) == OWNER_LIMIT


def test_the_workload_and_the_queue_are_told_once() -> None:
    recreated = Recreated()
    recreated.after(waiting("one"), waiting("two"))
    assert recreated.events == [("ReplicaSet", "ParkedPodsRecreated"), ("Queue", "ParkedPodsRecreated")]
