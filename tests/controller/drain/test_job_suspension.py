"""Which requests suspend and resume a workload, and what comes of each answer."""

from __future__ import annotations

import math
from typing import Any, cast

import msgspec
import pytest

from cluster.api.client import Client
from cluster.exceptions import ClusterError, Conflict, NotFound, Refused, Unreachable
from cluster.metrics import Metrics
from cluster.objects import Pod
from cluster.recorder import EventRecorder
from controller.drain.eviction import DrainRequests, SuspendBlocked
from controller.drain.job_commands import TAKEN_SECONDS, JobResumeStep, resume_step
from controller.drain.job_suspension import (
    MAX_BUDGETS_OF_WORKLOAD,
    JobSuspension,
    _budgets_of_pods,
    _check_budget,
)
from controller.drain.request_states import SUSPEND_SECONDS, RequestResult
from controller.drain.state import Drains
from controller.evictions.answers import EvictionOutcome
from controller.evictions.budget_reader import ListedBudgets
from queues.apimachinery.label_selectors import parse_selector
from queues.drain.disruption_budgets import Budget
from queues.drain.model import DrainAction, RunningPod, SuspendableWorkload, Unit
from tests.support.cases import each_case
from tests.support.controller.contexts import context_with
from tests.support.controller.controller_harness import GrantingBoundary, Inline, Sent
from tests.support.http.asking import Server
from tests.support.http.wire_objects import Wire, member, queue, workload
from tests.support.rules.cases import NOW

SUSPENDED = "sluice.dev/suspended"
MARK = "/metadata/annotations/sluice.dev~1suspended"
TEAM = "/apis/{}/namespaces/team"
BATCH = f"{TEAM.format('batch/v1')}/jobs/train"
VOLCANO = f"{TEAM.format('batch.volcano.sh/v1alpha1')}/jobs/train"
JOB_SET = f"{TEAM.format('jobset.x-k8s.io/v1alpha2')}/jobsets/train"
COMMANDS = f"{TEAM.format('bus.volcano.sh/v1alpha1')}/commands"
PODS = "/api/v1/namespaces/team/pods"
BUDGETS = "/apis/policy/v1/namespaces/team/poddisruptionbudgets"
#: By the key of a kind: its resource in `tests.support`, and its path.
RESOURCES = {
    "jobs": ("jobs.batch", BATCH),
    "jobsets": ("jobsets.jobset.x-k8s.io", JOB_SET),
    "jobs.batch.volcano.sh": ("jobs.batch.volcano.sh", VOLCANO),
}
KINDS = sorted(RESOURCES)
UNCHANGED = Refused(422, "Invalid", "the test of the patch failed")


def command_path(action: str) -> str:
    """Its name follows from the UID of the Job and the action."""
    digest = {"abortjob": "9fdf5b7744f01185", "resumejob": "92de5a1498616b4b"}[action]
    return f"{COMMANDS}/sluice-{action}-{digest}"


def volcano_phase(phase: str) -> Wire:
    return {"state": {"phase": phase}}


def listed(*objects: Wire) -> Wire:
    return {"metadata": {"resourceVersion": "9"}, "items": list(objects)}


class Corner:
    """One workload of a queue, with one pod; the writers write when the test says so."""

    def __init__(self, kind: str = "jobs", *, drains: bool = True) -> None:
        self.kind, (self.resource, self.path) = kind, RESOURCES[kind]
        self.api = GrantingBoundary()
        self.api.refusal = self._taken
        #: Whether a controller has taken every Command, and so has deleted it.
        self.takes_commands = False
        self.api.readable = {PODS: listed(), BUDGETS: listed()}
        self.server = Server().has(queue("root", parent=None))
        self.set_queue("HoldAndDrain" if drains else "None", version=1)
        self.metrics = Metrics()
        client = cast(Client, self.api)
        self.writers, self.drain_writers = (Inline(metrics=self.metrics) for _ in range(2))
        self.leads = True
        self.context = context_with(
            store=self.server.store,
            client=client,
            metrics=self.metrics,
            writers=self.writers,
            drain_writers=self.drain_writers,
            leading=lambda: self.leads,
            recorder=EventRecorder(client=client, writers=self.writers, metrics=self.metrics),
        )
        self.results: list[RequestResult] = []
        self.suspension = JobSuspension(self.context, DrainRequests(self.context, self._drains()))

    def _taken(self, sent: Sent) -> ClusterError | None:
        is_gone = self.takes_commands and sent.method == "DELETE"
        return NotFound(404, "NotFound", sent.path) if is_gone else None

    def _drains(self) -> Drains:
        results = self.results

        class Recorded(Drains):
            def record_result(self, result: RequestResult, *, now: float) -> None:
                results.append(result)

        return Recorded()

    def set_queue(self, policy: str, *, version: int) -> None:
        self.server.has(queue("research", version=version, generation=version, stopPolicy=policy))
        self.server.store.queue_cache.publish()

    def has(self, *, version: int = 1, mark: str = "", annotations: bool = True, **spec: Any) -> Wire:
        """The workload as the cache holds it, and as the API server has it."""
        named = {"scheduling.volcano.sh/queue-name": "research", **({SUSPENDED: mark} if mark else {})}
        made = workload(self.resource, version=version, annotations=named, **spec)
        self.server.has(made)
        stored = {**made, "metadata": {**made["metadata"]}}
        if not annotations:
            del stored["metadata"]["annotations"]
        self.api.readable[self.path] = stored
        return stored

    def has_pod(self, name: str = "part", **more: Any) -> Wire:
        """A running pod, as the API server has it; `member` is how the cache knows it."""
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        made = member(name, status=ready, nodeName="node-0", **more)
        self.server.has(made)
        self.api.readable[f"{PODS}/{name}"] = made
        return made

    def unit(self, action: DrainAction = DrainAction.SUSPEND) -> Unit:
        pod = RunningPod(
            uid="uid-part", namespace="team", name="part", queue="research", labels={}, created=NOW
        )
        train = SuspendableWorkload(kind=self.kind, namespace="team", name="train", uid="uid-train")
        return Unit(action=action, pods=(pod,), workload=train)

    def work(self) -> None:
        """Send what waits; receive the results."""
        for writers in (self.drain_writers, self.writers):
            writers.work()
        self.context.work_queue.get([0.0], at_once=True)

    def suspend(self, action: DrainAction = DrainAction.SUSPEND) -> RequestResult:
        self.suspension.send("research", self.unit(action))
        self.work()
        [result] = self.results
        return result

    def resume(self) -> None:
        self.suspension.resume("research")
        self.work()
        self.work()

    def written(self) -> list[tuple[str, str]]:
        """Method and path of each write but events."""
        return [(sent.method, sent.path) for sent in self.api.sent if not sent.path.endswith("/events")]

    def patches(self) -> list[Any]:
        return [sent.body for sent in self.api.sent if sent.method == "PATCH"]

    def events(self) -> list[str]:
        return [sent.body["reason"] for sent in self.api.sent if sent.path.endswith("/events")]

    def resumed(self) -> float:
        return float(self.metrics.given_back._value.get())


# Suspend


@pytest.mark.parametrize("kind", KINDS)
def test_suspending_sets_the_mark_with_the_same_write(kind: str) -> None:
    """Volcano's Job has a mark before its Command: else nobody would resume it."""
    corner = Corner(kind)
    corner.has()
    corner.has_pod()
    assert corner.suspend().outcome is EvictionOutcome.GRANTED
    [patch] = corner.patches()
    assert patch[0] == {"op": "test", "path": "/metadata/uid", "value": "uid-train"}
    assert {"op": "add", "path": MARK, "value": "research"} in patch
    is_volcano = kind == "jobs.batch.volcano.sh"
    assert ({"op": "add", "path": "/spec/suspend", "value": True} in patch) is not is_volcano
    assert ({"op": "test", "path": "/spec/suspend", "value": None} in patch) is not is_volcano
    command = [("DELETE", command_path("resumejob")), ("POST", COMMANDS)]
    assert corner.written() == [("PATCH", corner.path), *(command if is_volcano else [])]


def test_a_job_without_annotations_gets_them_only_if_it_still_has_none() -> None:
    corner = Corner()
    corner.has(annotations=False)
    corner.has_pod()
    corner.suspend()
    [patch] = corner.patches()
    assert patch[1:3] == [
        {"op": "test", "path": "/metadata/annotations", "value": None},
        {"op": "add", "path": "/metadata/annotations", "value": {}},
    ]


def test_a_command_that_is_there_already_is_not_sent_again() -> None:
    """Its name follows from the UID: the second one conflicts."""
    corner = Corner("jobs.batch.volcano.sh")
    corner.has()
    corner.has_pod()
    corner.api.refusal = lambda sent: Conflict(409, "AlreadyExists", "") if sent.method == "POST" else None
    assert corner.suspend().outcome is EvictionOutcome.GRANTED


@pytest.mark.parametrize(
    ("stored", "outcome"),
    [
        ({"metadata": {"name": "train", "uid": "another"}}, EvictionOutcome.ABSENT),
        ({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}, EvictionOutcome.ABSENT),
        ({"spec": {"suspend": True}}, EvictionOutcome.ABSENT),
    ],
    ids=["another of that name", "ended", "suspended by its user"],
)
def test_what_has_changed_since_the_plan_is_left_alone(stored: Wire, outcome: EvictionOutcome) -> None:
    corner = Corner()
    corner.api.readable[corner.path] = {**corner.has(), **stored}
    corner.has_pod()
    assert (corner.suspend().outcome, corner.written()) == (outcome, [])


@pytest.mark.parametrize(
    ("refusal", "outcome"),
    [
        (UNCHANGED, EvictionOutcome.ABSENT),
        (Refused(403, "Forbidden", "no"), EvictionOutcome.REFUSED),
        (Unreachable("cut"), EvictionOutcome.OVERLOADED),
    ],
    ids=["changed meanwhile", "forbidden", "no answer"],
)
def test_each_answer_to_the_patch_has_its_outcome(refusal: ClusterError, outcome: EvictionOutcome) -> None:
    corner = Corner()
    corner.has()
    corner.has_pod()
    corner.api.refusal = lambda _sent: refusal
    assert corner.suspend().outcome is outcome


def test_a_drain_that_has_ended_suspends_nothing() -> None:
    """Nor does a replica that no longer leads."""
    corner = Corner(drains=False)
    corner.has()
    corner.has_pod()
    assert (corner.suspend().outcome, corner.written()) == (EvictionOutcome.DROPPED, [])
    other = Corner()
    other.has()
    other.has_pod()
    other.leads = False
    assert (other.suspend().outcome, other.written()) == (EvictionOutcome.DROPPED, [])


def test_two_requests_for_one_workload_are_one_request_and_one_dropped() -> None:
    corner = Corner()
    corner.has()
    corner.has_pod()
    for _ in range(2):
        corner.suspension.send("research", corner.unit())
    corner.work()
    assert sorted(result.outcome for result in corner.results) == [
        EvictionOutcome.DROPPED,
        EvictionOutcome.GRANTED,
    ]


@pytest.mark.parametrize("action", [DrainAction.SUSPEND, DrainAction.SUSPEND_ANYWAY])
def test_a_workload_with_a_pod_of_another_queue_is_not_suspended(action: DrainAction) -> None:
    """Its controller would delete that pod as well, past the deadline too."""
    corner = Corner()
    corner.has()
    corner.has_pod()
    corner.server.has(queue("other"))
    corner.server.store.queue_cache.publish()
    foreign = corner.has_pod("foreign", queue="other")
    corner.api.readable[PODS] = listed(foreign)
    result = corner.suspend(action)
    assert (result.outcome, corner.written()) == (EvictionOutcome.BUDGET, [])
    assert result.message == "its pod foreign is of a queue that is not drained"


@pytest.mark.parametrize(
    ("action", "outcome"),
    [(DrainAction.SUSPEND, EvictionOutcome.BUDGET), (DrainAction.SUSPEND_ANYWAY, EvictionOutcome.GRANTED)],
)
def test_budgets_are_read_before_the_deadline_only(action: DrainAction, outcome: EvictionOutcome) -> None:
    corner = Corner()
    corner.has()
    part = corner.has_pod()
    corner.api.readable[PODS] = listed(part)
    budget = {
        "metadata": {"name": "web", "namespace": "team"},
        "spec": {"selector": {}},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1},
    }
    corner.api.readable[BUDGETS] = listed(budget)
    assert corner.suspend(action).outcome is outcome


# The workloads of one PodGroup


class TwoJobs(Corner):
    """Jobs `train` and `test` of one PodGroup, of a pod each."""

    def __init__(self) -> None:
        super().__init__()
        self.has()
        self.has_pod()
        self.server.has(other := workload("jobs.batch", "test", annotations=dict(NAMED_RESEARCH)))
        self.api.readable[BATCH_TEST] = other
        self.has_pod("last")

    def suspend_together(self) -> list[EvictionOutcome]:
        parts = []
        for name, pod in (("train", "part"), ("test", "last")):
            runs = RunningPod(
                uid=f"uid-{pod}", namespace="team", name=pod, queue="research", labels={}, created=NOW
            )
            job = SuspendableWorkload(kind="jobs", namespace="team", name=name, uid=f"uid-{name}")
            parts.append(Unit(action=DrainAction.SUSPEND, pods=(runs,), workload=job, gang="ring"))
        pods = tuple(pod for part in parts for pod in part.pods)
        unit = Unit(action=DrainAction.SUSPEND, pods=pods, gang="ring", parts=tuple(parts))
        self.suspension.send_together("research", unit)
        self.work()
        assert [result.uid for result in self.results] == ["uid-train", "uid-test"]
        return [result.outcome for result in self.results]


NAMED_RESEARCH = {"scheduling.volcano.sh/queue-name": "research"}
BATCH_TEST = f"{TEAM.format('batch/v1')}/jobs/test"


def test_the_jobs_of_a_podgroup_are_suspended_in_one_go() -> None:
    """One request of the drain's writers: nothing else is between the two patches."""
    corner = TwoJobs()
    assert corner.suspend_together() == [EvictionOutcome.GRANTED] * 2
    assert corner.written() == [("PATCH", BATCH), ("PATCH", BATCH_TEST)]
    assert [patch[0]["value"] for patch in corner.patches()] == ["uid-train", "uid-test"]


def test_a_budget_has_to_allow_the_pods_of_all_jobs_of_a_podgroup() -> None:
    """Of two it allows one: no Job is suspended."""
    corner = TwoJobs()
    budget = {
        "metadata": {"name": "web", "namespace": "team"},
        "spec": {"selector": {}},
        "status": {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1},
    }
    corner.api.readable[PODS] = listed(*(corner.api.readable[f"{PODS}/{name}"] for name in ("part", "last")))
    corner.api.readable[BUDGETS] = listed(budget)
    assert (corner.suspend_together(), corner.written()) == ([EvictionOutcome.BUDGET] * 2, [])
    assert "allows 1 now, and 2 would have to go" in corner.results[0].message


def test_one_job_that_is_gone_keeps_the_others_of_its_podgroup_for_the_next_look() -> None:
    corner = TwoJobs()
    del corner.api.readable[BATCH_TEST]
    assert (corner.suspend_together(), corner.written()) == ([EvictionOutcome.ABSENT] * 2, [])


def test_a_job_of_a_podgroup_whose_patch_is_refused_does_not_keep_the_others() -> None:
    """It is changed between the look and the write; the drain asks again for it alone."""
    corner = TwoJobs()
    corner.api.refusal = lambda sent: UNCHANGED if sent.path == BATCH else None
    assert corner.suspend_together() == [EvictionOutcome.ABSENT, EvictionOutcome.GRANTED]


# Budgets


def running(name: str = "a", *, ready: bool = True, leaving: bool = False, **labels: str) -> Pod:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    gone = {"deletionTimestamp": "2030-01-01T00:00:00Z"} if leaving else {}
    obj = {
        "metadata": {"name": name, "uid": name, "namespace": "team", "labels": labels, **gone},
        "status": {"phase": "Running", "conditions": [condition]},
    }
    return msgspec.convert(obj, Pod)


def budget(name: str = "web", *, app: str = "web", **more: Any) -> Budget:
    selector = parse_selector({"matchLabels": {"app": app}})
    return Budget(namespace="team", name=name, selector=selector, **more)


@pytest.mark.parametrize(
    ("limit", "counted", "selected", "message"),
    [
        ({"allowed": 2, "healthy": 2}, 2, 2, ""),
        ({"allowed": 1, "healthy": 2}, 2, 2, "allows 1 now, and 2 would have to go"),
        ({"allowed": 2, "healthy": 3}, 2, 2, "is not up to date yet"),
        ({"allowed": 2, "healthy": 2, "current": False}, 2, 2, "is not up to date yet"),
    ],
    ids=["enough", "too few", "one has gone since", "older generation"],
)
def test_a_budget_allows_all_pods_or_none(
    limit: dict[str, Any], counted: int, selected: int, message: str
) -> None:
    pods = [running(f"pod-{number}") for number in range(max(counted, selected))]
    if not message:
        _check_budget(budget(**limit), pods[:counted], pods[:selected])
        return
    with pytest.raises(SuspendBlocked, match=message):
        _check_budget(budget(**limit), pods[:counted], pods[:selected])


@pytest.mark.parametrize(("always_allow", "is_blocked"), [(True, False), (False, True)])
def test_a_pod_that_is_not_ready_counts_unless_the_budget_lets_it_go(
    always_allow: bool, is_blocked: bool
) -> None:
    limit = budget(allowed=0, healthy=0, always_allow_unready=always_allow)
    try:
        _check_budget(limit, [running(ready=False)], [running(ready=False)])
    except SuspendBlocked:
        assert is_blocked
    else:
        assert not is_blocked


def test_each_budget_comes_with_the_pods_that_it_selects() -> None:
    web, lab = budget(), budget("lab", app="lab")
    pods = [running("a", app="web"), running("b", app="web"), running("c", app="lab"), running("d")]
    listed = ListedBudgets((web, lab, budget("other", app="other")))
    chosen = {
        each.name: [pod.metadata.name for pod in taken] for each, taken in _budgets_of_pods(listed, pods)
    }
    assert chosen == {"web": ["a", "b"], "lab": ["c"]}


def test_too_many_budgets_block_a_suspension() -> None:
    """Each of them would have to be read."""
    many = [budget(f"b-{number}", app=f"{number}") for number in range(MAX_BUDGETS_OF_WORKLOAD + 1)]
    pods = [running(f"{number}", app=f"{number}") for number in range(len(many))]
    assert len(_budgets_of_pods(ListedBudgets(tuple(many)), pods[:-1])) == MAX_BUDGETS_OF_WORKLOAD
    with pytest.raises(SuspendBlocked, match="more than 20 PodDisruptionBudgets"):
        _budgets_of_pods(ListedBudgets(tuple(many)), pods)
    with pytest.raises(SuspendBlocked, match="too large"):
        _budgets_of_pods(ListedBudgets((), "too large"), pods[:1])
    assert _budgets_of_pods(ListedBudgets((), "too large"), []) == []


# Withdraw a Command


@pytest.mark.parametrize(
    ("phase", "taken", "outcome"),
    [
        ("Running", False, EvictionOutcome.COMMAND_WITHDRAWN),
        ("Running", True, EvictionOutcome.COMMAND_TAKEN),
        ("Aborting", True, EvictionOutcome.ABSENT),
    ],
)
def test_the_mark_goes_only_with_a_command_that_no_controller_took(
    phase: str, taken: bool, outcome: EvictionOutcome
) -> None:
    """Volcano deletes a Command before it acts: one that is gone may still abort the Job."""
    corner = Corner("jobs.batch.volcano.sh")
    corner.has(mark="research", status=volcano_phase(phase))
    corner.takes_commands = taken
    corner.suspension.withdraw_command("research", corner.unit())
    corner.work()
    assert [result.outcome for result in corner.results] == [outcome]
    is_withdrawn = outcome is EvictionOutcome.COMMAND_WITHDRAWN
    assert corner.patches() == (
        [{"metadata": {"uid": "uid-train", "annotations": {SUSPENDED: None}}}] if is_withdrawn else []
    )


# Resume


@pytest.mark.parametrize("kind", ["jobs", "jobsets"])
def test_what_bears_the_mark_is_resumed_and_an_event_says_so(kind: str) -> None:
    corner = Corner(kind, drains=False)
    corner.has(mark="research")
    corner.resume()
    [patch] = corner.patches()
    assert patch == [
        {"op": "test", "path": "/metadata/uid", "value": "uid-train"},
        {"op": "test", "path": MARK, "value": "research"},
        {"op": "remove", "path": MARK},
        {"op": "add", "path": "/spec/suspend", "value": False},
    ]
    assert (corner.events(), corner.resumed()) == (["GivenBack"], 1.0)


@each_case(
    ("case", "expected"),
    [
        ({"is_aborted": True}, JobResumeStep.SEND),
        ({"is_aborted": True, "is_withdrawn": True}, JobResumeStep.SEND),
        ({"is_aborted": True, "is_sent": True, "waited": TAKEN_SECONDS}, JobResumeStep.SEND),
        ({}, JobResumeStep.WAIT),
        ({"waited": TAKEN_SECONDS - 0.1}, JobResumeStep.WAIT),
        ({"waited": TAKEN_SECONDS}, JobResumeStep.UNMARK),
        ({"is_withdrawn": True}, JobResumeStep.UNMARK),
        ({"is_sent": True}, JobResumeStep.GIVE_BACK),
    ],
    ids=str,
)
def test_only_what_a_volcano_job_shows_says_whether_it_is_resumed(
    case: dict[str, Any], expected: JobResumeStep
) -> None:
    nothing = {"is_aborted": False, "is_withdrawn": False, "is_sent": False, "waited": 0.0}
    assert resume_step(**(nothing | case)) is expected


def test_a_volcano_job_is_resumed_by_a_command_and_keeps_the_mark_until_it_runs() -> None:
    corner = Corner("jobs.batch.volcano.sh", drains=False)
    corner.has(mark="research", status=volcano_phase("Aborted"))
    for _ in range(3):  # the cache shows nothing yet: it is asked for once
        corner.resume()
    assert corner.written() == [("DELETE", command_path("abortjob")), ("POST", COMMANDS)]
    [command] = [sent.body for sent in corner.api.sent if sent.path == COMMANDS]
    assert (command["action"], command["target"]["uid"]) == ("ResumeJob", "uid-train")
    corner.server.clock.seconds += SUSPEND_SECONDS  # it was taken, and nobody acted upon it
    corner.resume()
    assert [method for method, _ in corner.written()] == ["DELETE", "POST"] * 2
    assert (corner.patches(), corner.resumed()) == ([], 0.0)
    corner.has(version=2, mark="research", status=volcano_phase("Restarting"))
    corner.resume()
    assert len(corner.patches()) == 1
    assert (corner.events(), corner.resumed()) == (["GivenBack"], 1.0)


def test_a_volcano_job_that_is_aborted_after_the_resume_is_resumed() -> None:
    """Its Command was taken, and nothing showed what would come of it."""
    corner = Corner("jobs.batch.volcano.sh", drains=False)
    corner.takes_commands = True
    corner.has(mark="research", status=volcano_phase("Running"))
    corner.resume()
    assert [method for method, _ in corner.written()] == ["DELETE"]
    corner.has(version=2, mark="research", status=volcano_phase("Aborted"))
    corner.resume()
    assert corner.written()[-1] == ("POST", COMMANDS)
    corner.has(version=3, mark="research", status=volcano_phase("Running"))
    corner.resume()
    assert (len(corner.patches()), corner.resumed()) == (1, 1.0)


def test_a_command_that_was_lost_leaves_the_mark_for_a_while_only() -> None:
    """Volcano ended between taking it and acting. No event says that the Job was resumed."""
    corner = Corner("jobs.batch.volcano.sh", drains=False)
    corner.takes_commands = True
    corner.has(mark="research", status=volcano_phase("Running"))
    corner.resume()
    corner.server.clock.seconds += TAKEN_SECONDS
    corner.resume()
    assert (len(corner.patches()), corner.events(), corner.resumed()) == (1, [], 0.0)


def test_another_stop_begins_to_wait_anew() -> None:
    """Its own Command may be taken just before it ends."""
    corner = Corner("jobs.batch.volcano.sh", drains=False)
    corner.takes_commands = True
    corner.has(mark="research", status=volcano_phase("Running"))
    corner.resume()
    corner.server.clock.seconds += TAKEN_SECONDS
    for version, policy in enumerate(("HoldAndDrain", "None"), 2):
        corner.set_queue(policy, version=version)
        corner.resume()
    assert corner.patches() == []


@pytest.mark.parametrize("is_another_term", [True, False], ids=["another leader", "this leader"])
def test_a_resume_says_nothing_of_a_job_that_was_suspended_again_since(is_another_term: bool) -> None:
    """The Command of the later stop was taken, and may take effect yet: the mark stays. Another Job of the
    queue has borne the mark all the time.
    """
    corner = Corner("jobs.batch.volcano.sh", drains=False)
    corner.takes_commands = True
    named = {"scheduling.volcano.sh/queue-name": "research", SUSPENDED: "research"}
    corner.server.has(workload(corner.resource, "other", annotations=named))
    corner.has(mark="research", status=volcano_phase("Aborted"))
    corner.resume()
    assert corner.written()[-1] == ("POST", COMMANDS)
    if is_another_term:
        corner.context.requests.begin_term()
    else:
        corner.has(version=2, status=volcano_phase("Running"))
        corner.resume()
    corner.has(version=3, mark="research", status=volcano_phase("Running"))
    corner.resume()
    assert corner.patches() == []


def test_a_resume_that_waits_for_a_request_of_a_former_term_is_tried_again() -> None:
    corner = Corner(drains=False)
    corner.has(mark="research")
    corner.suspension.resume("research")
    corner.context.requests.begin_term()
    assert corner.context.work_queue._due.next() == math.inf
    corner.suspension.resume("research")
    assert corner.context.work_queue._due.next() < math.inf


def test_no_second_command_resumes_a_job_whose_mark_is_gone() -> None:
    """The cache still shows the mark: it is behind our own resume."""
    corner = Corner("jobs.batch.volcano.sh", drains=False)
    stored = corner.has(mark="research")
    del stored["metadata"]["annotations"]
    corner.resume()
    assert (corner.written(), corner.resumed()) == ([], 0.0)


def test_what_its_user_suspended_stays_suspended() -> None:
    corner = Corner(drains=False)
    corner.has(suspend=True)
    corner.resume()
    assert corner.written() == []


def test_nothing_is_resumed_while_its_queue_does_not_schedule() -> None:
    """The decision is read again just before the request is sent."""
    corner = Corner()
    corner.has(mark="research")
    corner.resume()
    assert corner.written() == []
    corner.set_queue("None", version=2)
    corner.suspension.resume("research")
    corner.set_queue("HoldAndDrain", version=3)
    corner.work()
    assert corner.written() == []
    corner.set_queue("None", version=4)
    corner.resume()
    assert (corner.written(), corner.resumed()) == ([("PATCH", BATCH)], 1.0)


def test_a_workload_that_its_user_took_over_is_left_alone() -> None:
    """The mark is gone, so the test of the patch fails. There is no event."""
    corner = Corner(drains=False)
    corner.has(mark="research")
    corner.api.refusal = lambda sent: UNCHANGED if sent.method == "PATCH" else None
    corner.resume()
    assert (corner.events(), corner.resumed()) == ([], 0.0)


def test_a_workload_is_not_resumed_twice_before_the_cache_shows_it() -> None:
    corner = Corner(drains=False)
    corner.has(mark="research")
    for _ in range(3):
        corner.resume()
    assert (len(corner.patches()), corner.resumed()) == (1, 1.0)
    corner.has(version=2, mark="research")  # another drain has suspended it since
    corner.resume()
    assert len(corner.patches()) == 2
    corner.has(version=3)
    corner.resume()
    assert len(corner.suspension._resumptions) == 0


def test_a_resume_that_was_refused_is_tried_again() -> None:
    corner = Corner(drains=False)
    corner.has(mark="research")
    corner.api.refusal = lambda sent: UNCHANGED if sent.method == "PATCH" else None
    corner.resume()
    corner.resume()
    assert len(corner.patches()) == 2


# Jobs whose pods wait without the gate


def suspended_waiting(corner: Corner, *, may_suspend: bool = True) -> bool:
    job = corner.server.store.workloads.by_uid("uid-train")
    assert job is not None
    return corner.suspension.suspend_waiting(job, may_suspend=lambda: may_suspend)


def pod_on(node: str, phase: str) -> Wire:
    return member("part", nodeName=node, status={"phase": phase})


@each_case(
    ("pods", "expected"),
    [
        ([], True),
        ([pod_on("", "Pending")], True),
        ([pod_on("node-0", "Succeeded")], True),
        ([pod_on("", "Pending"), pod_on("node-0", "Running")], False),
        ([pod_on("node-0", "Pending")], False),
    ],
    ids=["no pod", "waiting", "finished", "one runs", "one is starting"],
)
def test_a_job_is_suspended_if_none_of_its_pods_is_on_a_node(pods: list[Wire], expected: bool) -> None:
    corner = Corner(drains=False)
    corner.has()
    corner.api.readable[PODS] = listed(*pods)
    assert suspended_waiting(corner) is expected
    assert corner.written() == ([("PATCH", BATCH)] if expected else [])


def test_it_bears_the_mark_of_its_queue_so_that_it_is_resumed() -> None:
    corner = Corner(drains=False)
    corner.has()
    assert suspended_waiting(corner)
    [sent] = corner.api.sent
    assert {"op": "add", "path": MARK, "value": "research"} in sent.body
    assert {"op": "add", "path": "/spec/suspend", "value": True} in sent.body


@pytest.mark.parametrize(
    "changed",
    [
        {"metadata": {"uid": "uid-other"}},
        {"spec": {"suspend": True}},
        {"status": {"conditions": [{"type": "Complete", "status": "True"}]}},
    ],
    ids=["another of its name", "suspended by its user", "complete"],
)
def test_a_job_that_has_changed_since_is_left_alone(changed: Wire) -> None:
    corner = Corner(drains=False)
    stored = corner.has()
    corner.api.readable[BATCH] = {
        key: {**stored.get(key, {}), **changed.get(key, {})}
        if isinstance(stored.get(key), dict)
        else stored[key]
        for key in stored
    }
    assert not suspended_waiting(corner)
    assert corner.written() == []


def test_a_job_is_left_alone_once_the_stop_is_over() -> None:
    corner = Corner(drains=False)
    corner.has()
    assert not suspended_waiting(corner, may_suspend=False)
    assert corner.written() == []


def test_a_job_that_changes_at_that_moment_is_not_suspended() -> None:
    corner = Corner(drains=False)
    corner.has()
    corner.api.refusal = lambda _sent: UNCHANGED
    assert not suspended_waiting(corner)
    corner.api.refusal = lambda _sent: Refused(403, "Forbidden", "no")
    with pytest.raises(Refused, match="no"):
        suspended_waiting(corner)
