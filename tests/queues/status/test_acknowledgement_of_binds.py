"""A bind that the guard let pass on another replica holds a stop up, however long the guard has been on."""

from __future__ import annotations

import math

import pytest

from queues.status.acknowledgement import (
    BindableNamespace,
    Evidence,
    ObstacleReason,
    PodPass,
    ReplicaView,
    UnlabelledView,
    obstacles,
)
from tests.support.cases import each_case

QUEUES = frozenset({"research", "below"})
OPEN = frozenset({"research"})
NAMED = PodPass(queue="research", namespace="team", name="work")


def evidence(view: ReplicaView, *, guarded_at: float = 0.0) -> Evidence:
    """All that a stop needs is there, but for what the view may say of passes."""
    return Evidence(
        queues=QUEUES,
        since=10,
        pods_since=12,
        pods=12,
        replica_views=(view,),
        unaccounted=False,
        bindable_namespaces=(BindableNamespace("research", "team"),),
        guards={"team": guarded_at},
        passes=(),
        unlabelled=UnlabelledView(at=1000.0, listed=True),
        departures_until=math.inf,
        now=1000.0,
        request_seconds=60.0,
        bypass_seconds=2.0,
        leases=10,
        certain_at=0.0,
    )


def view(*, passes: tuple[PodPass, ...] | None, binds: frozenset[str] | None) -> ReplicaView:
    return ReplicaView(name="b", queues=10, pods=12, open_queues=OPEN, passes=passes, bind_queues=binds)


@each_case("passes", [None, (NAMED,)], ids=["unnamed", "named"])
@each_case(
    ("binds", "wanting"),
    [
        (frozenset(), []),
        (frozenset({"other"}), []),
        (frozenset({"research"}), [ObstacleReason.PASS_OPEN]),
        (frozenset({"below"}), [ObstacleReason.PASS_OPEN]),
        (None, [ObstacleReason.PASS_OPEN]),
    ],
    ids=["none", "of others", "its own", "of one below", "not said"],
)
def test_a_guard_that_has_been_on_for_long_says_nothing_of_binds_that_passed_it(
    passes: tuple[PodPass, ...] | None, binds: frozenset[str] | None, wanting: list[ObstacleReason]
) -> None:
    """A pass of filter alone cannot land there any more. An older version does not say which it is."""
    found = [each.reason for each in obstacles(evidence(view(passes=passes, binds=binds)))]
    assert found == wanting


@pytest.mark.parametrize("passes", [None, (NAMED,)], ids=["unnamed", "named"])
def test_a_pass_of_filter_can_land_where_the_guard_is_new(passes: tuple[PodPass, ...] | None) -> None:
    said = view(passes=passes, binds=frozenset())
    found = [each.reason for each in obstacles(evidence(said, guarded_at=950.0))]
    assert found == [ObstacleReason.PASS_OPEN]


def test_a_view_that_has_nothing_open_holds_nothing_up() -> None:
    """Also one of an older version, that does not say of which kind its passes are."""
    said = ReplicaView(name="b", queues=10, pods=12, open_queues=frozenset(), passes=(), bind_queues=None)
    assert list(obstacles(evidence(said))) == []
