"""The server is killed at every step of a Command: it acts once, and no edit of a user is lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from localcluster.cluster import LocalCluster
from localcluster.components import NAMESPACE
from tests.support.e2e.api_requests import Object
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.objects import history
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until
from tests.support.faults.intercepting import Asked, Kept

pytestmark = pytest.mark.long

ANN, BOB = "ann@example.com", "bob@example.com"
SERVER = "server-of-crashes"
ELSEWHERE = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


class Step(NamedTuple):
    """Where the server is killed: at which request, and whether the API server has carried that out."""

    method: str
    on: str
    answered: bool = False
    #: Whether the edit is in the spec by then.
    acted: bool = False
    #: Whether an event tells of it in the end: not for sure where the Command goes before.
    told: bool = True


#: In the order in which one Command is carried out.
STEPS: Mapping[str, Step] = {
    "before the queue is read": Step("GET", "queue"),
    "before the edit": Step("PATCH", "queue"),
    "after the edit and before its answer": Step("PATCH", "queue", answered=True, acted=True),
    "before the event": Step("POST", "event", acted=True, told=False),
    "before the deletion": Step("DELETE", "command", acted=True),
    "after the deletion and before its answer": Step(
        "DELETE", "command", answered=True, acted=True, told=False
    ),
}


@pytest.fixture(scope="module")
def fleet(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One server, whose requests can be kept, in the place of the cluster's own."""
    with ExitStack() as afterwards:
        afterwards.callback(cluster.start_components, "server")
        made = Fleet(cluster, tmp_path_factory.mktemp("crashes"))
        afterwards.callback(made.close)
        made.join(SERVER, intercepted=True)
        yield made


@pytest.fixture
def queue(fleet: Fleet, sandbox: Sandbox) -> str:
    for name in (ANN, BOB):
        sandbox.user(name, "sluice-queue-admin")
        sandbox.may(name, "update", "queues", "scheduling.volcano.sh")
        sandbox.may(name, "create", "commands", "bus.volcano.sh")
    return sandbox.queue()


@pytest.mark.parametrize("where", STEPS)
def test_a_crash_leaves_one_effect_of_a_command(
    fleet: Fleet, sandbox: Sandbox, queue: str, where: str
) -> None:
    """Suspended once, by its author, which an event tells, and no Command is left."""
    step = STEPS[where]
    command, _ = interrupted(fleet, sandbox, queue, step)
    started_again(fleet, sandbox)
    found = carried_out(sandbox, queue)
    assert found["spec"]["state"] == "Suspended"
    assert history(found) == [(ANN, "state", "Open", "Suspended")]
    assert recorded(found) == [command["metadata"]["uid"]]
    if step.told:
        sandbox.event(queue, f"Normal SuspendQueue: SuspendQueue by {ANN}", namespace="default")


@pytest.mark.parametrize("where", STEPS)
def test_a_crash_undoes_no_edit_in_between(fleet: Fleet, sandbox: Sandbox, queue: str, where: str) -> None:
    """A user opens the queue that was suspended, or closes it before it is: that edit stays. (A Closed queue
    is not suspended, so the Command then changes nothing.)"""
    step = STEPS[where]
    command, _ = interrupted(fleet, sandbox, queue, step)
    wanted = "Open" if step.acted else "Closed"
    body = {"spec": {"state": wanted, "weight": 7}}
    sandbox.api.patch(f"{QUEUES}/{queue}", body, user=BOB).must()
    started_again(fleet, sandbox)
    found = carried_out(sandbox, queue)
    assert (found["spec"]["state"], found["spec"]["weight"]) == (wanted, 7)
    edits = [(ANN, "state", "Open", "Suspended")] if step.acted else []
    edits += [(BOB, "state", "Suspended" if step.acted else "Open", wanted), (BOB, "weight", "1", "7")]
    assert history(found) == edits
    assert recorded(found) == [command["metadata"]["uid"]]


def test_an_edit_that_comes_first_is_decided_upon(fleet: Fleet, sandbox: Sandbox, queue: str) -> None:
    """No crash: the edit was decided from a queue that has changed since, so it is decided again."""
    _, kept = interrupted(fleet, sandbox, queue, STEPS["before the edit"])
    sandbox.api.patch(f"{QUEUES}/{queue}", {"spec": {"state": "Closed"}}, user=BOB).must()
    fleet.interceptors[SERVER].free(kept)
    assert history(carried_out(sandbox, queue)) == [(BOB, "state", "Open", "Closed")]


def test_commands_that_wait_over_a_crash_act_in_their_order(
    fleet: Fleet, sandbox: Sandbox, queue: str
) -> None:
    """The first is interrupted after its edit; the others are younger, and lie in another namespace too."""
    first, _ = interrupted(fleet, sandbox, queue, STEPS["after the edit and before its answer"])
    uids = [first["metadata"]["uid"]]
    for number, action in enumerate(("CloseQueue", "OpenQueue", "SuspendQueue")):
        path = (sandbox.commands_path, ELSEWHERE)[number % 2]
        made = sandbox.api.create(path, sandbox.command_for(queue, action), user=ANN).must(201).body
        uids.append(made["metadata"]["uid"])
    started_again(fleet, sandbox)
    until(
        lambda: not sandbox.api.get(ELSEWHERE).must().body["items"],
        "the Commands elsewhere to be carried out",
    )
    found = carried_out(sandbox, queue)
    assert [line[2:] for line in history(found)] == [
        ("Open", "Suspended"),
        ("Suspended", "Closed"),
        ("Closed", "Open"),
        ("Open", "Suspended"),
    ]
    assert recorded(found) == uids


def interrupted(fleet: Fleet, sandbox: Sandbox, queue: str, step: Step) -> tuple[Object, Kept]:
    """A Command that suspends the queue, and the server that has come as far as this step with it."""
    body = sandbox.command_for(queue, "SuspendQueue")
    name = body["metadata"]["name"]
    paths = {
        "queue": f"{QUEUES}/{queue}",
        "event": "/api/v1/namespaces/default/events",
        "command": f"{sandbox.commands_path}/{name}",
    }
    told = b"SuspendQueue" if step.on == "event" else b""

    def when(asked: Asked) -> bool:
        return (asked.method, asked.path) == (step.method, paths[step.on]) and told in asked.body

    kept = fleet.interceptors[SERVER].keep(when, answered=step.answered)
    made = sandbox.api.create(sandbox.commands_path, body, user=ANN).must(201).body
    until(kept.reached.is_set, "the step to be reached")
    return made, kept


def started_again(fleet: Fleet, sandbox: Sandbox) -> None:
    """After a crash. The Leases of the killed server are deleted, so that none has to expire first."""
    fleet.kill(SERVER)
    for lease in sandbox.api.get(LEASES).must().body["items"]:
        sandbox.api.delete(f"{LEASES}/{lease['metadata']['name']}").must()
    fleet.join(SERVER, intercepted=True)


def carried_out(sandbox: Sandbox, queue: str) -> Object:
    """The queue once no Command is left and all that was asked of it is done."""
    until(lambda: not sandbox.commands(), "the Command to be carried out")
    return sandbox.answered(queue)


def recorded(queue: Object) -> list[str]:
    return str(queue["metadata"]["annotations"]["sluice.dev/commands"]).split(",")
