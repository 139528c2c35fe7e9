"""Plugin `overcommit` on a control plane: as many pods are let go as its factor allows, and one at least."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.e2e.objects import gates, on_a_node
from tests.support.e2e.policies import Policies, policy
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled, until

SLOT, RELEASED = "example.com/slot", "sluice.dev/released"
TEXT = "as much waits for nodes already as plugin overcommit of its policy allows"


def slots(sandbox: Sandbox, number: str | None) -> None:
    """Let one node have so many, of what no other node has any."""
    [node, *_] = sandbox.api.get("/api/v1/nodes").must().body["items"]
    status = {"capacity": {SLOT: number}, "allocatable": {SLOT: number}}
    sandbox.api.patch(f"/api/v1/nodes/{node['metadata']['name']}/status", {"status": status}).must()


def slot_pods(sandbox: Sandbox, number: int, queue: str) -> list[str]:
    """So many pods that need a slot each."""
    amounts = {SLOT: "1"}
    container = {"name": "work", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    return sandbox.pods("work", number, queue, containers=[container])


@pytest.fixture
def no_slots_later(sandbox: Sandbox) -> Iterator[None]:
    yield
    slots(sandbox, None)


@pytest.mark.usefixtures("no_slots_later")
def test_a_policy_that_comes_beside_creations_lets_no_more_go_than_its_factor_says(
    sandbox: Sandbox, policies: Policies
) -> None:
    """Those that were created before have no gate, and count; filter lets those pass that were released."""
    slots(sandbox, "2")
    policies.write(over=policy("allocate"))
    queue = sandbox.queue(schedulerPolicy="over")
    requests = {SLOT: "1"}
    container = {"name": "work", "image": "none", "resources": {"requests": requests, "limits": requests}}
    with ThreadPoolExecutor(1) as pool:
        creations = pool.submit(sandbox.pods, "work", 30, queue, containers=[container])
        until(lambda: len(sandbox.read_pods()) >= 3, "the first to come")
        policies.write(over=policy("enqueue, allocate", "overcommit, arguments: {overcommit-factor: 1.5}"))
        creations.result()

    def let_go() -> int:
        pods = sandbox.read_pods().values()
        return sum(on_a_node(pod) or RELEASED in pod["metadata"]["labels"] for pod in pods)

    until(lambda: let_go() == 3, "three pods to be let go")
    sandbox.pod("later", queue, containers=[container]).must(201)
    sandbox.reason_on("later", TEXT)
    assert settled(let_go, "the pods", seconds=1.0) == 3


@pytest.mark.usefixtures("no_slots_later")
def test_as_many_pods_are_let_go_as_its_factor_says_and_one_at_least(
    sandbox: Sandbox, policies: Policies
) -> None:
    slots(sandbox, "2")
    policies.write(over=policy("enqueue, allocate", "overcommit, arguments: {overcommit-factor: 1.5}"))
    queue = sandbox.queue(schedulerPolicy="over")

    def released(names: list[str]) -> list[str]:
        return [name for name in names if not gates(sandbox.read_pod(name))]

    names = slot_pods(sandbox, 5, queue)
    until(lambda: len(released(names)) == 3, "three pods to be let go")
    waiting = [name for name in names if name not in released(names)]
    for name in waiting:
        sandbox.reason_on(name, TEXT)
    assert settled(lambda: len(released(names)), "the pods") == 3
    slots(sandbox, "3")
    until(lambda: len(released(names)) == 4, "a fourth, since nodes have more")
    slots(sandbox, "0")  # nobody has any: it is skipped, and kube-scheduler says why they wait
    until(lambda: len(released(names)) == 5, "the last")
    policies.write(over=policy("allocate"))
    sandbox.pod("later", queue).must(201)
    until(lambda: not gates(sandbox.read_pod("later")), "one without the action, which waits for nothing")
    assert sum(on_a_node(sandbox.read_pod(name)) for name in names) == 3


@pytest.mark.usefixtures("no_slots_later")
def test_one_more_is_let_go_once_the_last_one_has_a_node(sandbox: Sandbox, policies: Policies) -> None:
    """No use falls then: the second one counts from its release on."""
    slots(sandbox, "1")
    policies.write(over=policy("enqueue, allocate", "overcommit, arguments: {overcommit-factor: 1}"))
    queue = sandbox.queue(schedulerPolicy="over")
    names = slot_pods(sandbox, 3, queue)

    def on_nodes() -> list[str]:
        return [name for name in names if on_a_node(sandbox.read_pod(name))]

    def gated() -> list[str]:
        return [name for name in names if gates(sandbox.read_pod(name))]

    until(lambda: len(on_nodes()) == 1 and len(gated()) == 1, "one to run, and one to be let go")
    [first], [third] = on_nodes(), gated()
    sandbox.reason_on(third, TEXT)
    names.remove(first)
    sandbox.api.delete(f"{sandbox.pods_path}/{first}").must(200)
    until(lambda: len(on_nodes()) == 1, "the second to run")
    until(lambda: not gated(), "the third to be let go")
    assert third not in on_nodes()
