"""What is known of claims and device classes: when it counts, and who is told."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from cluster.cache.device_claims import DeviceClaims, DeviceClass, ResourceClaim
from queues.quota.devices import ABSENT, ClaimCount, ClaimFault, ClaimRef

GPU = "deviceclass/gpu"


def claim(
    name: str, count: int = 1, *, uid: str = "1", version: int = 1, owner: str = "", **more: str
) -> ResourceClaim:
    metadata = {"name": name, "namespace": "team", "uid": uid, "resourceVersion": str(version)}
    references = [{"kind": "Pod", "name": "p", "uid": owner, "controller": True}] if owner else []
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": count, **more}}]
    body = {
        "metadata": {**metadata, "ownerReferences": references},
        "spec": {"devices": {"requests": requests}},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=ResourceClaim)


def device_class(name: str, resource: str | None = None) -> DeviceClass:
    body = {"metadata": {"name": name}, "spec": {"extendedResourceName": resource}}
    return msgspec.json.decode(msgspec.json.encode(body), type=DeviceClass)


class Told:
    """A cache, and what it has told. `named`: the claims that members have, by name or owner."""

    def __init__(self, *, named: Iterable[str] = (), listed: Iterable[ResourceClaim] | None = ()) -> None:
        self.claims: list[str] = []
        self.all = 0
        self.named = set(named)
        self.cache = DeviceClaims(
            changed=lambda _namespace, name, owner: self.claims.append(f"{name}{owner and ' of '}{owner}"),
            all_changed=self._all_changed,
            is_named=lambda _namespace, name, owner: bool({name, owner} & self.named),
        )
        self.cache.follow(needed=True)
        if listed is not None:
            self.cache.classes.replace([])
            self.cache.claims.replace(list(listed))
        self.all = 0

    def _all_changed(self) -> None:
        self.all += 1

    def count(self, name: str, owner: str = "") -> ClaimCount:
        return self.cache.count(ClaimRef("team", name, owner=owner))


def gpus(number: int, fault: ClaimFault | None = None) -> ClaimCount:
    return ClaimCount(((GPU, number),), fault)


def test_nothing_is_known_before_claims_and_classes_were_listed() -> None:
    told = Told(listed=None)
    assert {told.cache.fault, told.count("a").fault} == {ClaimFault.UNREAD}
    told.cache.claims.replace([claim("a", 2)])
    assert told.cache.fault is ClaimFault.UNREAD
    told.cache.classes.replace([])
    assert (told.count("a"), told.all) == (gpus(2), 2)


def test_a_cluster_without_the_api_is_said_once_and_may_get_it() -> None:
    told = Told(listed=None)
    for _ in range(3):
        told.cache.claims.not_served()
        told.cache.classes.not_served()
    assert (told.cache.fault, told.all) == (ClaimFault.NO_API, 2)
    told.cache.claims.replace([])
    told.cache.classes.replace([])
    assert (told.cache.fault, told.all) == (None, 4)


def test_what_is_not_needed_is_forgotten() -> None:
    told = Told(listed=[claim("a")])
    version = told.cache.version
    told.cache.follow(needed=True)
    assert told.cache.version == version
    told.cache.follow(needed=False)
    assert (told.cache.claims.known, told.cache.fault) == ({}, ClaimFault.UNREAD)
    assert told.cache.version == version + 1


def test_a_claim_is_told_of_when_it_counts_otherwise_and_not_when_it_is_allocated() -> None:
    told = Told()
    told.cache.claims.upsert(claim("a", 1))
    told.cache.claims.upsert(claim("a", 1, version=2))
    assert told.claims == ["a"]
    told.cache.claims.remove(claim("a", 1, version=3))
    assert (told.claims, told.count("a")) == (["a", "a"], ABSENT)
    told.cache.claims.upsert(claim("a", 5, uid="2", version=4))
    assert (told.claims, told.count("a"), told.all) == (["a"] * 3, gpus(5), 0)


def test_a_claim_that_was_made_for_a_pod_counts_for_that_pod_alone() -> None:
    told = Told()
    told.cache.claims.upsert(claim("a", 2, owner="u"))
    assert told.claims == ["a of u"]
    assert [told.count("a", owner) for owner in ("u", "v", "")] == [gpus(2), ABSENT, gpus(2)]


@pytest.mark.parametrize("is_listed_anew", [False, True])
@pytest.mark.parametrize("named", ["a", "u"])
def test_a_claim_that_is_gone_counts_on_for_who_has_it_and_is_absent_for_others(
    named: str, is_listed_anew: bool
) -> None:
    told = Told(named=[named], listed=[claim("a", 2, owner="u"), claim("other")])
    if is_listed_anew:
        told.cache.claims.replace([claim("other")])
    else:
        told.cache.claims.remove(claim("a", 2, owner="u", version=2))
    assert told.count("a", "u") == gpus(2, ClaimFault.ABSENT)
    told.cache.claims.upsert(claim("a", 3, owner="u", uid="2"))
    assert told.count("a", "u") == gpus(3)


def test_what_is_gone_is_forgotten_once_no_member_has_it() -> None:
    told = Told(named=["a", "b"], listed=[claim("a"), claim("b")])
    told.cache.claims.remove(claim("a"))
    told.named.clear()
    told.cache.claims.remove(claim("b"))
    assert told.cache.claims.known == {}


def test_an_older_state_and_an_older_object_of_the_name_are_dropped() -> None:
    told = Told(listed=[claim("a", 2, uid="2", version=5)])
    told.cache.claims.upsert(claim("a", 1, uid="2", version=4))
    told.cache.claims.remove(claim("a", 1, uid="1", version=3))
    assert (told.count("a"), told.claims) == (gpus(2), [])


def test_a_list_that_says_the_same_tells_nobody() -> None:
    told = Told(listed=[claim("a", 2)])
    told.cache.claims.replace([claim("a", 2, version=7)])
    assert told.all == 0
    told.cache.claims.replace([claim("a", 3, uid="2")])
    assert told.all == 1


def test_classes_are_known_by_the_resource_that_they_name() -> None:
    told = Told()
    for obj in (device_class("one", "example.com/gpu"), device_class("plain"), device_class("two")):
        told.cache.classes.upsert(obj)
    assert (told.all, told.cache.classes_of("example.com/gpu")) == (1, ["one"])
    told.cache.classes.upsert(device_class("two", "example.com/gpu"))
    assert (told.all, told.cache.classes_of("example.com/gpu")) == (2, ["one", "two"])
    told.cache.classes.remove(device_class("one"))
    told.cache.classes.remove(device_class("plain"))
    assert (told.all, told.cache.classes_of("example.com/gpu")) == (3, ["two"])
    assert told.cache.classes_of("example.com/other") == ()
