"""A stop is acknowledged when every live replica has seen it, and holds whatever becomes of them.

Twenty rounds in all: members flow, their queue is stopped, and nobody is bound from the acknowledgement
on, while nothing is wrong, or one of three replicas hears of everything late, is cut off, is killed
and started again, or one more joins and leaves.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.rounds import NothingWrong, Rounds
from tests.support.e2e.sandbox import Sandbox
from tests.support.plugin.harness import started_plugin

pytestmark = pytest.mark.long

PAUSED = "server-3"


@pytest.fixture
def own_sandbox(module_cluster: LocalCluster, fleet: Fleet) -> Iterator[Sandbox]:
    made = Sandbox(module_cluster)
    yield made
    made.close()


class OneSlowed(NothingWrong):
    """It hears of everything late, and so the stop is acknowledged late."""

    rounds = 4
    name = "server-2"

    def before(self) -> None:
        self.fleet.ways[self.name].delay = 0.1

    def after(self) -> None:
        self.fleet.ways[self.name].delay = 0.0


class OneCutOff(OneSlowed):
    """From the API server, not from the scheduler, and before it has heard of the stop: it stops answering
    before its Lease ends, and the stop is acknowledged after."""

    rounds = 2
    name = "server-3"

    def amid(self, number: int) -> None:
        self.fleet.ways[self.name].cut()

    def after(self) -> None:
        super().after()
        self.fleet.heal(self.name)


class OneKilled(OneSlowed):
    """While a stop waits for it, and started again in the midst of the next but one."""

    rounds = 4
    name = "server-1"

    def amid(self, number: int) -> None:
        if number == 0:
            self.fleet.kill(self.name)
        if number == 2:
            self.fleet.join(self.name)


class OneJoining(NothingWrong):
    """In the midst of a stop, and gone while the next waits for it."""

    rounds = 4

    def amid(self, number: int) -> None:
        if number % 2:
            self.fleet.leave("server-4")
        else:
            self.fleet.join("server-4")
            self.fleet.ways["server-4"].delay = 0.1


TROUBLES = (NothingWrong, OneSlowed, OneCutOff, OneKilled, OneJoining)


def test_there_are_twenty_rounds() -> None:
    """Of all kinds together."""
    assert sum(trouble.rounds for trouble in TROUBLES) == 20


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__)
def test_nobody_is_bound_after_the_acknowledgement(
    own_sandbox: Sandbox, fleet: Fleet, trouble: type[NothingWrong]
) -> None:
    """Whichever replica is asked: zero in each round."""
    rounds = Rounds(own_sandbox, trouble(fleet))
    through = [rounds.stopped_in_mid_flow(number) for number in range(trouble.rounds)]
    assert through == [[]] * trouble.rounds
    rounds.end()


def test_a_replica_that_joins_knows_the_stops(own_sandbox: Sandbox, fleet: Fleet) -> None:
    """It is ready only once it has read the queues under its Lease."""
    queue = own_sandbox.queue()
    own_sandbox.suspend(queue)
    fleet.join("server-5")
    names = own_sandbox.pods("member", 10, queue)
    own_sandbox.all_bound(own_sandbox.pods("other", 10))
    assert own_sandbox.bound(names) == set()


def test_the_plugin_sends_again_what_a_replica_without_an_answer_held_up(
    own_sandbox: Sandbox, fleet: Fleet
) -> None:
    """Until another replica is called. Each call of the one that does nothing fails after five seconds."""
    queue = own_sandbox.queue()
    fleet.pause(PAUSED)
    fleet.only(PAUSED, answers=False)
    try:
        with started_plugin("suspend", queue, kubeconfig=own_sandbox.cluster.layout.kubeconfig) as plugin:
            said = [plugin.stderr.readline() if plugin.stderr else ""]
            fleet.connect_to("server-2")
            said.append(plugin.communicate()[1])
        assert "webhook queues.sluice.dev did not answer" in said[0]
        assert plugin.returncode == 0, said
    finally:
        fleet.go_on(PAUSED)
        fleet.share()
    own_sandbox.answered(queue)
