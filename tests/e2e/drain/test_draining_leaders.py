"""Whoever leads dies, or makes room, in the middle of a drain: another one goes on and takes nobody twice."""

from __future__ import annotations

from tests.support.e2e.drain_replicas import (
    FAST,
    SLOWLY,
    Replicas,
    ended,
)
from tests.support.e2e.mixed_load import MixedLoad, evicted
from tests.support.e2e.stage import Stage
from tests.support.e2e.waiting_for import until

KILLS = 10


def test_the_leader_is_killed_ten_times(corner: Stage, replicas: Replicas) -> None:
    """In turns with an eviction on its lips, and with one granted of which it has not heard; who is killed
    comes back, and another one goes on."""
    load = MixedLoad(corner, extra=KILLS)
    load.drain(rate=SLOWLY)
    for number in range(KILLS):
        replicas.kill(replicas.evicting(answered=bool(number % 2)))
        replicas.join()
    until(load.left, "somebody to be left")
    load.drain(rate=FAST)
    ended(load, replicas)


def test_every_replica_is_replaced_in_the_middle(corner: Stage, replicas: Replicas) -> None:
    """A new one joins and an old one leaves, three times."""
    load = MixedLoad(corner, extra=10)
    load.drain(rate=SLOWLY)
    until(lambda: evicted(replicas.ways), "the first to go", share=0)
    for _ in range(3):
        replicas.roll()
    until(load.left, "somebody to be left")
    load.drain(rate=FAST)
    ended(load, replicas)
