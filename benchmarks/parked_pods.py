"""Pods that wait: members of a stopped queue by the gate or by filter alone, and pods that no node fits."""

from __future__ import annotations

from enum import StrEnum

from benchmarks.bench import PATIENCE, Bench
from benchmarks.objects import QUEUE, deployment, pods, pods_path
from localcluster.components import until


class Parked(StrEnum):
    """How."""

    BY_GATE = "gate"  #: created after the stop
    BY_FILTER = "filter"  #: pending before it


#: The Deployment whose pods are created again.
RECREATED = "recreated"


def park(bench: Bench, count: int, *, how: Parked, namespace: str, queue: str = QUEUE) -> None:
    """So many wait afterwards. To park by filter, no scheduler may run."""
    bench.namespace(namespace)
    made = pods(count, prefix="parked", queue=queue)
    bench.queue(queue, state="Open", parked="Keep")
    if how == Parked.BY_FILTER:
        bench.create_pods(made, namespace=namespace)
        bench.quiet()
    bench.queue(queue, state="Suspended")
    if how == Parked.BY_GATE:
        bench.create_pods(made, namespace=namespace)


def park_to_recreate(bench: Bench, count: int, *, namespace: str, queue: str = QUEUE) -> None:
    """So many pods of a Deployment are pending when their queue stops; they are created again once they are
    refused. No scheduler may run.
    """
    bench.namespace(namespace)
    bench.queue(queue, state="Open", parked="Recreate")
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    bench.must("POST", path, deployment(RECREATED, queue=queue, replicas=count))
    until(
        lambda: len(bench.pod_names(namespace=namespace)) == count,
        what="the pods to be created",
        seconds=PATIENCE,
    )
    bench.quiet()
    bench.queue(queue, state="Suspended")


def all_gated(bench: Bench, count: int, *, namespace: str) -> bool:
    pods = bench.must("GET", pods_path(namespace))["items"]
    return len(pods) == count and all(pod["spec"].get("schedulingGates") for pod in pods)


def clear_recreated(bench: Bench, *, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}"
    bench.must("DELETE", f"{path}/deployments?propagationPolicy=Orphan")
    bench.must("DELETE", f"{path}/replicasets?propagationPolicy=Orphan")
    until(
        lambda: not bench.must("GET", f"{path}/replicasets")["items"],
        what="the ReplicaSets to go",
        seconds=PATIENCE,
    )


def wait_for_no_node(bench: Bench, count: int, *, namespace: str) -> None:
    """So many pods of no queue that no node fits."""
    bench.namespace(namespace)
    selector = {"example.com/no-such-label": "true"}
    bench.create_pods(pods(count, prefix="unfit", nodeSelector=selector), namespace=namespace)
