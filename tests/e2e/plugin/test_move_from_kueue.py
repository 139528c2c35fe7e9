"""The page *Move from Kueue*, as its reader follows it: each command prints what the page says.

Kueue's definitions are real, and pinned in localcluster/kueue/go.mod. Kueue itself does not run: what it
would have made by then is made by the test.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from localcluster import external_tools
from localcluster.cluster import LocalCluster
from tests.support.docs.pages import text_of
from tests.support.e2e.api_requests import Api, Object
from tests.support.e2e.page_reader import follow
from tests.support.e2e.wait import until
from tests.support.skipping import built_or_skipped

#: Definitions of another project.
KEEPS_CLUSTER = True
FINALIZER = "kueue.x-k8s.io/resource-in-use"
LABEL = "kueue.x-k8s.io/queue-name"
REQUESTS = {"requests": {"cpu": "1"}}
CONTAINERS = [{"name": "work", "image": "none", "resources": REQUESTS}]


def job(name: str, pods: int, *, suspend: bool) -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "vision", "labels": {LABEL: "vision"}},
        "spec": {
            "suspend": suspend,
            "parallelism": pods,
            "completions": pods,
            "template": {"spec": {"restartPolicy": "Never", "containers": CONTAINERS}},
        },
    }


#: What Kueue had let in, and what it keeps back.
MADE: list[Object] = [
    job("runs", 1, suspend=False),
    job("waits", 3, suspend=True),
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "bare",
            "namespace": "vision",
            "labels": {LABEL: "vision", "kueue.x-k8s.io/managed": "true"},
            "finalizers": ["kueue.x-k8s.io/managed"],
        },
        "spec": {
            "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}],
            "containers": CONTAINERS,
        },
    },
    {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "job-runs", "namespace": "vision", "finalizers": [FINALIZER]},
        "spec": {
            "queueName": "vision",
            "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": CONTAINERS}}}],
        },
    },
    *(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": f"kueue-{kind.lower()}-webhook-configuration"},
        }
        for kind in ("Mutating", "Validating")
    ),
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "kueue-controller-manager", "namespace": "kueue-system"},
        "spec": {
            "selector": {"matchLabels": {"app": "kueue"}},
            "template": {
                "metadata": {"labels": {"app": "kueue"}},
                "spec": {"containers": [{"name": "manager", "image": "none"}]},
            },
        },
    },
]


def is_served(api: Api, path: str) -> bool:
    return api.get(path).status == 200


@pytest.fixture
def kueue(served_cluster: LocalCluster) -> LocalCluster:
    definitions = built_or_skipped(
        "definitions of Kueue", lambda: external_tools.kueue_definitions(say=print)
    )
    cluster = served_cluster
    cluster.kubectl("apply", "--server-side", *(f"--filename={path}" for path in definitions))
    for namespace in ("vision", "speech", "kueue-system"):
        cluster.kubectl("create", "namespace", namespace)
    with Api(cluster) as api:
        base = "/apis/kueue.x-k8s.io/v1beta2"
        for resource in ("clusterqueues", "localqueues", "workloads", "resourceflavors"):
            until(partial(is_served, api, f"{base}/{resource}"), f"{resource} to be served")
        cluster.kubectl("apply", "--server-side", "--filename=-", stdin=yaml.safe_dump_all(MADE))
        runs = "/api/v1/namespaces/vision/pods?labelSelector=job-name%3Druns"
        until(lambda: api.get(runs).body["items"][0]["status"]["phase"] == "Running", "the Job to run")
    return cluster


def add_finalizers(cluster: LocalCluster) -> None:
    """As Kueue's webhook does."""
    body = f'{{"metadata": {{"finalizers": ["{FINALIZER}"]}}}}'
    for name in ("clusterqueue/vision-cq", "clusterqueue/speech-cq", "resourceflavor/any"):
        cluster.kubectl("patch", name, "--type=merge", f"--patch={body}")


def phases(cluster: LocalCluster) -> Iterator[str]:
    with Api(cluster) as api:
        for pod in api.get("/api/v1/namespaces/vision/pods").must().body["items"]:
            yield pod["status"]["phase"]


def test_the_move_prints_what_the_page_says_and_stops_nothing(kueue: LocalCluster, tmp_path: Path) -> None:
    def done(command: str) -> None:
        if "kind: ClusterQueue" in command:
            add_finalizers(kueue)

    assert follow(text_of("operating/move-from-kueue.md"), kueue, tmp_path, done=done) == 19
    assert sorted(phases(kueue)) == ["Pending", "Pending", "Running", "Running", "Running"]
