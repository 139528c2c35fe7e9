"""The rules in random trees, cycles and gaps included, against the slow way of `oracle`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from queues.causes import CauseKind
from queues.queue import Queue
from queues.states import State, own_state
from queues.tree import Tree
from queues.verdict import Verdict
from tests.support.rules.cases import (
    CLOSED,
    DRAIN,
    HOLD,
    MODEST,
    NONE,
    OPEN,
    SUSPENDED,
    asked,
    random_forests,
    random_members,
    random_times,
)
from tests.support.rules.oracle import (
    Truth,
    live_below,
    truths,
)

#: What an operator does to stop a queue.
STOPS: tuple[dict[str, Any], ...] = (
    {"desired": SUSPENDED},
    {"desired": CLOSED},
    {"stop_policy": HOLD},
    {"stop_policy": DRAIN},
)


def verdicts(
    queues: Mapping[str, Queue], *, members: frozenset[str], now: datetime
) -> list[tuple[Verdict, Truth]]:
    """Each queue's verdict beside what must be true of it."""
    of, expected = Tree(queues), truths(queues, members=members, now=now)
    return [(asked(of, name, live=live_below(queues, name, members), now=now), expected[name]) for name in of]


def but(one: Queue, **wishes: object) -> Queue:
    fields = {name: getattr(one, name) for name in one.__struct_fields__}
    return Queue(**{**fields, **wishes})


everywhere = given(random_forests(), random_members(), random_times())


@MODEST
@everywhere
def test_the_state_is_the_first_rule_that_holds(
    queues: dict[str, Queue], members: frozenset[str], now: datetime
) -> None:
    """In any tree each queue shows the state of the first of the five rules that holds."""
    for found, truth in verdicts(queues, members=members, now=now):
        assert found.state == truth.state


@MODEST
@everywhere
def test_nothing_that_must_not_accept_accepts(
    queues: dict[str, Queue], members: frozenset[str], now: datetime
) -> None:
    """A queue accepts just where its chain is whole and nobody on it desires Closed, and says why not."""
    for found, truth in verdicts(queues, members=members, now=now):
        assert found.accepts is truth.accepts
        assert (found.refusal is None) is truth.accepts


@MODEST
@everywhere
def test_nothing_stopped_schedules(queues: dict[str, Queue], members: frozenset[str], now: datetime) -> None:
    """A queue schedules just where nobody on its whole chain is suspended or held, and says why not."""
    for found, truth in verdicts(queues, members=members, now=now):
        assert found.schedules is truth.schedules
        assert (found.stop is None) is truth.schedules


@MODEST
@everywhere
def test_the_strictest_policy_wins_everywhere(
    queues: dict[str, Queue], members: frozenset[str], now: datetime
) -> None:
    """The policy is the strictest of the chain, and drains if that is HoldAndDrain."""
    for found, truth in verdicts(queues, members=members, now=now):
        assert (found.policy, found.drains) == (truth.policy, truth.drains)


@MODEST
@everywhere
def test_a_cause_is_a_queue_of_the_chain_that_does_what_it_is_named_for(
    queues: dict[str, Queue], members: frozenset[str], now: datetime
) -> None:
    """Whoever is named stands on the chain, and does suspend, hold, close or miss its parent."""
    wood = Tree(queues)
    for found, truth in verdicts(queues, members=members, now=now):
        for cause in filter(None, (found.stop, found.refusal)):
            named = wood.queues[cause.by]
            guilty = {
                CauseKind.SUSPENDED: named.desired is SUSPENDED,
                CauseKind.CLOSED: named.desired is CLOSED,
                CauseKind.TERMINATING: named.terminating,
                CauseKind.STOPPED: named.stop_policy is cause.policy is found.policy is not NONE,
                CauseKind.BROKEN: truth.broken
                and cause.broken == found.broken == wood.chain(cause.queue).broken,
            }
            assert cause.queue == found.queue
            assert cause.by in truth.above
            assert guilty[cause.kind]


@MODEST
@everywhere
def test_members_change_the_state_alone(
    queues: dict[str, Queue], members: frozenset[str], now: datetime
) -> None:
    """Live members make Closing of Closed, or Suspended; every other answer is the same without them."""
    wood = Tree(queues)
    for name in wood:
        busy, idle = (asked(wood, name, live=live, now=now) for live in (True, False))
        assert but_the_state(busy) == but_the_state(idle)
        assert busy.state == idle.state or (idle.state, busy.state in ("Closing", "Suspended")) == (
            "Closed",
            True,
        )


@MODEST
@given(random_forests(), random_members(), random_times(), st.data())
def test_undoing_an_ancestors_stop_gives_back_what_was(
    queues: dict[str, Queue], members: frozenset[str], now: datetime, data: st.DataObject
) -> None:
    """Stop any queue that is not stopped and let it go again: every verdict is what it was before."""
    neutral = [n for n, one in queues.items() if (one.desired, one.stop_policy) == (OPEN, NONE)]
    assume(neutral)
    ancestor = but(queues[data.draw(st.sampled_from(neutral))], resume_at=None)
    before = {**queues, ancestor.name: ancestor}
    stopped = {**before, ancestor.name: but(ancestor, **data.draw(st.sampled_from(STOPS)))}
    undone = {**stopped, ancestor.name: but(stopped[ancestor.name], desired=OPEN, stop_policy=NONE)}
    of = verdicts(undone, members=members, now=now)
    assert [found for found, _ in of] == [found for found, _ in verdicts(before, members=members, now=now)]


@MODEST
@everywhere
def test_without_stops_above_each_child_is_what_it_asked_for(
    queues: dict[str, Queue], members: frozenset[str], now: datetime
) -> None:
    """Open everyone above a queue, and it is just what it would be without ancestors, policy included."""
    for name, child in queues.items():
        freed = {n: but(q, desired=OPEN, stop_policy=NONE, terminating=False) for n, q in queues.items()} | {
            name: child
        }
        found = asked(Tree(freed), name, live=name in members, now=now)
        wish = child.desired_at(now)
        live, broken = name in members, bool(found.broken)
        own = own_state(wish, broken=broken, live=live, terminating=child.terminating)
        assert found.state is (State.CLOSED if child.terminating and not live else own)
        assert found.policy is child.stop_policy_at(now)
        assert found.accepts is (wish is not CLOSED and not child.terminating and not found.broken)
        assert found.schedules is (wish is not SUSPENDED and found.policy is NONE and not found.broken)


@MODEST
@given(random_forests(), random_times(), st.data())
def test_a_stop_reaches_the_queues_below_and_no_others(
    queues: dict[str, Queue], now: datetime, data: st.DataObject
) -> None:
    """Stopping a queue changes no verdict but its own and those of the queues below it."""
    assume(queues)
    target = data.draw(st.sampled_from(sorted(queues)))
    stopped = {**queues, target: but(queues[target], **data.draw(st.sampled_from(STOPS)))}
    before, after = Tree(queues), Tree(stopped)
    for name in set(before) - before.subtree(target):
        assert asked(before, name, now=now) == asked(after, name, now=now)


@MODEST
@given(random_forests(), random_times(), st.data())
def test_a_suspended_or_held_queue_schedules_nothing_below_it(
    queues: dict[str, Queue], now: datetime, data: st.DataObject
) -> None:
    """Suspend or hold any queue: of the queues below it not one schedules, at once."""
    assume(queues)
    target = data.draw(st.sampled_from(sorted(queues)))
    stop = data.draw(st.sampled_from([stop for stop in STOPS if stop != {"desired": CLOSED}]))
    wood = Tree({**queues, target: but(queues[target], resume_at=None, **stop)})
    assert not any(asked(wood, name, now=now).schedules for name in wood.subtree(target))


@MODEST
@given(random_forests(), random_times(), st.data())
def test_a_closed_queue_accepts_nothing_below_it(
    queues: dict[str, Queue], now: datetime, data: st.DataObject
) -> None:
    """Close any queue: of the queues below it not one accepts, whatever `resumeAt` says."""
    assume(queues)
    target = data.draw(st.sampled_from(sorted(queues)))
    wood = Tree({**queues, target: but(queues[target], desired=CLOSED)})
    assert not any(asked(wood, name, now=now).accepts for name in wood.subtree(target))


def but_the_state(found: Verdict) -> list[object]:
    return [getattr(found, name) for name in found.__struct_fields__ if name != "state"]
