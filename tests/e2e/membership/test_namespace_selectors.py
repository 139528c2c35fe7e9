"""`spec.namespaceSelector` on a real control plane: whose work a queue takes and schedules, and what others
keep it from."""

from __future__ import annotations

import pytest

from tests.support.drain.draining import (
    budget,
    wait_for_drain,
    wait_for_running,
)
from tests.support.e2e.objects import (
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
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import settled, until
from tests.support.e2e.workloads import (
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


def team(sandbox: Sandbox) -> dict[str, object]:
    """A selector of namespaces that bear this test's own label."""
    return {"matchLabels": {LABEL: sandbox.namespace}}


def label(sandbox: Sandbox, *, on: bool) -> None:
    """Give the namespace the label that the selectors ask for, or take it away."""
    value = sandbox.namespace if on else None
    sandbox.api.patch(sandbox.home, {"metadata": {"labels": {LABEL: value}}}).must()


def selecting_queue(sandbox: Sandbox) -> str:
    """A queue that selects the namespace, which the server knows."""
    label(sandbox, on=True)
    queue = sandbox.queue(namespaceSelector=team(sandbox))

    def is_selected() -> bool:
        answer = sandbox.pod("probe", queue, dry=True)
        return answer.status == 201 and not gates(answer.body)

    until(is_selected, "the namespace's label to be known")
    return queue


def denial(sandbox: Sandbox, queue: str, *, by: str = "") -> str:
    """What everybody says of a namespace without the label."""
    whose = f'its ancestor "{by}"' if by else "the queue"
    return (
        f'queue "{queue}" is not for namespace "{sandbox.namespace}": '
        f"the namespaceSelector of {whose} asks for {LABEL}={sandbox.namespace}; use another queue, "
        f"or change that with: kubectl label namespace {sandbox.namespace} "
        f"--overwrite {LABEL}={sandbox.namespace}"
    )


def waits_text(sandbox: Sandbox, queue: str, *, by: str = "") -> str:
    """What a pod of such a namespace says, and the refusal of its bind."""
    why = denial(sandbox, queue, by=by).partition("; ")[0]
    return f"{why}; use another queue, or have an admin of queues change that"


def refused_everywhere(sandbox: Sandbox, queue: str, text: str) -> None:
    """Every kind, and every word by which one names a queue, as a user who may edit the namespace."""
    for made in KINDS:
        for on_itself in (False, True):
            body = work_body(made, "stranger", queue, on_itself=on_itself)
            sandbox.api.create(made.path(sandbox.namespace), body, user=USER).must_refuse(text)
    sandbox.pod("stranger", queue).must_refuse(text)
    sandbox.pod("stranger", labels={"volcano.sh/queue-name": queue}).must_refuse(text)
    sandbox.make_podgroup("stranger", queue).must_refuse(text)


@pytest.fixture
def user(sandbox: Sandbox) -> str:
    sandbox.user(USER, "edit")
    sandbox.may(USER, "create", "pods")
    return USER


def test_a_stranger_cannot_run_work_from_a_stopped_namespace_queue_by_naming_another(
    sandbox: Sandbox, user: str
) -> None:
    """Its own queue is suspended, and every other queue that is somebody's says no, by every word."""
    mine = sandbox.queue("mine")
    theirs = sandbox.queue("theirs", namespaceSelector=team(sandbox))
    below = sandbox.queue("below", parent=theirs)
    sandbox.api.patch(sandbox.home, {"metadata": {"annotations": {NAMED_BY: mine}}}).must()
    sandbox.suspend(mine)
    until(lambda: sandbox.pod("probe", theirs, dry=True).status == 403, "the namespace's labels to be known")
    refused_everywhere(sandbox, theirs, denial(sandbox, theirs))
    sandbox.pod("stranger", below).must_refuse(denial(sandbox, below, by=theirs))
    # What it may have is moved nowhere.
    sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", mine, replicas=0)).must(201)
    path = f"{DEPLOYMENT.path(sandbox.namespace)}/web"
    template = {"template": {"metadata": {"annotations": {NAMED_BY: theirs}}}}
    sandbox.api.patch(path, {"spec": template}, user=USER).must_refuse(denial(sandbox, theirs))
    sandbox.podgroup("gang", mine)
    sandbox.move_podgroup("gang", theirs).must_refuse(denial(sandbox, theirs))
    # A PodGroup that is not there yet leads nowhere; a Command takes the right to update queues.
    sandbox.pod("early", annotations={GROUPED_BY: "later"}).must(201)
    sandbox.make_podgroup("later", theirs).must_refuse(denial(sandbox, theirs))
    assert sandbox.command(theirs, "OpenQueue", user=USER).status == 403
    settled(sandbox.waiting, "the pods")
    assert sandbox.bound(sandbox.read_pods()) == set()
    namespace = {"metadata": {"annotations": {NAMED_BY: theirs}}}
    sandbox.api.patch(sandbox.home, namespace).must_refuse(denial(sandbox, theirs))


def test_a_change_of_labels_parks_who_waits_leaves_who_runs_and_lets_all_go_again(sandbox: Sandbox) -> None:
    """Who waits says why, on itself and on its workload, gated or not; by hand nothing is bound either."""
    queue = selecting_queue(sandbox)
    sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", queue, replicas=2)).must(201)
    ran = wait_for_running(sandbox, 2, "web-")
    early = sandbox.pods("early", 2, queue, gated=True)
    sandbox.pod("foreign", queue, schedulerName=OTHERS_SCHEDULER).must(201)
    label(sandbox, on=False)
    text = waits_text(sandbox, queue)
    until(lambda: "sluice.dev/guard" in sandbox.api.get(sandbox.home).body["metadata"]["labels"], "the guard")
    sandbox.scale("web", 4)
    sandbox.ungate(early)
    for name in early:
        sandbox.reason_on(name, text)
    others = {*ran, *early, "foreign"}
    until(lambda: len(sandbox.read_pods()) == len(others) + 2, "two more pods")
    late = set(sandbox.read_pods()) - others
    for name in late:
        assert gates(sandbox.reason_on(name, text)) == [GATE]
        sandbox.event(name, "NamespaceNotSelected", text)
    sandbox.event("web", "NamespaceNotSelected", text)
    until(lambda: sandbox.bind("foreign", dry=True).status == 403, "the bind by hand to be refused")
    sandbox.bind("foreign").must_refuse(text)
    assert all(on_a_node(sandbox.read_pod(name)) for name in ran)
    sandbox.queue_that(queue, "count 7", lambda found: found["status"]["pods"].get("notSelected") == 7)
    # New work is refused, and says what to do.
    sandbox.pod("new", queue).must_refuse(denial(sandbox, queue))
    label(sandbox, on=True)
    sandbox.all_bound([*early, *late])
    sandbox.bind("foreign").must(201)
    sandbox.queue_that(queue, "count none", lambda found: found["status"]["pods"]["notSelected"] == 0)


def test_a_parent_that_becomes_narrower_narrows_its_children(sandbox: Sandbox) -> None:
    """Without a word on the child; and its pods go at once when the parent is everybody's again."""
    parent = sandbox.queue("parent")
    child = sandbox.queue("child", parent=parent)
    early = sandbox.pods("early", 2, child, gated=True)
    sandbox.podgroup("gang", child)
    sandbox.edit(parent, namespaceSelector=team(sandbox))
    sandbox.ungate(early)
    text = waits_text(sandbox, child, by=parent)
    for name in early:
        sandbox.reason_on(name, text)
    sandbox.pod("new", child).must_refuse(denial(sandbox, child, by=parent))
    sandbox.pod("of-the-gang", annotations={GROUPED_BY: "gang"}).must(201)
    assert gates(sandbox.reason_on("of-the-gang", text)) == [GATE]
    until(
        lambda: _scheduled(sandbox, "gang").get("reason") == "NamespaceNotSelected", "the PodGroup to say why"
    )
    [line] = sandbox.read_queue(parent)["status"]["changes"]
    assert (line["by"], line["field"], line["to"]) == (
        "admin",
        "namespaceSelector",
        f"{LABEL}={sandbox.namespace}",
    )
    sandbox.edit(parent, namespaceSelector=None)
    sandbox.all_bound([*early, "of-the-gang"])


def _scheduled(sandbox: Sandbox, group: str) -> dict[str, str]:
    found = sandbox.read_podgroup(group).get("status", {}).get("conditions", [])
    return next((each for each in found if each["type"] == "Scheduled"), {})


def test_a_queue_moved_below_a_narrow_one_is_narrow_too(sandbox: Sandbox) -> None:
    parent, child = sandbox.queue("parent", namespaceSelector=team(sandbox)), sandbox.queue("child")
    sandbox.pod("before", child, gated=True).must(201)
    # A queue with a pod of its own is moved as it is.
    sandbox.edit(child, parent=parent)
    sandbox.ungate(["before"])
    sandbox.reason_on("before", waits_text(sandbox, child, by=parent))
    sandbox.edit(child, parent="root")
    sandbox.all_bound(["before"])


def test_what_strangers_left_keeps_a_queue_from_nothing(sandbox: Sandbox) -> None:
    """Neither from Drained, nor from children, nor from Closed, nor from being deleted: a pod that a budget
    keeps for good runs on meanwhile."""
    queue = selecting_queue(sandbox)
    sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", queue, replicas=2)).must(201)
    ran = wait_for_running(sandbox, 2, "web-")
    sandbox.queue_that(queue, "count its pods", lambda found: found["status"]["pods"].get("running") == 2)
    budget(sandbox, "keeps", {"app": "web"}, maxUnavailable=0)
    crowded = queue_body(sandbox.named("child"), parent=queue)
    sandbox.api.create(QUEUES, crowded).must_refuse("pods of its own")
    sandbox.edit(queue, stopPolicy="HoldAndDrain")
    wait_for_drain(sandbox, queue, "Blocked")
    label(sandbox, on=False)
    found = wait_for_drain(sandbox, queue, "Drained")
    assert "but 2 of namespaces that it does not select" in condition(found, "Drained")["message"]
    sandbox.edit(queue, stopPolicy="None")
    sandbox.queue("child", parent=queue)
    sandbox.edit(queue, state="Closed")
    sandbox.in_state(queue, "Closed")
    assert all(on_a_node(sandbox.read_pod(name)) for name in ran)
    for name in (sandbox.named("child"), queue):
        sandbox.remove_queue(name)
        sandbox.queue_names.remove(name)


def test_jobs_of_a_cronjob_are_new_work_and_a_sleeping_deployment_stays_asleep(sandbox: Sandbox) -> None:
    """Both were there before the labels changed."""
    queue = selecting_queue(sandbox)
    sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", queue, replicas=0)).must(201)
    sandbox.make(CRON_JOB, work_body(CRON_JOB, "often", queue)).must(201)
    label(sandbox, on=False)
    until(lambda: sandbox.pod("new", queue, dry=True).status == 403, "the change of labels to be seen")
    often = f"{CRON_JOB.path(sandbox.namespace)}/often"
    sandbox.api.patch(often, {"spec": {"schedule": "@every 1s"}}).must()
    sandbox.scale("web", 1, refused=f"new work, and {denial(sandbox, queue)}")
    sandbox.event("often", "FailedCreate", "is not for namespace")
    assert sandbox.api.get(JOB.path(sandbox.namespace)).must().body["items"] == []


@pytest.mark.parametrize("own", [True, False], ids=["selected", "not selected"])
def test_one_file_may_hold_a_namespace_and_its_work(sandbox: Sandbox, own: bool) -> None:
    """The labels of a new namespace are not known for a moment: what comes in that moment waits for them."""
    queue = sandbox.queue(namespaceSelector=team(sandbox))
    label(sandbox, on=True)  # so that a stranger's namespace is not the only one
    name = f"{sandbox.namespace}-new"
    labels = {LABEL: sandbox.namespace} if own else {}
    sandbox.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    answer = sandbox.api.create(f"/api/v1/namespaces/{name}/pods", pod_body("first", queue))
    if not own and answer.status == 403:
        return  # its labels were known in time
    answer.must(201)
    path = f"/api/v1/namespaces/{name}/pods/first"
    if own:
        until(lambda: on_a_node(sandbox.api.get(path).must().body), "the pod to be bound")
        return
    until(lambda: "not for namespace" in why(sandbox.api.get(path).must().body), "the pod to say why")
    assert gates(sandbox.api.get(path).must().body) == [GATE]


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
    sandbox: Sandbox, selector: dict[str, object], words: list[str]
) -> None:
    """By the definition of the object or by the webhook."""
    answer = sandbox.api.create(
        f"{QUEUES}?dryRun=All", queue_body(sandbox.named("bad"), namespaceSelector=selector)
    )
    assert answer.status == 422
    assert [word for word in words if word not in answer.message] == []
