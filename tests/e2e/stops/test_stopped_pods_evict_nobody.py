"""Full nodes and a pod of high priority: it evicts others only while its queue schedules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localcluster.scheduler_config import without_preempt
from tests.support.e2e.objects import is_active, on_a_node
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled, until

#: So much of a node's 64 CPUs that no two fit.
MOST = "60"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    """A suspended queue with a pod of high priority that had been pending before."""
    name = sandbox.queue()
    high = sandbox.create(CLASSES, {"metadata": {"name": sandbox.named("high")}, "value": 1000})
    until(
        lambda: (
            sandbox.pod(
                "important", name, gated=True, cpu=MOST, priorityClassName=high["metadata"]["name"]
            ).status
            == 201
        ),
        "the priority class to be known",
    )
    sandbox.suspend(name)
    return name


@pytest.fixture
def victims(sandbox: Sandbox) -> list[str]:
    """A pod on each node that leaves no room for another."""
    nodes = sandbox.api.get("/api/v1/nodes").must().body["items"]
    names = sandbox.pods("victim", len(nodes), cpu=MOST)
    sandbox.all_bound(names)
    return names


@pytest.fixture
def without_the_verb(sandbox: Sandbox) -> Iterator[None]:
    """A scheduler that does not ask us about victims."""
    try:
        sandbox.cluster.configure_scheduler(without_preempt)
        yield
    finally:
        sandbox.cluster.configure_scheduler()


def alive(sandbox: Sandbox) -> set[str]:
    return {
        name
        for name, pod in sandbox.read_pods().items()
        if name.startswith("victim") and "deletionTimestamp" not in pod["metadata"]
    }


def test_a_pod_of_a_suspended_queue_evicts_no_pod(sandbox: Sandbox, victims: list[str], queue: str) -> None:
    """Nodes without room never reach filter, so preempt denies it."""
    asked = sandbox.calls("/extender/preempt")
    sandbox.ungate(["important"])
    sandbox.reason_on("important", "Insufficient cpu")
    settled(lambda: sandbox.calls("/extender/preempt"), "the calls of preempt")
    assert sandbox.calls("/extender/preempt") > asked
    assert alive(sandbox) == set(victims)


def test_without_the_preempt_verb_it_would_evict_a_pod(
    sandbox: Sandbox, victims: list[str], queue: str, without_the_verb: None
) -> None:
    """The same setting. It shows that the test above can fail."""
    sandbox.ungate(["important"])
    until(lambda: alive(sandbox) != set(victims), "a victim")


def test_after_a_resume_it_pushes_one_aside(sandbox: Sandbox, victims: list[str], queue: str) -> None:
    """Preemption is not switched off, only kept from those that may not run anyway."""
    sandbox.ungate(["important"])
    sandbox.reason_on("important", "Insufficient cpu")
    assert is_active(sandbox.edit(queue, state="Open"))
    until(lambda: on_a_node(sandbox.read_pod("important")), "the important pod to be bound")
    assert len(alive(sandbox)) == len(victims) - 1
