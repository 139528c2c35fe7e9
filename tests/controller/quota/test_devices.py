"""Where a capability names a class of devices, pods go as their claims have room."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from cluster.metrics import Metrics
from controller.quota.releases import QuotaReleases
from controller.quota_gauges import set_quota_gauges
from controller.status.quota_status import QuotaUseByQueue
from queues.quota.devices import is_of_claims
from queues.quota.lack import LackKind
from tests.cluster.cache.test_device_claims import claim, device_class
from tests.controller.test_gauges import gauge
from tests.support.http.wire_objects import pod, queue
from tests.support.quota.histories import ApiServer, Replica

GPU = "deviceclass/gpu"
GATES = ["sluice.dev/quota"]


class Cluster:
    """A leader, and queue `lab` with four GPUs, below which are `team` and `other`."""

    def __init__(self, gpus: int = 4) -> None:
        self.api = ApiServer(random.Random(0))
        self.api.is_rough = False
        self.lead(gpus)

    def lead(self, gpus: int = 4) -> None:
        """Another replica leads. Its watches have read nothing yet."""
        self.leader = Replica(self.api, QuotaReleases)
        self.devices = self.leader.server.store.device_claims
        self.limit(gpus, version=1)

    def limit(self, gpus: int | None, *, version: int) -> None:
        capability = {"cpu": "9"} if gpus is None else {GPU: str(gpus)}
        self.leader.server.has(queue("lab", capability=capability, version=version, generation=version))
        self.leader.server.has(queue("team", parent="lab", version=version, generation=version))

    def read(self, **claims: int) -> None:
        """Claims and classes are listed; claims by the number of GPUs."""
        self.devices.classes.replace([device_class("gpu", "example.com/gpu")])
        self.devices.claims.replace([claim(name, number) for name, number in claims.items()])

    def create(
        self, name: str, of: str, *claims: str, template: bool = False, requests: Mapping[str, int] = {}
    ) -> None:
        self.api.version += 1
        made = pod(
            name,
            uid=f"uid-{name}",
            version=self.api.version,
            labels={"sluice.dev/queue": of},
            annotations={"sluice.dev/queue": of},
            gates=GATES,
            resources={"requests": {"cpu": "1", **{key: str(value) for key, value in requests.items()}}},
            resourceClaims=[
                {"name": each, **({} if template else {"resourceClaimName": each})} for each in claims
            ],
        )
        self.api.pods[name] = made
        self.api._record("ADDED", made)

    def make(self, name: str, number: int, *, uid: str = "1") -> None:
        """A claim for this pod, as kube-controller-manager makes it from a template with one claim."""
        made = claim(f"{name}-{uid}", number, owner=f"uid-{name}", uid=uid)
        self.devices.claims.upsert(made)
        statuses = [{"name": "gpu", "resourceClaimName": made.metadata.name}]
        self.api.change(name, lambda one: one["status"].update(resourceClaimStatuses=statuses))

    def finish(self, name: str) -> None:
        self.api.change(name, lambda one: one["status"].update(phase="Succeeded"))

    def settle(self) -> list[str]:
        """The pods that were released."""
        for _ in range(12):
            self.leader.hear(99)
            self.leader.step()
            self.leader.send_all()
        return sorted(name for name, one in self.api.pods.items() if "schedulingGates" not in one["spec"])

    def said(self, name: str) -> LackKind:
        return self.leader.said[name].kind


def test_pods_go_as_the_devices_of_their_claims_have_room_and_others_at_once() -> None:
    cluster = Cluster()
    cluster.read(a=3, b=2)
    cluster.create("p1", "team", "a")
    assert cluster.settle() == ["p1"]
    cluster.create("p2", "other", "b")
    cluster.create("plain", "other")
    assert cluster.settle() == ["p1", "plain"]
    assert cluster.said("p2") is LackKind.CAPABILITY
    cluster.finish("p1")
    assert cluster.settle() == ["p1", "p2", "plain"]


def test_a_claim_that_pods_share_is_counted_until_the_last_of_them_ends() -> None:
    cluster = Cluster()
    cluster.read(a=3, b=2)
    for name, of in (("p1", "team"), ("p2", "team"), ("p3", "other")):
        cluster.create(name, of, "a")
    assert cluster.settle() == ["p1", "p2", "p3"]
    cluster.create("p4", "other", "b")
    for name in ("p1", "p3"):
        cluster.finish(name)
        assert "p4" not in cluster.settle()
    cluster.finish("p2")
    assert "p4" in cluster.settle()


def test_a_claim_that_is_not_there_is_waited_for_and_said() -> None:
    cluster = Cluster()
    cluster.read()
    cluster.create("p", "team", "a")
    assert cluster.settle() == []
    assert cluster.said("p") is LackKind.CLAIM_ABSENT
    cluster.devices.claims.upsert(claim("a", 4))
    assert cluster.settle() == ["p"]


def test_a_claim_from_a_template_counts_as_what_was_made() -> None:
    cluster = Cluster()
    cluster.read()
    for name in ("p1", "p2"):
        cluster.create(name, "team", "gpu", template=True)
    assert cluster.settle() == []
    assert cluster.said("p1") is LackKind.CLAIM_ABSENT
    cluster.make("p1", 3)
    cluster.make("p2", 2)
    assert cluster.settle() == ["p1"]
    assert cluster.said("p2") is LackKind.CAPABILITY


def test_a_claim_that_is_made_again_counts_what_it_says_then_and_meanwhile_what_it_said() -> None:
    cluster = Cluster()
    cluster.read(b=1, c=2)
    cluster.create("p1", "team", "gpu", template=True)
    cluster.make("p1", 3)
    assert cluster.settle() == ["p1"]
    cluster.devices.claims.remove(claim("p1-1", 3, owner="uid-p1"))
    cluster.create("p2", "other", "c")
    assert cluster.settle() == ["p1"]
    cluster.make("p1", 4, uid="2")
    cluster.create("p3", "other", "b")
    assert cluster.settle() == ["p1"]
    cluster.devices.claims.remove(claim("p1-2", 4, owner="uid-p1", uid="2"))
    cluster.make("p1", 2, uid="3")
    assert cluster.settle() == ["p1", "p2"]


def test_a_claim_that_two_queues_share_and_that_is_made_smaller_makes_room_in_both() -> None:
    cluster = Cluster(9)
    for name, version in (("team", 2), ("other", 2)):
        parts = queue(name, parent="lab", capability={GPU: "4"}, version=version, generation=version)
        cluster.leader.server.has(parts)
    cluster.read(a=4, b=1, c=1)
    for name, of, named in (("p1", "team", "a"), ("p2", "other", "a")):
        cluster.create(name, of, named)
    assert cluster.settle() == ["p1", "p2"]
    for name, of, named in (("p3", "team", "b"), ("p4", "other", "c")):
        cluster.create(name, of, named)
    assert cluster.settle() == ["p1", "p2"]
    cluster.devices.claims.upsert(claim("a", 3, uid="2", version=2))
    assert cluster.settle() == ["p1", "p2", "p3", "p4"]


def test_who_waits_goes_once_there_is_room_beside_a_claim_that_others_took_meanwhile() -> None:
    cluster = Cluster()
    cluster.read(x=2, c=2, d=1)
    for name, *named in (("p1", "x"), ("p2", "c", "d")):
        cluster.create(name, "team", *named)
        cluster.settle()
    cluster.create("p3", "other", "c")
    assert cluster.settle() == ["p1", "p3"]
    cluster.finish("p1")
    assert cluster.settle() == ["p1", "p2", "p3"]


def test_a_release_that_was_begun_counts_with_its_claims() -> None:
    """Its patch is under way, and its queue is counted anew."""
    cluster = Cluster()
    cluster.read(a=3, b=2)
    cluster.settle()
    cluster.create("p1", "team", "a")
    while ("quota-release", "uid-p1") not in cluster.leader.writes.held:
        cluster.leader.send_all()
        cluster.leader.hear(99)
        cluster.leader.step()
    cluster.create("p2", "team", "b")
    for _ in range(3):
        cluster.leader.hear(99)
        cluster.leader.step()
    assert cluster.said("p2") is LackKind.CAPABILITY
    assert cluster.settle() == ["p1"]


def test_the_status_and_the_gauges_count_a_claim_once_for_each_queue_and_all_below_it() -> None:
    cluster = Cluster()
    cluster.read(a=3)
    cluster.create("p1", "team", "a")
    cluster.create("p2", "other", "a")
    cluster.create("p3", "other", "gpu", template=True)
    cluster.make("p3", 1)
    assert cluster.settle() == ["p1", "p2", "p3"]
    store, metrics = cluster.leader.server.store, Metrics()
    set_quota_gauges(store, metrics)
    expected = {"lab": 4, "team": 3, "other": 4}
    kept = QuotaUseByQueue(store)
    assert {name: kept.below(name).used[GPU] for name in expected} == expected
    assert {
        name: gauge(metrics, "sluice_quota_used", queue=name, resource=GPU) for name in expected
    } == expected
    assert not any(map(is_of_claims, kept.below("lab").used))


def test_what_cannot_be_counted_is_not_released() -> None:
    cluster = Cluster()
    cluster.read()
    cluster.devices.claims.upsert(claim("a", allocationMode="All"))
    cluster.create("p", "team", "a")
    assert cluster.settle() == []
    assert (cluster.said("p"), cluster.leader.said["p"].never) == (LackKind.DEVICES, True)
    cluster.devices.claims.upsert(claim("a", 1, uid="2", version=2))
    assert cluster.settle() == ["p"]


def test_other_names_of_a_class_count_with_its_claims() -> None:
    cluster = Cluster()
    cluster.read(a=3)
    cluster.create("p1", "team", "a")
    cluster.create("p2", "team", requests={"example.com/gpu": 2})
    cluster.create("p3", "team", requests={"deviceclass.resource.kubernetes.io/gpu": 1})
    assert cluster.settle() in (["p1", "p3"], ["p2", "p3"])
    cluster.finish("p2" if "schedulingGates" in cluster.api.pods["p1"]["spec"] else "p1")
    assert cluster.settle() == ["p1", "p2", "p3"]


@pytest.mark.parametrize("has_api", [False, True])
def test_before_claims_were_read_and_where_there_are_none_pods_with_claims_wait(has_api: bool) -> None:
    cluster = Cluster()
    if not has_api:
        cluster.devices.claims.not_served()
        cluster.devices.classes.not_served()
    cluster.create("p", "team", "a")
    cluster.create("plain", "team")
    assert cluster.settle() == ["plain"]
    assert cluster.said("p") is LackKind.CLAIMS_UNREAD
    cluster.read(a=1)
    assert cluster.settle() == ["p", "plain"]


def test_another_leader_counts_the_same() -> None:
    cluster = Cluster()
    cluster.read(a=2, b=2, c=1)
    for name, of, named in (("p1", "team", "a"), ("p2", "other", "a"), ("p3", "other", "b")):
        cluster.create(name, of, named)
    cluster.create("p4", "team", "c")
    assert cluster.settle() == ["p1", "p2", "p3"]
    cluster.lead()
    assert cluster.settle() == ["p1", "p2", "p3"]
    cluster.read(a=2, b=2, c=1)
    assert cluster.settle() == ["p1", "p2", "p3"]
    cluster.finish("p1")
    assert cluster.settle() == ["p1", "p2", "p3"]
    cluster.finish("p2")
    assert cluster.settle() == ["p1", "p2", "p3", "p4"]


def test_a_capability_that_comes_to_name_a_class_holds_from_then_on() -> None:
    cluster = Cluster()
    cluster.limit(None, version=2)
    cluster.create("p1", "team", "a")
    assert cluster.settle() == ["p1"], "nothing is known of its claim, and nothing asks"
    cluster.limit(4, version=3)
    cluster.create("p2", "team", "b")
    cluster.read(a=3, b=2)
    assert cluster.settle() == ["p1"]
    cluster.limit(None, version=4)
    assert cluster.settle() == ["p1", "p2"]
