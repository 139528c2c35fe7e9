"""Edits that were admitted and not stored yet: how long they count."""

from __future__ import annotations

import msgspec
import pytest

from cluster.inflight.queue_edits import (
    REMEMBERED,
    SECONDS,
    PendingQueueEdits,
)
from cluster.objects import QueueObject
from tests.support.cases import each_case


def queue(version: int, uid: str = "uid", name: str = "q") -> QueueObject:
    meta = {"name": name, "uid": uid, "resourceVersion": str(version)}
    return msgspec.convert({"metadata": meta}, QueueObject)


class Watch:
    """A clock that stands until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@each_case(
    ("held", "coming"),
    [
        (None, True),
        (queue(3), True),
        (queue(5), True),
        (queue(6), False),
        (queue(2, uid="another"), False),
    ],
    ids=["not heard of", "older", "the one that was edited", "newer", "another of the name"],
)
def test_a_change_counts_until_the_store_is_newer(held: QueueObject | None, coming: bool) -> None:
    """The edit was made to version 5."""
    edits = PendingQueueEdits(clock=Watch())
    edits.record("q", before=queue(5), after=queue(5))
    assert ("q" in edits.pending({"q": held} if held else {})) is coming


@pytest.mark.parametrize(("held", "coming"), [(None, True), (queue(1), False)])
def test_a_new_queue_counts_until_the_store_has_it(held: QueueObject | None, coming: bool) -> None:
    """Whatever version it has come in."""
    edits = PendingQueueEdits(clock=Watch())
    edits.record("q", before=None, after=queue(0))
    assert ("q" in edits.pending({"q": held} if held else {})) is coming


@pytest.mark.parametrize(
    ("held", "coming"), [(None, False), (queue(5), True), (queue(6), True), (queue(7, uid="new"), False)]
)
def test_a_deletion_counts_until_the_queue_is_gone(held: QueueObject | None, coming: bool) -> None:
    """A status that is written before it goes changes nothing; one of its name that is new does."""
    edits = PendingQueueEdits(clock=Watch())
    edits.record("q", before=queue(5), after=None)
    assert edits.pending({"q": held} if held else {}) == ({"q": None} if coming else {})


def test_no_edit_counts_for_long() -> None:
    """However little is heard of it."""
    clock = Watch()
    edits = PendingQueueEdits(clock=clock)
    edits.record("q", before=queue(5), after=queue(5))
    clock.now += SECONDS
    assert edits.pending({})
    clock.now += 0.001
    assert not edits.pending({})


def test_the_latest_edit_of_a_queue_is_the_one_that_counts() -> None:
    """And it begins its time anew."""
    edits = PendingQueueEdits(clock=Watch())
    edits.record("q", before=queue(5), after=queue(5))
    edits.record("q", before=queue(6), after=None)
    assert edits.pending({"q": queue(6)}) == {"q": None}


def test_what_is_remembered_is_bounded() -> None:
    """The oldest go first."""
    edits = PendingQueueEdits(clock=Watch())
    for number in range(REMEMBERED + 1):
        edits.record(str(number), before=None, after=queue(0))
    coming = edits.pending({})
    assert len(coming) == REMEMBERED
    assert "0" not in coming
