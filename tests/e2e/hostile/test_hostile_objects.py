"""What one user writes on one object keeps no other queue waiting, and its own only where it has to."""

from __future__ import annotations

import pytest

from queues.apimachinery.pod_requests import RESOURCES as KEPT
from tests.support.drain.draining import BUDGETS, DRAIN
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import GROUPED_BY as GROUP
from tests.support.e2e.objects import (
    command_body,
    condition,
    is_stopped,
    pod_body,
    state_of,
)
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until

#: A name as long as a name may be.
LONG = "-".join(["n" * 62] * 4)
#: All of their names together are longer than what etcd takes, 1.5 MiB.
RESOURCES, PODS = 1200, 5


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    return sandbox.queue()


def log(sandbox: Sandbox) -> str:
    """What the server has logged."""
    return sandbox.cluster.layout.log("server").read_text()


#: Samples of the server's metrics; it may have counted what other tests did before.
FAILURES = r'sluice_failures_total\{step="(?:sync|members|status|commands)"\}'
REFUSED_STATUSES = r'sluice_writes_total\{outcome="refused",what="(?:status|counts)"\}'
REFUSED_UNGATES = r'sluice_writes_total\{outcome="refused",what="ungate"\}'


def logged(sandbox: Sandbox, *words: str) -> None:
    """Returns once a line of the server's log has all the words."""
    until(
        lambda: any(all(word in line for word in words) for line in log(sandbox).splitlines()),
        f"a line of the log with {words}",
    )


def test_pods_with_names_that_no_podgroup_can_have_keep_no_queue_waiting(
    sandbox: Sandbox, queue: str
) -> None:
    """With a slash, with several, with nothing but one, too long: gated, and everybody else is served."""
    before, failures = len(log(sandbox)), sandbox.counted(FAILURES)
    other = sandbox.queue("other")
    for number, name in enumerate(("a/b", "a/b/c", "/", "..", LONG, "a b", "ü", "%2F", '"')):
        sandbox.pod(f"evil-{number}", annotations={GROUP: name}).must(201)
    parked = sandbox.pods("parked", 2, queue)
    sandbox.all_bound(parked)
    assert is_stopped(sandbox.suspend(other))
    waiting = sandbox.pods("waiting", 2, other)
    sandbox.reason_on(waiting[0], f'queue "{other}" is Suspended')
    sandbox.edit(other, state="Open")
    sandbox.all_bound(waiting)
    sandbox.command(queue, "SuspendQueue").must(201)
    sandbox.queue_that(queue, "be suspended by the Command", is_stopped)
    assert "Traceback" not in log(sandbox)[before:]
    assert sandbox.counted(FAILURES) == failures


def test_pods_that_ask_for_thousands_of_resources_delay_no_stop(sandbox: Sandbox, queue: str) -> None:
    """What they ask for together is more than etcd takes: a hundred are shown, and how many more are kept."""
    for number in range(PODS):
        names = [f"{LONG[:200]}{number:02}.example.com/{LONG[:50]}-{each:04}" for each in range(RESOURCES)]
        body = pod_body(f"greedy-{number}", queue)
        needs = dict.fromkeys(names, "1")
        body["spec"]["containers"][0]["resources"] = {"requests": needs, "limits": needs}
        sandbox.api.create(sandbox.pods_path, body).must(201)
        sandbox.bind(f"greedy-{number}").must(201)  # by hand: no node has what they ask for
    found = sandbox.queue_that(
        queue, "count the pods", lambda read: read["status"].get("allocated", {}).get("pods") == str(PODS)
    )
    allocated = found["status"]["allocated"]
    assert len(allocated) == 102
    assert int(allocated["sluice.dev/more-resources"]) == PODS * KEPT - 100
    sandbox.suspend(queue)


def test_budgets_with_long_names_delay_no_stop_up_to_root(sandbox: Sandbox, queue: str) -> None:
    """All of them select the same pods, which the eviction API then refuses for ever."""
    refused = sandbox.counted(REFUSED_STATUSES)
    child = sandbox.queue("child", parent=queue)
    sandbox.all_bound(sandbox.pods("blocked", 3, child, labels={"app": "blocked"}))
    path = BUDGETS.format(namespace=sandbox.namespace)
    for number in range(60):
        body = {"metadata": {"name": f"{LONG[:240]}-{number:02}"}}
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "blocked"}}}
        sandbox.api.create(path, {**body, "spec": spec}).must(201)
    sandbox.patch_queue(queue, stopPolicy=DRAIN).must()
    for name in (queue, child):
        found = sandbox.queue_that(
            name, "name who blocks", lambda read: condition(read, "Drained").get("reason") == "Blocked"
        )
        assert is_stopped(sandbox.answered(name))
        assert "PodDisruptionBudget" in condition(found, "Drained")["message"]
        assert len(condition(found, "Drained")["message"]) <= 1024
    assert sandbox.counted(REFUSED_STATUSES) == refused


@pytest.mark.parametrize("year", ["0000", "0001", "9999"])
def test_a_podgroup_with_an_odd_year_keeps_its_queue_no_longer_than_its_pods(
    sandbox: Sandbox, queue: str, year: str
) -> None:
    """The definition lets the time of a condition be any; it is kept as it is, and the group goes on."""
    sandbox.podgroup("odd", queue)
    odd = {"type": "Odd", "status": "True", "lastTransitionTime": f"{year}-01-01T00:00:00Z"}
    sandbox.api.patch(f"{sandbox.podgroups_path}/odd", {"status": {"conditions": [odd]}}).must()
    name = sandbox.pods("member", 1, annotations={GROUP: "odd"})[0]
    sandbox.all_bound([name])

    def kept() -> Object:
        found = sandbox.read_podgroup("odd")
        kinds = {each["type"]: each for each in found["status"].get("conditions", [])}
        return kinds["Odd"] if {"Odd", "Scheduled"} <= kinds.keys() else {}

    assert until(kept, "the group's own conditions to be written beside the odd one") == odd
    sandbox.edit(queue, state="Closed")
    assert state_of(sandbox.read_queue(queue)) == "Closing"
    sandbox.api.delete(f"{sandbox.pods_path}/{name}").must()
    sandbox.in_state(queue, "Closed")


def test_a_write_that_is_refused_is_named_and_keeps_no_other_waiting(sandbox: Sandbox, queue: str) -> None:
    """A webhook of somebody's refuses every change of one pod: its gate stays, and all others go."""
    refused = sandbox.counted(REFUSED_UNGATES)
    sandbox.suspend(queue)
    names = sandbox.pods("free", 3, queue)
    sandbox.pod("stuck", queue, labels={"stuck": sandbox.namespace}).must(201)
    policy = f"{sandbox.namespace}-stuck"
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    sandbox.create(
        path,
        {
            "metadata": {"name": policy},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["UPDATE"],
                            "resources": ["pods"],
                        }
                    ],
                    "objectSelector": {"matchLabels": {"stuck": sandbox.namespace}},
                },
                "validations": [{"expression": "false", "message": "nobody changes this pod"}],
            },
        },
    )
    binding = {"policyName": policy, "validationActions": ["Deny"]}
    sandbox.create(
        f"{path.removesuffix('policies')}policybindings", {"metadata": {"name": policy}, "spec": binding}
    )
    touched = {"metadata": {"annotations": {"a": "b"}}}
    until(lambda: sandbox.patch_pod("stuck", touched).status == 422, "the policy to hold")
    sandbox.edit(queue, state="Open")
    sandbox.all_bound(names)
    sandbox.event("stuck", "WriteRefused", "ungate", "nobody changes this pod")
    until(lambda: sandbox.counted(REFUSED_UNGATES) > refused, "the refused write to be counted")
    logged(sandbox, "write ungate", "nobody changes this pod")


def test_a_command_for_a_queue_with_a_long_reason_says_why(sandbox: Sandbox, queue: str) -> None:
    """A text of any length is cut where it is shown."""
    uid = sandbox.read_queue(queue)["metadata"]["uid"]
    body: Object = {**command_body("long", "SuspendQueue", queue=queue, uid=uid), "message": "x" * 100_000}
    sandbox.api.create(sandbox.commands_path, body).must(201)
    found = sandbox.queue_that(queue, "be stopped", is_stopped)
    assert len(condition(found, "Active")["message"]) < 600
    assert sandbox.api.get(f"{QUEUES}/{queue}").must().body["spec"]["reason"]
