"""A queue's own wishes in time: what `resumeAt` undoes, and when."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from queues.queue import BUILT_IN, Queue, with_placement
from queues.snapshot import QueueSnapshot
from queues.states import Desired, StopPolicy
from tests.support.cases import each_case
from tests.support.rules.cases import (
    CLOSED,
    DRAIN,
    HOLD,
    NONE,
    NOW,
    OPEN,
    SECOND,
    SUSPENDED,
    queue,
    tree,
)

#: desired, policy: the same after resumeAt.
UNDONE = [
    (OPEN, NONE, OPEN, NONE),
    (OPEN, HOLD, OPEN, NONE),
    (OPEN, DRAIN, OPEN, NONE),
    (SUSPENDED, NONE, OPEN, NONE),
    (SUSPENDED, HOLD, OPEN, NONE),
    (SUSPENDED, DRAIN, OPEN, NONE),
    (CLOSED, NONE, CLOSED, NONE),
    (CLOSED, HOLD, CLOSED, NONE),
    (CLOSED, DRAIN, CLOSED, NONE),
]


def wishes(stop: Queue, now: datetime) -> tuple[Desired, StopPolicy]:
    return stop.desired_at(now), stop.stop_policy_at(now)


@each_case(("desired", "policy", "_desired", "_policy"), UNDONE)
def test_before_its_time_a_stop_holds(
    desired: Desired, policy: StopPolicy, _desired: Desired, _policy: StopPolicy
) -> None:
    """The last moment before `resumeAt` undoes nothing."""
    stop = queue("q", desired=desired, stop_policy=policy, resume_at=NOW)
    assert wishes(stop, NOW - timedelta(microseconds=1)) == (desired, policy)


@each_case(("desired", "policy", "then_desired", "then_policy"), UNDONE)
@each_case("later", [timedelta(0), timedelta(microseconds=1), timedelta(days=400)])
def test_from_its_time_on_a_stop_is_over(
    desired: Desired, policy: StopPolicy, then_desired: Desired, then_policy: StopPolicy, later: timedelta
) -> None:
    """At `resumeAt` and ever after Suspended and the stop policy are undone, Closed never."""
    stop = queue("q", desired=desired, stop_policy=policy, resume_at=NOW)
    assert wishes(stop, NOW + later) == (then_desired, then_policy)


@each_case(("desired", "policy", "_desired", "_policy"), UNDONE)
def test_without_a_time_a_stop_holds_for_ever(
    desired: Desired, policy: StopPolicy, _desired: Desired, _policy: StopPolicy
) -> None:
    """No `resumeAt`, no end."""
    stop = queue("q", desired=desired, stop_policy=policy)
    assert wishes(stop, datetime.max.replace(tzinfo=NOW.tzinfo)) == (desired, policy)


def test_the_time_is_the_same_in_every_zone() -> None:
    """A `resumeAt` written with an offset means that moment, not that clock reading."""
    east = NOW.astimezone(timezone(timedelta(hours=14)))
    stop = queue("q", desired=SUSPENDED, resume_at=east)
    assert (stop.is_resumed(NOW - SECOND), stop.is_resumed(NOW)) == (False, True)


def test_a_time_without_a_zone_does_not_break_every_queue() -> None:
    """One queue's naive `resumeAt` leaves the snapshot of all queues whole."""
    odd = queue("odd", desired=SUSPENDED, resume_at=NOW.replace(tzinfo=None))
    assert QueueSnapshot(tree(odd, queue("q")), now=NOW).decision("q").schedules


def test_a_time_without_a_zone_is_utc() -> None:
    """What the API server would have refused is read as the API server writes it."""
    odd = queue("odd", desired=SUSPENDED, resume_at=NOW.replace(tzinfo=None))
    assert (odd.is_resumed(NOW - SECOND), odd.is_resumed(NOW)) == (False, True)


@each_case(("desired", "policy", "_desired", "_policy"), UNDONE)
@each_case("at", [None, NOW])
def test_a_queue_asks_to_stop_by_a_suspension_or_a_policy(
    desired: Desired, policy: StopPolicy, _desired: Desired, _policy: StopPolicy, at: datetime | None
) -> None:
    """Closed and Open ask for no stop without a policy; the time has no part in it."""
    stop = queue("q", desired=desired, stop_policy=policy, resume_at=at)
    assert stop.is_suspended_or_held is (desired is SUSPENDED or policy in (HOLD, DRAIN))


def test_the_queues_that_always_exist_are_root_and_default() -> None:
    """`root` and `default` are built in, and no other."""
    assert frozenset({"root", "default"}) == BUILT_IN


def test_the_revision_changes_with_every_edit_and_with_a_new_object() -> None:
    """An edit raises the generation and a queue made anew has another UID: each gives another revision."""
    revisions = {
        Queue(name="q", uid=uid, generation=generation).revision
        for uid, generation in (("u", 1), ("u", 2), ("v", 1), ("u1", 1), ("u", 11))
    }
    assert len(revisions) == 5


def test_the_revision_is_read_by_people_too() -> None:
    """It is the UID and the generation, as `kubectl get -o yaml` shows them."""
    assert Queue(name="q", uid="u", generation=3).revision == "u/3"


# Where a queue is, and since when


@each_case(
    ("before", "expected"),
    [
        (None, 7),
        (queue("q", generation=6, placed=3), 3),
        (queue("q", generation=7, placed=3), 3),
        (queue("q", generation=5, placed=3), 7),
        (queue("q", generation=8, placed=3), 7),
        (queue("q", "elsewhere", generation=6, placed=3), 7),
        (queue("another", generation=6, placed=3), 7),
        (queue("q", generation=6), 7),
    ],
    ids=[
        "not known before",
        "the next edit",
        "no edit of the spec",
        "an edit was missed, which may have moved it",
        "a former one",
        "moved",
        "created again",
        "nothing known of the one before",
    ],
)
def test_a_queue_is_where_it_is_since_the_first_generation_of_which_nothing_was_missed(
    before: Queue | None, expected: int
) -> None:
    assert with_placement(queue("q", generation=7), before=before).placed == expected


def test_a_queue_of_which_nothing_is_known_counts_as_moved_by_each_edit() -> None:
    assert queue("q", generation=7).place != queue("q", generation=8).place
    assert queue("q", generation=7, placed=3).place == queue("q", generation=8, placed=3).place
    assert queue("q", "a", generation=7, placed=3).place != queue("q", "b", generation=7, placed=3).place
