"""Another definition of queues applied over ours: noticed, named, and nothing is decided until it is mended.

On a cluster of their own, for there is one definition of queues in a cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster import apiserver
from localcluster.apiserver import Https
from localcluster.cluster import LocalCluster
from localcluster.layout import ROOT
from tests.e2e.localcluster.test_refused_starts import read_leases, start
from tests.support.e2e.api_requests import JSON, Object, metric
from tests.support.e2e.objects import (
    gates,
    is_answered,
    is_stopped,
    queue_body,
)
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import settled, until

pytestmark = pytest.mark.long

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/queues.scheduling.volcano.sh"
#: Its definition of queues is replaced and mended.
KEEPS_CLUSTER = True
#: What a definition of queues has without us, as far as it matters here.
FOREIGN_SCHEMA: Object = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "weight": {"type": "integer", "format": "int32", "default": 1},
                "parent": {"type": "string"},
                "reclaimable": {"type": "boolean"},
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "state": {"type": "string"},
                "pending": {"type": "integer", "format": "int32"},
                "running": {"type": "integer", "format": "int32"},
            },
        },
    },
}


@pytest.fixture
def sandbox(served_cluster: LocalCluster) -> Iterator[Sandbox]:
    """A sandbox on a cluster whose definition of queues is ours again after the test."""
    made = Sandbox(served_cluster)
    yield made
    mend(made)
    until_mended(made)
    made.clear()
    made.close()


def apply_foreign(sandbox: Sandbox) -> None:
    """As `kubectl replace` of another project's definition would."""
    version = "/spec/versions/0"
    change: list[Object] = [
        {"op": "replace", "path": f"{version}/schema/openAPIV3Schema", "value": FOREIGN_SCHEMA},
        {"op": "remove", "path": f"{version}/additionalPrinterColumns"},
    ]
    sandbox.api.patch(CRD, change, kind=JSON).must()


def mend(sandbox: Sandbox) -> None:
    """By the words of the server's own advice."""
    crds = str(ROOT / "manifests" / "crds")
    sandbox.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", crds)


def missing(sandbox: Sandbox) -> str:
    """What `/readyz` says is missing; nothing while it is ready."""
    layout, ports = sandbox.cluster.layout, sandbox.cluster.ports
    context = apiserver.caller_context(layout)
    with Https(port=ports.server, context=context) as client:
        answer = client.request("GET", "/readyz")
    found = json.loads(answer.body)
    assert (answer.status == 200) is found["ok"]
    return "; ".join(found["missing"])


def until_mended(sandbox: Sandbox) -> None:
    """Returns once the server is ready, and the API server keeps our fields: they hear of it apart."""
    suspended = queue_body(sandbox.named("probe"), state="Suspended")

    def is_mended() -> bool:
        if missing(sandbox):
            return False
        answer = sandbox.api.create(f"{QUEUES}?dryRun=All", suspended)
        return answer.status == 201 and answer.body["spec"].get("state") == "Suspended"

    until(is_mended, "the server to be ready again")


def until_noticed(sandbox: Sandbox) -> str:
    return until(
        lambda: (said := missing(sandbox)) and "lacks" in said and said, "the definition to be named"
    )


def test_the_missing_fields_are_named_with_the_way_out(sandbox: Sandbox) -> None:
    """`/readyz` is 503 with both, and 200 again once the way was taken, without a restart."""
    apply_foreign(sandbox)
    said = until_noticed(sandbox)
    assert "queues.scheduling.volcano.sh lacks spec.state, spec.stopPolicy" in said
    assert "kubectl apply --server-side --force-conflicts -k manifests/crds" in said
    mend(sandbox)
    until_mended(sandbox)


def test_the_queues_are_listed_less_and_less_meanwhile(sandbox: Sandbox) -> None:
    """They were listed hundreds of times a second: each answer, of no use, woke all that waited. At last
    the list rests for two seconds, and once the definition is mended it is done.
    """
    apply_foreign(sandbox)
    until_noticed(sandbox)
    settled(lambda: failed_lists(sandbox), "the lists of queues", seconds=2.0)
    assert failed_lists(sandbox) < 50
    mend(sandbox)
    until_mended(sandbox)
    retrying = r'sluice_retrying_since_timestamp_seconds\{loop="reflector-queues"\}'
    until(lambda: not read_metric(sandbox, retrying), "the reflector to succeed")


def failed_lists(sandbox: Sandbox) -> float:
    return read_metric(sandbox, r'sluice_reflector_errors_total\{kind="queues"\}')


def read_metric(sandbox: Sandbox, pattern: str) -> float:
    cluster = sandbox.cluster
    return metric(cluster.ports.server, apiserver.caller_context(cluster.layout), pattern)


def test_a_stop_outlives_a_foreign_definition(sandbox: Sandbox) -> None:
    """A write would lose it for good; a pod of the queue goes meanwhile, and not even that is counted."""
    queue = sandbox.queue()
    sandbox.suspend(queue)
    sandbox.pods("parked", 2, queue)
    sandbox.queue_that(queue, "count its pods", lambda found: counted(found) == 2)
    before = settled(lambda: stored_version(sandbox, queue), "the queue", seconds=1.0)
    apply_foreign(sandbox)
    until_noticed(sandbox)
    until(lambda: "stopPolicy" not in sandbox.read_queue(queue)["spec"], "the fields to be left out")
    sandbox.api.delete(f"{sandbox.pods_path}/parked-0?gracePeriodSeconds=0").must()
    assert settled(lambda: stored_version(sandbox, queue), "the queue") == before
    mend(sandbox)
    until_mended(sandbox)
    found = sandbox.queue_that(queue, "count its pods anew", lambda found: counted(found) == 1)
    assert found["spec"]["state"] == "Suspended"
    assert is_stopped(found)
    assert gates(sandbox.read_pod("parked-1"))


def counted(queue: Object) -> int:
    return int(queue["status"].get("pods", {}).get("pending", 0))


def stored_version(sandbox: Sandbox, queue: str) -> str:
    return str(sandbox.read_queue(queue)["metadata"]["resourceVersion"])


def test_meanwhile_members_and_queues_are_refused_and_others_are_not(sandbox: Sandbox) -> None:
    """Who asks for a queue is told to come back; a pod of no queue is made and bound as ever."""
    queue = sandbox.queue()
    apply_foreign(sandbox)
    until_noticed(sandbox)
    refused = sandbox.pod("member", queue)
    assert refused.status == 500, refused
    assert "sluice" in refused.message
    edited = sandbox.api.patch(f"{QUEUES}/{queue}", {"spec": {"weight": 3}})
    assert edited.status == 500, edited
    sandbox.pod("stranger").must(201)
    sandbox.all_bound(["stranger"])


def test_after_it_is_mended_all_goes_on_by_itself(sandbox: Sandbox) -> None:
    """A queue can be suspended and resumed, and its pods are bound."""
    queue = sandbox.queue()
    sandbox.suspend(queue)
    sandbox.pods("parked", 3, queue)
    apply_foreign(sandbox)
    until_noticed(sandbox)
    mend(sandbox)
    until_mended(sandbox)
    until(lambda: sandbox.patch_queue(queue, state="Open").status == 200, "the queue to be resumed")
    until(lambda: is_answered(sandbox.read_queue(queue)), "the resume to be answered")
    sandbox.all_bound([f"parked-{number}" for number in range(3)])


def test_a_server_does_not_start_with_a_foreign_definition_and_writes_nothing(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """It was stopped when ours was replaced: it ends and says why; after the way out it goes on."""
    queue = sandbox.queue()
    sandbox.suspend(queue)
    cluster = sandbox.cluster
    cluster.stop_components("server")
    before = stored_version(sandbox, queue)
    apply_foreign(sandbox)
    leases = read_leases(cluster)
    done = start(cluster, tmp_path / "certs")
    assert done.returncode == 1
    assert "queues.scheduling.volcano.sh lacks spec.state, spec.stopPolicy" in done.stderr
    assert "kubectl apply --server-side --force-conflicts -k manifests/crds" in done.stderr
    assert not (tmp_path / "certs").exists()
    assert read_leases(cluster) <= leases
    mend(sandbox)
    cluster.start_components("server")
    found = sandbox.read_queue(queue)
    assert (found["spec"]["state"], found["metadata"]["resourceVersion"]) == ("Suspended", before)
