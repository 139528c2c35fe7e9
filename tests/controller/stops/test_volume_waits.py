"""Which claims show that kube-scheduler holds a pod and has not sent its bind."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar

import msgspec
import pytest

from cluster.exceptions import NotFound
from controller.stops.volume_waits import (
    AGAIN_SECONDS,
    MAX_REMEMBERED,
    Claim,
    PodWithVolumes,
    Volume,
    VolumeWaits,
    claim_of,
    keeps_waiting,
)
from controller.workqueue import WorkQueue
from tests.support.cases import each_case
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


@each_case(
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


@each_case(
    ("stored", "of_claim", "of_ephemeral"),
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
def test_which_claim_keeps_a_pod_waiting(stored: Wire | None, *, of_claim: bool, of_ephemeral: bool) -> None:
    """The table of the module: what a user of the namespace can make up does not count."""
    its_claim = None if stored is None else read(stored, Claim)
    owner = read(pod(), PodWithVolumes)
    assert keeps_waiting(owner, read(CLAIMED, Volume), its_claim) is of_claim
    assert keeps_waiting(owner, read(EPHEMERAL, Volume), its_claim) is of_ephemeral


class Cluster:
    """Answers what `VolumeWaits` reads; `work` carries out what it has submitted."""

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
        """Also hands the results back."""
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
        self.waits.read("team", "work")
        return self.waits.waiting_since("team", "work")


POD = "/api/v1/namespaces/team/pods/work"
CLAIM = "/api/v1/namespaces/team/persistentvolumeclaims/mine"


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.objects = {POD: pod(CLAIMED), CLAIM: claim()}
    return made


def test_the_time_is_before_the_read_of_the_pod(cluster: Cluster) -> None:
    """Before that nothing is known. The answer is true for the time at which the read began."""
    assert cluster.at() is None
    cluster.now = 1000.5
    cluster.work()
    assert cluster.reads == [POD, CLAIM]
    assert cluster.at() == 1000.5


def test_a_pod_is_not_read_again_before_a_while_has_passed(cluster: Cluster) -> None:
    """However often it is asked for. Once its claim has a volume, it is no longer known to wait."""
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
def test_a_pod_or_claim_that_is_gone_is_not_waited_for(cluster: Cluster, gone: str) -> None:
    del cluster.objects[gone]
    cluster.at()
    cluster.work()
    assert cluster.at() is None


def test_of_a_pod_without_claims_no_claim_is_read(cluster: Cluster) -> None:
    cluster.objects[POD] = pod({"name": "none", "emptyDir": {}})
    cluster.at()
    cluster.work()
    assert cluster.reads == [POD]
    assert cluster.at() is None


def test_a_pod_waits_if_one_of_its_claims_has_no_volume(cluster: Cluster) -> None:
    other: Wire = {"name": "other", "persistentVolumeClaim": {"claimName": "bound"}}
    cluster.objects[POD] = pod(other, CLAIMED)
    cluster.objects[CLAIM.replace("mine", "bound")] = claim(volume="pv-1")
    cluster.at()
    cluster.work()
    assert cluster.at() == 1000.0


def test_a_bounded_number_of_reads_is_remembered(cluster: Cluster) -> None:
    for number in range(MAX_REMEMBERED + 10):
        cluster.waits.read("team", f"work-{number}")
        cluster.now += AGAIN_SECONDS
    assert len(cluster.waits._read_at) <= MAX_REMEMBERED
