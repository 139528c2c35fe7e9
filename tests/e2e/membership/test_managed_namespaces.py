"""Where namespaces are managed by label: all others are none of our business, and members stay members."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from queues.membership import VOLCANO_ANNOTATION
from queues.well_known import QUEUE
from server.managed_selectors import WAY_OUT
from tests.support.e2e.api_requests import Answer
from tests.support.e2e.objects import GATE, gates, suspended_text
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.plugin.harness import plugin_in_process

CLUSTER = {"nodes": 1, "managed": True}
MANAGED = "sluice.dev/managed"


@pytest.fixture
def sandbox(configured_cluster: LocalCluster) -> Iterator[Sandbox]:
    """Its namespace has no label."""
    made = Sandbox(configured_cluster)
    yield made
    made.clear()
    made.close()


def label(sandbox: Sandbox, value: str | None) -> Answer:
    answer = sandbox.api.patch(sandbox.home, {"metadata": {"labels": {MANAGED: value}}}).must()
    until(lambda: _is_called(sandbox) is (value is not None), "the API server to know the label")
    return answer


def _is_called(sandbox: Sandbox) -> bool | None:
    """Whether our webhook answers for a pod that names a queue here; nothing is stored.

    None for a moment: the API server's webhooks and its policies hear of a label by watches of their own.
    """
    answer = sandbox.pod("tried", "no-such-queue", dry=True)
    return None if answer.status == 403 else gates(answer.must(201).body) == [GATE]


def why(sandbox: Sandbox, pod: str) -> str:
    kubeconfig = sandbox.cluster.client_kubeconfig
    return plugin_in_process("why", f"pod/{pod}", "-n", sandbox.namespace, kubeconfig=kubeconfig).stdout


def test_in_a_namespace_without_the_label_nothing_is_ours(sandbox: Sandbox) -> None:
    """Its pods run in a stopped queue that they name, and nobody can make one look like a member.

    The server found at its start that the webhooks and the policy select the same namespaces.
    """
    assert WAY_OUT not in sandbox.cluster.layout.log("server").read_text()
    queue = sandbox.queue()
    sandbox.suspend(queue)
    pod = sandbox.pod("other", queue).must(201)
    assert QUEUE not in (pod.body["metadata"].get("labels") or {})
    sandbox.all_bound(["other"])
    assert "to have it managed: kubectl label namespace" in why(sandbox, "other")
    forged = {"metadata": {"name": "forged", "labels": {QUEUE: queue}}}
    spec = {"containers": [{"name": "c", "image": "x"}]}
    sandbox.api.create(sandbox.pods_path, {**forged, "spec": spec}).must_refuse("is not managed by sluice")
    named = sandbox.api.patch(sandbox.home, {"metadata": {"annotations": {VOLCANO_ANNOTATION: queue}}}).must()
    assert any("is not managed by sluice" in warning for warning in named.warnings)


def test_members_of_a_namespace_that_loses_its_label_are_held_and_given_back(sandbox: Sandbox) -> None:
    """Who takes the label off is told of them, and so is the log at the next start, for which the setting may
    be new; new pods are in no queue; a resume lets the members go.
    """
    label(sandbox, "true")
    queue = sandbox.queue()
    sandbox.suspend(queue)
    sandbox.pod("held", queue).must(201)
    sandbox.reason_on("held", suspended_text(queue))  # so the server knows it
    told = label(sandbox, None)
    assert any(f'stays in queue "{queue}"' in warning for warning in told.warnings)
    sandbox.cluster.stop_components("server")
    sandbox.cluster.start_components("server")
    log = sandbox.cluster.layout.log("server")
    until(lambda: "not managed: 1 pod stays" in log.read_text(), "the log to say so")
    path = f"{sandbox.pods_path}/held"
    sandbox.api.patch(path, {"spec": {"schedulingGates": []}}).must_refuse("is not managed by sluice")
    sandbox.api.patch(path, {"metadata": {"labels": {QUEUE: None}}}).must_refuse("sluice")
    sandbox.pod("later", queue).must(201)
    sandbox.all_bound(["later"])
    assert gates(sandbox.read_pod("held")) == [GATE]
    assert suspended_text(queue).partition(";")[0] in why(sandbox, "held")
    sandbox.edit(queue, state="Open")
    sandbox.all_bound(["held"])
