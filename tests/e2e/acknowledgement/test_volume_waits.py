"""Pods that wait for a volume: what is known to keep kube-scheduler from sending a bind."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar

import msgspec
import pytest

from cluster.exceptions import NotFound
from controller.stops.volume_waits import (
    AGAIN_SECONDS,
    KEPT,
    Claim,
    PodWithVolumes,
    Volume,
    VolumeWaits,
    claim_of,
    keeps_waiting,
)
from controller.workqueue import WorkQueue
from tests.support.controller.contexts import context_with
from tests.support.http.wire_objects import Wire

T = TypeVar("T")

POD_MADE = "2030-01-01T12:00:05Z"
EARLIER, SAME, LATER, MUCH_LATER = (f"2030-01-01T12:00:{s}Z" for s in ("04", "05", "07", "08"))
CLAIMED: Wire = {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}
EPHEMERAL: Wire = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
BIND_COMPLETED = {"pv.kubernetes.io/bind-completed": "yes"}


def pod(*volumes: Wire) -> Wire:
    return {"metadata": {"creationTimestamp": POD_MADE}, "spec": {"volumes": list(volumes)}}


def claim(*, made: str = EARLIER, volume: str = "", **meta: object) -> Wire:
    return {"metadata": {"creationTimestamp": made, **meta}, "spec": {"volumeName": volume}}


def read(obj: Wire, kind: type[T]) -> T:
    """As it comes from the API server."""
    return msgspec.json.decode(msgspec.json.encode(obj), type=kind)


@pytest.mark.parametrize(
    ("volume", "name"),
    [
        (CLAIMED, "mine"),
        (EPHEMERAL, "work-scratch"),
        ({"name": "none", "emptyDir": {}}, ""),
        ({"name": "config", "configMap": {"name": "mine"}}, ""),
        ({"name": "nameless", "persistentVolumeClaim": {}}, ""),
    ],
    ids=["claim", "ephemeral", "emptyDir", "configMap", "nameless"],
)
def test_the_claim_behind_a_volume(volume: Wire, name: str) -> None:
    """An ephemeral volume's claim is named after the pod and the volume."""
    assert claim_of(read(volume, Volume), pod="work") == name


@pytest.mark.parametrize(
    ("behind", "of_claim", "of_ephemeral"),
    [
        (claim(), True, True),
        (claim(made=SAME), True, True),
        (claim(made=LATER), False, True),
        (claim(made=MUCH_LATER), False, False),
        (claim(volume="pv-1", annotations=BIND_COMPLETED), False, False),
        (claim(volume="pv-1"), False, False),
        (claim(annotations=BIND_COMPLETED), True, True),
        (claim(deletionTimestamp=LATER), False, False),
        ({"metadata": {}, "spec": {}}, False, False),
        (None, False, False),
    ],
    ids=[
        "without a volume",
        "as old as the pod",
        "a little younger",
        "younger",
        "with a volume",
        "with a volume, its annotation removed",
        "without a volume, annotated by hand",
        "being deleted",
        "of no known age",
        "not there",
    ],
)
def test_what_keeps_a_pod_waiting(behind: Wire | None, *, of_claim: bool, of_ephemeral: bool) -> None:
    """The table of the module: nothing counts that a user of the namespace can make up."""
    its_claim = None if behind is None else read(behind, Claim)
    owner = read(pod(), PodWithVolumes)
    assert keeps_waiting(owner, read(CLAIMED, Volume), its_claim) is of_claim
    assert keeps_waiting(owner, read(EPHEMERAL, Volume), its_claim) is of_ephemeral


class Cluster:
    """Answers what VolumeWaits reads; what it submits is carried out by `work`."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.objects: dict[str, Wire] = {}
        self.reads: list[str] = []
        self._submitted: list[Any] = []
        store = SimpleNamespace(clock=SimpleNamespace(monotonic=lambda: self.now))
        self._work_queue = WorkQueue(lambda: self.now)
        context = context_with(store=store, client=self, guard_writers=self, work_queue=self._work_queue)
        self.waits = VolumeWaits(context)

    def submit(self, _key: object, work: Any, *, done: Callable[[bool], None], **_: object) -> bool:
        self._submitted.append((work, done))
        return True

    def work(self) -> None:
        """Also passes on what came of it."""
        submitted, self._submitted = self._submitted, []
        for work, done in submitted:
            work()
            done(True)
        self._work_queue.get([0.0], at_once=True)

    def get(self, path: str) -> bytes:
        self.reads.append(path)
        if path not in self.objects:
            raise NotFound(404, "NotFound", path)
        return msgspec.json.encode(self.objects[path])

    def at(self) -> float | None:
        return self.waits.waiting_since("team", "work")


POD = "/api/v1/namespaces/team/pods/work"
CLAIM = "/api/v1/namespaces/team/persistentvolumeclaims/mine"


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.objects = {POD: pod(CLAIMED), CLAIM: claim()}
    return made


def test_the_time_is_one_before_the_pod_was_read(cluster: Cluster) -> None:
    """Nothing is known until it has been; what is said then was so at that time."""
    assert cluster.at() is None
    cluster.now = 1000.5
    cluster.work()
    assert cluster.reads == [POD, CLAIM]
    assert cluster.at() == 1000.5


def test_a_pod_is_read_again_after_a_while_and_no_sooner(cluster: Cluster) -> None:
    """However often it is asked for; and what was known is forgotten once its claim has a volume."""
    for _ in range(5):
        cluster.at()
    cluster.work()
    assert cluster.reads == [POD, CLAIM]
    cluster.objects[CLAIM] = claim(volume="pv-1")
    cluster.now += AGAIN_SECONDS
    assert cluster.at() == 1000.0
    cluster.work()
    assert cluster.at() is None


@pytest.mark.parametrize("gone", [POD, CLAIM])
def test_what_is_gone_keeps_nobody_waiting(cluster: Cluster, gone: str) -> None:
    del cluster.objects[gone]
    cluster.at()
    cluster.work()
    assert cluster.at() is None


def test_a_pod_without_claims_is_read_and_nothing_else(cluster: Cluster) -> None:
    cluster.objects[POD] = pod({"name": "none", "emptyDir": {}})
    cluster.at()
    cluster.work()
    assert cluster.reads == [POD]
    assert cluster.at() is None


def test_one_claim_that_waits_is_enough(cluster: Cluster) -> None:
    other: Wire = {"name": "other", "persistentVolumeClaim": {"claimName": "bound"}}
    cluster.objects[POD] = pod(other, CLAIMED)
    cluster.objects[CLAIM.replace("mine", "bound")] = claim(volume="pv-1")
    cluster.at()
    cluster.work()
    assert cluster.at() == 1000.0


def test_what_is_remembered_is_bounded(cluster: Cluster) -> None:
    for number in range(KEPT + 10):
        cluster.waits.waiting_since("team", f"work-{number}")
        cluster.now += AGAIN_SECONDS
    assert len(cluster.waits._asked) <= KEPT
