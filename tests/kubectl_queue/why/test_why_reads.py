"""`why` reads a pod before its queue. What changes in between is no answer."""

from __future__ import annotations

import pytest

from kubectl_queue.access.responses import ApiRequest
from kubectl_queue.objects.fields import Object
from kubectl_queue.why import explainer
from queues import well_known
from tests.support.plugin.harness import StoredObjects, StoredQueues, item, run_command

POD = "/api/v1/namespaces/team/pods/work"
STILL_ON = "its gate is still on; the controller takes it off, is it running?"
QUEUES = (
    item("root", status={"observedGeneration": 1}),
    item("lab", parent="root", status={"observedGeneration": 1}),
)


def pod(*gates: str, node: str = "") -> Object:
    named = {well_known.QUEUE: "lab"}
    return {
        "metadata": {"name": "work", "namespace": "team", "uid": "u", "annotations": named, "labels": named},
        "spec": {"schedulingGates": [{"name": gate} for gate in gates], "nodeName": node, "containers": []},
        "status": {"phase": "Pending"},
    }


class Changing(StoredObjects):
    """The pod is another one at each read, and the last one from then on."""

    def __init__(self, *pods: Object) -> None:
        super().__init__({POD: pods[-1], "/api/v1/namespaces/team": {"metadata": {"name": "team"}}})
        self._pods = list(pods)
        self.reads = 0

    def send(self, request: ApiRequest, *, kind: str = "") -> Object:
        if request.path != POD:
            return super().send(request, kind=kind)
        self.reads += 1
        return self._pods.pop(0) if len(self._pods) > 1 else self._pods[0]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explainer, "_BETWEEN_SECONDS", 0.0)


def why(client: Changing) -> str:
    done = run_command(StoredQueues(*QUEUES), "why", "pod/work", "--namespace=team", client=client)
    assert done.code == 0, done.err
    return done.out


def test_a_pod_that_was_read_before_its_queue_resumed_is_read_again() -> None:
    """Its gate goes a moment later, and the controller runs."""
    client = Changing(pod(well_known.GATE), pod(well_known.GATE), pod(node="node-1"))
    assert STILL_ON not in why(client)
    assert client.reads == 3


def test_a_gate_that_stays_is_said() -> None:
    client = Changing(pod(well_known.GATE))
    assert STILL_ON in why(client)
    assert client.reads == explainer._READS


def test_a_pod_that_agrees_with_its_queue_is_read_once() -> None:
    client = Changing(pod())
    why(client)
    assert client.reads == 1
