"""Who is told why it waits, and when."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import cast

from cluster.client import Client
from cluster.counting import Counting
from cluster.events import Recorder
from cluster.writing import Writers
from controller.parts import Parts
from controller.telling import LATER, Telling
from tests.queues.cases import NOW
from tests.server.asking import Server
from tests.server.wire_objects import member, queue

QUEUE = "research"


class Told:
    """Telling about members of a queue that drains; nothing of what is to be written is sent."""

    def __init__(self) -> None:
        self.server = Server().has(queue("root"), queue(QUEUE, stopPolicy="HoldAndDrain"))
        self.writers = Writers(counting=Counting())
        client = cast(Client, None)
        recorder = Recorder(client=client, writers=self.writers, counting=Counting())
        parts = SimpleNamespace(
            store=self.server.store, client=client, writers=self.writers, recorder=recorder
        )
        self.telling = Telling(cast(Parts, parts))

    def gated(self, name: str, *, age: timedelta) -> None:
        made = member(name, queue=QUEUE, gates=["sluice.dev/queue"])
        made["metadata"]["creationTimestamp"] = f"{NOW - age:%Y-%m-%dT%H:%M:%SZ}"
        self.server.has(made)

    def tell(self, *, draining: bool) -> tuple[bool, int]:
        """Whether some are left for later, and how many have something to be written."""
        later = self.telling.tell(QUEUE, self.server.store.members.waiting(QUEUE), draining=draining)
        return later, len([key for key in self.writers._keys if key[0] == "explain"])


def test_a_gated_pod_is_told_at_once() -> None:
    told = Told()
    told.gated("new", age=timedelta())
    assert told.tell(draining=False) == (False, 1)


def test_while_others_are_on_their_way_out_it_is_told_when_it_is_no_longer_new() -> None:
    told = Told()
    told.gated("new", age=LATER - timedelta(seconds=1))
    told.gated("older", age=LATER)
    assert told.tell(draining=True) == (True, 1)
    told.server.clock.at += timedelta(seconds=1)
    assert told.tell(draining=True) == (False, 2)


def test_once_they_are_gone_whoever_was_left_is_told() -> None:
    told = Told()
    told.gated("new", age=timedelta())
    assert told.tell(draining=True) == (True, 0)
    assert told.tell(draining=False) == (False, 1)
