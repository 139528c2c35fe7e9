"""What claims of devices take of a quota, by the tables of `queues.quota.devices`."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from queues.apimachinery.pod_requests import CLAIMS, Requests
from queues.queue import Queue
from queues.quota.devices import (
    ABSENT,
    ClaimCount,
    ClaimFault,
    ClaimRef,
    ClaimSpec,
    claim_count,
    claim_refs,
    shared_counts,
    with_devices,
)
from queues.quota.lack import Lack, LackKind
from queues.quota.usage import Usage, quota_requests
from queues.tree import Tree
from tests.support.cases import each_case

GPU, NIC = "deviceclass/gpu", "deviceclass/nic"
UNCOUNTABLE = ClaimFault.UNCOUNTABLE


def exactly(name: str = "gpu", **more: Any) -> dict[str, Any]:
    return {"name": "r", "exactly": {"deviceClassName": name, **more}}


def first(*alternatives: dict[str, Any]) -> dict[str, Any]:
    return {"name": "r", "firstAvailable": [each["exactly"] for each in alternatives]}


ALL: dict[str, Any] = {"allocationMode": "All"}
ADMIN: dict[str, Any] = {"adminAccess": True}
#: The requests of a claim, what is counted, and what hinders that.
SPECS: dict[str, tuple[list[Any], dict[str, int], ClaimFault | None]] = {
    "no request": ([], {}, None),
    "one where no count is written": ([exactly()], {GPU: 1}, None),
    "a count": ([exactly(allocationMode="ExactCount", count=3)], {GPU: 3}, None),
    "a part of a device": ([exactly(capacity={"requests": {"memory": "1Gi"}})], {GPU: 1}, None),
    "several requests": ([exactly(count=2), exactly("nic"), exactly()], {GPU: 3, NIC: 1}, None),
    "the most of each class": (
        [first(exactly(count=2), exactly(count=1), exactly("nic", count=4))],
        {GPU: 2, NIC: 4},
        None,
    ),
    "alternatives beside others": ([first(exactly(), exactly("nic")), exactly()], {GPU: 2, NIC: 1}, None),
    "admin access": ([exactly(count=4, **ADMIN), exactly(**ALL, **ADMIN)], {}, None),
    "all": ([exactly(**ALL), exactly()], {GPU: 1}, UNCOUNTABLE),
    "all as an alternative": ([first(exactly(), exactly("nic", **ALL))], {}, UNCOUNTABLE),
    "a mode that is not known": ([exactly(allocationMode="Some")], {}, UNCOUNTABLE),
    "a form that is not known": ([{"name": "r", "someday": {}}], {}, UNCOUNTABLE),
}


@each_case(("requests", "counted", "fault"), SPECS.values(), ids=SPECS)
def test_a_claim_counts_what_its_spec_says(
    requests: list[Any], counted: dict[str, int], fault: ClaimFault | None
) -> None:
    spec = msgspec.convert({"devices": {"requests": requests}}, ClaimSpec)
    assert claim_count(spec) == ClaimCount(tuple(sorted(counted.items())), fault)


@pytest.mark.parametrize("spec", [None, ClaimSpec()])
def test_a_claim_without_a_spec_cannot_be_counted(spec: ClaimSpec | None) -> None:
    assert claim_count(spec) == ClaimCount(fault=UNCOUNTABLE)


class Entry(msgspec.Struct):
    name: str
    resource_claim_name: str | None = None


def test_a_claim_from_a_template_is_the_pods_own_and_has_the_name_that_its_status_says() -> None:
    claims = [Entry("named", "a"), Entry("made"), Entry("not-made-yet"), Entry("not-needed")]
    made = [Entry("made", "made-x7"), Entry("not-needed"), Entry("named", "other")]
    assert claim_refs(claims, namespace="ns", uid="u", made=made) == (
        ClaimRef("ns", "a"),
        ClaimRef("ns", "made-x7", owner="u"),
        ClaimRef("ns", "", owner="u"),
    )
    assert claim_refs(None, namespace="ns", uid="u", made=made) == ()


class Known:
    """What a test knows: `counts` by name; a claim with an owner by `OWNER/NAME`."""

    def __init__(self, fault: ClaimFault | None = None, **counts: ClaimCount) -> None:
        self.fault = fault
        self.counts = counts

    def count(self, claim: ClaimRef) -> ClaimCount:
        return self.counts.get(f"{claim.owner}_{claim.name}" if claim.owner else claim.name, ABSENT)

    def classes_of(self, resource: str) -> list[str]:
        return ["gpu"] if resource == "example.com/gpu" else []


def gpus(number: int) -> ClaimCount:
    return ClaimCount(((GPU, number),))


def asking(*claims: str | ClaimRef, known: Known, **requests: int) -> Requests:
    """A pod with these claims, as its quota takes it."""
    refs = [ClaimRef("ns", each) if isinstance(each, str) else each for each in claims]
    amounts = [*requests.items(), *([(CLAIMS, len(refs))] if refs else [])]
    return with_devices(quota_requests(tuple(sorted(amounts))), refs, known)


OWN = ClaimRef("ns", "mine", owner="u")


def usage_of(known: Known, **capability: int) -> Usage:
    """Of queue `lab`, which has this capability of GPUs, and of `team` and `other` below it."""
    lab = Queue(name="lab", capability=tuple(sorted(capability.items())))
    below = [Queue(name=name, parent="lab") for name in ("team", "other")]
    return Usage(Tree({each.name: each for each in (lab, *below)}), claims=shared_counts(known))


def lab(known: Known, most: int = 4) -> Usage:
    return usage_of(known, **{GPU: most})


def test_a_claim_that_pods_share_counts_once_for_each_queue_of_their_chains() -> None:
    known = Known(a=gpus(3))
    usage, pod = lab(known, 6), asking("a", known=known)
    for queue in ("team", "team", "other"):
        assert usage.lack(queue, pod) is None
        usage.add(queue, pod)
    assert [usage.used(name).get(GPU) for name in ("team", "other", "lab", "root")] == [3, 3, 3, 3]
    usage.add("team", [(name, -amount) for name, amount in pod])
    assert [usage.used(name).get(GPU) for name in ("team", "other", "lab")] == [3, 3, 3]
    usage.add("team", [(name, -amount) for name, amount in pod])
    assert [usage.used(name).get(GPU) for name in ("team", "other", "lab")] == [0, 3, 3]
    usage.add("other", [(name, -amount) for name, amount in pod])
    assert [usage.used(name).get(GPU) for name in ("team", "other", "lab")] == [0, 0, 0]


def test_who_shares_what_is_taken_already_needs_no_more() -> None:
    known = Known(a=gpus(3), b=gpus(2))
    usage = lab(known)
    usage.add("team", asking("a", known=known))
    assert usage.lack("other", asking("a", known=known)) is None
    assert usage.lack("other", asking("a", "b", known=known)) == Lack("lab", GPU, 1, never=True), (
        "3 and 2 never fit into 4"
    )
    usage = lab(known, 5)
    usage.add("team", asking("a", known=known))
    usage.add("team", asking(known=known, **{GPU: 1}))
    assert usage.lack("other", asking("a", "b", known=known)) == Lack("lab", GPU, 1, by_claims=True)


def test_claims_of_the_pod_alone_count_for_each_pod() -> None:
    known = Known(u_mine=gpus(2), v_mine=gpus(2))
    usage = lab(known)
    for owner in "uv":
        pod = asking(ClaimRef("ns", "mine", owner=owner), known=known)
        assert usage.lack("team", pod) is None
        assert dict(pod)[GPU] == 2, "pods alike are one class"
        usage.add("team", pod)
    assert usage.used("lab")[GPU] == 4
    assert usage.lack("team", pod) == Lack("lab", GPU, 2)


WAITS: dict[str, tuple[Known, list[str | ClaimRef], Lack]] = {
    "a claim is not there": (Known(), ["a"], Lack("lab", GPU, kind=LackKind.CLAIM_ABSENT)),
    "its own was not made": (Known(), [OWN], Lack("lab", GPU, kind=LackKind.CLAIM_ABSENT)),
    "one that is gone": (
        Known(a=ClaimCount(((GPU, 1),), ClaimFault.ABSENT)),
        ["a"],
        Lack("lab", GPU, kind=LackKind.CLAIM_ABSENT),
    ),
    "another cannot be counted": (
        Known(a=gpus(1), b=ClaimCount(fault=UNCOUNTABLE)),
        ["a", "b"],
        Lack("lab", GPU, never=True, kind=LackKind.DEVICES),
    ),
    "its own cannot be counted": (
        Known(u_mine=ClaimCount(((GPU, 1),), UNCOUNTABLE)),
        [OWN],
        Lack("lab", GPU, never=True, kind=LackKind.DEVICES),
    ),
    "claims were not read": (
        Known(ClaimFault.UNREAD),
        [OWN],
        Lack("lab", GPU, kind=LackKind.CLAIMS_UNREAD),
    ),
    "no claims here": (
        Known(ClaimFault.NO_API),
        ["a"],
        Lack("lab", GPU, kind=LackKind.CLAIMS_UNREAD),
    ),
    "more than the capability": (Known(a=gpus(5)), ["a"], Lack("lab", GPU, 1, never=True)),
}


@each_case(("known", "claims", "lack"), WAITS.values(), ids=WAITS)
def test_a_pod_waits_for_what_is_not_known(known: Known, claims: list[str | ClaimRef], lack: Lack) -> None:
    assert lab(known).lack("team", asking(*claims, known=known)) == lack


def test_where_no_class_is_limited_claims_hold_nothing_back() -> None:
    known = Known(ClaimFault.NO_API)
    assert usage_of(known, cpu=1).lack("team", asking("a", known=known, cpu=1)) is None


def test_other_names_of_a_class_count_as_the_class() -> None:
    known = Known()
    extended = {"example.com/gpu": 2, "deviceclass.resource.kubernetes.io/gpu": 1, "example.com/other": 7}
    assert dict(asking(known=known, **extended)) == {**extended, GPU: 3, "pods": 1}
    assert lab(known, 2).lack("team", asking(known=known, **extended)) == Lack("lab", GPU, 1, never=True)


def test_a_resource_that_may_be_a_class_waits_until_classes_are_known() -> None:
    known = Known(ClaimFault.UNREAD)
    assert lab(known).lack("team", asking(known=known, **{"example.com/gpu": 1})) == Lack(
        "lab", GPU, kind=LackKind.CLAIMS_UNREAD
    )
    assert lab(known).lack("team", asking(known=known, cpu=1)) is None


def test_a_claim_that_is_made_again_counts_what_it_says_now() -> None:
    known = Known(a=gpus(1))
    usage = lab(known)
    usage.add("team", asking("a", known=known))
    assert usage.recount("resourceclaim/ns/a") == []
    known.counts["a"] = gpus(3)
    assert usage.used("lab")[GPU] == 1
    assert set(usage.recount("resourceclaim/ns/a")) == {"team", "lab", "root"}
    assert usage.used("team")[GPU] == usage.used("lab")[GPU] == 3
    usage.add("team", [(name, -amount) for name, amount in asking("a", known=known)])
    assert usage.used("lab")[GPU] == 0


def test_what_is_used_is_the_sum_over_the_claims_that_somebody_has() -> None:
    """Random pods come and go, and claims are made again; counted anew each time."""
    chance = random.Random(1)
    known = Known()
    known.counts = {name: gpus(chance.randrange(1, 5)) for name in "abcd"}
    usage, pods = lab(known), list[tuple[str, tuple[str, ...]]]()
    for _ in range(600):
        what = chance.random()
        if what < 0.45 or not pods:
            pod = chance.choice(["lab", "team", "other"]), tuple(chance.sample("abcd", chance.randrange(3)))
            pods.append(pod)
            usage.add(pod[0], asking(*pod[1], known=known))
        elif what < 0.9:
            queue, claims = pods.pop(chance.randrange(len(pods)))
            usage.add(queue, [(name, -amount) for name, amount in asking(*claims, known=known)])
        else:
            name = chance.choice("abcd")
            known.counts[name] = gpus(chance.randrange(1, 5))
            usage.recount(f"resourceclaim/ns/{name}")
        for queue, below in (("lab", {"lab", "team", "other"}), ("team", {"team"}), ("other", {"other"})):
            taken = {claim for own, claims in pods if own in below for claim in claims}
            expected = sum(dict(known.counts[claim].amounts)[GPU] for claim in taken)
            assert usage.used(queue).get(GPU, 0) == expected
