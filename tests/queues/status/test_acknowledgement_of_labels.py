"""Members that could be bound and lack their label hold up a stop, by what is known of them."""

from __future__ import annotations

import math

import msgspec

from queues.status.acknowledgement import (
    BindableNamespace,
    Evidence,
    ObstacleReason,
    UnlabelledView,
    departures_until,
    obstacles,
)
from tests.support.cases import each_case

AT = 1000.0
#: Every member has its label.
ALL = UnlabelledView(at=AT, listed=True)
UNREAD = UnlabelledView(at=AT, listed=False)
FOUND = UnlabelledView(at=AT, listed=True, member="a exists")
DEPARTED = UnlabelledView(at=AT, listed=True, departed="b left", departed_at=990.0)
LATE = UnlabelledView(at=AT, listed=True, namespaces_late=True)


def evidence(
    unlabelled: UnlabelledView | None, *, until: float = math.inf, pods_since: int | None = 12
) -> Evidence:
    """All else that a stop needs is there."""
    return Evidence(
        queues=frozenset({"research"}),
        since=10,
        pods_since=pods_since,
        pods=12,
        replica_views=(),
        unaccounted=False,
        bindable_namespaces=(),
        guards={},
        passes=(),
        unlabelled=unlabelled,
        departures_until=until,
        now=AT,
        request_seconds=60.0,
        bypass_seconds=2.0,
        leases=10,
        certain_at=0.0,
    )


@each_case(
    ("unlabelled", "until", "texts"),
    [
        (ALL, math.inf, []),
        (None, math.inf, ["pods without a label are looked for"]),
        (UNREAD, math.inf, ["pods without a label are looked for"]),
        (
            msgspec.structs.replace(UNREAD, failure="403"),
            math.inf,
            ["pods without a label are looked for: 403"],
        ),
        (FOUND, -math.inf, ["a exists"]),
        (DEPARTED, math.inf, ["b left"]),
        (DEPARTED, 990.0, ["b left"]),
        (DEPARTED, 989.0, []),
        (LATE, -math.inf, ["what namespaces name is known as of before the stop"]),
        (
            msgspec.structs.replace(LATE, member="a exists"),
            math.inf,
            ["a exists", "what namespaces name is known as of before the stop"],
        ),
    ],
)
def test_what_of_labels_a_stop_waits_for(
    unlabelled: UnlabelledView | None, until: float, texts: list[str]
) -> None:
    found = list(obstacles(evidence(unlabelled, until=until)))
    assert [each.text for each in found] == texts
    assert {each.reason for each in found} <= {ObstacleReason.UNLABELLED}


def test_labels_are_asked_for_last() -> None:
    """What is obtained after it is not there yet, or is not for the stop."""
    unguarded = msgspec.structs.replace(
        evidence(FOUND), bindable_namespaces=(BindableNamespace("research", "team"),)
    )
    reasons = [each.reason for each in obstacles(unguarded)]
    assert reasons == [ObstacleReason.UNGUARDED, ObstacleReason.UNLABELLED]
    assert [each.reason for each in obstacles(evidence(None, pods_since=None))] == [
        ObstacleReason.PODS_BEHIND
    ]


@each_case(
    ("unlabelled", "pods_since", "expected"),
    [
        (DEPARTED, 12, AT),
        (msgspec.structs.replace(DEPARTED, member="a exists"), 12, math.inf),
        (msgspec.structs.replace(DEPARTED, namespaces_late=True), 12, math.inf),
        (msgspec.structs.replace(DEPARTED, listed=False), 12, math.inf),
        (DEPARTED, 13, math.inf),
        (None, 12, math.inf),
    ],
    ids=["nothing else", "a member", "late namespaces", "a list", "pods", "labels were not looked at"],
)
def test_departures_count_until_a_stop_waits_for_nothing_else(
    unlabelled: UnlabelledView | None, pods_since: int, expected: float
) -> None:
    assert departures_until(evidence(unlabelled, pods_since=pods_since)) == expected
