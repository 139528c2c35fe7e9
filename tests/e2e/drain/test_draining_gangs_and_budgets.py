"""Draining within disruption budgets: gangs that go whole, Jobs in steps, and the one way past a budget."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.drain.budget_watch import BudgetWatch
from tests.support.drain.draining import (
    DRAIN,
    budget,
    counts,
    drain,
    running,
    wait_for_allowed,
    wait_for_drain,
    wait_for_running,
)
from tests.support.e2e.calling import MERGE, Object
from tests.support.e2e.shapes import GROUPED_BY
from tests.support.e2e.stage import Stage
from tests.support.e2e.waiting_for import until
from tests.support.e2e.work import (
    DEPLOYMENT,
    JOB,
    work_body,
)

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
SOON = timedelta(seconds=2)


@pytest.fixture
def queue(stage: Stage) -> str:
    return stage.queue()


def gang(stage: Stage, queue: str, name: str, members: int) -> set[str]:
    """A PodGroup of bare pods that run, all labelled `app=gang`."""
    stage.podgroup(name, queue, minMember=members)
    pods = stage.pods(name, members, annotations={GROUPED_BY: name}, labels={"app": "gang"})
    return wait_for_running(stage, len(pods), name)


def spares(stage: Stage, app: str, number: int = 1) -> list[str]:
    """Pods of no queue that a budget counts once they run; the test's own gate keeps them from that."""
    return stage.pods("spare", number, labels={"app": app}, gated=True)


def wants(stage: Stage, path: str, number: int) -> None:
    """Have the budget want so many healthy from now on."""
    stage.api.patch(path, {"spec": {"minAvailable": number}}, kind=MERGE).must()


def blockers(queue: Object) -> dict[str, tuple[int, bool, str]]:
    """Who blocks how many pods, whether for good, and in which words."""
    found = queue["status"]["drain"]["blockers"]
    return {one["name"]: (one["pods"], one["never"], one["message"]) for one in found}


def stands_at(queue: Object, **numbers: int) -> bool:
    return "drain" in queue["status"] and counts(queue) == numbers


def named(stage: Stage, name: str) -> str:
    return f"PodDisruptionBudget {stage.namespace}/{name}"


def test_a_gang_starts_only_when_its_budget_allows_all_of_it(stage: Stage, queue: str) -> None:
    """Two of three might go, and none does; all go as soon as all may."""
    pods = gang(stage, queue, "gang", 3)
    spares(stage, "gang")
    path = budget(stage, "gang", {"app": "gang"}, minAvailable=1)
    wait_for_allowed(stage, path, 2)
    found = drain(stage, queue, "Blocked")
    assert counts(found) == {"left": 3, "blocked": 3}
    assert blockers(found)[named(stage, "gang")][:2] == (3, False)
    assert running(stage) == pods
    wants(stage, path, 0)
    wait_for_drain(stage, queue, "Drained", evicted=3)


def test_of_two_gangs_under_one_budget_one_goes_whole(stage: Stage, queue: str) -> None:
    """And the other stays whole: for good, as the budget wants it."""
    gangs = [gang(stage, queue, "first", 2), gang(stage, queue, "second", 2)]
    wait_for_allowed(stage, budget(stage, "gang", {"app": "gang"}, minAvailable=2), 2)
    drain(stage, queue, "Blocked")
    found = wait_for_drain(stage, queue, "Blocked", evicted=2, left=2)
    assert running(stage) in gangs
    pods, never, message = blockers(found)[named(stage, "gang")]
    assert (pods, never) == (2, True)
    assert "2 pods go together or not at all" in message


def test_a_gang_that_stalls_half_way_is_named(stage: Stage, queue: str) -> None:
    """Somebody refuses the last of it, and its budget is tightened before that one is asked again."""
    gang(stage, queue, "gang", 3)
    path = budget(stage, "gang", {"app": "gang"}, minAvailable=0)
    wait_for_allowed(stage, path, 3)
    keep_from_eviction(stage, "gang-2")
    stage.patch_queue(queue, stopPolicy=DRAIN).must()
    # Whether the refusal of the third is told by then does not matter: a budget that blocks goes before it.
    stage.queue_that(
        queue,
        "have one left",
        lambda found: stands_at(found, evicted=2, left=1) or stands_at(found, evicted=2, left=1, blocked=1),
    )
    wants(stage, path, 1)
    found = stage.queue_that(queue, "name the budget", lambda found: named(stage, "gang") in blockers(found))
    assert stands_at(found, evicted=2, left=1, blocked=1)
    (_, _, message) = blockers(found)[named(stage, "gang")]
    assert message.startswith(f"podgroup {stage.namespace}/gang has begun to go and stalls: ")


def keep_from_eviction(stage: Stage, pod: str) -> None:
    """A policy of somebody else's; returns once it holds."""
    name = stage.named("unevicted")
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods/eviction"],
    }
    own = {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}
    spec: Object = {
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": own},
        "validations": [{"expression": f"request.name != '{pod}'"}],
    }
    stage.create(POLICIES, {"metadata": {"name": name}, "spec": spec})
    spec = {"policyName": name, "validationActions": ["Deny"]}
    stage.create(BINDINGS, {"metadata": {"name": name}, "spec": spec})
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    path = f"{stage.pods_path}/{pod}/eviction?dryRun=All"
    until(lambda: stage.api.create(path, body).status == 422, "the policy to hold")


def test_a_pod_under_two_budgets_is_named_and_never_evicted(stage: Stage, queue: str) -> None:
    """The eviction API would answer 500 for ever; taken out of one of them, the pod goes."""
    stage.pod("both", queue, labels={"app": "first", "tier": "second"}).must(201)
    stage.pod("free", queue).must(201)
    wait_for_running(stage, 2)
    for name, labels in (("first", {"app": "first"}), ("second", {"tier": "second"})):
        wait_for_allowed(stage, budget(stage, name, labels, minAvailable=0), 1)
    asked = eviction_requests(stage)
    drain(stage, queue, "Blocked")
    found = wait_for_drain(stage, queue, "Blocked", evicted=1, left=1)
    ((name, (pods, never, message)),) = blockers(found).items()
    assert name in {f"{named(stage, a)} and {named(stage, b)}" for a, b in (BOTH, reversed(BOTH))}
    assert (pods, never) == (1, True)
    assert "leave it under one of them" in message
    assert eviction_requests(stage) - asked == 1
    stage.patch_pod("both", {"metadata": {"labels": {"tier": None}}}).must()
    wait_for_drain(stage, queue, "Drained", evicted=2)


BOTH = ("first", "second")


def eviction_requests(stage: Stage) -> float:
    """What drains have asked for so far, whatever the answer was."""
    return stage.counted(r'sluice_writes_total{outcome="[^"]*",what="drain"}')


def test_three_jobs_under_a_budget_go_one_by_one(stage: Stage, queue: str) -> None:
    """Each as soon as the budget has a pod to spare; never are fewer ready than it wants."""
    for number in range(3):
        body = work_body(JOB, f"train-{number}", queue)
        body["spec"]["template"]["metadata"]["labels"]["app"] = "train"
        stage.make(JOB, body).must(201)
    wait_for_running(stage, 3)
    wait_for_allowed(stage, budget(stage, "train", {"app": "train"}, minAvailable=2), 1)
    later = spares(stage, "train", 2)
    watch = BudgetWatch(stage.cluster, stage.pods_path, wanted={"train": 2})
    drain(stage, queue, "Blocked")
    for number, spare in enumerate(later, 1):
        found = wait_for_drain(stage, queue, "Blocked", suspended=number, left=3 - number)
        assert blockers(found)[named(stage, "train")][:2] == (3 - number, False)
        stage.ungate([spare])
    wait_for_drain(stage, queue, "Drained", suspended=3, left=0)
    watch.end()
    assert (watch.overruns, watch.least, watch.failed_pods) == ([], {"train": 2}, set())


def test_only_a_deadline_overrules_a_budget(stage: Stage, queue: str) -> None:
    """With Keep all stay, and it is said; with Delete all go, each counted once, and told of in one event."""
    stage.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", queue, replicas=2)).must(201)
    stage.make(JOB, work_body(JOB, "train", queue)).must(201)
    pods = wait_for_running(stage, 3)
    wait_for_allowed(stage, budget(stage, "web", {"app": "web"}, minAvailable=2), 0)
    wait_for_allowed(stage, budget(stage, "train", {"app": "train"}, minAvailable=1), 0)
    deadline = (datetime.now(UTC) + SOON).strftime("%Y-%m-%dT%H:%M:%SZ")
    drain(stage, queue, "DeadlinePassed", drain={"deadline": deadline})
    assert running(stage) == pods
    stage.patch_queue(queue, drain={"afterDeadline": "Delete"}).must()
    assert counts(wait_for_drain(stage, queue, "Drained", deleted=3)) == {"deleted": 3, "suspended": 1}
    for name in pods:
        stage.event(name, "Warning DeletedPastBudget", "disruption budgets or not")
        assert len([event for event in stage.events(name) if "DeletedPastBudget" in event]) == 1
