"""Draining within disruption budgets: gangs that go whole, Jobs in steps, and the one way past a budget."""

from __future__ import annotations

import pytest

from tests.support.drain.budget_watch import BudgetWatch
from tests.support.drain.draining import (
    DRAIN,
    NONE,
    budget,
    counts,
    drain,
    end_pods,
    leaving,
    patch_with_deadline,
    running,
    slow_pods,
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
    REPLICA_SET,
    STATEFUL_SET,
    WorkloadKind,
    work_body,
)

SUSPENDED = "sluice.dev/suspended"
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


def test_the_jobs_of_one_podgroup_are_suspended_together_or_not_at_all(sandbox: Sandbox, queue: str) -> None:
    """Their budget allows one of the two, and both run on; then both are suspended in one step."""
    sandbox.podgroup("ring", queue, minMember=2)
    for name in ("one", "two"):
        body = work_body(JOB, name, queue)
        meta = body["spec"]["template"]["metadata"]
        meta["labels"]["app"] = "ring"
        meta.setdefault("annotations", {})[GROUPED_BY] = "ring"
        sandbox.make(JOB, body).must(201)
    pods = wait_for_running(sandbox, 2)
    path = budget(sandbox, "ring", {"app": "ring"}, minAvailable=1)
    wait_for_allowed(sandbox, path, 1)
    found = drain(sandbox, queue, "Blocked")
    assert counts(found) == {"left": 2, "blocked": 2}
    assert "2 pods go together or not at all" in blockers(found)[named(sandbox, "ring")][2]
    assert running(sandbox) == pods
    wants(sandbox, path, 0)
    wait_for_drain(sandbox, queue, "Drained", suspended=2, left=0)


def test_what_is_left_of_a_gang_goes_with_it_where_the_drain_says_so(sandbox: Sandbox, queue: str) -> None:
    """A label keeps a pod of each of two gangs: less than the minimum of one, and enough for the other."""
    gang(sandbox, queue, "ring", 3)
    gang(sandbox, queue, "pair", 2)
    sandbox.api.patch(f"{sandbox.podgroups_path}/pair", {"spec": {"minMember": 1}}, kind=MERGE).must()
    for name in ("ring-0", "pair-0"):
        sandbox.patch_pod(name, {"metadata": {"labels": {"stay": "yes"}}}).must()
    settings = {"keep": {"matchLabels": {"stay": "yes"}}, "brokenGangs": "Evict"}
    drain(sandbox, queue, "Drained", drain=settings)
    found = wait_for_drain(sandbox, queue, "Drained", evicted=4, left=0)
    assert counts(found) == {"evicted": 4, "kept": 1}
    assert running(sandbox) == {"pair-0"}
    because = f"evicted with podgroup {sandbox.namespace}/ring, of which less than its minimum of 3 pods"
    sandbox.event("ring-0", "Normal Evicted", because)


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


def test_past_the_deadline_workloads_are_brought_to_zero_and_back_unless_somebody_scaled_them(
    sandbox: Sandbox, queue: str
) -> None:
    """No pod waits meanwhile, the queue is not Closed, and what is put back is no new work."""
    made = [
        (DEPLOYMENT, "web", 3),
        (STATEFUL_SET, "db", 2),
        (REPLICA_SET, "free", 1),
        (DEPLOYMENT, "mine", 2),
    ]
    for kind, name, replicas in made:
        sandbox.make(kind, work_body(kind, name, queue, replicas=replicas)).must(201)
        budget(sandbox, name, {"app": name}, maxUnavailable=0)
    wait_for_running(sandbox, 8)
    drain(sandbox, queue, "Blocked")
    patch_with_deadline(sandbox, queue, seconds=2, afterDeadline="Scale")
    drained = wait_for_drain(sandbox, queue, "Drained", scaled=4, left=0)
    assert counts(drained) == {"scaled": 4, "deleted": 8}
    until(lambda: not sandbox.read_pods(), "no pod to be left")
    assert [scaling(sandbox, *each) for each in made] == [(0, f"{queue}/{number}") for _, _, number in made]
    (copy,) = items(sandbox, REPLICA_SET, "web-")
    assert SUSPENDED not in copy["metadata"]["annotations"]
    sandbox.event("web", "Warning ScaledByQueue", "brought to 0 replicas")

    forged = {"metadata": {"annotations": {SUSPENDED: f"{queue}/2000"}}}
    sandbox.api.patch(f"{DEPLOYMENT.path(sandbox.namespace)}/web", forged).must()
    assert scaling(sandbox, *made[0]) == (0, f"{queue}/3")
    sandbox.scale("mine", 1)
    sandbox.scale("mine", 0)  # with the record, or after it went
    sandbox.edit(queue, state="Closed")
    assert closing(sandbox, queue)
    sandbox.edit(queue, stopPolicy=NONE)
    wait_for_running(sandbox, 6)
    until(lambda: scaling(sandbox, *made[3]) == (0, None), "the record of what its user scaled to go")
    assert [scaling(sandbox, *each) for each in made[:3]] == [(number, None) for _, _, number in made[:3]]
    assert closing(sandbox, queue)
    sandbox.scale("web", 4, refused="takes no new work")


def scaling(sandbox: Sandbox, kind: WorkloadKind, name: str, _: int) -> tuple[int, str | None]:
    """The replicas that it wants, and its mark."""
    obj = sandbox.api.get(f"{kind.path(sandbox.namespace)}/{name}").must().body
    return obj["spec"]["replicas"], (obj["metadata"].get("annotations") or {}).get(SUSPENDED)


def items(sandbox: Sandbox, kind: WorkloadKind, prefix: str) -> list[Object]:
    found = sandbox.api.get(kind.path(sandbox.namespace)).must().body["items"]
    return [obj for obj in found if obj["metadata"]["name"].startswith(prefix)]


def closing(sandbox: Sandbox, queue: str) -> bool:
    return bool(sandbox.read_queue(queue)["status"]["state"] == "Closing")


def test_past_the_deadline_pods_are_deleted_in_the_order_and_number_of_the_drain(
    sandbox: Sandbox, queue: str
) -> None:
    """One at a time where the drain says so, the youngest first."""
    names = slow_pods(sandbox, "member", 3, queue)
    wait_for_running(sandbox, 3)
    budget(sandbox, "member", {"app": "slow"}, maxUnavailable=0)
    pods = sandbox.read_pods()
    for name in names:
        sandbox.patch_pod(name, {"metadata": {"labels": {"app": "slow"}}}).must()
    drain(sandbox, queue, "Blocked", drain={"inFlight": 1})
    patch_with_deadline(sandbox, queue, seconds=2, afterDeadline="Delete")
    made = {name: pods[name]["metadata"]["creationTimestamp"] for name in names}
    expected = sorted(sorted(names), key=lambda name: made[name], reverse=True)
    for name in expected:
        assert until(lambda: leaving(sandbox), "the next to go") == {name}
        end_pods(sandbox, name)
        until(lambda name=name: name not in sandbox.read_pods(), f"{name} to be gone")  # type: ignore[misc]
    assert counts(wait_for_drain(sandbox, queue, "Drained", left=0)) == {"deleted": 3}
