"""What an edit of a stop loses, ends or lets run: each row of the table, and all pairs of stops."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from msgspec.structs import replace

from queues.admission.stop_edits import LENGTH, StopEditEffect, consequences
from queues.queue import Queue
from queues.states import Desired, StopPolicy
from queues.status.changes import HistoryLine, changes_between
from tests.support.cases import each_case

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SOON, LATER, PAST = NOW + timedelta(hours=1), NOW + timedelta(hours=2), NOW - timedelta(hours=1)
ANN, BOB = "ann", "bob"
CLOSED, SUSPENDED, OPEN = Desired.CLOSED, Desired.SUSPENDED, Desired.OPEN
NONE, HOLD, DRAIN = StopPolicy


def queue(
    state: Desired = OPEN, policy: StopPolicy = NONE, *, at: datetime | None = None, why: str = ""
) -> Queue:
    return Queue(name="q", desired=state, stop_policy=policy, resume_at=at, reason=why)


def made_by(who: str, stop: Queue) -> list[HistoryLine]:
    return changes_between(queue(), stop, by=who, reason=stop.reason, at=PAST)


def effects(before: Queue, after: Queue, *, by: str = ANN, made: str = ANN) -> list[StopEditEffect]:
    told = consequences(before, after, now=NOW, by=by, history=made_by(made, before))
    return [one.effect for one in told]


def text(before: Queue, after: Queue, *, made: str = BOB, waiting: int = 0) -> str:
    told = consequences(before, after, now=NOW, by=ANN, history=made_by(made, before), waiting=waiting)
    [one] = told
    return one.text


ALL = [
    queue(state, policy, at=at, why=why)
    for state, policy, at, why in product(Desired, StopPolicy, (None, PAST, SOON, LATER), ("", "disks"))
]


def stops(one: Queue) -> bool:
    return one.desired_at(NOW) is SUSPENDED or one.stop_policy_at(NOW) is not NONE


def end(one: Queue) -> datetime | None:
    return one.resume_at if stops(one) and one.resume_at != PAST else None


def reason(one: Queue) -> str:
    return "" if one.is_suspended_or_held and not stops(one) else one.reason


def expected(before: Queue, after: Queue, *, same_author: bool) -> set[StopEditEffect]:
    """The table once more, by rows in place of by edits."""
    was, will = before.desired_at(NOW), after.desired_at(NOW)
    held, holds = before.stop_policy_at(NOW), after.stop_policy_at(NOW)
    released = (was, held) == (SUSPENDED, NONE) and (will, holds) == (CLOSED, NONE)
    rows = {
        StopEditEffect.REOPENS: was is CLOSED and (will is SUSPENDED or (will is OPEN and not same_author)),
        StopEditEffect.ENDS: not same_author
        and ((stops(before) and not stops(after) and not released) or (held is DRAIN and holds is not DRAIN)),
        StopEditEffect.KEEPS_OPEN: (will is CLOSED and holds is not NONE)
        and not (was is CLOSED and held is not NONE),
        StopEditEffect.RELEASES: released,
        StopEditEffect.LOSES_END: end(before) is not None and end(after) is None and stops(after),
        StopEditEffect.LOSES_REASON: bool(reason(before))
        and not reason(after)
        and (was is not OPEN or held is not NONE)
        and (will is not OPEN or holds is not NONE),
        StopEditEffect.SOONER: not same_author and (end(before), end(after)) == (LATER, SOON),
    }
    return {effect for effect, holds_now in rows.items() if holds_now}


@pytest.mark.parametrize("same_author", [True, False], ids=["own", "another's"])
def test_all_pairs_say_what_the_table_says(same_author: bool) -> None:
    seen: set[StopEditEffect] = set()
    for before, after in product(ALL, ALL):
        told = set(effects(before, after, made=ANN if same_author else BOB))
        assert told == expected(before, after, same_author=same_author), (before, after)
        seen |= told
    assert len(seen) == (len(StopEditEffect) - 2 if same_author else len(StopEditEffect))


def test_the_same_edit_says_nothing_the_second_time() -> None:
    for one in ALL:
        assert not consequences(one, one, now=NOW, by=ANN)


def test_each_text_is_a_warning_that_the_api_server_does_not_cut() -> None:
    history = [
        HistoryLine(by="b" * 253, field=field, to=to, at="2030-01-01T00:00:00Z")
        for field, to in (("state", "Closed"), ("state", "Suspended"), ("stopPolicy", "HoldAndDrain"))
    ]
    for before, after in product(ALL, ALL):
        stop = replace(before, name="q" * 253, reason="r\n" * 500)
        for told in consequences(stop, replace(after, name=stop.name), now=NOW, by=ANN, history=history):
            assert len(told.text) <= LENGTH
            assert told.text.isprintable()


@each_case(
    ("before", "after", "expected_text"),
    [
        (
            queue(CLOSED, why="moved"),
            queue(SUSPENDED, at=SOON, why="new"),
            'this undoes the close of queue "q", closed by bob at 2029-12-31T23:00:00Z ("moved"): it takes '
            "new work again, and is Open at 2030-01-01T01:00:00Z",
        ),
        (
            queue(CLOSED),
            queue(),
            'this undoes the close of queue "q", closed by bob at 2029-12-31T23:00:00Z: it takes new work '
            "again",
        ),
        (
            queue(SUSPENDED, at=LATER, why="disks"),
            queue(),
            'this ends the suspension of queue "q", made by bob at 2029-12-31T23:00:00Z ("disks"); '
            "it was until 2030-01-01T02:00:00Z",
        ),
        (
            queue(OPEN, DRAIN),
            queue(OPEN, HOLD),
            'this ends the drain of queue "q", made by bob at 2029-12-31T23:00:00Z',
        ),
        (
            queue(OPEN, HOLD),
            queue(CLOSED, HOLD),
            'queue "q" stays held (stopPolicy Hold): what waits in it waits until it is resumed, and '
            "it is not Closed before; stopPolicy None lets it run out",
        ),
        (
            queue(SUSPENDED),
            queue(CLOSED),
            'queue "q" was Suspended, and Closed schedules: the 3 pods that wait in it will run; '
            "spec.stopPolicy Hold keeps that waiting",
        ),
        (
            queue(OPEN, HOLD, at=SOON),
            queue(OPEN, HOLD),
            'queue "q" is stopped without an end now, it was until 2030-01-01T01:00:00Z; to keep that, set '
            "spec.resumeAt again",
        ),
        (
            queue(OPEN, HOLD, why="disks"),
            queue(OPEN, DRAIN),
            'the reason "disks" of queue "q" went with the stop before; to keep it, set spec.reason again',
        ),
        (
            queue(SUSPENDED, at=LATER),
            queue(SUSPENDED, at=SOON),
            'the stop of queue "q", made by bob at 2029-12-31T23:00:00Z ends at 2030-01-01T01:00:00Z, it was '
            "until 2030-01-01T02:00:00Z",
        ),
    ],
    ids=[
        "undoes-close",
        "reopens",
        "ends",
        "ends-drain",
        "held",
        "releases",
        "no-end",
        "no-reason",
        "sooner",
    ],
)
def test_the_texts(before: Queue, after: Queue, expected_text: str) -> None:
    assert text(before, after, waiting=3) == expected_text


def test_a_stop_of_an_unknown_author_counts_as_another_s() -> None:
    """The history keeps so many lines, and none of a queue that was created stopped."""
    [one] = consequences(queue(SUSPENDED, why="disks"), queue(), now=NOW, by=ANN)
    assert one.text == 'this ends the suspension of queue "q" ("disks")'


def test_the_author_is_that_of_the_present_stop() -> None:
    """Not of one that was ended since."""
    history = [*made_by(BOB, queue(SUSPENDED)), *made_by(ANN, queue(OPEN, HOLD))]
    assert not consequences(queue(OPEN, HOLD), queue(), now=NOW, by=ANN, history=history)
    [one] = consequences(queue(OPEN, HOLD), queue(), now=NOW, by=BOB, history=history)
    assert "made by ann" in one.text


def test_a_client_asks_where_the_author_hardly_means_it() -> None:
    asking = {
        one.effect
        for before, after in product(ALL, ALL)
        for one in consequences(before, after, now=NOW, by=ANN)
        if one.asks
    }
    assert asking == {StopEditEffect.REOPENS, StopEditEffect.KEEPS_OPEN, StopEditEffect.LOSES_END}
    ends = consequences(queue(OPEN, HOLD, at=SOON), queue(OPEN, HOLD), now=NOW, by=ANN)
    assert [one.asks for one in ends] == [False]
