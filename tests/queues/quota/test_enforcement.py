"""Condition QuotaEnforced: from when on a capability holds, and what it waits for until then."""

from __future__ import annotations

from typing import Any

import pytest

from queues.quota.devices import ClaimFault
from queues.quota.enforcement import (
    EnforcementReason,
    QuotaEvidence,
    QuotaScope,
    enforced_condition,
    over_capability,
)
from tests.support.cases import each_case

SEEN_AT, REQUEST_SECONDS = 100.0, 60.0
ENDED = SEEN_AT + REQUEST_SECONDS
NOT_ASKED, UNAWARE, BEHIND, UNWRITTEN, UNDER_WAY, UNKNOWN, OVER, UNCOUNTED, ENFORCED = EnforcementReason
#: All that a capability waits for has come.
ALL: dict[str, Any] = {
    "unaware": (),
    "seen_at": SEEN_AT,
    "are_pods_known": True,
    "is_book_ready": True,
    "now": ENDED,
    "request_seconds": REQUEST_SECONDS,
}
CASES: dict[str, tuple[dict[str, Any], EnforcementReason]] = {
    "all has come": ({}, ENFORCED),
    "the API server does not ask": ({"not_asked": "why", "unaware": ("old",)}, NOT_ASKED),
    "an older replica": ({"unaware": ("old",)}, UNAWARE),
    "the Leases were not read": ({"unaware": None}, BEHIND),
    "a replica has not seen it": ({"seen_at": None}, BEHIND),
    "a request takes so long": ({"now": ENDED - 0.1}, UNDER_WAY),
    "a pod may be unknown": ({"are_pods_known": False}, UNDER_WAY),
    "a release outside the book": ({"is_book_ready": False}, UNDER_WAY),
    "the book cannot be written": ({"is_book_ready": False, "book_fault": "403 no"}, UNWRITTEN),
    "the book cannot be written, and a replica is behind": (
        {"seen_at": None, "book_fault": "403 no"},
        BEHIND,
    ),
    "it held before, and the book cannot be written": (
        {"was_settled": True, "book_fault": "403 no"},
        UNWRITTEN,
    ),
    "too much is used, and the book cannot be written": (
        {"over": {"cpu": 1}, "book_fault": "403 no"},
        UNWRITTEN,
    ),
    "a bind may pass the guard": ({"unguarded": True}, UNDER_WAY),
    "no claims here": ({"devices": ClaimFault.NO_API}, UNKNOWN),
    "claims not read, and too much is used": ({"devices": ClaimFault.UNREAD, "over": {"cpu": 1}}, UNKNOWN),
    "claims not read, and a request": ({"devices": ClaimFault.UNREAD, "now": SEEN_AT}, UNDER_WAY),
    "too much is used": ({"over": {"cpu": 1}}, OVER),
    "too much, and a request": ({"over": {"cpu": 1}, "now": SEEN_AT}, UNDER_WAY),
    "a name that nothing counts": ({"uncounted": ("memeory",)}, UNCOUNTED),
    "a name that nothing counts, and too much": ({"uncounted": ("gpu",), "over": {"cpu": 1}}, OVER),
    "a name that nothing counts, and a request": ({"uncounted": ("gpu",), "now": SEEN_AT}, UNDER_WAY),
    "it held before": ({"was_settled": True, "seen_at": None, "are_pods_known": False}, ENFORCED),
    "it held before, and the book is opened anew": ({"was_settled": True, "is_book_ready": False}, ENFORCED),
    "it held before, and too much is used": ({"was_settled": True, "over": {"pods": 1}}, OVER),
    "it held before, and a pod came without a gate": ({"was_settled": True, "unguarded": True}, UNDER_WAY),
    "it held before, and an older replica came": ({"was_settled": True, "unaware": ("old",)}, UNAWARE),
    "it held before, and who is there is not known": ({"was_settled": True, "unaware": None}, BEHIND),
}


@each_case(("change", "reason"), CASES.values(), ids=CASES)
def test_a_capability_holds_once_nothing_may_pass_it_by(
    change: dict[str, Any], reason: EnforcementReason
) -> None:
    found = enforced_condition("team", QuotaEvidence(**{**ALL, **change}))
    assert (found.reason, found.status) == (reason, reason is ENFORCED)
    assert ("403 no" if reason is UNWRITTEN else 'queue "team"') in found.message


def test_each_reason_has_its_case() -> None:
    assert {reason for _, reason in CASES.values()} == set(EnforcementReason)


def test_the_text_names_who_and_what() -> None:
    def text(**change: Any) -> str:
        return enforced_condition("team", QuotaEvidence(**{**ALL, **change})).message

    assert text(unaware=("old-2", "old-1")).endswith('knows no quotas is "old-1", "old-2"')
    assert text(over={"pods": 1, "cpu": 3}) == (
        'queue "team" uses more cpu and pods than its capability: no pod of it starts until it uses less; '
        "nothing is evicted"
    )
    assert text(devices=ClaimFault.NO_API).endswith("this cluster does not serve resource.k8s.io/v1")
    assert "have not been read yet" in text(devices=ClaimFault.UNREAD)
    assert text(uncounted=["a", "b", "c", "d"]).endswith(
        "does not hold for what nothing counts, a, b, c and 1 more; for all else it does"
    )
    assert text(over={"cpu": 3}) == text(over={"cpu": 4}), "amounts would be a write for each pod"


def test_what_is_used_beyond_a_capability_is_of_the_resources_that_it_names() -> None:
    capability = {"cpu": 2, "memory": 4, "gpu": 0}
    assert over_capability(capability, {"cpu": 2, "memory": 5, "gpu": 1, "disk": 9}) == {
        "memory": 1,
        "gpu": 1,
    }


@pytest.mark.parametrize(
    ("resources", "places", "expected"),
    [
        ("cm", "ab", True),
        ("c", "a", True),
        ("cmg", "ab", False),
        ("cm", "abx", False),
    ],
    ids=["amounts alone changed", "it names less, and a queue left", "it names more", "a queue came below"],
)
def test_what_has_ended_for_a_scope_has_ended_for_a_smaller_one(
    resources: str, places: str, expected: bool
) -> None:
    held = QuotaScope(frozenset("cm"), frozenset("ab"))
    assert held.covers(QuotaScope(frozenset(resources), frozenset(places))) is expected
