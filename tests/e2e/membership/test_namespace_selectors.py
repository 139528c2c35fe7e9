"""`spec.namespaceSelector` on a real control plane: whose work a queue takes and schedules, and what others
keep it from."""

from __future__ import annotations

import pytest

from tests.support.drain.draining import (
    budget,
    wait_for_drain,
    wait_for_running,
)
from tests.support.e2e.shapes import (
    GATE,
    GROUPED_BY,
    NAMED_BY,
    condition,
    gates,
    on_a_node,
    pod_body,
    queue_body,
    why,
)
from tests.support.e2e.stage import QUEUES, Stage
from tests.support.e2e.waiting_for import settled, until
from tests.support.e2e.work import (
    CRON_JOB,
    DEPLOYMENT,
    JOB,
    KINDS,
    work_body,
)

USER = "tenant@example.com"
OTHERS_SCHEDULER = "somebody-elses"
#: The label that the tests' selectors ask for.
LABEL = "tests.sluice.dev-team"


def team(stage: Stage) -> dict[str, object]:
    """A selector of namespaces that bear this test's own label."""
    return {"matchLabels": {LABEL: stage.namespace}}


def label(stage: Stage, *, on: bool) -> None:
    """Give the namespace the label that the selectors ask for, or take it away."""
    value = stage.namespace if on else None
    stage.api.patch(stage.home, {"metadata": {"labels": {LABEL: value}}}).must()


def denial(stage: Stage, queue: str, *, by: str = "") -> str:
    """What everybody says of a namespace without the label."""
    whose = f'its ancestor "{by}"' if by else "the queue"
    return (
        f'queue "{queue}" is not for namespace "{stage.namespace}": '
        f"the namespaceSelector of {whose} asks for {LABEL}={stage.namespace}; use another queue, "
        f"or change that with: kubectl label namespace {stage.namespace} "
        f"--overwrite {LABEL}={stage.namespace}"
    )


def refused_everywhere(stage: Stage, queue: str, text: str) -> None:
    """Every kind, and every word by which one names a queue, as a user who may edit the namespace."""
    for made in KINDS:
        for on_itself in (False, True):
            body = work_body(made, "stranger", queue, on_itself=on_itself)
            stage.api.create(made.path(stage.namespace), body, user=USER).must_refuse(text)
    stage.pod("stranger", queue).must_refuse(text)
    stage.pod("stranger", labels={"volcano.sh/queue-name": queue}).must_refuse(text)
    stage.make_podgroup("stranger", queue).must_refuse(text)


@pytest.fixture
def user(stage: Stage) -> str:
    stage.user(USER, "edit")
    stage.may(USER, "create", "pods")
    return USER


def test_a_stranger_cannot_run_work_from_a_stopped_namespace_queue_by_naming_another(
    stage: Stage, user: str
) -> None:
    """Its own queue is suspended, and every other queue that is somebody's says no, by every word."""
    mine = stage.queue("mine")
    theirs = stage.queue("theirs", namespaceSelector=team(stage))
    below = stage.queue("below", parent=theirs)
    stage.api.patch(stage.home, {"metadata": {"annotations": {NAMED_BY: mine}}}).must()
    stage.suspend(mine)
    refused_everywhere(stage, theirs, denial(stage, theirs))
    stage.pod("stranger", below).must_refuse(denial(stage, below, by=theirs))
    # What it may have is moved nowhere.
    stage.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", mine, replicas=0)).must(201)
    path = f"{DEPLOYMENT.path(stage.namespace)}/web"
    template = {"template": {"metadata": {"annotations": {NAMED_BY: theirs}}}}
    stage.api.patch(path, {"spec": template}, user=USER).must_refuse(denial(stage, theirs))
    stage.podgroup("gang", mine)
    stage.move_podgroup("gang", theirs).must_refuse(denial(stage, theirs))
    # A PodGroup that is not there yet leads nowhere; a Command takes the right to update queues.
    stage.pod("early", annotations={GROUPED_BY: "later"}).must(201)
    stage.make_podgroup("later", theirs).must_refuse(denial(stage, theirs))
    assert stage.command(theirs, "OpenQueue", user=USER).status == 403
    settled(stage.waiting, "the pods")
    assert stage.bound(stage.read_pods()) == set()
    namespace = {"metadata": {"annotations": {NAMED_BY: theirs}}}
    stage.api.patch(stage.home, namespace).must_refuse(denial(stage, theirs))


def test_a_change_of_labels_parks_who_waits_leaves_who_runs_and_lets_all_go_again(stage: Stage) -> None:
    """Who waits says why, on itself and on its workload, gated or not; by hand nothing is bound either."""
    label(stage, on=True)
    queue = stage.queue(namespaceSelector=team(stage))
    stage.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", queue, replicas=2)).must(201)
    ran = wait_for_running(stage, 2, "web-")
    early = stage.pods("early", 2, queue, gated=True)
    stage.pod("foreign", queue, schedulerName=OTHERS_SCHEDULER).must(201)
    label(stage, on=False)
    text = denial(stage, queue)
    until(lambda: "sluice.dev/guard" in stage.api.get(stage.home).body["metadata"]["labels"], "the guard")
    stage.scale("web", 4)
    stage.ungate(early)
    for name in early:
        stage.reason_on(name, text)
    others = {*ran, *early, "foreign"}
    until(lambda: len(stage.read_pods()) == len(others) + 2, "two more pods")
    late = set(stage.read_pods()) - others
    for name in late:
        assert gates(stage.reason_on(name, text)) == [GATE]
        stage.event(name, "NamespaceNotSelected", text)
    stage.event("web", "NamespaceNotSelected", text)
    until(lambda: stage.bind("foreign").status == 403, "the bind by hand to be refused")
    stage.bind("foreign").must_refuse(text)
    assert all(on_a_node(stage.read_pod(name)) for name in ran)
    stage.queue_that(queue, "count 7", lambda found: found["status"]["pods"].get("notSelected") == 7)
    # New work is refused, and says what to do.
    stage.pod("new", queue).must_refuse(text)
    label(stage, on=True)
    stage.all_bound([*early, *late])
    stage.bind("foreign").must(201)
    stage.queue_that(queue, "count none", lambda found: found["status"]["pods"]["notSelected"] == 0)


def test_a_parent_that_becomes_narrower_narrows_its_children(stage: Stage) -> None:
    """Without a word on the child; and its pods go at once when the parent is everybody's again."""
    parent = stage.queue("parent")
    child = stage.queue("child", parent=parent)
    early = stage.pods("early", 2, child, gated=True)
    stage.podgroup("gang", child)
    stage.edit(parent, namespaceSelector=team(stage))
    stage.ungate(early)
    text = denial(stage, child, by=parent)
    for name in early:
        stage.reason_on(name, text)
    stage.pod("new", child).must_refuse(text)
    stage.pod("of-the-gang", annotations={GROUPED_BY: "gang"}).must(201)
    assert gates(stage.reason_on("of-the-gang", text)) == [GATE]
    until(
        lambda: _scheduled(stage, "gang").get("reason") == "NamespaceNotSelected", "the PodGroup to say why"
    )
    [line] = stage.read_queue(parent)["status"]["changes"]
    assert (line["by"], line["field"], line["to"]) == (
        "admin",
        "namespaceSelector",
        f"{LABEL}={stage.namespace}",
    )
    stage.edit(parent, namespaceSelector=None)
    stage.all_bound([*early, "of-the-gang"])


def _scheduled(stage: Stage, group: str) -> dict[str, str]:
    found = stage.read_podgroup(group).get("status", {}).get("conditions", [])
    return next((each for each in found if each["type"] == "Scheduled"), {})


def test_a_queue_moved_below_a_narrow_one_is_narrow_too(stage: Stage) -> None:
    parent, child = stage.queue("parent", namespaceSelector=team(stage)), stage.queue("child")
    stage.pod("before", child, gated=True).must(201)
    # A queue with a pod of its own is moved as it is.
    stage.edit(child, parent=parent)
    stage.ungate(["before"])
    stage.reason_on("before", denial(stage, child, by=parent))
    stage.edit(child, parent="root")
    stage.all_bound(["before"])


def test_what_strangers_left_keeps_a_queue_from_nothing(stage: Stage) -> None:
    """Neither from Drained, nor from children, nor from Closed, nor from being deleted: a pod that a budget
    keeps for good runs on meanwhile."""
    label(stage, on=True)
    queue = stage.queue(namespaceSelector=team(stage))
    stage.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", queue, replicas=2)).must(201)
    ran = wait_for_running(stage, 2, "web-")
    budget(stage, "keeps", {"app": "web"}, maxUnavailable=0)
    crowded = queue_body(stage.named("child"), parent=queue)
    stage.api.create(QUEUES, crowded).must_refuse("pods of its own")
    stage.edit(queue, stopPolicy="HoldAndDrain")
    wait_for_drain(stage, queue, "Blocked")
    label(stage, on=False)
    found = wait_for_drain(stage, queue, "Drained")
    assert "but 2 of namespaces that it does not select" in condition(found, "Drained")["message"]
    stage.edit(queue, stopPolicy="None")
    stage.queue("child", parent=queue)
    stage.edit(queue, state="Closed")
    stage.in_state(queue, "Closed")
    assert all(on_a_node(stage.read_pod(name)) for name in ran)
    for name in (stage.named("child"), queue):
        stage.remove_queue(name)
        stage.queue_names.remove(name)


def test_jobs_of_a_cronjob_are_new_work_and_a_sleeping_deployment_stays_asleep(stage: Stage) -> None:
    """Both were there before the labels changed."""
    label(stage, on=True)
    queue = stage.queue(namespaceSelector=team(stage))
    stage.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", queue, replicas=0)).must(201)
    stage.make(CRON_JOB, work_body(CRON_JOB, "often", queue, schedule="* * * * *")).must(201)
    label(stage, on=False)
    until(lambda: stage.pod("new", queue, dry=True).status == 403, "the change of labels to be seen")
    stage.scale("web", 1, refused=f"new work, and {denial(stage, queue)}")
    stage.event("often", "FailedCreate", "is not for namespace")
    assert stage.api.get(JOB.path(stage.namespace)).must().body["items"] == []


@pytest.mark.parametrize("own", [True, False], ids=["selected", "not selected"])
def test_one_file_may_hold_a_namespace_and_its_work(stage: Stage, own: bool) -> None:
    """The labels of a new namespace are not known for a moment: what comes in that moment waits for them."""
    queue = stage.queue(namespaceSelector=team(stage))
    label(stage, on=True)  # so that a stranger's namespace is not the only one
    name = f"{stage.namespace}-new"
    labels = {LABEL: stage.namespace} if own else {}
    stage.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    answer = stage.api.create(f"/api/v1/namespaces/{name}/pods", pod_body("first", queue))
    if not own and answer.status == 403:
        return  # its labels were known in time
    answer.must(201)
    path = f"/api/v1/namespaces/{name}/pods/first"
    if own:
        until(lambda: on_a_node(stage.api.get(path).must().body), "the pod to be bound")
        return
    until(lambda: "not for namespace" in why(stage.api.get(path).must().body), "the pod to say why")
    assert gates(stage.api.get(path).must().body) == [GATE]


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        ({"matchLabels": {"sluice.dev/guard": "on"}}, ["spec.namespaceSelector", "written by sluice itself"]),
        (
            {"matchExpressions": [{"key": "a", "operator": "In"}]},
            ["spec.namespaceSelector", "In takes one or more"],
        ),
        ({"matchExpressions": [{"key": "a", "operator": "Like"}]}, ["spec.namespaceSelector", "Like"]),
        ({"matchLabels": {"a b": "c"}}, ["spec.namespaceSelector.matchLabels", "not the key of a label"]),
        ({"matchLabels": {f"l{n}": "v" for n in range(17)}}, ["spec.namespaceSelector.matchLabels", "17"]),
        (
            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["v"] * 257}]},
            ["spec.namespaceSelector.matchExpressions[0].values", "257"],
        ),
    ],
    ids=["ours", "no values", "operator", "key", "labels", "values"],
)
def test_a_selector_that_is_none_is_refused_by_its_field(
    stage: Stage, selector: dict[str, object], words: list[str]
) -> None:
    """By the definition of the object or by the webhook."""
    answer = stage.api.create(
        f"{QUEUES}?dryRun=All", queue_body(stage.named("bad"), namespaceSelector=selector)
    )
    assert answer.status == 422
    assert [word for word in words if word not in answer.message] == []
