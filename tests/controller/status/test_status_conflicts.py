"""Who else wrote a status, told from `managedFields`; and how long the same is not put back again."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from controller.status.status_conflicts import (
    QUIET_SECONDS,
    REWRITE,
    Contest,
    Owners,
    last_writer,
)

STATUS: dict[str, object] = {"f:status": {"f:state": {}}}
SPEC: dict[str, object] = {"f:spec": {"f:weight": {}}}


def owner(manager: str, second: int, fields: dict[str, object]) -> dict[str, object]:
    time = datetime(2030, 1, 1, 12, 0, second, tzinfo=UTC).isoformat()
    return {"manager": manager, "operation": "Update", "time": time, "fieldsV1": fields}


@pytest.mark.parametrize(
    ("owners", "name"),
    [
        ([], "somebody"),
        ([owner("sluice", 1, STATUS)], "sluice"),
        ([owner("sluice", 1, STATUS), owner("other", 2, STATUS)], "other"),
        ([owner("sluice", 3, STATUS), owner("other", 2, STATUS)], "sluice"),
        ([owner("other", 2, STATUS), owner("sluice", 2, STATUS)], "other"),
        ([owner("editor", 9, SPEC), owner("other", 2, STATUS)], "other"),
        ([owner("editor", 9, SPEC)], "somebody"),
        ([{"manager": "", "fieldsV1": STATUS}], "somebody"),
    ],
    ids=lambda case: str(len(case)) if isinstance(case, list) else case,
)
def test_the_last_to_write_a_status_is_named(owners: list[dict[str, object]], name: str) -> None:
    """Not who wrote the spec, nor who wrote the status before; within a second it was not ourselves."""
    found = msgspec.convert({"metadata": {"managedFields": owners}}, Owners)
    assert last_writer(found.metadata.managed_fields) == name


def test_each_time_waits_twice_as_long_up_to_a_limit() -> None:
    """The first one not at all."""
    contest, waits, now = Contest(), [], 1000.0
    for version in range(1, 10):
        contest = contest.next("other", version=version, now=now)
        waits.append(contest.until - now)
        now = contest.until
    assert waits == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, REWRITE.longest, REWRITE.longest]
    assert (contest.times, contest.version) == (9, 9)


def test_a_queue_that_was_left_alone_begins_anew() -> None:
    """One write today and one tomorrow are no rivalry."""
    contest = Contest().next("a", version=1, now=1000.0).next("a", version=2, now=1001.0)
    assert contest.next("a", version=3, now=1001.0 + QUIET_SECONDS).is_rivalry
    assert contest.next("a", version=3, now=1002.0 + QUIET_SECONDS).times == 1
