"""Running pods of Deployments: made, emptied, cleared away."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

from benchmarks.bench import PATIENCE, Bench, Done
from benchmarks.objects import HOME, QUEUE, QUEUES, creations, deployment, pods_path
from localcluster.components import until

DEPLOYMENTS = 10
PATH = f"/apis/apps/v1/namespaces/{HOME}/deployments"
#: Each look goes through all pods.
LOOK_SECONDS = 0.25
RUNNING = f"{pods_path()}?limit=1&fieldSelector=status.phase=Running"


def create(bench: Bench, *, queue: str, replicas: int, **spec: object) -> Done:
    """`DEPLOYMENTS` of them, of so many pods each, in the queue or in none. `spec`: more of what pods say."""
    bodies = (
        deployment(f"app-{number}", queue=queue, replicas=replicas, **spec) for number in range(DEPLOYMENTS)
    )
    return bench.write(creations(PATH, bodies))


def await_all_running(bench: Bench, *, replicas: int) -> None:
    await_pods(bench, replicas=replicas)
    bench.await_running()


def await_pods(bench: Bench, *, replicas: int) -> None:
    """There are as many as the Deployments want, running or not."""
    count = replicas * DEPLOYMENTS
    until(lambda: len(bench.pod_names()) == count, what="all pods to be there", seconds=PATIENCE)


def empty(bench: Bench, begin: Callable[[], None]) -> float:
    """Seconds until no pod runs."""
    bench.quiet()
    began = time.perf_counter()
    begin()
    until(
        lambda: not bench.must("GET", RUNNING)["items"],
        what="the last pod to stop running",
        seconds=PATIENCE,
        pause=LOOK_SECONDS,
    )
    return time.perf_counter() - began


def delete_by_kubectl(bench: Bench) -> None:
    subprocess.run(
        [*bench.kubectl, "delete", "pods", "--selector=bench=load", f"--namespace={HOME}", "--wait=false"],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def set_stop_policy(bench: Bench, policy: str) -> None:
    bench.must("PATCH", f"{QUEUES}/{QUEUE}", {"spec": {"stopPolicy": policy}})


def clear(bench: Bench) -> None:
    bench.must("DELETE", f"{PATH}?propagationPolicy=Orphan")
    replica_sets = PATH.replace("deployments", "replicasets")
    bench.must("DELETE", f"{replica_sets}?propagationPolicy=Orphan")
    until(
        lambda: not bench.must("GET", replica_sets)["items"], what="the ReplicaSets to go", seconds=PATIENCE
    )
    bench.clear()
