"""Draining within disruption budgets: gangs that go whole, Jobs in steps, and the one way past a budget."""

from __future__ import annotations

import pytest

from tests.support.drain.budget_watch import BudgetWatch
from tests.support.drain.draining import (
    DRAIN,
    budget,
    counts,
    drain,
    patch_with_deadline,
    running,
    wait_for_allowed,
    wait_for_drain,
    wait_for_running,
)
from tests.support.e2e.api_requests import MERGE, Object
from tests.support.e2e.objects import GROUPED_BY
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import (
    DEPLOYMENT,
    JOB,
    work_body,
)

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    return sandbox.queue()


def gang(sandbox: Sandbox, queue: str, name: str, members: int) -> set[str]:
    """A PodGroup of bare pods that run, all labelled `app=gang`."""
    sandbox.podgroup(name, queue, minMember=members)
    pods = sandbox.pods(name, members, annotations={GROUPED_BY: name}, labels={"app": "gang"})
    return wait_for_running(sandbox, len(pods), name)


def spares(sandbox: Sandbox, app: str, number: int = 1) -> list[str]:
    """Pods of no queue that a budget counts once they run; the test's own gate keeps them from that."""
    return sandbox.pods("spare", number, labels={"app": app}, gated=True)


def wants(sandbox: Sandbox, path: str, number: int) -> None:
    """Have the budget want so many healthy from now on."""
    sandbox.api.patch(path, {"spec": {"minAvailable": number}}, kind=MERGE).must()


def blockers(queue: Object) -> dict[str, tuple[int, bool, str]]:
    """Who blocks how many pods, whether for good, and in which words."""
    found = queue["status"]["drain"]["blockers"]
    return {one["name"]: (one["pods"], one["never"], one["message"]) for one in found}


def stands_at(queue: Object, **numbers: int) -> bool:
    return "drain" in queue["status"] and counts(queue) == numbers


def named(sandbox: Sandbox, name: str) -> str:
    return f"PodDisruptionBudget {sandbox.namespace}/{name}"


def test_a_gang_starts_only_when_its_budget_allows_all_of_it(sandbox: Sandbox, queue: str) -> None:
    """Two of three might go, and none does; all go as soon as all may."""
    pods = gang(sandbox, queue, "gang", 3)
    spares(sandbox, "gang")
    path = budget(sandbox, "gang", {"app": "gang"}, minAvailable=1)
    wait_for_allowed(sandbox, path, 2)
    found = drain(sandbox, queue, "Blocked")
    assert counts(found) == {"left": 3, "blocked": 3}
    assert blockers(found)[named(sandbox, "gang")][:2] == (3, False)
    assert running(sandbox) == pods
    wants(sandbox, path, 0)
    wait_for_drain(sandbox, queue, "Drained", evicted=3)


def test_of_two_gangs_under_one_budget_one_goes_whole(sandbox: Sandbox, queue: str) -> None:
    """And the other stays whole: for good, as the budget wants it."""
    gangs = [gang(sandbox, queue, "first", 2), gang(sandbox, queue, "second", 2)]
    wait_for_allowed(sandbox, budget(sandbox, "gang", {"app": "gang"}, minAvailable=2), 2)
    drain(sandbox, queue, "Blocked")
    found = wait_for_drain(sandbox, queue, "Blocked", evicted=2, left=2)
    assert running(sandbox) in gangs
    pods, never, message = blockers(found)[named(sandbox, "gang")]
    assert (pods, never) == (2, True)
    assert "2 pods go together or not at all" in message


def test_a_gang_that_stalls_half_way_is_named(sandbox: Sandbox, queue: str) -> None:
    """Somebody refuses the last of it, and its budget is tightened before that one is asked again."""
    gang(sandbox, queue, "gang", 3)
    path = budget(sandbox, "gang", {"app": "gang"}, minAvailable=0)
    wait_for_allowed(sandbox, path, 3)
    keep_from_eviction(sandbox, "gang-2")
    sandbox.patch_queue(queue, stopPolicy=DRAIN).must()
    # Whether the refusal of the third is told by then does not matter: a budget that blocks goes before it.
    sandbox.queue_that(
        queue,
        "have one left",
        lambda found: stands_at(found, evicted=2, left=1) or stands_at(found, evicted=2, left=1, blocked=1),
    )
    wants(sandbox, path, 1)
    found = sandbox.queue_that(
        queue, "name the budget", lambda found: named(sandbox, "gang") in blockers(found)
    )
    assert stands_at(found, evicted=2, left=1, blocked=1)
    (_, _, message) = blockers(found)[named(sandbox, "gang")]
    assert message.startswith(f"podgroup {sandbox.namespace}/gang has begun to go and stalls: ")


def keep_from_eviction(sandbox: Sandbox, pod: str) -> None:
    """A policy of somebody else's; returns once it holds."""
    name = sandbox.named("unevicted")
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods/eviction"],
    }
    own = {"matchLabels": {"kubernetes.io/metadata.name": sandbox.namespace}}
    spec: Object = {
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": own},
        "validations": [{"expression": f"request.name != '{pod}'"}],
    }
    sandbox.create(POLICIES, {"metadata": {"name": name}, "spec": spec})
    spec = {"policyName": name, "validationActions": ["Deny"]}
    sandbox.create(BINDINGS, {"metadata": {"name": name}, "spec": spec})
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    path = f"{sandbox.pods_path}/{pod}/eviction?dryRun=All"
    until(lambda: sandbox.api.create(path, body).status == 422, "the policy to hold")


def test_a_pod_under_two_budgets_is_named_and_never_evicted(sandbox: Sandbox, queue: str) -> None:
    """The eviction API would answer 500 for ever; taken out of one of them, the pod goes."""
    sandbox.pod("both", queue, labels={"app": "first", "tier": "second"}).must(201)
    sandbox.pod("free", queue).must(201)
    wait_for_running(sandbox, 2)
    for name, labels in (("first", {"app": "first"}), ("second", {"tier": "second"})):
        wait_for_allowed(sandbox, budget(sandbox, name, labels, minAvailable=0), 1)
    asked = eviction_requests(sandbox)
    drain(sandbox, queue, "Blocked")
    found = wait_for_drain(sandbox, queue, "Blocked", evicted=1, left=1)
    ((name, (pods, never, message)),) = blockers(found).items()
    assert name in {f"{named(sandbox, a)} and {named(sandbox, b)}" for a, b in (BOTH, reversed(BOTH))}
    assert (pods, never) == (1, True)
    assert "leave it under one of them" in message
    assert eviction_requests(sandbox) - asked == 1
    sandbox.patch_pod("both", {"metadata": {"labels": {"tier": None}}}).must()
    wait_for_drain(sandbox, queue, "Drained", evicted=2)


BOTH = ("first", "second")


def eviction_requests(sandbox: Sandbox) -> float:
    """What drains have asked for so far, whatever the answer was."""
    return sandbox.counted(r'sluice_writes_total{outcome="[^"]*",what="drain"}')


def test_three_jobs_under_a_budget_go_one_by_one(sandbox: Sandbox, queue: str) -> None:
    """Each as soon as the budget has a pod to spare; never are fewer ready than it wants."""
    for number in range(3):
        body = work_body(JOB, f"train-{number}", queue)
        body["spec"]["template"]["metadata"]["labels"]["app"] = "train"
        sandbox.make(JOB, body).must(201)
    wait_for_running(sandbox, 3)
    wait_for_allowed(sandbox, budget(sandbox, "train", {"app": "train"}, minAvailable=2), 1)
    later = spares(sandbox, "train", 2)
    watch = BudgetWatch(sandbox.cluster, sandbox.pods_path, wanted={"train": 2})
    drain(sandbox, queue, "Blocked")
    for number, spare in enumerate(later, 1):
        found = wait_for_drain(sandbox, queue, "Blocked", suspended=number, left=3 - number)
        assert blockers(found)[named(sandbox, "train")][:2] == (3 - number, False)
        sandbox.ungate([spare])
    wait_for_drain(sandbox, queue, "Drained", suspended=3, left=0)
    watch.end()
    assert (watch.overruns, watch.least, watch.failed_pods) == ([], {"train": 2}, set())


def test_only_a_deadline_overrules_a_budget(sandbox: Sandbox, queue: str) -> None:
    """With Keep all stay, and it is said; with Delete all go, each counted once, and told of in one event."""
    sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", queue, replicas=2)).must(201)
    sandbox.make(JOB, work_body(JOB, "train", queue)).must(201)
    pods = wait_for_running(sandbox, 3)
    wait_for_allowed(sandbox, budget(sandbox, "web", {"app": "web"}, minAvailable=2), 0)
    wait_for_allowed(sandbox, budget(sandbox, "train", {"app": "train"}, minAvailable=1), 0)
    drain(sandbox, queue, "Blocked")
    patch_with_deadline(sandbox, queue, seconds=2)
    wait_for_drain(sandbox, queue, "DeadlinePassed")
    assert running(sandbox) == pods
    sandbox.patch_queue(queue, drain={"afterDeadline": "Delete"}).must()
    assert counts(wait_for_drain(sandbox, queue, "Drained", deleted=3)) == {"deleted": 3, "suspended": 1}
    for name in pods:
        sandbox.event(name, "Warning DeletedPastBudget", "disruption budgets or not")
        assert len([event for event in sandbox.events(name) if "DeletedPastBudget" in event]) == 1
