"""What a drain reads of budgets is bounded; what cannot be read concerns one namespace, or one budget."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cluster.api.client import Client
from controller.drain import snapshot as drain_reading
from controller.drain.snapshot import DrainSnapshot, ReadMemory, ReadRequest, read_snapshot
from controller.evictions import budget_reader as budgets
from localcluster.cluster import LocalCluster
from tests.support.e2e.wait import until
from tests.support.faults.faulty_proxy import FaultyProxy, status

_numbers = itertools.count()
WEB = {"app": "web"}
BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
NewNamespace = Callable[[], str]


@pytest.fixture
def new_namespace(cluster: LocalCluster) -> Iterator[NewNamespace]:
    names: list[str] = []

    def new() -> str:
        names.append(f"budgets-{next(_numbers)}")
        with cluster.api() as api:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names[-1]}}
            assert api.request("POST", "/api/v1/namespaces", body).status == 201
        return names[-1]

    yield new
    with cluster.api() as api:
        for name in names:
            api.request("DELETE", BUDGETS.format(name))


def make(client: Client, namespace: str, name: str, selector: dict[str, Any] | None = None) -> None:
    """A budget that lets nobody go, once its status is worked out."""
    spec = {"minAvailable": 5, "selector": selector or {"matchLabels": WEB}}
    client.create(BUDGETS.format(namespace), {"metadata": {"name": name}, "spec": spec})
    path = f"{BUDGETS.format(namespace)}/{name}"
    until(lambda: json.loads(client.get(path))["status"].get("observedGeneration"), "its status")


def asked(*namespaces: str, at: float = 0.0) -> ReadRequest:
    """One pod of each namespace is to go."""
    going = {f"uid-{namespace}": (namespace, WEB) for namespace in namespaces}
    return ReadRequest(at=at, pods_to_go=going, waiting_pods=frozenset())


class DrainReader:
    """Reads as the controller does: each read goes on from the memory of the one before."""

    def __init__(self, client: Client) -> None:
        self._client, self._memory = client, ReadMemory()

    def read(self, request: ReadRequest) -> DrainSnapshot:
        snapshot = self.read_or_fail(request)
        assert snapshot is not None
        return snapshot

    def read_or_fail(self, request: ReadRequest) -> DrainSnapshot | None:
        """None where nothing could be read."""
        result = read_snapshot(self._client, request, self._memory)
        self._memory = result.memory
        return result.snapshot


def outside(reading: DrainSnapshot, namespace: str) -> list[int | None]:
    return [budget.outside for budget in reading.index.selecting(namespace, WEB)]


def test_namespaces_are_read_in_turn(
    client: Client, proxy: FaultyProxy, new_namespace: NewNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few in each reading; what was read before counts, as of then, whoever asked between."""
    monkeypatch.setattr(drain_reading, "NAMESPACES_PER_READ", 2)
    three, other = [new_namespace() for _ in range(3)], new_namespace()
    reader, before = DrainReader(client), len(proxy.asked)
    first = reader.read(asked(*three, at=1.0))
    assert len(proxy.asked) - before == 2
    assert [first.knows(name) for name in three] == [True, True, False]
    reader.read(asked(other, at=2.0))
    second = reader.read(asked(*three, at=3.0))
    assert all(second.knows(name) for name in three)
    assert sorted(second.read_at(name) for name in three) == [1.0, 3.0, 3.0]
    assert not reader.read(asked(other, at=1000.0)).knows(three[0])


def test_of_one_namespace_no_more_budgets_are_read_than_so_many(
    client: Client, new_namespace: NewNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is known that there are more, and nothing else of them; other namespaces are as ever."""
    monkeypatch.setattr(drain_reading, "MAX_BUDGETS", 2)
    crowded, other = new_namespace(), new_namespace()
    for number in range(3):
        make(client, crowded, f"budget-{number}")
    make(client, other, "web")
    reading = DrainReader(client).read(asked(crowded, other))
    assert "more than 2" in reading.index.excess(crowded, WEB)
    assert reading.index.selecting(crowded, WEB) == ()
    assert (reading.index.excess(other, WEB), outside(reading, other)) == ("", [0])


def test_pods_are_counted_for_one_namespace_after_the_other(
    client: Client, new_namespace: NewNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has many budgets that let nobody go does not keep another's from being looked at."""
    monkeypatch.setattr(drain_reading, "BUDGETS_PER_READ", 2)
    crowded, other = new_namespace(), new_namespace()
    for number in range(4):
        make(client, crowded, f"budget-{number}")
    make(client, other, "web")
    reader = DrainReader(client)
    reading = reader.read(asked(crowded, other))
    assert outside(reading, other) == [0]
    assert sorted(outside(reading, crowded), key=str) == [0, None, None, None]
    for at in (1.0, 2.0, 3.0):
        reading = reader.read(asked(crowded, other, at=at))
    assert outside(reading, crowded) == [0, 0, 0, 0]


def test_a_selector_that_is_too_long_to_be_asked_for_concerns_its_budget_alone(
    client: Client, new_namespace: NewNamespace
) -> None:
    namespace, other = new_namespace(), new_namespace()
    values = [f"{number:03d}-{'x' * 50}" for number in range(900)]
    make(
        client,
        namespace,
        "long",
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": values}]},
    )
    make(client, other, "web")
    reading = DrainReader(client).read(asked(namespace, other))
    assert (outside(reading, namespace), outside(reading, other)) == ([None], [0])


def test_a_namespace_that_cannot_be_read_concerns_itself_alone(
    client: Client, proxy: FaultyProxy, new_namespace: NewNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read when it can be, and keeps no other from its turn; where none can be read, that is said."""
    broken, other = new_namespace(), new_namespace()
    monkeypatch.setattr(drain_reading, "NAMESPACES_PER_READ", 1)
    proxy.order(status(403, reason="Forbidden"), when=lambda asked: broken in asked.path, times=2)
    reader = DrainReader(client)
    assert reader.read_or_fail(asked(broken, other)) is None
    reading = reader.read(asked(broken, other, at=1.0))
    assert (reading.knows(broken), reading.knows(other)) == (False, True)
    assert reader.read_or_fail(asked(broken, other, at=2.0)) is None
    reader.read(asked(broken, other, at=3.0))
    assert reader.read(asked(broken, other, at=4.0)).knows(broken)


def test_budgets_that_are_too_large_are_asked_for_more_seldom(
    client: Client, proxy: FaultyProxy, new_namespace: NewNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not counted: it is known that there are more."""
    monkeypatch.setattr(budgets, "MAX_BUDGET_BYTES", 100)
    large = new_namespace()
    for number in range(3):
        make(client, large, f"budget-{number}")
    reader, before = DrainReader(client), len(proxy.asked)
    reading = reader.read(asked(large))
    reader.read(asked(large, at=1.0))
    assert "too large" in reading.index.excess(large, WEB)
    assert len(proxy.asked) - before == 1


def test_nodes_are_looked_for_in_turn(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few in each reading; which of them are gone is remembered."""
    monkeypatch.setattr(drain_reading, "NODES_PER_READ", 1)
    reader, nodes = DrainReader(client), frozenset({"gone-1", "gone-2", "node-0"})
    readings = [
        reader.read(ReadRequest(at=at, pods_to_go={}, waiting_pods=frozenset(), nodes=nodes))
        for at in (1.0, 2.0, 3.0)
    ]
    assert [reading.gone_nodes for reading in readings] == [
        {"gone-1"},
        {"gone-1", "gone-2"},
        {"gone-1", "gone-2"},
    ]
