"""What a queue that no longer accepts still admits: the pods of work that it had accepted."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import product
from typing import Any

from queues.admission.accepted_work import WorkOwner, is_accepted_work
from tests.support.cases import each_case
from tests.support.rules.cases import NOW, SECOND

BEFORE, AFTER = NOW - SECOND, NOW + SECOND


def owner(**fields: Any) -> WorkOwner:
    """One whose pods are admitted, unless `fields` say otherwise."""
    return WorkOwner(**{"kind": "Job", "name": "train", "queue": "q", "created": BEFORE, **fields})


@each_case(
    ("created", "accepted"),
    [
        (NOW - timedelta(days=30), True),
        (BEFORE, True),
        (NOW, True),
        (AFTER, False),
        (NOW + timedelta(days=30), False),
    ],
)
def test_work_counts_as_accepted_by_the_second(created: datetime, accepted: bool) -> None:
    """Work from before the queue stopped accepting, or the same second, keeps its pods; later is new."""
    assert is_accepted_work(owner(created=created), queue="q", refusing_since=NOW) is accepted


def test_times_are_compared_as_moments() -> None:
    """A time in another zone is the moment that it names."""
    east = AFTER.astimezone(timezone(timedelta(hours=9)))
    assert not is_accepted_work(owner(created=east), queue="q", refusing_since=NOW)


def test_work_is_new_if_any_condition_of_accepted_work_fails() -> None:
    """Another queue, a later time, finished work, a Closed queue; and a pod without an owner."""
    for queue, created, live, since, closed in product(
        ["q", "other", ""], [BEFORE, NOW, AFTER], [True, False], [None, NOW], [True, False]
    ):
        against = {
            "another queue": queue != "q",
            "too late": since is not None and (created - since).total_seconds() > 0,
            "finished": not live,
            "closed": closed,
        }
        accepted = is_accepted_work(
            owner(queue=queue, created=created, live=live), queue="q", refusing_since=since, closed=closed
        )
        assert accepted is not any(against.values()), against
        assert not is_accepted_work(None, queue="q", refusing_since=since, closed=closed)


@each_case("kind", ["Job", "Deployment", "DaemonSet", "PodGroup", "Whatever"])
def test_neither_its_kind_nor_its_name_matters(kind: str) -> None:
    for created, accepted in ((BEFORE, True), (AFTER, False)):
        work = owner(kind=kind, name="", created=created)
        assert is_accepted_work(work, queue="q", refusing_since=NOW) is accepted
