"""The table of what a queue that no longer accepts still takes: each row, and all of them together."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from queues.admission.accepted_work import Owner, is_accepted_work
from tests.support.rules.cases import NOW, SECOND

BEFORE, AFTER = NOW - SECOND, NOW + SECOND


def owner(**more: Any) -> Owner:
    """One whose pods are taken, unless told otherwise."""
    return Owner(**{"kind": "Job", "name": "train", "queue": "q", "created": BEFORE, **more})


def taken(of: Owner | None, *, closed: bool = False) -> bool:
    return is_accepted_work(of, queue="q", refusing_since=NOW, closed=closed)


def test_of_an_owner_admitted_before_and_still_live_it_is_taken() -> None:
    assert taken(owner())


def test_an_equal_second_counts_as_before() -> None:
    """The API server's times have no finer unit; to refuse a pod of accepted work breaks a job."""
    assert taken(owner(created=NOW))


def test_of_an_owner_admitted_later_it_is_new_work() -> None:
    assert not taken(owner(created=AFTER))


@pytest.mark.parametrize(
    "of", [owner(queue="other"), owner(queue=""), None], ids=["another", "none", "nobody"]
)
def test_of_an_owner_of_another_queue_or_of_none_it_is_not(of: Owner | None) -> None:
    assert not taken(of)


def test_of_an_owner_that_is_finished_it_is_not() -> None:
    """What it makes now was not accepted."""
    assert not taken(owner(live=False))


def test_once_the_queue_is_closed_nothing_is() -> None:
    """Nothing was left that could make it."""
    assert not taken(owner(), closed=True)


def test_every_combination_is_decided_by_whoever_says_no() -> None:
    for queue, created, live, since, closed in product(
        ["q", "other", ""], [BEFORE, NOW, AFTER], [True, False], [None, NOW], [True, False]
    ):
        noes = {
            "another queue": queue != "q",
            "too late": since is not None and (created - since).total_seconds() > 0,
            "finished": not live,
            "closed": closed,
        }
        found = is_accepted_work(
            owner(queue=queue, created=created, live=live), queue="q", refusing_since=since, closed=closed
        )
        assert found is not any(noes.values()), noes
        assert not is_accepted_work(None, queue="q", refusing_since=since, closed=closed)


@pytest.mark.parametrize("kind", ["Job", "Deployment", "DaemonSet", "PodGroup", "Whatever"])
def test_neither_its_kind_nor_its_name_matters(kind: str) -> None:
    assert taken(owner(kind=kind, name=""))
    assert not taken(owner(kind=kind, name="", created=AFTER))
