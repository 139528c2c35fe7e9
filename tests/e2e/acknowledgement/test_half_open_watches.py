"""A watch whose connection lives and says nothing any more: stops are acknowledged all the same, soon."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.objects import is_stopped
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until
from tests.support.faults.faulty_proxy import Silence
from tests.support.faults.intercepting import Asked

pytestmark = pytest.mark.long

#: A watch that is late for a minute was what there was; a machine that is busy makes seconds many.
SECONDS = 40.0
#: Bytes of the answer that come: its head, and no event.
HEAD = 600


@pytest.fixture
def sandbox(pair: Fleet, module_cluster: LocalCluster) -> Iterator[Sandbox]:
    made = Sandbox(module_cluster)
    yield made
    made.clear()
    made.close()


def on_queues(asked: Asked) -> bool:
    return asked.watch and asked.path == QUEUES


@pytest.mark.parametrize("name", ["server-1", "server-2"])
def test_a_stop_is_acknowledged_though_a_watch_of_the_queues_is_half_open(
    pair: Fleet, sandbox: Sandbox, name: str
) -> None:
    """One of the two leads, and the other one must have seen the stop: neither may be late for long."""
    queue = sandbox.queue(name)
    way = pair.interceptors[name]
    silenced = len(way.asked)
    way.order(Silence(after=HEAD), when=on_queues)
    until(lambda: any(map(on_queues, way.asked[silenced:])), "a watch that is silenced")
    sandbox.patch_queue(queue, state="Suspended").must()
    until(lambda: is_stopped(sandbox.read_queue(queue)), "the stop to be acknowledged", seconds=SECONDS)
    way.relent()
