"""The verdict: the five rules of the design's section 3, one at a time, and whom it names."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest

from queues.causes import Cause, CauseKind
from queues.queue import Queue
from queues.states import Desired, State, StopPolicy
from queues.tree import Tree
from queues.verdict import Verdict
from queues.windows.entries import CurrentWindow
from queues.windows.stops import WindowStop
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
    asked,
    line,
    queue,
    tree,
)

#: own desired, the parent's, live: state, accepts, schedules. The chain is whole.
PAIRS = """
Open      | Open      | no  | Open      | yes | yes
Open      | Open      | yes | Open      | yes | yes
Open      | Suspended | no  | Suspended | yes | no
Open      | Suspended | yes | Suspended | yes | no
Open      | Closed    | no  | Closed    | no  | yes
Open      | Closed    | yes | Closing   | no  | yes
Suspended | Open      | no  | Suspended | yes | no
Suspended | Open      | yes | Suspended | yes | no
Suspended | Suspended | no  | Suspended | yes | no
Suspended | Suspended | yes | Suspended | yes | no
Suspended | Closed    | no  | Closed    | no  | no
Suspended | Closed    | yes | Suspended | no  | no
Closed    | Open      | no  | Closed    | no  | yes
Closed    | Open      | yes | Closing   | no  | yes
Closed    | Suspended | no  | Closed    | no  | no
Closed    | Suspended | yes | Suspended | no  | no
Closed    | Closed    | no  | Closed    | no  | yes
Closed    | Closed    | yes | Closing   | no  | yes
"""

#: own desired, live: state, accepts, schedules. The parent is missing.
BROKEN = """
Open      | no  | Unknown   | no | no
Open      | yes | Unknown   | no | no
Suspended | no  | Suspended | no | no
Suspended | yes | Suspended | no | no
Closed    | no  | Closed    | no | no
Closed    | yes | Closing   | no | no
"""


def rows(table: str) -> list[tuple[str, ...]]:
    return [tuple(cell.strip() for cell in line.split("|")) for line in table.strip().splitlines()]


def found(verdict: Verdict) -> tuple[str, str, str]:
    accepts, schedules = ("yes" if answer else "no" for answer in (verdict.accepts, verdict.schedules))
    return verdict.state, accepts, schedules


@each_case(("own", "parents", "live", "state", "accepts", "schedules"), rows(PAIRS))
def test_a_queue_and_its_parent(
    own: str, parents: str, live: str, state: str, accepts: str, schedules: str
) -> None:
    """Every pair of desired states, with and without live members, is what the five rules make of it."""
    pair = line(queue("p", desired=Desired(parents)), queue("q", desired=Desired(own)))
    assert found(asked(pair, "q", live=live == "yes")) == (state, accepts, schedules)


@each_case(("own", "parents", "live", "state", "accepts", "schedules"), rows(PAIRS))
def test_a_queue_and_an_ancestor_further_up(
    own: str, parents: str, live: str, state: str, accepts: str, schedules: str
) -> None:
    """An ancestor counts as a parent does, however many Open queues stand between."""
    deep = line(
        queue("p", desired=Desired(parents)), queue("m"), queue("n"), queue("q", desired=Desired(own))
    )
    assert found(asked(deep, "q", live=live == "yes")) == (state, accepts, schedules)


@each_case(("own", "live", "state", "accepts", "schedules"), rows(BROKEN))
@each_case("above", ["ghost", "q", "loop"])
def test_a_queue_whose_chain_is_broken(
    above: str, own: str, live: str, state: str, accepts: str, schedules: str
) -> None:
    """Without a whole chain nothing is taken or scheduled; Unknown is for who desires Open."""
    gap = tree(queue("q", above, desired=Desired(own)), queue("loop", "loop"))
    assert found(asked(gap, "q", live=live == "yes")) == (state, accepts, schedules)


@each_case("live", [False, True])
@each_case("parents", list(Desired))
def test_an_open_queue_is_unknown_whatever_else_is_above(parents: Desired, live: bool) -> None:
    """Rule 1 comes before all others: a broken chain further up makes an open queue Unknown."""
    gap = tree(queue("q", "p"), queue("p", "ghost", desired=parents))
    assert asked(gap, "q", live=live).state is State.UNKNOWN


def test_a_broken_chain_is_whole_again_as_soon_as_the_parent_is_there() -> None:
    """Unknown lasts until the chain is mended, and nothing of it stays."""
    gap = tree(queue("q", "p"))
    mended = gap.with_queue(queue("p"))
    assert found(asked(gap, "q")) == ("Unknown", "no", "no")
    assert found(asked(mended, "q")) == ("Open", "yes", "yes")


def test_two_edits_that_passed_apart_can_close_a_cycle_which_makes_both_unknown() -> None:
    """A cycle of two: both are Unknown, and so is who hangs below; `root` and others are not."""
    knot = tree(queue("a", "b"), queue("b", "a"), queue("x", "a"), queue("other"))
    states = {name: str(asked(knot, name).state) for name in knot}
    assert states == {"a": "Unknown", "b": "Unknown", "x": "Unknown", "other": "Open", "root": "Open"}


def test_a_root_in_a_cycle_is_still_on_top() -> None:
    """A parent written on `root` makes no cycle: the queue below it is Open."""
    odd = tree(Queue(name="root", parent="a"), queue("a"))
    assert [found(asked(odd, name)) for name in ("root", "a")] == [("Open", "yes", "yes")] * 2


@pytest.mark.parametrize("stop", [{"desired": SUSPENDED}, {"stop_policy": HOLD}, {"stop_policy": DRAIN}])
def test_stopping_root_stops_every_queue(stop: dict[str, Any]) -> None:
    """Suspend or hold `root`, and no queue of the cluster schedules; each says that it is `root`."""
    cluster = tree(queue("root", **stop), queue("default"), queue("a"), queue("b", "a"))
    assert {asked(cluster, name).schedules for name in cluster} == {False}
    assert {stopped.by for name in cluster if (stopped := asked(cluster, name).stop)} == {"root"}


@pytest.mark.parametrize("stop", [{"desired": SUSPENDED}, {"desired": CLOSED}, {"stop_policy": DRAIN}])
def test_a_stop_of_a_child_or_sibling_does_not_stop_a_queue(stop: dict[str, Any]) -> None:
    """Children and siblings never stop a queue."""
    wood = tree(queue("q"), queue("below", "q", **stop), queue("beside", **stop))
    assert found(asked(wood, "q")) == ("Open", "yes", "yes")


# The policy of a chain


@each_case("policies", list(product(StopPolicy, repeat=3)))
def test_the_strictest_policy_of_the_chain_wins(policies: tuple[StopPolicy, ...]) -> None:
    """Of a queue's, its parent's and grandparent's the strictest holds; the topmost of equals is named."""
    names = ("q", "p", "g")
    order = ["None", "Hold", "HoldAndDrain"]
    strictest = max(policies, key=lambda policy: order.index(policy.value))
    topmost = [name for name, policy in zip(names, policies, strict=True) if policy is strictest][-1]
    deep = line(
        *(queue(name, stop_policy=p) for name, p in reversed(list(zip(names, policies, strict=True))))
    )
    found = asked(deep, "q")
    assert found.policy is strictest
    assert found.stop == (
        None if strictest is NONE else Cause(kind=CauseKind.STOPPED, queue="q", by=topmost, policy=strictest)
    )


def test_no_queue_takes_itself_out_of_the_drain_of_one_above_it() -> None:
    """Neither by its spec nor by a window: who drains says how, and what stays."""
    policy = {"stop_policy": DRAIN}
    window = WindowStop(name="w", stop_policy=DRAIN)
    on = CurrentWindow(name="w", start=NOW - timedelta(hours=1), until=NOW + timedelta(hours=1))
    own = queue("q", stop_policy=DRAIN), queue("q", windows=(window,), in_window=(on,))
    for one in own:
        assert asked(line(queue("p", **policy), one), "q").policy_by == "p"
        assert asked(line(queue("p"), one), "q").policy_by == "q"


@each_case(
    ("policy", "schedules", "drains"), [(NONE, True, False), (HOLD, False, False), (DRAIN, False, True)]
)
@each_case("of", ["q", "p"])
def test_what_a_policy_does(of: str, policy: StopPolicy, schedules: bool, drains: bool) -> None:
    """Hold schedules nothing, HoldAndDrain evicts too; submissions stay welcome and the state stays Open."""
    pair = line(*(queue(name, stop_policy=policy if name == of else NONE) for name in ("p", "q")))
    found = asked(pair, "q", live=True)
    assert (found.schedules, found.drains, found.accepts, found.state) == (
        schedules,
        drains,
        True,
        State.OPEN,
    )


@each_case("desired", list(Desired))
@each_case("live", [False, True])
@each_case("policy", [HOLD, DRAIN])
def test_a_policy_never_changes_the_state(desired: Desired, live: bool, policy: StopPolicy) -> None:
    """With or without a stop policy the queue shows the same state and takes the same submissions."""
    free, held = (
        asked(tree(queue("q", desired=desired, stop_policy=one)), "q", live=live) for one in (NONE, policy)
    )
    assert (free.state, free.accepts) == (held.state, held.accepts)


def test_a_suspension_alone_drains_nothing() -> None:
    """Only the policy evicts."""
    assert not asked(tree(queue("q", desired=SUSPENDED)), "q").drains


@pytest.mark.parametrize("parent", ["root", "ghost"])
def test_a_suspended_queue_drains_where_its_policy_does(parent: str) -> None:
    """The policy holds beside a suspension and on a broken chain."""
    both = tree(queue("q", parent, desired=SUSPENDED, stop_policy=DRAIN))
    assert (asked(both, "q").drains, asked(both, "q").policy) == (True, DRAIN)


# Whom it names


def test_nothing_is_named_where_nothing_stops() -> None:
    """An open queue has no cause of a stop, none of a refusal, no policy and no break."""
    assert asked(tree(queue("q")), "q", live=True) == Verdict(
        queue="q",
        state=State.OPEN,
        accepts=True,
        schedules=True,
        drains=False,
        policy=NONE,
        stop=None,
        refusal=None,
        broken=None,
    )


def test_the_nearest_suspension_is_named() -> None:
    """Of several that suspend, the one nearest to the queue is the cause, with its own reason."""
    deep = line(
        queue("g", desired=SUSPENDED, reason="far"), queue("p", desired=SUSPENDED, reason="near"), queue("q")
    )
    assert asked(deep, "q").stop == Cause(kind=CauseKind.SUSPENDED, queue="q", by="p", reason="near")


def test_the_nearest_close_is_named() -> None:
    """Of several that are closed, the one nearest to the queue is the cause, with its own reason."""
    deep = line(
        queue("g", desired=CLOSED, reason="far"), queue("p", desired=CLOSED, reason="near"), queue("q")
    )
    assert asked(deep, "q").refusal == Cause(kind=CauseKind.CLOSED, queue="q", by="p", reason="near")


def test_the_reason_is_that_of_the_queue_that_holds() -> None:
    """A held queue gives the reason written on the queue whose policy wins."""
    deep = line(queue("p", stop_policy=DRAIN, reason="theirs"), queue("q", stop_policy=HOLD, reason="mine"))
    assert asked(deep, "q").stop == Cause(
        kind=CauseKind.STOPPED, queue="q", by="p", policy=DRAIN, reason="theirs"
    )


def test_a_suspension_is_named_before_a_policy() -> None:
    """Where both stop a queue the suspension is the cause that is told, even a farther one."""
    deep = line(queue("p", desired=SUSPENDED), queue("q", stop_policy=DRAIN))
    assert asked(deep, "q").stop == Cause(kind=CauseKind.SUSPENDED, queue="q", by="p")


def test_a_broken_chain_is_named_before_any_stop() -> None:
    """A queue that hangs nowhere has to be hung first: the break is the cause, and names who to mend."""
    gap = tree(queue("q", "p", desired=SUSPENDED, stop_policy=HOLD), queue("p", "ghost"))
    cause = Cause(kind=CauseKind.BROKEN, queue="q", by="p", broken=gap.chain("q").broken)
    assert (asked(gap, "q").stop, asked(gap, "q").refusal) == (cause, cause)
    assert asked(gap, "q").broken == gap.chain("q").broken is not None


def test_a_close_is_named_before_a_broken_chain() -> None:
    """Who asks why nothing is taken hears of the close first."""
    gap = tree(queue("q", "ghost", desired=CLOSED))
    assert asked(gap, "q").refusal == Cause(kind=CauseKind.CLOSED, queue="q", by="q")


@each_case("own", list(Desired))
@each_case("of", ["q", "p"])
@each_case("live", [False, True])
def test_what_is_being_deleted_is_as_if_it_were_to_be_closed(own: Desired, of: str, live: bool) -> None:
    """So are the queues below it. A stop goes on, and the deletion is named: nothing else opens it."""
    pair = line(*(queue(name, desired=own, terminating=name == of) for name in "pq"))
    found = asked(pair, "q", live=live)
    stopped = own is SUSPENDED
    state = State.CLOSED if not live else State.SUSPENDED if stopped else State.CLOSING
    assert (found.state, found.accepts, found.schedules) == (state, False, not stopped)
    assert found.refusal == Cause(kind=CauseKind.TERMINATING, queue="q", by=of)


@pytest.mark.parametrize("wish", [{"desired": SUSPENDED}, {"desired": CLOSED}])
def test_a_cause_that_is_no_policy_and_no_break_names_none(wish: dict[str, Any]) -> None:
    """A suspension or a close has no policy to show and nothing to mend."""
    found = asked(tree(queue("q", **wish)), "q")
    cause = found.stop or found.refusal
    assert cause
    assert (cause.policy, cause.broken, cause.reason) == (NONE, None, "")


@pytest.mark.parametrize("live", [False, True])
def test_a_queue_that_is_not_there_takes_its_members_and_keeps_them(live: bool) -> None:
    """Members of a queue that is to come are taken, and do not run until it is there."""
    found = asked(Tree({}), "new", live=live)
    cause = Cause(kind=CauseKind.NOT_FOUND, queue="new", by="new")
    assert (found.queue, found.state, found.accepts, found.schedules) == ("new", State.UNKNOWN, True, False)
    assert (found.stop, found.refusal, found.drains, found.policy) == (cause, None, False, NONE)
    assert (found.broken, cause.policy, cause.broken) == (None, NONE, None)


@each_case("name", ["", "Root", "root ", "default", "\u202e", "x" * 10_000])
def test_no_name_is_too_odd_to_be_answered(name: str) -> None:
    """A queue that cannot exist is one that is not there."""
    assert asked(Tree({}), name).stop == Cause(kind=CauseKind.NOT_FOUND, queue=name, by=name)


def test_the_reasons_of_conditions_and_events_are_the_designs() -> None:
    """The kinds of cause are spelt as the docs and other people's scripts expect."""
    assert {why.name: why.value for why in CauseKind} == {
        "SUSPENDED": "Suspended",
        "STOPPED": "Stopped",
        "CLOSED": "Closed",
        "TERMINATING": "Terminating",
        "BROKEN": "ChainBroken",
        "NOT_FOUND": "QueueNotFound",
        "NO_PODGROUP": "PodGroupNotFound",
        "NOT_SELECTED": "NamespaceNotSelected",
    }


# Time


@each_case(
    ("now", "state", "schedules"),
    [
        (NOW - timedelta(microseconds=1), "Suspended", False),
        (NOW, "Open", True),
        (NOW + SECOND, "Open", True),
    ],
)
@each_case("of", ["q", "p"])
def test_a_suspension_ends_at_its_time(of: str, now: datetime, state: str, schedules: bool) -> None:
    """From `resumeAt` on a suspended queue and those below it are Open, whoever has or has not written it."""
    pair = line(
        *(queue(n, desired=SUSPENDED if n == of else OPEN, resume_at=NOW if n == of else None) for n in "pq")
    )
    found = asked(pair, "q", now=now)
    assert (found.state, found.schedules) == (state, schedules)


@pytest.mark.parametrize(("now", "policy"), [(NOW - SECOND, DRAIN), (NOW, HOLD), (NOW + SECOND, HOLD)])
def test_a_policy_ends_at_its_time_and_the_next_strictest_holds(now: datetime, policy: StopPolicy) -> None:
    """From `resumeAt` on a policy is None; one of another queue of the chain goes on."""
    deep = line(queue("p", stop_policy=HOLD), queue("q", stop_policy=DRAIN, resume_at=NOW))
    found = asked(deep, "q", now=now)
    assert (found.policy, found.drains, found.schedules) == (policy, policy is DRAIN, False)
    assert found.stop and found.stop.policy is policy


@each_case("of", ["q", "p"])
@each_case("now", [NOW - SECOND, NOW, NOW + SECOND])
def test_no_time_undoes_closed(now: datetime, of: str) -> None:
    """A `resumeAt` that came onto a Closed queue all the same opens nothing."""
    pair = line(
        *(queue(n, desired=CLOSED if n == of else OPEN, resume_at=NOW if n == of else None) for n in "pq")
    )
    assert found(asked(pair, "q", now=now)) == ("Closed", "no", "yes")


def test_past_its_time_a_suspended_queue_on_a_broken_chain_is_unknown() -> None:
    """What is over counts as Open in rule 1 too."""
    gap = tree(queue("q", "ghost", desired=SUSPENDED, resume_at=NOW))
    assert [asked(gap, "q", now=now).state for now in (NOW - SECOND, NOW)] == [
        State.SUSPENDED,
        State.UNKNOWN,
    ]
