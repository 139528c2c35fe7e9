"""When a Lease that is not renewed has expired, by the clock of who looks at it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from cluster.coordination.lease_events import LeaseEvents
from cluster.coordination.leases import (
    LEASE_SECONDS,
    LONGEST_SECONDS,
    Lease,
    Leases,
    LeaseSightings,
    LeaseSpec,
    ObservedLease,
)
from cluster.coordination.replica_lease import SEEN_ANNOTATION
from cluster.objects import Metadata

START = 1000.0


class Clock:
    def __init__(self) -> None:
        self.seconds = START

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def lease(version: int, *, name: str = "sluice-controller", report: str = "") -> Lease:
    return Lease(
        metadata=Metadata(name=name, resource_version=str(version), annotations={SEEN_ANNOTATION: report}),
        spec=LeaseSpec(holder_identity="other", lease_duration_seconds=LEASE_SECONDS),
    )


def test_without_a_watch_a_lease_lasts_from_the_first_read_of_its_version(clock: Clock) -> None:
    """The renewal was before that read, so this is never too early."""
    observed = ObservedLease(clock)
    assert observed.seconds_left(lease(1)) == LEASE_SECONDS
    clock.seconds += LEASE_SECONDS
    assert not observed.expired(lease(1))
    clock.seconds += 0.1
    assert observed.expired(lease(1))
    assert not observed.expired(lease(2))


def test_a_lease_lasts_from_when_the_watch_showed_its_version(clock: Clock) -> None:
    """Whoever reads it for the first time when it has run out, such as a new leader, knows that at once."""
    sightings = LeaseSightings(clock)
    sightings.record(lease(1))
    clock.seconds += LEASE_SECONDS + 0.1
    assert ObservedLease(clock, sightings=sightings).expired(lease(1))


def test_what_the_watch_showed_later_than_a_read_prolongs_nothing(clock: Clock) -> None:
    """Also where the watch shows it again, after a list."""
    sightings = LeaseSightings(clock)
    observed = ObservedLease(clock, sightings=sightings)
    assert not observed.expired(lease(1))
    clock.seconds += LEASE_SECONDS + 0.1
    for _ in range(2):
        sightings.record(lease(1))
        assert observed.expired(lease(1))


@pytest.mark.parametrize("shown", [1, 3], ids=["an older version", "a newer version"])
def test_another_version_than_the_one_that_the_watch_showed_is_a_renewal(clock: Clock, shown: int) -> None:
    """A watch may be late, and so may the answer to a read."""
    sightings = LeaseSightings(clock)
    sightings.record(lease(shown))
    clock.seconds += LEASE_SECONDS + 0.1
    assert ObservedLease(clock, sightings=sightings).seconds_left(lease(2)) == LEASE_SECONDS


def test_a_late_answer_says_nothing_about_the_time_after_its_request(clock: Clock) -> None:
    sightings = LeaseSightings(clock)
    sightings.record(lease(1))
    began = clock.seconds + 1.0
    clock.seconds += 60.0
    assert not ObservedLease(clock, sightings=sightings).expired(lease(1), began=began)


def test_the_leaders_lease_is_watched_and_is_no_report_of_a_replica(clock: Clock) -> None:
    events = LeaseEvents(clock=clock)
    shown: list[str | None] = []
    events.listen(lambda each: shown.append(each.metadata.name if each else None))
    replica = lease(1, name="sluice-replica-other", report="{}")
    events.replace([lease(1), replica])
    assert shown == ["sluice-replica-other"]
    assert events.sightings.first_seen(lease(1)) == START


def test_a_lease_that_is_gone_is_forgotten(clock: Clock) -> None:
    """One of the same name that is made later is another one."""
    events = LeaseEvents(clock=clock)
    events.replace([lease(1), lease(2, name="sluice-replica-other")])
    events.replace([lease(2, name="sluice-replica-other")])
    events.remove(lease(2, name="sluice-replica-other"))
    for gone in (lease(1), lease(2, name="sluice-replica-other")):
        assert events.sightings.first_seen(gone) is None


@pytest.mark.parametrize(("written", "counted"), [(0, LEASE_SECONDS), (6, 6), (2**31 - 1, LONGEST_SECONDS)])
def test_a_duration_that_was_written_by_hand_ends_nothing_early_and_holds_nothing_up(
    written: int, counted: int
) -> None:
    assert Lease(metadata=Metadata(), spec=LeaseSpec(lease_duration_seconds=written)).seconds == counted


def test_renewals_carry_the_time_that_is_given() -> None:
    """The API server's: the clock of this node may be wrong."""
    sent: list[dict[str, Any]] = []

    class Client:
        def patch(self, _path: str, body: dict[str, Any]) -> bytes:
            sent.append(body)
            return b'{"metadata": {}}'

    at = datetime(2026, 11, 23, 9, 0, 0, 5, tzinfo=UTC)
    Leases(cast(Any, Client()), namespace="n", now=lambda: at).renew("a", holder="a", seconds=6, extra={})
    assert sent[0]["spec"]["renewTime"] == "2026-11-23T09:00:00.000005Z"
