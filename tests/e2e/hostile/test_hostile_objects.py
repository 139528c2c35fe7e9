"""What one user writes on one object keeps no other queue waiting, and its own only where it has to."""

from __future__ import annotations

import pytest

from cluster.cache.trimming import RESOURCES as KEPT
from tests.support.drain.draining import BUDGETS, DRAIN
from tests.support.e2e.calling import Object
from tests.support.e2e.shapes import GROUPED_BY as GROUP
from tests.support.e2e.shapes import (
    command_body,
    condition,
    is_stopped,
    pod_body,
    state_of,
)
from tests.support.e2e.stage import QUEUES, Stage
from tests.support.e2e.waiting_for import until

#: A name as long as a name may be.
LONG = "-".join(["n" * 62] * 4)
RESOURCES, PODS = 1300, 9


@pytest.fixture
def queue(stage: Stage) -> str:
    return stage.queue()


def log(stage: Stage) -> str:
    """What the server has logged."""
    return stage.cluster.layout.log("server").read_text()


def logged(stage: Stage, *words: str) -> None:
    """Returns once a line of the server's log has all the words."""
    until(
        lambda: any(all(word in line for word in words) for line in log(stage).splitlines()),
        f"a line of the log with {words}",
    )


def test_pods_with_names_that_no_podgroup_can_have_keep_no_queue_waiting(stage: Stage, queue: str) -> None:
    """With a slash, with several, with nothing but one, too long: gated, and everybody else is served."""
    before = len(log(stage))
    other = stage.queue("other")
    for number, name in enumerate(("a/b", "a/b/c", "/", "..", LONG, "a b", "ü", "%2F", '"')):
        stage.pod(f"evil-{number}", annotations={GROUP: name}).must(201)
    parked = stage.pods("parked", 2, queue)
    stage.all_bound(parked)
    assert is_stopped(stage.suspend(other))
    waiting = stage.pods("waiting", 2, other)
    stage.reason_on(waiting[0], f'queue "{other}" is Suspended')
    stage.edit(other, state="Open")
    stage.all_bound(waiting)
    stage.command(queue, "SuspendQueue").must(201)
    stage.queue_that(queue, "be suspended by the Command", is_stopped)
    assert "Traceback" not in log(stage)[before:]
    assert stage.counted(r'sluice_failures_total\{step="(look|members|status|commands)"\}') == 0


def test_pods_that_ask_for_thousands_of_resources_delay_no_stop(stage: Stage, queue: str) -> None:
    """What they ask for together is more than etcd takes: a hundred are shown, and how many more are kept."""
    for number in range(PODS):
        names = [f"{LONG[:100]}{number:02}.example.com/{LONG[:20]}-{each:04}" for each in range(RESOURCES)]
        body = pod_body(f"greedy-{number}", queue)
        needs = dict.fromkeys(names, "1")
        body["spec"]["containers"][0]["resources"] = {"requests": needs, "limits": needs}
        stage.api.create(stage.pods_path, body).must(201)
        stage.bind(f"greedy-{number}").must(201)  # by hand: no node has what they ask for
    found = stage.queue_that(
        queue, "count the pods", lambda read: read["status"].get("allocated", {}).get("pods") == str(PODS)
    )
    allocated = found["status"]["allocated"]
    assert len(allocated) == 102
    assert int(allocated["sluice.dev/more-resources"]) == PODS * KEPT - 100
    stage.suspend(queue)


def test_budgets_with_long_names_delay_no_stop_up_to_root(stage: Stage, queue: str) -> None:
    """All of them select the same pods, which the eviction API then refuses for ever."""
    child = stage.queue("child", parent=queue)
    stage.all_bound(stage.pods("blocked", 3, child, labels={"app": "blocked"}))
    path = BUDGETS.format(namespace=stage.namespace)
    for number in range(60):
        body = {"metadata": {"name": f"{LONG[:240]}-{number:02}"}}
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "blocked"}}}
        stage.api.create(path, {**body, "spec": spec}).must(201)
    stage.patch_queue(queue, stopPolicy=DRAIN).must()
    for name in (queue, child):
        found = stage.queue_that(
            name, "name who blocks", lambda read: condition(read, "Drained").get("reason") == "Blocked"
        )
        assert is_stopped(stage.answered(name))
        assert "PodDisruptionBudget" in condition(found, "Drained")["message"]
        assert len(condition(found, "Drained")["message"]) <= 1024
    assert stage.counted(r'sluice_writes_total\{outcome="refused",what="(?:status|counts)"\}') == 0


@pytest.mark.parametrize("year", ["0000", "0001", "9999"])
def test_a_podgroup_with_an_odd_year_keeps_its_queue_no_longer_than_its_pods(
    stage: Stage, queue: str, year: str
) -> None:
    """The definition lets the time of a condition be any; it is kept as it is, and the group goes on."""
    stage.podgroup("odd", queue)
    odd = {"type": "Odd", "status": "True", "lastTransitionTime": f"{year}-01-01T00:00:00Z"}
    stage.api.patch(f"{stage.podgroups_path}/odd", {"status": {"conditions": [odd]}}).must()
    name = stage.pods("member", 1, annotations={GROUP: "odd"})[0]
    stage.all_bound([name])

    def kept() -> Object:
        found = stage.read_podgroup("odd")
        kinds = {each["type"]: each for each in found["status"].get("conditions", [])}
        return kinds["Odd"] if {"Odd", "Scheduled"} <= kinds.keys() else {}

    assert until(kept, "the group's own conditions to be written beside the odd one") == odd
    stage.edit(queue, state="Closed")
    assert state_of(stage.read_queue(queue)) == "Closing"
    stage.api.delete(f"{stage.pods_path}/{name}").must()
    stage.in_state(queue, "Closed")


def test_a_write_that_is_refused_is_named_and_keeps_no_other_waiting(stage: Stage, queue: str) -> None:
    """A webhook of somebody's refuses every change of one pod: its gate stays, and all others go."""
    stage.suspend(queue)
    names = stage.pods("free", 3, queue)
    stage.pod("stuck", queue, labels={"stuck": stage.namespace}).must(201)
    policy = f"{stage.namespace}-stuck"
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    stage.create(
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
                    "objectSelector": {"matchLabels": {"stuck": stage.namespace}},
                },
                "validations": [{"expression": "false", "message": "nobody changes this pod"}],
            },
        },
    )
    binding = {"policyName": policy, "validationActions": ["Deny"]}
    stage.create(
        f"{path.removesuffix('policies')}policybindings", {"metadata": {"name": policy}, "spec": binding}
    )
    touched = {"metadata": {"annotations": {"a": "b"}}}
    until(lambda: stage.patch_pod("stuck", touched).status == 422, "the policy to hold")
    stage.edit(queue, state="Open")
    stage.all_bound(names)
    stage.event("stuck", "WriteRefused", "ungate", "nobody changes this pod")
    assert stage.counted(r'sluice_writes_total\{outcome="refused",what="ungate"\}') >= 1
    logged(stage, "write ungate", "nobody changes this pod")


def test_a_command_for_a_queue_with_a_long_reason_says_why(stage: Stage, queue: str) -> None:
    """A text of any length is cut where it is shown."""
    uid = stage.read_queue(queue)["metadata"]["uid"]
    body: Object = {**command_body("long", "SuspendQueue", queue=queue, uid=uid), "message": "x" * 100_000}
    stage.api.create(stage.commands_path, body).must(201)
    found = stage.queue_that(queue, "be stopped", is_stopped)
    assert len(condition(found, "Active")["message"]) < 600
    assert stage.api.get(f"{QUEUES}/{queue}").must().body["spec"]["reason"]
