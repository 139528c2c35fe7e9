"""What a pod is asked about by, and pods that wait for room until the test makes it."""

from __future__ import annotations

from typing import Any

from queues import well_known
from queues.mode import Mode
from tests.support.e2e.api_requests import Object
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until

#: A label that a node gets only by `make_room`.
ROOM = "tests.sluice.dev/room"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
#: So much of a node's 64 CPUs that no two fit.
MOST = "60"


def mode_of(pod: Object) -> Mode:
    """The mode in which this member was created, by what it has."""
    if well_known.MARKER in str(pod["spec"]["containers"][0].get("resources", {})):
        return Mode.EXTENDER
    return Mode.SCHEDULER if pod["spec"]["schedulerName"] == "sluice" else Mode.GATE


def wait_for_room(sandbox: Sandbox, prefix: str, count: int, queue: str, **more: Any) -> list[str]:
    """Members without a gate that fit no node; returns once their scheduler has tried each."""
    pods = sandbox.pods(prefix, count, queue, nodeSelector={ROOM: sandbox.namespace}, **more)
    for name in pods:
        sandbox.reason_on(name, "affinity/selector")
    return pods


def make_room(sandbox: Sandbox) -> None:
    """Let the pods of `wait_for_room` fit on every node."""
    for node in sandbox.api.get("/api/v1/nodes").must().body["items"]:
        sandbox.api.patch(
            f"/api/v1/nodes/{node['metadata']['name']}", {"metadata": {"labels": {ROOM: sandbox.namespace}}}
        ).must()


def pending_before_a_stop(sandbox: Sandbox, queue: str) -> str:
    """A member of high priority, created before its queue was stopped, that no scheduler has tried yet."""
    high = sandbox.create(CLASSES, {"metadata": {"name": sandbox.named("high")}, "value": 1000})
    body = {"gated": True, "cpu": MOST, "priorityClassName": high["metadata"]["name"]}
    until(
        lambda: sandbox.pod("important", queue, **body).status == 201,
        "the priority class to be known",
    )
    sandbox.suspend(queue)
    return "important"


def fill_nodes(sandbox: Sandbox) -> set[str]:
    """A pod of no queue on each node, which leaves no room for another."""
    nodes = sandbox.api.get("/api/v1/nodes").must().body["items"]
    victims = sandbox.pods("victim", len(nodes), cpu=MOST)
    sandbox.all_bound(victims)
    return set(victims)


def alive(sandbox: Sandbox, pods: set[str]) -> set[str]:
    """Those of them that are not being deleted."""
    stored = sandbox.read_pods()
    return {name for name in pods if name in stored and "deletionTimestamp" not in stored[name]["metadata"]}
