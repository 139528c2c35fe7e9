"""A stop that a replica has not seen: --wait, why and tree say so, and go on once it has."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from typing import Any

import yaml

from cluster.coordination.replica_lease import (
    LABEL,
    PREFIX,
    SEEN_ANNOTATION,
)
from localcluster.cluster import LocalCluster
from tests.support.plugin.harness import (
    HOME,
    PLUGIN,
    plugin,
)

NAMESPACE = "sluice-system"
WAITS = "ReplicaBehind: replica late has not seen the stop"
#: Newer than any version that the API server gives out.
NEWEST = 1 << 53


def set_lease(cluster: LocalCluster, **view: Any) -> None:
    """A replica that answers and has seen what `view` says; no process is behind it. It counts until 15 s
    after its Lease was changed last.
    """
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": f"{PREFIX}late",
            "namespace": NAMESPACE,
            "labels": {LABEL: "true"},
            "annotations": {SEEN_ANNOTATION: json.dumps(view)},
        },
        "spec": {"holderIdentity": "late", "leaseDurationSeconds": 3600},
    }
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(lease))


def test_what_an_acknowledgement_waits_for_is_shown_until_it_has_come(
    new_cluster: Callable[..., LocalCluster],
) -> None:
    cluster = new_cluster()

    def run(*words: str) -> str:
        done = plugin(*words, kubeconfig=cluster.client_kubeconfig)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("create", "research", "--wait")
    set_lease(cluster, seen=1, pods=0, open=[], admitting=[], passes=[])
    waiting = subprocess.Popen(
        [PLUGIN, "suspend", "research", "--wait", "--timeout=0"],
        env={
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(cluster.client_kubeconfig),
            "HOME": HOME.name,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert waiting.stderr is not None
    assert any(f"not acknowledged yet ({WAITS})" in line for line in waiting.stderr)
    set_lease(cluster, seen=2, pods=0, open=[], admitting=[], passes=[])
    assert f"may still be bound; it waits for {WAITS}" in run("why", "research")
    set_lease(cluster, seen=2, pods=1, open=[], admitting=[], passes=[])  # it answers still
    assert f"suspended; not acknowledged yet ({WAITS})" in run("tree", "research")
    assert waiting.poll() is None
    set_lease(cluster, seen=NEWEST, pods=NEWEST, open=[], admitting=[], passes=[])
    told, _ = waiting.communicate(timeout=300)
    assert waiting.returncode == 0
    assert "queue.scheduling.volcano.sh/research acknowledged: Suspended" in told
    assert "Acknowledged: yes, since " in run("why", "research")
    assert "acknowledged since " in run("tree", "research")
