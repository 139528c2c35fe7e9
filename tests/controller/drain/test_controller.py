"""Steps of the drain controller over a store that holds a few pods; the API server is a boundary that
answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from cluster.api.client import Client
from cluster.exceptions import ClusterError, Overloaded, Refused
from controller.drain.controller import DrainController
from tests.support.controller.controller_harness import (
    ControllerHarness,
    GrantingBoundary,
    Sent,
)
from tests.support.http.wire_objects import Wire, job, member, meta, namespace, podgroup, queue

BUDGETS = "/apis/policy/v1/namespaces/team/poddisruptionbudgets"
NODE = {"nodeName": "node-0"}
RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
EMPTY: Wire = {"metadata": {"resourceVersion": "9"}, "items": []}


class ApiServer(GrantingBoundary):
    """`forbidden`: paths that cannot be read. `reads`: those that were asked for."""

    forbidden: frozenset[str] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def get(self, path: str, **query: object) -> bytes:
        self.reads.append(path)
        if path in self.forbidden:
            raise Refused(403, "Forbidden", path)
        return super().get(path)


class Corner:
    """A drain controller beside a store; the test moves the clock and runs the writers."""

    def __init__(self) -> None:
        self.harness = ControllerHarness()
        self.api = ApiServer()
        self.api.readable |= {BUDGETS: EMPTY, "/api/v1/pods": EMPTY, "/api/v1/namespaces/team/pods": EMPTY}
        context = self.harness.controller._context
        self.writers = self.harness._writers[2]
        self.context = msgspec.structs.replace(
            context, client=cast(Client, self.api), drain_rate=100.0, drain_in_flight=10
        )
        self.acknowledged = True
        #: What `acknowledged` says, unless a test has another answer.
        self.answer: Callable[[int], bool] = lambda _version: self.acknowledged
        self.drains = DrainController(self.context, demand_version_of_all=self.demand_version_of_all)
        self.receive_events(namespace("team"), queue("root"), queue("research", stopPolicy="HoldAndDrain"))

    def demand_version_of_all(self, version: int) -> bool:
        return self.answer(version)

    def receive_events(self, *objects: Wire, event: str = "ADDED") -> None:
        self.harness.receive_events(*objects, event=event)
        self.harness.store.queue_cache.publish()

    def step(self, times: int = 4) -> set[str]:
        """So many steps, each with what the writers do after it; the queues whose progress changed."""
        changed: set[str] = set()
        for _ in range(times):
            self.receive()
            self.drains.step()
            changed |= self.drains.take_progressed()
            self.writers.work()
            self.harness.clock.seconds += 0.8
        return changed

    def receive(self) -> None:
        """The results of the writers come back, as before each step of the whole controller."""
        self.context.work_queue.get([0.0], at_once=True)

    def evicted(self) -> list[str]:
        return [sent.body["metadata"]["name"] for sent in self.api.sent if sent.path.endswith("/eviction")]

    def progress(self) -> dict[str, int]:
        counts, progress = self.drains.progress("research") or pytest.fail("no progress")
        return {"evicted": counts.evicted, "left": progress.left, "leaving": progress.leaving}


@pytest.fixture
def corner() -> Corner:
    return Corner()


def running(name: str, **more: Any) -> Wire:
    return member(name, status=RUNNING, **NODE, **more)


def test_nothing_is_evicted_before_every_replica_refuses_new_pods(corner: Corner) -> None:
    corner.acknowledged = False
    corner.receive_events(running("a"))
    assert corner.step() == set()
    assert (corner.api.sent, corner.drains.progress("research")) == ([], None)
    corner.acknowledged = True
    corner.step()
    assert corner.evicted() == ["a"]


def test_specs_that_change_all_the_time_do_not_keep_a_drain_from_beginning(corner: Corner) -> None:
    """Replicas agree on the version that was asked about before; by then there is a newer one."""
    corner.receive_events(running("a"))
    asked = [-1]

    def demand_version_of_all(version: int) -> bool:
        """Each answer is of the question before."""
        asked.append(version)
        return version == asked[-2]

    corner.answer = demand_version_of_all
    for number in range(2, 10):
        corner.receive_events(queue("other", version=10 * number))
        corner.receive()
        corner.drains.step()
        corner.writers.work()
        corner.harness.clock.seconds += 0.8
    assert corner.evicted() == ["a"]


def test_each_pod_is_evicted_once_and_counted(corner: Corner) -> None:
    corner.receive_events(running("a"), running("b"))
    assert corner.step(8) == {"research"}
    assert sorted(corner.evicted()) == ["a", "b"]
    assert corner.progress() == {"evicted": 2, "left": 2, "leaving": 2}


def test_a_term_begins_with_no_drain_of_the_one_before(corner: Corner) -> None:
    """Another leader may have changed anything meanwhile: what was asked for is read anew from the pods."""
    corner.receive_events(running("a"))
    corner.step()
    assert corner.drains.progress("research") is not None
    corner.drains.begin_term()
    assert corner.drains.progress("research") is None
    assert corner.drains.take_progressed() == set()
    assert corner.drains.due == float("inf")
    assert corner.step() == {"research"}


def test_a_drain_does_not_begin_with_what_was_read_in_a_former_term(corner: Corner) -> None:
    """The read says which pods leave already; another leader has evicted more since."""
    corner.receive_events(running("a"))
    corner.drains.step()
    corner.context.requests.begin_term()
    corner.drains.begin_term()
    corner.drains.step()  # its own read waits: the former one is under way
    corner.writers.work()
    read = len(corner.api.reads)
    assert read
    corner.harness.clock.seconds += 0.8
    corner.step(1)
    assert (len(corner.api.reads) > read, corner.evicted()) == (True, [])
    corner.step()
    assert corner.evicted() == ["a"]


def test_a_drain_with_no_pods_left_is_due_only_when_something_changes(corner: Corner) -> None:
    corner.receive_events(running("a"))
    corner.step()
    corner.receive_events(running("a", version=2), event="DELETED")
    corner.drains.queue_changed("research")
    corner.step(2)
    assert corner.progress() == {"evicted": 1, "left": 0, "leaving": 0}
    assert corner.drains.due == float("inf")


def test_a_queue_is_drained_only_once_its_evictions_are_counted(corner: Corner) -> None:
    """The cache may show that a pod is gone before its eviction is answered."""
    corner.receive_events(running("a"))
    while not corner.evicted():
        corner.step(1)
    corner.receive_events(running("a", version=2), event="DELETED")
    corner.drains.queue_changed("research")
    corner.drains.step()
    assert corner.drains.take_progressed() == set()
    assert corner.progress() == {"evicted": 0, "left": 1, "leaving": 0}
    assert corner.step(1) == {"research"}
    assert corner.progress() == {"evicted": 1, "left": 0, "leaving": 0}


def test_a_policy_that_ends_the_drain_drops_what_was_not_sent_yet(corner: Corner) -> None:
    """At the moment that it would be sent."""
    corner.receive_events(running("a"))
    corner.drains.step()
    corner.writers.work()
    corner.harness.clock.seconds += 0.8
    corner.receive()
    corner.drains.step()
    corner.receive_events(queue("research", version=5, generation=2, stopPolicy="Hold"), event="MODIFIED")
    corner.writers.work()
    corner.step()
    assert corner.evicted() == []
    assert corner.drains.progress("research") is None
    assert not corner.drains.is_draining("research")


def test_a_former_leaders_evictions_are_read_from_the_api_server_and_not_sent_again(corner: Corner) -> None:
    leaving = running("a", uid="uid-a")
    leaving["metadata"]["deletionTimestamp"] = "2030-01-01T12:00:00Z"
    corner.api.readable["/api/v1/pods"] = {**EMPTY, "items": [leaving]}
    corner.receive_events(running("a", uid="uid-a"), running("b"))
    corner.step()
    assert corner.evicted() == ["b"]


def test_counts_go_on_from_those_of_the_status(corner: Corner) -> None:
    """A former leader has evicted seven."""
    status = {"drain": {"since": "2030-01-01T11:00:00Z", "evicted": 7}}
    stored = queue("research", version=5, status=status, stopPolicy="HoldAndDrain")
    corner.receive_events(stored, running("a"), event="MODIFIED")
    corner.step()
    assert corner.progress()["evicted"] == 8


def test_a_job_is_suspended_with_the_mark_of_the_drain(corner: Corner) -> None:
    """Its pods are not evicted; it is resumed by its mark."""
    train = job("train", queue="research")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-train", "controller": True}
    part = running("part", owner=owner)
    corner.receive_events(train, part)
    corner.api.readable["/apis/batch/v1/namespaces/team/jobs/train"] = {
        "metadata": meta("train", namespace="team"),
        "spec": {"suspend": False},
    }
    corner.api.readable["/api/v1/namespaces/team/pods/part"] = part
    corner.step()
    assert corner.evicted() == []
    [patch] = [sent.body for sent in corner.api.sent if sent.method == "PATCH"]
    assert {"op": "add", "path": "/spec/suspend", "value": True} in patch
    assert {
        "op": "add",
        "path": "/metadata/annotations/sluice.dev~1suspended",
        "value": "research",
    } in patch


@pytest.mark.parametrize(("setting", "goes"), [("Evict", True), ("Keep", False)])
def test_what_a_drain_would_leave_of_a_gang_goes_too_and_says_so(
    corner: Corner, setting: str, *, goes: bool
) -> None:
    """Its label keeps one of three. Set while the drain goes on it counts, too; the pod elsewhere stays."""
    keep = {"matchLabels": {"stay": "yes"}}
    drain = {"keep": keep, "brokenGangs": "Keep"}
    grouped = {"scheduling.k8s.io/group-name": "ring"}
    corner.receive_events(
        queue("research", version=5, generation=2, stopPolicy="HoldAndDrain", drain=drain),
        queue("other", version=5),
        podgroup("ring", queue="research", minMember=3),
        running("a", annotations=grouped, labels={"stay": "yes"}),
        running("b", annotations=grouped),
        running("elsewhere", queue="other", annotations=grouped),
        event="MODIFIED",
    )
    corner.step()
    assert corner.evicted() == ["b"]
    corner.receive_events(running("b", version=2, annotations=grouped), event="DELETED")
    drain = {"keep": keep, "brokenGangs": setting}
    changed = queue("research", version=6, generation=3, stopPolicy="HoldAndDrain", drain=drain)
    corner.receive_events(changed, event="MODIFIED")
    corner.step()
    assert corner.evicted() == (["b", "a"] if goes else ["b"])
    corner.harness._writers[0].work()
    texts = [event["message"] for event in corner.harness.events("Evicted")]
    because = "evicted with podgroup team/ring, of which less than its minimum of 3 pods would stay"
    assert [text.startswith(because) for text in texts] == [False, *([True] if goes else [])]


def test_the_jobs_of_one_podgroup_are_suspended_in_one_step(corner: Corner) -> None:
    """Their one budget allows the pods of both; the pod of no Job follows."""
    grouped = {"scheduling.k8s.io/group-name": "ring"}
    pods = []
    for name in ("one", "two"):
        made = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": name,
            "uid": f"uid-{name}",
            "controller": True,
        }
        pods.append(running(f"{name}-0", owner=made, annotations=grouped))
        corner.receive_events(job(name, queue="research"))
        corner.api.readable[f"/apis/batch/v1/namespaces/team/jobs/{name}"] = {
            "metadata": meta(name, namespace="team"),
            "spec": {"suspend": False},
        }
    pods.append(running("free", annotations=grouped))
    corner.receive_events(*pods)
    for pod in pods:
        corner.api.readable[f"/api/v1/namespaces/team/pods/{pod['metadata']['name']}"] = pod
    corner.step(2)
    patched = [sent.path.rpartition("/")[2] for sent in corner.api.sent if sent.method == "PATCH"]
    assert (patched, corner.evicted()) == (["one", "two"], [])
    corner.step(2)
    assert corner.evicted() == ["free"]
    assert corner.progress() == {"evicted": 1, "left": 3, "leaving": 3}


def test_what_cannot_be_read_delays_every_eviction_of_the_drain(corner: Corner) -> None:
    """Without a snapshot there is no plan; the next read may succeed."""
    corner.api.forbidden = frozenset([BUDGETS])
    corner.receive_events(running("a"))
    corner.step()
    assert corner.evicted() == []
    corner.api.forbidden = frozenset()
    corner.step()
    assert corner.evicted() == ["a"]


def test_an_overloaded_api_server_is_asked_again_after_a_pause(corner: Corner) -> None:
    def overloaded(sent: Sent) -> ClusterError | None:
        return Overloaded(429, "", "too many requests", retry_after=5.0) if "/eviction" in sent.path else None

    corner.api.refusal = overloaded
    corner.receive_events(running("a"))
    corner.step(6)
    assert corner.evicted() == ["a"]
    corner.api.refusal = lambda _sent: None
    corner.step(6)
    assert corner.evicted() == ["a", "a"]


def test_a_drain_that_fails_delays_no_other(corner: Corner, monkeypatch: pytest.MonkeyPatch) -> None:
    corner.receive_events(
        queue("other", stopPolicy="HoldAndDrain"), running("a"), running("b", queue="other")
    )
    spec_of = DrainController._spec_of

    def picky(self: DrainController, drain: Any) -> Any:
        if drain.by == "research":
            raise ValueError("a mistake of ours")
        return spec_of(self, drain)

    monkeypatch.setattr(DrainController, "_spec_of", picky)
    corner.step()
    assert corner.evicted() == ["b"]


def test_past_a_deadline_that_deletes_pods_are_deleted(corner: Corner) -> None:
    past = {"deadline": "2020-01-01T00:00:00Z", "afterDeadline": "Delete", "gracePeriodSeconds": 7}
    changed = queue("research", version=5, generation=2, stopPolicy="HoldAndDrain", drain=past)
    corner.receive_events(changed, running("a"), event="MODIFIED")
    corner.step()
    [deleted] = [sent for sent in corner.api.sent if sent.method == "DELETE"]
    assert deleted.path == "/api/v1/namespaces/team/pods/a"
    assert deleted.body == {"preconditions": {"uid": "uid-a"}, "gracePeriodSeconds": 7}


def deleted(corner: Corner) -> list[str]:
    return [sent.path.rpartition("/")[2] for sent in corner.api.sent if sent.method == "DELETE"]


def test_deletions_past_a_deadline_keep_the_number_in_flight_and_the_order(corner: Corner) -> None:
    """A budget of `maxUnavailable: 1` keeps them; the next goes when the one before is gone."""
    web = {
        "metadata": meta("web", namespace="team"),
        "spec": {"selector": {}, "maxUnavailable": 1},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 3, "desiredHealthy": 3, "expectedPods": 4},
    }
    corner.api.readable[BUDGETS] = {**EMPTY, "items": [web]}
    drain = {"deadline": "2020-01-01T00:00:00Z", "afterDeadline": "Delete", "inFlight": 1}
    changed = queue("research", version=5, generation=2, stopPolicy="HoldAndDrain", drain=drain)
    pods = {name: running(name, priority=number) for number, name in enumerate(("low", "middle", "high"))}
    corner.receive_events(changed, *reversed(pods.values()), event="MODIFIED")
    for number, pod in enumerate(pods.values(), 1):
        corner.step()
        assert deleted(corner) == list(pods)[:number]
        corner.receive_events(pod, event="DELETED")
    assert corner.evicted() == []


def test_deletions_past_a_deadline_keep_the_rate(corner: Corner) -> None:
    """One in two seconds; a step is taken every 0.8 s."""
    drain = {"deadline": "2020-01-01T00:00:00Z", "afterDeadline": "Delete", "rate": 0.5}
    changed = queue("research", version=5, generation=2, stopPolicy="HoldAndDrain", drain=drain)
    corner.receive_events(changed, *(running(f"a{number}") for number in range(9)), event="MODIFIED")
    corner.step()
    before = len(deleted(corner))
    corner.step(times=10)
    assert len(deleted(corner)) - before == 4
