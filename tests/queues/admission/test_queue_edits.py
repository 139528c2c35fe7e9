"""What may be done to a Queue object: each refusal, and what it says to do instead."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.admission.command_validation import action_refusal
from queues.admission.queue_edits import (
    deadline_refusal,
    deletion_refusal,
    edit_refusal,
    parent_pods_refusal,
    parent_refusal,
    spec_refusal,
    termination_refusal,
)
from queues.queue import Queue
from queues.states import Action, Desired, State, own_state
from queues.tree import Tree
from tests.support.cases import each_case
from tests.support.rules.cases import (
    CLOSED,
    DRAIN,
    HOLD,
    MODEST,
    NAMES,
    NONE,
    NOW,
    OPEN,
    PARENTS,
    SECOND,
    SUSPENDED,
    asked,
    line,
    plain,
    queue,
    random_forests,
    random_times,
    tree,
)
from tests.support.rules.oracle import truths


def says(refusal: str | None, *words: str) -> None:
    """Refused on one plain line that has all these words."""
    assert refusal is not None
    assert plain(refusal)
    assert [word for word in words if word not in refusal] == []


# Edits of spec.state


@each_case("own", list(State))
@each_case("after", list(Desired))
def test_of_all_edits_of_the_state_one_is_refused(own: State, after: Desired) -> None:
    """Closed to Suspended is refused in own state Closed, every other edit passes."""
    before = {"Suspended": SUSPENDED, "Closing": CLOSED, "Closed": CLOSED}.get(own.value, OPEN)
    refusal = edit_refusal(queue("q", desired=before), queue("q", desired=after), own=own)
    assert (refusal is not None) is ((own, after) == ("Closed", "Suspended"))


def test_a_closed_queue_has_to_be_opened_before_it_is_suspended() -> None:
    """The refusal names the field, the queue, both states and the way out."""
    refusal = edit_refusal(queue("lab", desired=CLOSED), queue("lab", desired=SUSPENDED), own=State.CLOSED)
    says(refusal, "spec.state", '"lab" is Closed', "cannot become Suspended")
    assert str(refusal).endswith("open it first: kubectl queue open lab")


def test_an_edit_of_something_else_is_no_edit_of_the_state() -> None:
    """A Closed queue's policy, parent and reason can be edited: the state stays."""
    after = queue("q", "p", desired=CLOSED, stop_policy=DRAIN, reason="r")
    assert edit_refusal(queue("q", desired=CLOSED), after, own=State.CLOSED) is None


def test_the_controller_may_write_that_a_stop_is_over() -> None:
    """Past `resumeAt` the edit from Suspended to Open, which the controller makes once, is not refused."""
    before = queue("q", desired=SUSPENDED, resume_at=NOW)
    own = asked(tree(before), "q", now=NOW).state
    assert edit_refusal(before, queue("q"), own=own) is None


# What no edit may ask for


def test_root_cannot_be_closed() -> None:
    """The refusal says how to stop every queue instead."""
    refusal = spec_refusal(queue("root", desired=CLOSED))
    says(refusal, "spec.state", '"root" cannot be Closed')
    assert str(refusal).endswith("kubectl queue suspend root")


@each_case("name", ["root", "default", "q"])
@each_case("wish", list(product([OPEN, SUSPENDED, CLOSED], [NONE, HOLD, DRAIN], [None, NOW])), ids=str)
def test_a_wish_is_refused_for_two_reasons_only(name: str, wish: tuple[object, object, object]) -> None:
    """`root` Closed, and Closed with a `resumeAt`; all else is granted, `root` held included."""
    desired, policy, at = wish
    refusal = spec_refusal(queue(name, desired=desired, stop_policy=policy, resume_at=at))
    assert (refusal is not None) is (desired is CLOSED and (name == "root" or at is not None))


@pytest.mark.parametrize("at", [NOW - SECOND, NOW, NOW + SECOND])
def test_a_close_has_no_end(at: object) -> None:
    """`resumeAt` with Closed is refused, past or to come: the refusal shows it and says what to use."""
    refusal = spec_refusal(queue("q", desired=CLOSED, resume_at=at))
    says(refusal, "spec.resumeAt", "2030-01-01", "Closed", "remove spec.resumeAt", "use spec.state Suspended")


# The deadline of a drain


@each_case("before", [None, NOW - 2 * SECOND, NOW + SECOND])
@each_case(("after", "refused"), [(NOW - SECOND, True), (NOW, True), (NOW + SECOND, False)])
def test_no_drain_is_given_a_deadline_that_is_past(
    before: datetime | None, after: datetime, refused: bool
) -> None:
    """Set or changed, it has to be later than now."""
    assert (deadline_refusal(before, after, now=NOW) is not None) is refused


def test_a_deadline_that_has_passed_since_it_was_set_stands_in_no_edits_way() -> None:
    """The same moment in another zone is no change; taking it away is none that could be refused."""
    elsewhere = (NOW - SECOND).astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert deadline_refusal(NOW - SECOND, NOW - SECOND, now=NOW) is None
    assert deadline_refusal(NOW - SECOND, elsewhere, now=NOW) is None
    assert deadline_refusal(NOW - SECOND, None, now=NOW) is None


def test_no_drain_begins_under_a_deadline_that_has_passed() -> None:
    """What the last drain left behind would have everybody deleted at once."""
    says(deadline_refusal(NOW - SECOND, NOW - SECOND, now=NOW, begins=True), "in the past", "or remove it")
    assert deadline_refusal(NOW + SECOND, NOW + SECOND, now=NOW, begins=True) is None
    assert deadline_refusal(None, None, now=NOW, begins=True) is None


@each_case(
    ("name", "action"),
    [(n, a) for n in ("root", "default", "q") for a in ("Open", "Close", "Suspend", "Resume")],
)
def test_an_action_is_refused_for_one_reason_only(name: str, action: str) -> None:
    """CloseQueue on `root` is refused; every other action on every queue is heard."""
    refusal = action_refusal(name, Action(f"{action}Queue"))
    assert (refusal is not None) is ((name, action) == ("root", "Close"))


def test_the_refusal_to_close_root_names_another_action() -> None:
    """The way out is to suspend."""
    refusal = action_refusal("root", Action.CLOSE)
    says(refusal, '"root" cannot be closed')
    assert str(refusal).endswith("kubectl queue suspend root")


# Where a queue may stand


@each_case("parent", [None, "", "root", "p", "deep"])
def test_a_queue_may_have_a_parent_that_exists(parent: str | None) -> None:
    """Under `root`, written out or not, or under any queue that reaches it."""
    wood = line(queue("p"), queue("deep"))
    assert parent_refusal(Queue(name="q", parent=parent), tree=wood) is None


def test_an_edit_that_moves_nothing_passes() -> None:
    """The queue as it stands may stay where it is."""
    wood = line(queue("p"), queue("q"), queue("below"))
    assert parent_refusal(queue("q", "p"), tree=wood) is None


@pytest.mark.parametrize("parent", ["root", "ghost", "a"])
def test_root_is_given_no_parent(parent: str) -> None:
    refusal = parent_refusal(Queue(name="root", parent=parent), tree=tree(queue("a")))
    says(refusal, "spec.parent", '"root"', "has no parent", "leave the field out")


@pytest.mark.parametrize("parent", [None, ""])
def test_root_stands_where_it_stands(parent: str | None) -> None:
    assert parent_refusal(Queue(name="root", parent=parent), tree=tree(queue("a"))) is None


def test_a_queue_cannot_be_its_own_parent() -> None:
    """Refused as Volcano refuses it."""
    says(parent_refusal(queue("q", "q"), tree=tree(queue("q"))), "spec.parent", "queue q", "itself as parent")


def test_a_new_queue_cannot_be_its_own_parent() -> None:
    """It is not told to create itself first."""
    says(parent_refusal(queue("q", "q"), tree=Tree({})), "spec.parent", "itself as parent")


def test_a_parent_has_to_exist() -> None:
    """The refusal names it and says how to create it."""
    refusal = parent_refusal(queue("q", "lab"), tree=Tree({}))
    says(refusal, "spec.parent", '"lab" does not exist')
    assert str(refusal).endswith("kubectl queue create lab")


def test_a_hostile_parent_is_refused_on_one_printable_line() -> None:
    """What a user wrote as parent is shown with care."""
    refusal = parent_refusal(queue("q", "gh\x1b[31most\n" + "x" * 100_000), tree=Tree({}))
    assert refusal
    assert plain(refusal)
    assert len(refusal) < 1024


@pytest.mark.parametrize("parent", ["child", "grandchild"])
def test_a_queue_cannot_move_below_itself(parent: str) -> None:
    """A move that would close a cycle is refused, and the cycle shown."""
    wood = line(queue("q"), queue("child"), queue("grandchild"))
    refusal = parent_refusal(queue("q", parent), tree=wood)
    says(refusal, "spec.parent", "cycle", f"q > {'grandchild > ' if parent == 'grandchild' else ''}child > q")
    assert str(refusal).endswith("choose a parent whose chain reaches root")


def test_a_queue_cannot_stand_where_the_chain_is_broken() -> None:
    """A parent that hangs nowhere is no place: the refusal says which parent is missing."""
    refusal = parent_refusal(queue("q", "lost"), tree=tree(queue("lost", "ghost")))
    says(refusal, "spec.parent", '"ghost"', '"lost"', "reaches root")


def test_a_queue_cannot_stand_under_a_cycle() -> None:
    """Nor is a cycle that others made a place."""
    refusal = parent_refusal(queue("q", "a"), tree=tree(queue("a", "b"), queue("b", "a")))
    says(refusal, "spec.parent", "cycle", "a > b > a")


def test_a_queue_of_a_cycle_can_be_moved_out_of_it() -> None:
    """The way out of a cycle is open: one of its queues goes under `root`."""
    assert parent_refusal(queue("a"), tree=tree(queue("a", "b"), queue("b", "a"))) is None


def chain_of(length: int, prefix: str = "q", above: str = "root") -> list[Queue]:
    names = [f"{prefix}{i}" for i in range(1, length + 1)]
    return [queue(name, parent) for name, parent in zip(names, [above, *names], strict=False)]


@each_case("depth", [1, 2, 3, 4, 5, 6, 7])
def test_a_queue_stands_at_most_five_below_root(depth: int) -> None:
    """Five levels below `root` are allowed and a sixth is not, with nothing said about the limit."""
    *above, placed = chain_of(depth)
    assert (parent_refusal(placed, tree=tree(*above)) is not None) is (depth > 5)


@each_case(("depth", "height"), list(product([1, 2, 3, 4], [0, 1, 2, 3, 4])))
def test_a_queue_brings_those_below_it(depth: int, height: int) -> None:
    """A move is refused where the lowest queue that comes along would stand too deep."""
    *above, _ = chain_of(depth)
    wood = tree(*above, queue("m"), *chain_of(height, "below", "m"), queue("leaf", "m" if height else "root"))
    moved = queue("m", above[-1].name if above else "root")
    assert (parent_refusal(moved, tree=wood) is not None) is (depth + height > 5)


def test_children_that_named_a_missing_parent_count_once_it_is_created() -> None:
    """A new queue whose children are there already brings their depth."""
    waiting = chain_of(5, "below", "new")
    refusal = parent_refusal(queue("new"), tree=tree(*waiting))
    says(refusal, "spec.parent", 'under "root"', "6 levels", "5 are allowed", "nearer to root")


@pytest.mark.parametrize(("limit", "refused"), [(1, True), (2, True), (3, False), (10, False)])
def test_the_depth_is_a_setting(limit: int, refused: bool) -> None:
    """With another limit another depth is too deep, and the refusal says which."""
    refusal = parent_refusal(queue("q", "q2"), tree=tree(*chain_of(2)), depth_limit=limit)
    assert (refusal is not None) is refused
    if refusal:
        says(refusal, 'under "q2"', "3 levels", f"{limit} are allowed")


@MODEST
@given(random_forests(), st.sampled_from(NAMES[1:]), st.sampled_from(PARENTS), st.integers(1, 6))
def test_what_is_placed_reaches_root_and_is_not_too_deep(
    queues: dict[str, Queue], name: str, parent: str, limit: int
) -> None:
    """In any tree a placing passes just where the chain is then whole and nothing below too deep."""
    placed = {**queues, name: queue(name, parent)}
    above = {one: truth.above for one, truth in truths(placed, now=NOW).items()}
    deepest = max(len(chain) - 1 for chain in above.values() if name in chain)
    leaving = any(placed[one].terminating for one in above[name] if one in placed)
    fine = "root" in above[name] and deepest <= limit and not leaving
    assert (parent_refusal(placed[name], tree=Tree(queues), depth_limit=limit) is None) is fine


# Deletion

#: wishes of the parent and of the queue, live: may be deleted.
DELETIONS = [
    ({}, {}, False, False),
    ({}, {}, True, False),
    ({}, {"desired": SUSPENDED}, False, False),
    ({}, {"desired": SUSPENDED}, True, False),
    ({}, {"desired": CLOSED}, True, False),
    ({}, {"desired": CLOSED}, False, True),
    ({}, {"desired": CLOSED, "stop_policy": HOLD}, False, True),
    ({}, {"stop_policy": DRAIN}, False, False),
    ({"desired": CLOSED}, {}, False, True),
    ({"desired": CLOSED}, {}, True, False),
    ({"desired": CLOSED}, {"desired": SUSPENDED}, False, True),
    ({"desired": CLOSED}, {"desired": SUSPENDED}, True, False),
    ({"desired": SUSPENDED}, {"desired": CLOSED}, False, True),
    ({"desired": SUSPENDED}, {"desired": CLOSED}, True, False),
    ({"desired": SUSPENDED}, {}, False, False),
]


@each_case(("above", "own", "live", "allowed"), DELETIONS)
def test_only_a_closed_queue_may_be_deleted(
    above: dict[str, Any], own: dict[str, Any], live: bool, allowed: bool
) -> None:
    """What counts is that the verdict is Closed, by whomever: not the wish, and not what was once stored."""
    found = asked(line(queue("p", **above), queue("q", **own)), "q", live=live)
    assert (deletion_refusal(found, children=()) is None) is allowed


@pytest.mark.parametrize(("own", "allowed"), [(OPEN, False), (SUSPENDED, False), (CLOSED, True)])
def test_a_queue_that_hangs_nowhere_may_be_deleted_once_closed(own: Desired, allowed: bool) -> None:
    """A broken chain keeps no Closed queue from being deleted, and Unknown is not Closed."""
    found = asked(tree(queue("q", "ghost", desired=own)), "q")
    assert (deletion_refusal(found, children=()) is None) is allowed


@pytest.mark.parametrize(("state", "wish", "live"), [("Open", OPEN, True), ("Suspended", SUSPENDED, False)])
def test_the_refusal_to_delete_says_the_state_and_the_way_out(state: str, wish: Desired, live: bool) -> None:
    """A queue that is not closed has to be closed first."""
    refusal = deletion_refusal(asked(tree(queue("lab", desired=wish)), "lab", live=live), children=())
    says(refusal, f'"lab" is {state}', "only a Closed queue")
    assert str(refusal).endswith("kubectl queue close lab")


def test_an_unknown_queue_has_to_be_closed_too() -> None:
    """That its chain is broken is not what it is waiting for."""
    refusal = deletion_refusal(asked(tree(queue("lab", "ghost")), "lab"), children=())
    says(refusal, '"lab" is Unknown', "only a Closed queue")
    assert str(refusal).endswith("kubectl queue close lab")


def test_a_closing_queue_is_not_advised_to_close() -> None:
    """CloseQueue on a Closing queue is nothing: the way out is to wait for its members, or end them."""
    refusal = deletion_refusal(asked(tree(queue("lab", desired=CLOSED)), "lab", live=True), children=())
    says(refusal, '"lab" is Closing')
    assert "queue close lab" not in str(refusal)


def test_a_closed_queue_that_shows_suspended_is_not_advised_to_close() -> None:
    """Closed under a suspended ancestor, members live: nothing is left to close, it has to wait."""
    pair = line(queue("p", desired=SUSPENDED), queue("lab", desired=CLOSED))
    refusal = deletion_refusal(asked(pair, "lab", live=True), children=())
    says(refusal, '"lab" is Suspended')
    assert "queue close lab" not in str(refusal)


def test_what_still_counts_above_keeps_a_closed_queue() -> None:
    """Pods that keep no queue from Closed would count nowhere; the refusal says how much, and the way out."""
    closed = asked(tree(queue("lab", desired=CLOSED)), "lab")
    refusal = deletion_refusal(closed, children=(), counts=(("cpu", 2), ("pods", 2)))
    says(refusal, '"lab" cannot be deleted yet', "cpu 2, pods 2")
    assert str(refusal).endswith("kubectl queue drain lab")


# What is being deleted

LEAVING = queue("q", terminating=True)


@each_case("before", list(Desired))
@each_case("after", list(Desired))
@each_case("resume_at", [None, NOW - SECOND, NOW + SECOND])
def test_no_edit_opens_what_is_being_deleted(before: Desired, after: Desired, resume_at: Any) -> None:
    """But for the write of a resume whose time has come: it is Open already."""
    was = queue("q", terminating=True, desired=before, resume_at=resume_at)
    refusal = termination_refusal(was, queue("q", terminating=True, desired=after), now=NOW)
    is_over = before is SUSPENDED and resume_at == NOW - SECOND
    assert (refusal is not None) is (after is OPEN and before is not OPEN and not is_over)
    if refusal:
        says(refusal, 'spec.state: queue "q" is being deleted and cannot be opened', "kubectl queue create q")
    kept = queue("q", desired=before)
    assert termination_refusal(kept, queue("q", desired=after), now=NOW) is None


@each_case("own", list(Desired))
@each_case("live", [False, True])
def test_what_is_being_deleted_is_in_the_state_of_a_close(own: Desired, live: bool) -> None:
    expected = State.SUSPENDED if own is SUSPENDED else State.CLOSING if live else State.CLOSED
    assert own_state(own, broken=False, live=live, terminating=True) is expected


def test_what_is_being_deleted_gets_no_queues_below_it() -> None:
    """Neither does a queue under it. It may be moved itself."""
    wood = tree(LEAVING, queue("below", "q"), queue("other"))
    for parent in ("q", "below"):
        says(parent_refusal(queue("new", parent), tree=wood), 'queue "q" is being deleted', "another parent")
    assert parent_refusal(queue("q", "other", terminating=True), tree=wood) is None


@each_case("name", ["root", "default"])
@each_case("desired", list(Desired))
@each_case("live", [False, True])
@each_case("children", [(), ("a",)])
def test_root_and_default_are_never_deleted(
    name: str, desired: Desired, live: bool, children: tuple[str, ...]
) -> None:
    """In no state, with or without children."""
    found = asked(tree(queue(name, desired=desired)), name, live=live)
    says(deletion_refusal(found, children=children), f"`{name}` queue can not be deleted")


@each_case("desired", list(Desired))
@each_case("live", [False, True])
def test_a_queue_with_children_is_not_deleted_in_any_state(desired: Desired, live: bool) -> None:
    """Its children would hang nowhere: the refusal names them and says what to do with them."""
    family = tree(queue("lab", desired=desired), queue("a", "lab"), queue("b", "lab"))
    refusal = deletion_refusal(asked(family, "lab", live=live), children=family.children("lab"))
    says(refusal, '"lab" cannot be deleted', "2 child queues (a, b)", "delete or move them first")


@pytest.mark.parametrize(
    ("children", "named"),
    [
        ("a", "1 child queue (a)"),
        ("abc", "3 child queues (a, b, c)"),
        ("abcd", "4 child queues (a, b, c, ...)"),
    ],
)
def test_many_children_are_counted_and_three_named(children: str, named: str) -> None:
    """A queue with a thousand children makes no text of a thousand names."""
    found = asked(tree(queue("lab", desired=CLOSED)), "lab")
    says(deletion_refusal(found, children=tuple(children)), named)


@MODEST
@given(random_forests(), random_times(), st.booleans())
def test_what_is_deleted_is_closed_and_alone(queues: dict[str, Queue], now: datetime, live: bool) -> None:
    """In any tree what may be deleted has no live member, no children and a Closed queue on its chain."""
    wood = Tree(queues)
    for name in wood:
        children = wood.children(name)
        if deletion_refusal(asked(wood, name, live=live, now=now), children=children) is None:
            assert not live
            assert not children
            assert name not in ("root", "default")
            assert any(one.desired is CLOSED or one.terminating for one in wood.chain(name).queues)


# The whole sentences

FAMILY = tree(queue("a"), queue("b", "a"), queue("q"))
SENTENCES = [
    (
        lambda: edit_refusal(queue("q", desired=CLOSED), queue("q", desired=SUSPENDED), own=State.CLOSED),
        'spec.state: queue "q" is Closed and cannot become Suspended; open it first: kubectl queue open q',
    ),
    (
        lambda: spec_refusal(queue("root", desired=CLOSED)),
        'spec.state: queue "root" cannot be Closed; '
        "to stop every queue suspend it: kubectl queue suspend root",
    ),
    (
        lambda: spec_refusal(queue("q", desired=CLOSED, resume_at=NOW)),
        'spec.resumeAt: "2030-01-01T12:00:00+00:00" cannot be set with spec.state Closed, '
        "which no time undoes; remove spec.resumeAt or use spec.state Suspended",
    ),
    (
        lambda: deadline_refusal(None, NOW - SECOND, now=NOW),
        'spec.drain.deadline: "2030-01-01T11:59:59+00:00" is in the past, it is 2030-01-01T12:00:00+00:00; '
        "set a time to come, or remove it",
    ),
    (
        lambda: parent_refusal(queue("q", "q"), tree=FAMILY),
        "spec.parent: queue q cannot use itself as parent",
    ),
    (
        lambda: parent_refusal(queue("q", "lab"), tree=FAMILY),
        'spec.parent: queue "lab" does not exist; create it first: kubectl queue create lab',
    ),
    (
        lambda: parent_refusal(queue("a", "b"), tree=FAMILY),
        "spec.parent: the parents form a cycle: a > b > a; choose a parent whose chain reaches root",
    ),
    (
        lambda: parent_refusal(queue("q", "b"), tree=FAMILY, depth_limit=2),
        'spec.parent: under "b" the tree would be 3 levels deep, and 2 are allowed; '
        "choose a parent nearer to root",
    ),
    (
        lambda: deletion_refusal(asked(FAMILY, "q"), children=()),
        'queue "q" is Open and only a Closed queue can be deleted; close it first: kubectl queue close q',
    ),
    (
        lambda: deletion_refusal(asked(FAMILY, "q"), children=("w", "x", "y", "z")),
        'queue "q" cannot be deleted: it has 4 child queues (w, x, y, ...); delete or move them first',
    ),
    (
        lambda: deletion_refusal(asked(tree(queue("q", desired=CLOSED)), "q", live=True), children=()),
        'queue "q" is Closing and can be deleted once it is Closed, when its members have ended; '
        "see what keeps it with: kubectl queue why q",
    ),
    (
        lambda: deletion_refusal(asked(FAMILY, "root"), children=()),
        "`root` queue can not be deleted; to stop every queue: kubectl queue suspend root",
    ),
    (
        lambda: action_refusal("root", Action.CLOSE),
        'queue "root" cannot be closed; to stop every queue: kubectl queue suspend root',
    ),
]


@each_case(("refusal", "sentence"), SENTENCES)
def test_a_refusal_reads_as_a_sentence(refusal: Callable[[], str | None], sentence: str) -> None:
    """Each refusal, whole, as the user reads it."""
    assert refusal() == sentence


# Children and pods


def test_a_queue_with_pods_takes_no_children() -> None:
    """The refusal says how many there are, what to do, and how to see them."""
    says(parent_pods_refusal("labs", pods=3), 'spec.parent: queue "labs" has 3 pods', "choose another parent")
    assert str(parent_pods_refusal("labs", pods=3)).endswith("kubectl get pods -A -l sluice.dev/queue=labs")
    assert parent_pods_refusal("labs", pods=0) is None


def test_pods_in_root_keep_no_queue_from_being_created() -> None:
    """Every queue that names no parent is below it."""
    assert parent_pods_refusal("root", pods=3) is None
