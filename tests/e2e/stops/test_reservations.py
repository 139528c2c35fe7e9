"""What a stopped queue had reserved is free for others."""

from __future__ import annotations

import pytest

from tests.support.e2e.objects import on_a_node
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until

#: So much of a node's 64 CPUs that no two fit.
MOST = "60"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
KEPT = "tests.sluice.dev/kept"


@pytest.fixture
def nominated(sandbox: Sandbox) -> str:
    """A queue with a pod that kube-scheduler makes room for; its victim takes its time to go."""
    queue = sandbox.queue()
    high = sandbox.create(CLASSES, {"metadata": {"name": sandbox.named("high")}, "value": 1000})
    until(
        lambda: sandbox.pod("would-be", priorityClassName=high["metadata"]["name"], dry=True).status == 201,
        "the priority class to be known",
    )
    nodes = sandbox.api.get("/api/v1/nodes").must().body["items"]
    victims = sandbox.pods("victim", len(nodes), cpu=MOST, finalizers=[KEPT])
    sandbox.all_bound(victims)
    sandbox.pod("important", queue, cpu=MOST, priorityClassName=high["metadata"]["name"]).must()
    until(lambda: sandbox.read_pod("important")["status"].get("nominatedNodeName"), "the nomination")
    return queue


def let_the_victims_go(sandbox: Sandbox) -> None:
    for name, pod in sandbox.read_pods().items():
        if "deletionTimestamp" in pod["metadata"]:
            sandbox.patch_pod(name, {"metadata": {"finalizers": None}}).must()


def test_a_stop_gives_the_room_to_who_fits(sandbox: Sandbox, nominated: str) -> None:
    """A pod of no queue and lower priority, which the nomination had kept out."""
    try:
        sandbox.suspend(nominated)
        until(
            lambda: not sandbox.read_pod("important")["status"].get("nominatedNodeName"),
            "the nomination to be taken off",
        )
        let_the_victims_go(sandbox)
        sandbox.pod("other", cpu=MOST).must()
        sandbox.all_bound(["other"])
        assert not on_a_node(sandbox.read_pod("important"))
    finally:
        for name in sandbox.read_pods():
            sandbox.patch_pod(name, {"metadata": {"finalizers": None}})
