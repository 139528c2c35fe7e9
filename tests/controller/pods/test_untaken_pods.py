"""What the leader does with pods that no scheduler takes (`queues.untaken`)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from cluster.coordination.replica_report import ReplicaReport
from cluster.exceptions import Refused
from cluster.inflight.binds import REQUEST_SECONDS
from queues.apimachinery.quantities import Amount
from queues.quota.usage import PODS
from queues.untaken import PAUSE_SECONDS, SCHEDULER_NOT_SEEN, TAKE_SECONDS
from queues.well_known import GATE, GUARD, PROBE_SEEN, RELEASED, UNTAKEN
from tests.support.cases import each_case
from tests.support.controller.controller_harness import VERSION, ControllerHarness, GrantingBoundary
from tests.support.http.wire_objects import GROUP, Wire, member, namespace, podgroup, queue, workload

POD = "/api/v1/namespaces/team/pods/work"
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-train", "controller": True}


#: How the bind guard refuses a probe.
PROBE_REFUSED = Refused(403, "Forbidden", PROBE_SEEN)


class Stage(ControllerHarness):
    """A queue with a quota, and the Job that makes the pods."""

    def __init__(self, **spec: Any) -> None:
        super().__init__(GrantingBoundary())
        self.client.refusal = lambda sent: PROBE_REFUSED if sent.path.endswith("/binding") else None
        owner = workload("jobs.batch", "train", annotations={GATE: "research"}, labels={GATE: "research"})
        self.receive_events(
            namespace("team", labels={GUARD: "x"}),
            queue("research", **{"capability": {"cpu": "8"}, **spec}),
            owner,
        )

    def wait(self, seconds: float) -> None:
        self.sync()
        self.clock.seconds += seconds
        self.clock.at += timedelta(seconds=seconds)
        self.sync()

    @property
    def given_up(self) -> list[Wire]:
        """The writes that say of the pod that it is given up, or is not any more."""
        return [body["metadata"] for body in self.bodies(POD) if UNTAKEN in str(body)]

    @property
    def room_left(self) -> list[Wire]:
        """The writes that leave the room of the pod to others."""
        return [body["metadata"] for body in self.bodies(POD) if RELEASED in str(body)]

    @property
    def used(self) -> Amount:
        """How many pods count."""
        return self.store.quota_use("research")[PODS]

    @property
    def said(self) -> list[str]:
        return [str(event["involvedObject"]["kind"]) for event in self.events(SCHEDULER_NOT_SEEN)]


def pod(**more: Any) -> Wire:
    """One that was released, and names a scheduler that gives no sign."""
    released = {RELEASED: "uid-work"}
    return member(**{"labels": released, "schedulerName": "volcano", "owner": JOB, **more})


def given_up(version: int = 2, **more: Any) -> Wire:
    """The same, given up: it has its room still."""
    return pod(version=version, **{"annotations": {UNTAKEN: "volcano"}, **more})


def status(reason: str) -> Wire:
    return {"conditions": [{"type": "PodScheduled", "status": "False", "reason": reason, "message": "x"}]}


def test_one_that_nobody_takes_in_its_time_says_so_and_is_given_up() -> None:
    stage = Stage()
    stage.receive_events(pod())
    stage.wait(TAKE_SECONDS - 60)
    assert (stage.given_up, stage.said) == ([], [])
    stage.wait(60)
    [written] = stage.given_up
    assert "labels" not in written
    assert written["annotations"] == {UNTAKEN: "volcano"}
    assert written["resourceVersion"] == "1"
    assert sorted(stage.said) == ["Job", "Pod"]
    [condition] = [body["status"]["conditions"][0] for body in stage.bodies(f"{POD}/status")]
    assert condition["reason"] == SCHEDULER_NOT_SEEN
    assert 'no scheduler named "volcano"' in condition["message"]


def test_a_new_leader_begins_the_time_of_each_pod_anew() -> None:
    stage = Stage()
    stage.receive_events(pod())
    stage.wait(TAKE_SECONDS - 60)
    next(part for part in stage.controller.parts if part.name == "untaken").begin_term()
    stage.wait(60)
    assert (stage.given_up, stage.said) == ([], [])
    stage.wait(TAKE_SECONDS)
    assert len(stage.given_up) == 1


def test_it_counts_until_the_bind_guard_has_been_on_for_the_time_of_a_request() -> None:
    """A scheduler that comes back may have sent its bind before that; it may be stored that much later."""
    stage = Stage()
    stage.receive_events(pod())
    stage.wait(TAKE_SECONDS)
    assert "team" not in stage.controller._guards.on
    stage.receive_events(given_up(), event="MODIFIED")
    stage.wait(1)
    assert stage.used == 1
    assert "team" in stage.controller._guards.on
    stage.wait(REQUEST_SECONDS - 15)
    assert stage.room_left == []
    assert stage.used == 1
    stage.wait(15)
    assert stage.room_left == [{"uid": "uid-work", "resourceVersion": "2", "labels": {RELEASED: None}}]
    stage.receive_events(given_up(3, labels={}), event="MODIFIED")
    assert stage.used == 0


def test_while_the_guard_is_not_on_it_counts() -> None:
    stage = Stage()
    stage.receive_events(given_up())
    stage.client.refusal = lambda _sent: None  # no API server calls it
    stage.wait(2 * REQUEST_SECONDS)
    assert (stage.room_left, stage.used) == ([], 1)


def test_while_a_replica_does_not_know_that_it_was_given_up_it_counts() -> None:
    """That replica's guard lets its bind pass."""
    stage = Stage()
    stage.others["late"] = ReplicaReport(seen=VERSION, members=1, quotas=True, untaken=True)
    stage.receive_events(given_up())
    stage.wait(2 * REQUEST_SECONDS)
    assert stage.room_left == []
    stage.others["late"] = ReplicaReport(seen=VERSION, members=2, quotas=True, untaken=True)
    stage.wait(1)
    assert stage.room_left == [], "it may have let one pass a moment ago"
    stage.wait(REQUEST_SECONDS)
    assert len(stage.room_left) == 1


def test_while_a_replica_of_an_older_version_answers_it_counts() -> None:
    """That one goes by the label alone."""
    stage = Stage()
    stage.others["older"] = ReplicaReport(seen=VERSION, members=VERSION, quotas=True)
    stage.receive_events(given_up())
    stage.wait(2 * REQUEST_SECONDS)
    assert stage.room_left == []
    del stage.others["older"]
    stage.wait(1)
    stage.wait(REQUEST_SECONDS)
    assert len(stage.room_left) == 1


def test_one_that_changes_meanwhile_counts_for_as_long_again() -> None:
    stage = Stage()
    stage.receive_events(given_up())
    stage.wait(REQUEST_SECONDS - 15)
    stage.receive_events(given_up(3), event="MODIFIED")
    stage.wait(15)
    assert stage.room_left == []
    stage.wait(REQUEST_SECONDS)
    assert [written["resourceVersion"] for written in stage.room_left] == ["3"]


def test_one_that_is_asked_for_again_meanwhile_has_its_room_still() -> None:
    stage = Stage()
    stage.receive_events(given_up())
    stage.wait(5)
    stage.clock.at += timedelta(seconds=1)
    tried = status("Unschedulable")
    tried["conditions"][0]["lastTransitionTime"] = stage.clock.at.isoformat()
    stage.receive_events(pod(name="other", status=tried, labels={RELEASED: "uid-other"}))
    stage.wait(REQUEST_SECONDS - 15)
    assert stage.given_up[0]["annotations"] == {UNTAKEN: None}
    stage.receive_events(pod(version=3), event="MODIFIED")
    stage.wait(REQUEST_SECONDS)
    assert (stage.room_left, stage.used) == ([], 2)


def test_a_pod_of_a_gang_that_says_so_itself_keeps_its_room() -> None:
    """Its gang gives back whole."""
    stage = Stage()
    stage.receive_events(podgroup("ring", queue="research", minMember=2))
    stage.receive_events(given_up(annotations={UNTAKEN: "volcano", GROUP: "ring"}))
    stage.wait(2 * REQUEST_SECONDS)
    assert stage.room_left == []


@each_case(
    "other",
    [
        pod(schedulerName="default-scheduler"),
        pod(nodeName="node-1"),
        pod(gates=["example.com/gate"]),
        pod(status=status("Unschedulable")),
        pod(resources={"requests": {"sluice.dev/member": "1"}}),
        pod(status={"phase": "Succeeded"}),
    ],
    ids=str,
)
def test_any_other_pod_keeps_what_it_has(other: Wire) -> None:
    stage = Stage()
    stage.receive_events(other)
    stage.wait(2 * TAKE_SECONDS)
    assert (stage.given_up, stage.said) == ([], [])


def test_in_a_queue_without_a_quota_it_is_only_said() -> None:
    stage = Stage(capability=None)
    stage.receive_events(pod(labels={}))
    stage.wait(TAKE_SECONDS)
    assert (stage.given_up, sorted(stage.said)) == ([], ["Job", "Pod"])


def test_in_a_stopped_queue_no_time_passes() -> None:
    stage = Stage(state="Suspended")
    stage.receive_events(pod())
    stage.wait(2 * TAKE_SECONDS)
    assert (stage.given_up, stage.said) == ([], [])


def test_the_time_of_a_pod_begins_with_its_release() -> None:
    """Until then nobody may take it."""
    stage = Stage()
    stage.receive_events(pod(labels={}))
    stage.wait(2 * TAKE_SECONDS)
    assert (stage.given_up, stage.said) == ([], [])
    stage.receive_events(pod(version=2), event="MODIFIED")
    stage.wait(TAKE_SECONDS - 60)
    assert (stage.given_up, stage.said) == ([], [])
    stage.wait(60)
    assert len(stage.given_up) == 1


def test_another_pod_of_that_scheduler_that_was_tried_is_a_sign() -> None:
    stage = Stage()
    stage.receive_events(pod())
    stage.wait(TAKE_SECONDS - 60)
    stage.clock.at += timedelta(seconds=1)
    tried = status("Unschedulable")
    tried["conditions"][0]["lastTransitionTime"] = stage.clock.at.isoformat()
    stage.receive_events(pod(name="other", status=tried, labels={RELEASED: "uid-other"}))
    stage.wait(60)
    assert (stage.given_up, stage.said) == ([], [])


def test_after_a_pause_it_is_asked_for_again() -> None:
    stage = Stage()
    stage.receive_events(pod())
    stage.wait(TAKE_SECONDS)
    stage.receive_events(pod(version=2, labels={}, annotations={UNTAKEN: "volcano"}), event="MODIFIED")
    stage.wait(PAUSE_SECONDS - 60)
    assert len(stage.given_up) == 1
    stage.wait(60)
    assert stage.given_up[1]["annotations"] == {UNTAKEN: None}


def test_a_pod_that_says_so_itself_is_asked_for_again() -> None:
    """As one that a former leader gave up."""
    stage = Stage()
    stage.receive_events(pod(labels={}, annotations={UNTAKEN: "volcano"}))
    stage.wait(1)
    assert stage.given_up == []
    stage.wait(PAUSE_SECONDS)
    assert stage.given_up[0]["annotations"] == {UNTAKEN: None}
