"""Pods that are refused after admission, and pods that wait for a volume, delay no stop.

A stop is acknowledged in far less than the time that the API server lets a request take (`stop_undelayed`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.e2e.api_requests import Api
from tests.support.e2e.objects import (
    NAMED_BY,
    on_a_node,
    pod_body,
)
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.stop import stop_undelayed
from tests.support.e2e.wait import until

STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
NODE = "node-1"


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    return sandbox.queue()


# Pods that name their node


def test_a_pod_with_a_node_name_comes_there_by_way_of_the_scheduler(sandbox: Sandbox, queue: str) -> None:
    """In a namespace whose pods are members: each is bound to exactly the node that it names."""
    sandbox.api.patch(sandbox.home, {"metadata": {"annotations": {NAMED_BY: queue}}}).must()
    until(lambda: "sluice.dev/queue" in _annotations(sandbox), "the namespace's queue to be known")
    names = {f"pinned-{number}": f"node-{number}" for number in range(3)}
    for name, node in names.items():
        sandbox.pod(name, nodeName=node).must(201)
    sandbox.all_bound(names)
    assert {name: sandbox.read_pod(name)["spec"]["nodeName"] for name in names} == names
    assert {bind.pod for bind in sandbox.binds_of(names)} == set(names)


def _annotations(sandbox: Sandbox) -> dict[str, str]:
    made = sandbox.pod("asked", dry=True).must(201).body
    return dict(made["metadata"].get("annotations", {}))


def test_a_pod_with_a_node_name_keeps_what_else_it_asked_of_its_node(sandbox: Sandbox, queue: str) -> None:
    """Its own affinity holds too: with one that no node meets it is bound nowhere."""
    term = {"matchExpressions": [{"key": "tests.sluice.dev/absent", "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    sandbox.pod("picky", queue, nodeName=NODE, affinity={"nodeAffinity": required}).must(201)
    sandbox.reason_on("picky", "didn't match Pod's node affinity")
    assert not on_a_node(sandbox.read_pod("picky"))


def test_a_stop_binds_pods_that_name_their_node(sandbox: Sandbox, queue: str) -> None:
    """They were admitted before the stop, and have a gate of another controller meanwhile."""
    sandbox.pod("pinned", queue, nodeName=NODE, cpu="1000000").must(201)
    sandbox.reason_on("pinned", "Insufficient cpu")
    stop_undelayed(sandbox, queue, state="Suspended")
    sandbox.pod("late", queue, nodeName=NODE).must_refuse("would run at once")
    sandbox.bind("pinned").must_refuse(queue)
    assert sandbox.bound(["pinned"]) == set()


# Pods that are refused after admission


@contextmanager
def refused_all_the_time(sandbox: Sandbox, queue: str) -> Iterator[list[int]]:
    """Pods that admission takes and validation refuses are submitted without a pause; the answers."""
    statuses: list[int] = []
    ended = threading.Event()

    def submit() -> None:
        with Api(sandbox.cluster) as api:
            while not ended.is_set():
                statuses.append(api.create(sandbox.pods_path, refused_body(queue, len(statuses))).status)

    thread = threading.Thread(target=submit, name="submitting")
    thread.start()
    try:
        until(lambda: len(statuses) > 5, "pods to be refused")
        yield statuses
        assert set(statuses) <= {
            422,
            403,
        }  # once its queue is stopped admission refuses a pod with a node's name
    finally:
        ended.set()
        thread.join()


def refused_body(queue: str, number: int) -> dict[str, Any]:
    """A name that no container may have."""
    body = pod_body(f"refused-{number}", queue, nodeName=NODE)
    body["spec"]["containers"][0]["name"] = "UPPER"
    return body


@pytest.mark.parametrize("stopped", ["own", "root"])
def test_pods_that_validation_refuses_delay_no_stop(sandbox: Sandbox, queue: str, stopped: str) -> None:
    """They name a node, are submitted again and again, and never come; their queue is stopped, or root."""
    target = queue if stopped == "own" else "root"
    with refused_all_the_time(sandbox, queue) as statuses:
        try:
            assert set(statuses) == {422}
            stop_undelayed(sandbox, target, stopPolicy="Hold")
        finally:
            sandbox.edit(target, stopPolicy="None")
    assert all(not name.startswith("refused") for name in sandbox.read_pods())


# Pods that wait for a volume


@pytest.fixture
def storage_class(sandbox: Sandbox) -> str:
    """Its volumes are made once a pod has a node; by a provisioner that is not there."""
    name = sandbox.named("waits")
    body = {
        "metadata": {"name": name},
        "provisioner": "tests.sluice.dev/never",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    sandbox.create(STORAGE_CLASSES, body)
    return name


class Claimed:
    """A claim, and a pod that kube-scheduler holds for it."""

    def __init__(self, sandbox: Sandbox, storage_class: str, queue: str, *, ephemeral: bool = False) -> None:
        self._sandbox, self._class = sandbox, storage_class
        self.pod = "claiming"
        self.claim = f"{self.pod}-data" if ephemeral else "data"
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        if ephemeral:
            volume = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
        else:
            volume = {"name": "data", "persistentVolumeClaim": {"claimName": self.claim}}
            body = {"metadata": {"name": self.claim}, "spec": spec}
            sandbox.api.create(f"{sandbox.home}/persistentvolumeclaims", body).must(201)
        sandbox.pod(self.pod, queue, volumes=[volume]).must(201)
        until(lambda: SELECTED_NODE in self._read()["metadata"].get("annotations", {}), "the claim's node")

    def _read(self) -> dict[str, Any]:
        answer = self._sandbox.api.get(f"{self._sandbox.home}/persistentvolumeclaims/{self.claim}")
        return answer.body if answer.status == 200 else {"metadata": {}}

    def bind(self) -> None:
        """As its provisioner would; returns once the claim is bound."""
        claim = self._read()["metadata"]
        reference = {"namespace": claim["namespace"], "name": self.claim, "uid": claim["uid"]}
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": self._class,
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **reference},
            "hostPath": {"path": "/none"},
            "persistentVolumeReclaimPolicy": "Retain",
        }
        self._sandbox.create(VOLUMES, {"metadata": {"name": self._sandbox.named("volume")}, "spec": spec})
        until(lambda: self._read()["status"]["phase"] == "Bound", "the claim to be bound")


@pytest.mark.parametrize("ephemeral", [False, True], ids=["claimed", "ephemeral"])
def test_a_pod_that_waits_for_a_volume_delays_no_stop_and_does_not_get_past_it(
    sandbox: Sandbox, queue: str, storage_class: str, ephemeral: bool
) -> None:
    """kube-scheduler asked filter, chose a node and waits. The volume comes after the stop is acknowledged:
    the bind is refused; it is taken after a resume."""
    claimed = Claimed(sandbox, storage_class, queue, ephemeral=ephemeral)
    stop_undelayed(sandbox, queue, state="Suspended")
    claimed.bind()
    until(
        lambda: [
            b for b in sandbox.binds() if b.pod == claimed.pod or "is Suspended" in asked_again(sandbox)
        ],
        "kube-scheduler to try",
    )
    assert not on_a_node(sandbox.read_pod(claimed.pod))
    assert not any(bind.bound for bind in sandbox.binds() if bind.pod == claimed.pod)
    sandbox.edit(queue, state="Open")
    sandbox.all_bound([claimed.pod])


def asked_again(sandbox: Sandbox) -> str:
    """What the pod says of its queue, where kube-scheduler has begun anew with it."""
    conditions = sandbox.read_pod("claiming")["status"].get("conditions", [])
    return " ".join(str(each.get("message", "")) for each in conditions)
