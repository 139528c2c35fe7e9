"""Devices by claims on a control plane: pods go as what their claims ask for has room, each claim once."""

from __future__ import annotations

from typing import Any

from tests.support.e2e.objects import gates
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import settled, until

API = "/apis/resource.k8s.io/v1"


def spec(device_class: str, **request: Any) -> dict[str, Any]:
    exactly = {"deviceClassName": device_class, **request}
    return {"devices": {"requests": [{"name": "devices", "exactly": exactly}]}}


def released(sandbox: Sandbox, names: list[str]) -> list[str]:
    return [name for name in names if not gates(sandbox.read_pod(name))]


def test_pods_go_as_the_devices_of_their_claims_have_room(sandbox: Sandbox) -> None:
    """kube-controller-manager makes claims from the template for pods that are gated; no driver is needed."""
    gpu = f"{sandbox.namespace}-gpu"
    sandbox.create(f"{API}/deviceclasses", {"metadata": {"name": gpu}, "spec": {}})
    place = f"{API}/namespaces/{sandbox.namespace}"

    def claim(name: str, **request: Any) -> None:
        body = {"metadata": {"name": name}, "spec": spec(gpu, **request)}
        sandbox.api.create(f"{place}/resourceclaims", body).must(201)

    def pod(name: str, queue: str, **claim: str) -> None:
        sandbox.pod(name, queue, resourceClaims=[{"name": "devices", **claim}]).must(201)

    top = sandbox.queue("lab", capability={f"deviceclass/{gpu}": "4"})
    one, two = (sandbox.queue(name, parent=top) for name in ("one", "two"))
    template = {"metadata": {"name": "two-devices"}, "spec": {"spec": spec(gpu, count=2)}}
    sandbox.api.create(f"{place}/resourceclaimtemplates", template).must(201)
    pod("first", one, resourceClaimName="shared")
    sandbox.reason_on("first", "a claim of this pod is not there")
    claim("shared", count=2)
    until(lambda: released(sandbox, ["first"]), "a pod whose claim is there")
    pod("second", two, resourceClaimName="shared")
    made = ["made-1", "made-2"]
    for name in made:
        pod(name, two, resourceClaimTemplateName="two-devices")
    until(lambda: released(sandbox, ["second"]), "a pod that shares the claim")
    until(lambda: len(released(sandbox, made)) == 1, "one pod with a claim of its own")
    assert settled(lambda: len(released(sandbox, made)), "the pods") == 1
    quotas = f"{QUEUES}/{top}"
    until(
        lambda: sandbox.api.get(quotas).body["status"]["quota"]["used"].get(f"deviceclass/{gpu}") == "4",
        "the status to count the shared claim once",
    )
    claim("whole", allocationMode="All")
    pod("whole", one, resourceClaimName="whole")
    sandbox.reason_on("whole", "what this pod claims cannot be counted")
