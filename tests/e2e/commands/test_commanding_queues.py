"""Commands: who may create them, on which queues they act, and that each acts exactly once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import history
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until

ACTIONS = ("OpenQueue", "CloseQueue", "SuspendQueue", "ResumeQueue")
ANN, BOB = "ann@example.com", "bob@example.com"
KEPT = "tests.sluice.dev/kept"


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    return sandbox.queue()


@pytest.fixture
def bob(sandbox: Sandbox) -> str:
    """A user who may create Commands, and change no queue."""
    rule = {"apiGroups": ["bus.volcano.sh"], "resources": ["commands"], "verbs": ["create"]}
    sandbox.user(BOB, sandbox.role("commander", rule))
    sandbox.may(BOB, "create", "commands", "bus.volcano.sh")
    return BOB


@pytest.fixture
def ann(sandbox: Sandbox) -> str:
    """A user who may do both."""
    sandbox.user(ANN, "sluice-queue-admin")
    sandbox.may(ANN, "update", "queues", "scheduling.volcano.sh")
    sandbox.may(ANN, "create", "commands", "bus.volcano.sh")
    return ANN


def carried_out(sandbox: Sandbox) -> None:
    until(lambda: not sandbox.commands(), "the Commands to be carried out")


def recorded(queue: Object) -> list[str]:
    return str(queue["metadata"].get("annotations", {}).get("sluice.dev/commands", "")).split(",")


def test_an_unknown_action_is_refused_with_the_list(sandbox: Sandbox, queue: str) -> None:
    """By name, and with those that there are."""
    sandbox.command(queue, "DrainQueue").must_refuse('"DrainQueue"', *ACTIONS)


def test_a_user_without_the_right_on_the_queue_is_refused(sandbox: Sandbox, queue: str, bob: str) -> None:
    """The right to create Commands is no right to stop queues; the refusal says which is missing."""
    sandbox.command(queue, "SuspendQueue", user=bob).must_refuse(
        f'user "{bob}" may not act on queue "{queue}"'
    )


def test_a_right_on_one_queue_is_no_right_on_another(sandbox: Sandbox, queue: str, bob: str) -> None:
    """resourceNames count: the very queue has to be named."""
    mine = sandbox.queue("mine")
    rule = {
        "apiGroups": ["scheduling.volcano.sh"],
        "resources": ["queues"],
        "verbs": ["update"],
        "resourceNames": [mine],
    }
    sandbox.user(bob, sandbox.role("owner", rule))
    until(lambda: sandbox.command(mine, "SuspendQueue", user=bob).status == 201, "the right to count")
    sandbox.command(queue, "SuspendQueue", user=bob).must_refuse(f'may not act on queue "{queue}"')


#: What means a queue and names none, and a word of the refusal.
NO_QUEUE: list[tuple[dict[str, str], str]] = [
    ({"kind": "queue"}, "target.kind"),
    ({"kind": "Queues"}, "target.kind"),
    ({"kind": ""}, "names no kind"),
    ({"apiVersion": "v1"}, "target.apiVersion"),
    ({"name": ""}, "target.name"),
    ({"name": "x" * 300}, "target.name"),
    ({"name": "../root"}, "target.name"),
]


def aimed(sandbox: Sandbox, queue: str, **target: str) -> Object:
    body = sandbox.command_for(queue, "SuspendQueue")
    return body | {"target": body["target"] | target}


@pytest.mark.parametrize(("target", "word"), NO_QUEUE, ids=str)
def test_a_command_that_names_no_queue_is_refused(
    sandbox: Sandbox, queue: str, target: dict[str, str], word: str
) -> None:
    sandbox.api.create(sandbox.commands_path, aimed(sandbox, queue, **target)).must_refuse(word)
    assert sandbox.commands() == []


def test_while_the_server_is_away_the_policy_refuses_and_what_is_stored_is_dropped(
    sandbox: Sandbox, queue: str, bob: str, restored_cluster: LocalCluster
) -> None:
    """A user without the right is refused though nobody answers, and though no webhook of ours is registered.
    What others create then and names no queue is dropped later; one for a Job stays, for Volcano to answer.
    """
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/sluice"
    restored_cluster.stop_components("server")
    assert sandbox.command(queue, "SuspendQueue", user=bob).status >= 400
    sandbox.api.delete(path).must(200)
    tried = sandbox.commands_path + "?dryRun=All"
    until(
        lambda: sandbox.api.create(tried, sandbox.command_for(queue, "SuspendQueue")).status == 201,
        "the API server to call the webhook no more",
    )
    sandbox.command(queue, "SuspendQueue", user=bob).must_refuse(
        f'user "{bob}" may not act on queue "{queue}"'
    )
    assert sandbox.commands() == []
    made = [
        sandbox.api.create(sandbox.commands_path, aimed(sandbox, queue, **aim)).must(201)
        for aim, _ in NO_QUEUE
    ]
    other = aimed(sandbox, queue, apiVersion="batch.volcano.sh/v1alpha1", kind="Job")
    kept = sandbox.api.create(sandbox.commands_path, other).must(201).body["metadata"]["name"]
    restored_cluster.start_components("server")
    for answer, (_, word) in zip(made, NO_QUEUE, strict=True):
        sandbox.event(answer.body["metadata"]["name"], "Warning CommandDropped", word)
    until(
        lambda: [one["metadata"]["name"] for one in sandbox.commands()] == [kept], "the others to be dropped"
    )
    sandbox.api.delete(f"{sandbox.commands_path}/{kept}").must(200)
    assert sandbox.read_queue(queue)["spec"]["state"] == "Open"


def test_a_user_with_the_right_is_obeyed_and_named(sandbox: Sandbox, queue: str, ann: str) -> None:
    """The author is who sent it, whatever the Command says."""
    forged = {"annotations": {"sluice.dev/author": "system:admin"}}
    sandbox.command(queue, "SuspendQueue", user=ann, **forged).must(201)
    carried_out(sandbox)
    assert history(sandbox.answered(queue)) == [(ann, "state", "Open", "Suspended")]


def test_a_command_for_a_queue_that_does_not_exist_is_dropped(sandbox: Sandbox) -> None:
    """Said at creation, and by an event on the Command, which is deleted."""
    queue = sandbox.named("nowhere")
    made = sandbox.command(queue, "SuspendQueue").must(201)
    assert made.warnings == (f'queue "{queue}" does not exist; the Command will be dropped',)
    sandbox.event(made.body["metadata"]["name"], "Warning CommandDropped", f'queue "{queue}" does not exist')
    carried_out(sandbox)


def test_a_command_for_a_queue_that_was_made_again_is_dropped(sandbox: Sandbox, queue: str) -> None:
    """It was meant for another queue, of the same name."""
    made = sandbox.command(queue, "SuspendQueue", uid="11111111-1111-1111-1111-111111111111").must(201)
    sandbox.event(made.body["metadata"]["name"], "Warning CommandDropped", "made again")
    carried_out(sandbox)
    assert sandbox.read_queue(queue)["spec"]["state"] == "Open"


@pytest.mark.parametrize("target", [{}, {"uid": ""}], ids=["absent", "empty"])
def test_a_command_needs_no_uid(sandbox: Sandbox, queue: str, target: Object) -> None:
    """A file that is kept for later knows none. Volcano's definition takes an empty one alone."""
    body = sandbox.command_for(queue, "SuspendQueue")
    del body["target"]["uid"]
    body["target"] |= target
    sandbox.api.create(sandbox.commands_path, body).must(201)
    carried_out(sandbox)
    assert sandbox.read_queue(queue)["spec"]["state"] == "Suspended"


def test_a_command_is_recorded_and_then_deleted(sandbox: Sandbox, queue: str) -> None:
    """The write that acts also records the Command and its author."""
    made = sandbox.command(queue, "SuspendQueue").must(201).body
    carried_out(sandbox)
    assert recorded(sandbox.read_queue(queue)) == [made["metadata"]["uid"]]


def test_a_command_acts_once_though_it_stays_and_the_server_restarts(
    sandbox: Sandbox, queue: str, restored_cluster: LocalCluster
) -> None:
    """A finalizer keeps it and a user opens the queue. The server does not suspend the queue again."""
    made = sandbox.command(queue, "SuspendQueue", finalizers=[KEPT]).must(201).body
    sandbox.queue_that(queue, "be suspended", lambda read: read["spec"]["state"] == "Suspended")
    sandbox.edit(queue, state="Open")
    restored_cluster.restart_components("server")
    sandbox.command(queue, "ResumeQueue").must(201)
    name = made["metadata"]["name"]
    until(
        lambda: [name] == [each["metadata"]["name"] for each in sandbox.commands()],
        "the later Command to be carried out",
    )
    path = f"{sandbox.commands_path}/{name}"
    sandbox.api.patch(path, {"metadata": {"finalizers": None}}).must(200, 404)
    assert sandbox.read_queue(queue)["spec"]["state"] == "Open"


def test_commands_act_in_the_order_they_were_created(sandbox: Sandbox, queue: str) -> None:
    """Suspend, then close, then open: the history tells them in that order."""
    for action in ("SuspendQueue", "CloseQueue", "OpenQueue"):
        sandbox.command(queue, action).must(201)
    carried_out(sandbox)
    assert [line[2:] for line in history(sandbox.answered(queue))] == [
        ("Open", "Suspended"),
        ("Suspended", "Closed"),
        ("Closed", "Open"),
    ]


@pytest.mark.parametrize(
    ("state", "action"),
    [
        ("Open", "OpenQueue"),
        ("Open", "ResumeQueue"),
        ("Suspended", "SuspendQueue"),
        ("Closed", "CloseQueue"),
        ("Closed", "SuspendQueue"),
        ("Closed", "ResumeQueue"),
    ],
)
def test_an_action_that_comes_to_nothing_is_said(
    sandbox: Sandbox, queue: str, state: str, action: str
) -> None:
    """The queue stays as it is, and an event tells that there was nothing to do."""
    sandbox.edit(queue, state=state)
    sandbox.in_state(queue, state)
    sandbox.command(queue, action).must(201)
    sandbox.event(queue, action, f"nothing to do, the queue is {state}", namespace="default")
    assert sandbox.read_queue(queue)["spec"]["state"] == state


def test_a_command_of_kubectl_in_another_namespace_acts_as_well(
    sandbox: Sandbox, queue: str, ann: str
) -> None:
    """vcctl puts its Commands into `default`, with a generated name, a reason and a message."""
    body: dict[str, Any] = sandbox.command_for(queue, "CloseQueue")
    body["metadata"] = {"generateName": f"{queue}-closequeue-", "namespace": "default"}
    body |= {"reason": "CloseQueue", "message": "moved to another team"}
    done = sandbox.kubectl(
        "create",
        "--namespace=default",
        "-f",
        "-",
        given=json.dumps(body),
        kubeconfig=sandbox.cluster.user(ann),
    )
    assert done.returncode == 0, done.stderr
    closed = sandbox.queue_that(queue, "be closed", lambda read: read["spec"]["state"] == "Closed")
    assert closed["spec"]["reason"] == "moved to another team"


def test_the_root_queue_cannot_be_closed_by_a_command(sandbox: Sandbox) -> None:
    """It would close every queue of the cluster for good."""
    sandbox.command("root", "CloseQueue").must_refuse('queue "root" cannot be closed')


def test_a_command_is_never_changed(sandbox: Sandbox, queue: str) -> None:
    """Its author answers for what was written at creation."""
    made = sandbox.command(queue, "SuspendQueue", finalizers=[KEPT]).must(201).body
    path = f"{sandbox.commands_path}/{made['metadata']['name']}"
    sandbox.api.patch(path, {"action": "CloseQueue"}).must_refuse("a Command cannot be changed")
    sandbox.api.patch(path, {"metadata": {"finalizers": None}}).must(200)
    assert sandbox.api.get(f"{QUEUES}/{queue}").status == 200
