"""A large cluster to score in: real Node objects, and pods on them from a replay.

The nodes differ in what they have, so that most scores differ. Nothing looks after them: kwok and
kube-controller-manager, which would write to all of them, are stopped.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from benchmarks.bench import PATIENCE, Bench
from benchmarks.filtering.go_extender import started
from benchmarks.objects import HOME, creations, pod, pods_path
from benchmarks.syncing.replayed_list import Large
from benchmarks.syncing.row import FOLLOWING
from benchmarks.target import Target
from localcluster import apiserver, nodes
from localcluster.components import until

#: As the replay names them.
NODE_NAME = "node-{:07d}"
NODE_FORMAT = "node-%07d"
#: Of the pod that is asked about: about 4 KiB.
VARIABLES = 60


def create_nodes(bench: Bench, numbers: range) -> None:
    bench.write(creations("/api/v1/nodes", [_node(number) for number in numbers]))


def stop_node_controllers(bench: Bench) -> None:
    bench.cluster.stop_components("kwok", "kube-controller-manager")


def _node(number: int) -> dict[str, Any]:
    body = nodes.node(number, now=datetime.now(UTC))
    name = NODE_NAME.format(number)
    body["metadata"]["name"] = body["metadata"]["labels"]["kubernetes.io/hostname"] = name
    amounts = {
        "cpu": f"{8 + number * 7919 % 997 * 0.1:.1f}",
        "memory": f"{32 * 1024 + number * 104_729 % 4_999}Mi",
        "pods": "110",
    }
    body["status"]["capacity"] = body["status"]["allocatable"] = amounts
    return body


def pending_pod(
    bench: Bench, name: str, *, queue: str, cpu: str = "500m", memory: str = "1Gi"
) -> dict[str, Any]:
    """A member that waits for a node, as kube-scheduler sends it."""
    body = pod(name, queue=queue)
    (container,) = body["spec"]["containers"]
    container["resources"]["requests"] = {"cpu": cpu, "memory": memory}
    container["env"] = [{"name": f"VARIABLE_{number:04d}", "value": "x" * 24} for number in range(VARIABLES)]
    bench.must("POST", pods_path(HOME), body)
    stored = bench.read(f"{pods_path(HOME)}/{name}")
    assert stored is not None
    del stored["metadata"]["managedFields"]
    return stored


def names(count: int) -> list[str]:
    return [NODE_NAME.format(number) for number in range(count)]


def post(target: Target, verb: str, sent: dict[str, Any], nodes_sent: Sequence[str]) -> Any:
    """The answer of an extender about these nodes."""
    url = target.url
    where = urlsplit(url)
    assert where.port is not None
    context = ssl.create_default_context(cafile=str(target.ca))
    if target.client is not None:
        context.load_cert_chain(*target.client)
    with apiserver.Https(port=where.port, context=context) as client:
        body = {"Pod": sent, "Nodes": None, "NodeNames": list(nodes_sent)}
        reply = client.request("POST", f"{where.path}/{verb}", body)
    if reply.status != 200:
        raise RuntimeError(f"{url}/{verb}: {reply.status} {reply.body[:200]!r}")
    return reply.json()


def await_scores(target: Target, sent: dict[str, Any], nodes_sent: Sequence[str]) -> None:
    """Filter has let the pod through, the server knows the pod, and nodes and pods have been read."""

    def scores() -> bool:
        post(target, "filter", sent, nodes_sent)
        return any(each["Score"] for each in post(target, "prioritize", sent, nodes_sent))

    until(scores, what="the server to score nodes", seconds=PATIENCE)


@contextmanager
def go_extender(bench: Bench, large: Large, *arguments: str) -> Iterator[tuple[Target, int]]:
    """The Go extender in sync with the large cluster, and its process ID."""
    command = ["-kubeconfig", str(large.admin), *arguments]
    with started("scoring/twin", *command, say=bench.say, env=FOLLOWING) as found:
        yield found
