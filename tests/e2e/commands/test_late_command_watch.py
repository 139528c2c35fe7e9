"""A replica whose watch of Commands is late comes to lead: what others carried out long ago acts no more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from localcluster.cluster import LocalCluster
from localcluster.components import NAMESPACE
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.objects import history
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until
from tests.support.faults.intercepting import Asked, Kept

pytestmark = pytest.mark.long

ANN = "ann@example.com"
FIRST, LATE = "server-first", "server-late"
WATCHED = "/apis/bus.volcano.sh/v1alpha1/commands"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
#: More than a queue's list of those that were carried out has.
MANY = 31
#: More watches than the late server begins while the test lasts.
WATCHES = 1000


@pytest.fixture
def fleet(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One server, whose requests can be kept, in the place of the cluster's own."""
    with ExitStack() as afterwards:
        afterwards.callback(cluster.start_components, "server")
        made = Fleet(cluster, tmp_path_factory.mktemp("late"))
        afterwards.callback(made.close)
        made.join(FIRST, intercepted=True)
        yield made


def test_a_command_that_is_no_longer_recorded_acts_once(fleet: Fleet, sandbox: Sandbox) -> None:
    """It suspended the queue, a user opened it since, and thirty-one Commands followed."""
    queue = sandbox.queue()
    sandbox.user(ANN, "sluice-queue-admin")
    sandbox.may(ANN, "update", "queues", "scheduling.volcano.sh")
    sandbox.may(ANN, "create", "commands", "bus.volcano.sh")
    first = fleet.interceptors[FIRST]
    kept = first.keep(
        lambda asked: (asked.method, asked.path) == ("GET", f"{QUEUES}/{queue}"), answered=False
    )
    made = sandbox.command(queue, "SuspendQueue", user=ANN).must(201).body
    path = f"{sandbox.commands_path}/{made['metadata']['name']}"
    until(kept.reached.is_set, "the first server to begin with the Command")
    fleet._intercepted(LATE)
    late = fleet.interceptors[LATE]
    # Every watch: after 5 to 6 s the server gives up a silent one, and the next would show it the deletion.
    blind = Kept(answered=False)
    late.order(blind, when=lambda asked: asked.watch and asked.path == WATCHED, times=WATCHES)
    fleet.join(LATE, intercepted=True)
    until(blind.reached.is_set, "the late server to have listed the Commands")
    first.free(kept)
    until(lambda: not sandbox.commands(), "the Command to be carried out")
    for number in range(MANY):
        sandbox.command(queue, "SuspendQueue" if number % 2 else "OpenQueue", user=ANN).must(201)
    until(lambda: not sandbox.commands(), "the others to be carried out", seconds=120)
    before = history(sandbox.answered(queue))
    assert sandbox.read_queue(queue)["spec"]["state"] == "Open"
    fleet.kill(FIRST)
    for lease in sandbox.api.get(LEASES).must().body["items"]:
        sandbox.api.delete(f"{LEASES}/{lease['metadata']['name']}").must(
            200, 404
        )  # so that none has to expire first

    def asked_for(asked: Asked) -> bool:
        """What the late server does of the Command: it reads it anew, or acts."""
        return asked.path == path or (asked.method, asked.path) == ("PATCH", f"{QUEUES}/{queue}")

    until(lambda: any(map(asked_for, late.asked)), "the late server to come to the Command")
    sandbox.edit(queue, weight=7)
    assert [line for line in history(sandbox.answered(queue)) if line[1] != "weight"] == before
    assert sandbox.read_queue(queue)["spec"]["state"] == "Open"
