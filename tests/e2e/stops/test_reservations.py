"""What a stopped queue had reserved is free for others."""

from __future__ import annotations

import pytest

from tests.support.e2e.shapes import on_a_node
from tests.support.e2e.stage import Stage
from tests.support.e2e.waiting_for import until

#: So much of a node's 64 CPUs that no two fit.
MOST = "60"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
KEPT = "tests.sluice.dev/kept"


@pytest.fixture
def nominated(stage: Stage) -> str:
    """A queue with a pod that kube-scheduler makes room for; its victim takes its time to go."""
    queue = stage.queue()
    high = stage.create(CLASSES, {"metadata": {"name": stage.named("high")}, "value": 1000})
    until(
        lambda: stage.pod("would-be", priorityClassName=high["metadata"]["name"], dry=True).status == 201,
        "the priority class to be known",
    )
    nodes = stage.api.get("/api/v1/nodes").must().body["items"]
    victims = stage.pods("victim", len(nodes), cpu=MOST, finalizers=[KEPT])
    stage.all_bound(victims)
    stage.pod("important", queue, cpu=MOST, priorityClassName=high["metadata"]["name"]).must()
    until(lambda: stage.read_pod("important")["status"].get("nominatedNodeName"), "the nomination")
    return queue


def let_the_victims_go(stage: Stage) -> None:
    for name, pod in stage.read_pods().items():
        if "deletionTimestamp" in pod["metadata"]:
            stage.patch_pod(name, {"metadata": {"finalizers": None}}).must()


def test_a_stop_gives_the_room_to_who_fits(stage: Stage, nominated: str) -> None:
    """A pod of no queue and lower priority, which the nomination had kept out."""
    try:
        stage.suspend(nominated)
        until(
            lambda: not stage.read_pod("important")["status"].get("nominatedNodeName"),
            "the nomination to be taken off",
        )
        let_the_victims_go(stage)
        stage.pod("other", cpu=MOST).must()
        stage.all_bound(["other"])
        assert not on_a_node(stage.read_pod("important"))
    finally:
        for name in stage.read_pods():
            stage.patch_pod(name, {"metadata": {"finalizers": None}})
