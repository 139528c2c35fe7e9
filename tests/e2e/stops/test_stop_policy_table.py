"""Every combination of what a queue and its parent ask for, and every change between the policies.

One queue and its parent are walked through all of them, a field at a time. What is expected stands in the
tables below, one for each rule; none of them is asked of the code.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from tests.support.drain.draining import (
    DRAIN,
    HOLD,
    NONE,
    SLOW,
    drained_reason,
    evicted_so_far,
    leaving,
    remove_finalizers,
    running,
    wait_for_running,
)
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import (
    condition,
    is_answered,
    state_of,
)
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until

OPEN, SUSPENDED, CLOSED, CLOSING = "Open", "Suspended", "Closed", "Closing"
#: In this order each may be asked for after the one before, there and back; Closed to Suspended is refused.
STATES = (SUSPENDED, OPEN, CLOSED)
POLICIES = (NONE, HOLD, DRAIN)
#: From None: each change between two policies once.
ROUND = (HOLD, NONE, DRAIN, HOLD, DRAIN, NONE)
OWN, ABOVE = "own", "above"
KEPT = {"matchLabels": {"stays": "yes"}}
#: One for each combination that drains, or for each change to one that does; and some that are left.
PODS, SLOW_PODS = 48, 24

#: By the desired state of the queue and of its parent: the state while a member is live, and when none is;
#: who suspends it, and who keeps it from taking anything new. The nearest is named.
STATE = {
    (OPEN, OPEN): (OPEN, OPEN, "", ""),
    (OPEN, SUSPENDED): (SUSPENDED, SUSPENDED, ABOVE, ""),
    (OPEN, CLOSED): (CLOSING, CLOSED, "", ABOVE),
    (SUSPENDED, OPEN): (SUSPENDED, SUSPENDED, OWN, ""),
    (SUSPENDED, SUSPENDED): (SUSPENDED, SUSPENDED, OWN, ""),
    (SUSPENDED, CLOSED): (SUSPENDED, CLOSED, OWN, ABOVE),
    (CLOSED, OPEN): (CLOSING, CLOSED, "", OWN),
    (CLOSED, SUSPENDED): (SUSPENDED, CLOSED, ABOVE, OWN),
    (CLOSED, CLOSED): (CLOSING, CLOSED, "", OWN),
}
#: By the stop policy of the queue and of its parent: the one that counts, and whose it is.
POLICY = {
    (NONE, NONE): (NONE, ""),
    (NONE, HOLD): (HOLD, ABOVE),
    (NONE, DRAIN): (DRAIN, ABOVE),
    (HOLD, NONE): (HOLD, OWN),
    (HOLD, HOLD): (HOLD, OWN),
    (HOLD, DRAIN): (DRAIN, ABOVE),
    (DRAIN, NONE): (DRAIN, OWN),
    (DRAIN, HOLD): (DRAIN, OWN),
    (DRAIN, DRAIN): (DRAIN, OWN),
}


class Wishes(NamedTuple):
    """What the queue and its parent ask for."""

    state: str = OPEN
    policy: str = NONE
    state_above: str = OPEN
    policy_above: str = NONE

    @property
    def states(self) -> tuple[str, str]:
        return self.state, self.state_above

    @property
    def policies(self) -> tuple[str, str]:
        return self.policy, self.policy_above

    @property
    def drains(self) -> bool:
        return POLICY[self.policies][0] == DRAIN

    @property
    def of_the_parent(self) -> Wishes:
        """Its own, as those of a queue under `root`."""
        return Wishes(*self[2:])


class Told(NamedTuple):
    """What a queue tells: `active` and `drained` as status, reason and, of the first, the message.

    `closed_by`: the queue to be reopened, where condition Accepting is False.
    """

    state: str
    active: tuple[str, str, str]
    closed_by: str
    drained: tuple[str, str]


def told_by(queue: Object) -> Told:
    active, accepting = condition(queue, "Active"), condition(queue, "Accepting")
    reopened = re.search(r"kubectl queue open ([^\s;]+)", accepting["message"])
    assert (accepting["status"], accepting["reason"]) == (("False", CLOSED) if reopened else ("True", OPEN))
    return Told(
        state=state_of(queue),
        active=(active["status"], active["reason"], active["message"]),
        closed_by=reopened[1] if reopened else "",
        drained=drained_reason(queue),
    )


class Pair:
    """A queue and its parent, asking for nothing at first."""

    def __init__(self, sandbox: Sandbox, **drain: object) -> None:
        self.sandbox = sandbox
        self.above = sandbox.queue("team", drain=drain)
        self.own = sandbox.queue("below", parent=self.above, drain=drain)
        self.wishes = Wishes()

    def ask(self, wishes: Wishes) -> None:
        """Edit what differs."""
        for queue, before, after in (
            (self.own, self.wishes[:2], wishes[:2]),
            (self.above, self.wishes[2:], wishes[2:]),
        ):
            if before != after:
                self.sandbox.patch_queue(queue, state=after[0], stopPolicy=after[1]).must()
        self.wishes = wishes

    def is_answered(self) -> None:
        """Returns once both are."""
        for queue in (self.own, self.above):
            self.sandbox.answered(queue)

    def tells_what_the_tables_say(self, *, live: bool) -> None:
        """The queue, and the parent as one without a parent of its own."""
        names = {OWN: self.own, ABOVE: self.above, "": ""}
        self._tells(self.own, wanted(self.wishes, names, live=live))
        of_the_parent = wanted(self.wishes.of_the_parent, {OWN: self.above, "": ""}, live=live)
        self._tells(self.above, of_the_parent)

    def _tells(self, queue: str, wanted: Told) -> None:
        seen: list[Told] = []

        def same() -> bool:
            found = self.sandbox.read_queue(queue)
            seen.append(told_by(found))
            return seen[-1] == wanted and is_answered(found)

        with contextlib.suppress(AssertionError):  # what differs says more than what was waited for
            until(same, "the queue to tell it")
        assert seen[-1] == wanted, self.wishes

    def takes_what_the_tables_say(self) -> None:
        """A pod that is submitted now: refused by name, taken with a warning, or just taken."""
        answer = self.sandbox.pod("new", self.own, dry=True)
        names = {OWN: self.own, ABOVE: self.above}
        _, _, suspended_by, closed_by = STATE[self.wishes.states]
        if closed_by:
            answer.must_refuse("takes no new pods", f"reopen it with: kubectl queue open {names[closed_by]}")
            return
        answer.must(201)
        stopped_by = suspended_by or POLICY[self.wishes.policies][1]
        assert len(answer.warnings) == bool(stopped_by)
        if stopped_by:
            assert answer.warnings[0].endswith(f"kubectl queue resume {names[stopped_by]}")


def wanted(wishes: Wishes, names: dict[str, str], *, live: bool) -> Told:
    """What the tables say. `names`: of the queue and its parent."""
    policy, policy_by = POLICY[wishes.policies]
    while_live, when_empty, suspended_by, closed_by = STATE[wishes.states]
    return Told(
        state=while_live if live else when_empty,
        active=active(names, suspended_by, policy, policy_by),
        closed_by=names[closed_by],
        drained=("True", "Drained") if policy == DRAIN else ("", ""),
    )


def active(names: dict[str, str], suspended_by: str, policy: str, policy_by: str) -> tuple[str, str, str]:
    """Condition Active: a suspension before a policy, each with the queue that set it and the way out."""
    queue = f'queue "{names[OWN]}"'
    if not suspended_by and not policy_by:
        return "True", "Ready", f"{queue} schedules its pods"
    by = suspended_by or policy_by
    ancestor = f' its ancestor "{names[by]}"' if by == ABOVE else ""
    way_out = f"resume it with: kubectl queue resume {names[by]}"
    if suspended_by:
        return "False", SUSPENDED, f"{queue} is Suspended{' by' if ancestor else ''}{ancestor}; {way_out}"
    of = " of" if ancestor else ""
    return "False", "Stopped", f"{queue} is stopped by stopPolicy {policy}{of}{ancestor}; {way_out}"


def winding(*axes: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """All combinations, each differing from the one before in one place, by one step of that axis."""
    if not axes:
        yield ()
        return
    rest = list(winding(*axes[1:]))
    for value in axes[0]:
        yield from ((value, *each) for each in rest)
        rest.reverse()


def every_combination() -> list[Wishes]:
    found = [Wishes(*each) for each in winding(STATES, POLICIES, STATES, POLICIES)]
    assert len(set(found)) == len(found) == 81
    return found


def test_every_combination_of_an_empty_queue(sandbox: Sandbox) -> None:
    """What queue and parent tell, and whether a pod would be taken, in each of 81."""
    pair = Pair(sandbox)
    for wishes in every_combination():
        pair.ask(wishes)
        pair.tells_what_the_tables_say(live=False)
        pair.takes_what_the_tables_say()


def test_every_combination_of_a_queue_that_runs_something(sandbox: Sandbox) -> None:
    """The same, and what runs goes on, unless the strictest policy of the two drains.

    All pods but one bear a label that keeps them. The one goes in each combination that drains, and the label
    is taken off the next.
    """
    pair = Pair(sandbox, keep=KEPT)
    pods = sandbox.pods("member", PODS, pair.own, labels=KEPT["matchLabels"])
    wait_for_running(sandbox, PODS)
    unkept = ""
    for wishes in every_combination():
        pair.ask(wishes)
        pair.is_answered()  # else the drain before might still take the next
        unkept = unkept or let_one_go(sandbox, pods)
        if wishes.drains:
            until(partial(is_gone, sandbox, unkept), f"{unkept} to go: {wishes}")
            unkept = ""
        pair.tells_what_the_tables_say(live=True)
        pair.takes_what_the_tables_say()
        assert not (unkept and is_gone(sandbox, unkept)), wishes
    assert running(sandbox) == {*pods, *([unkept] if unkept else [])}


def is_gone(sandbox: Sandbox, pod: str) -> bool:
    return sandbox.api.get(f"{sandbox.pods_path}/{pod}").status == 404


def let_one_go(sandbox: Sandbox, pods: list[str]) -> str:
    """Take the label that keeps it off the last of these pods, and it off them."""
    name = pods.pop()
    sandbox.patch_pod(name, {"metadata": {"labels": dict.fromkeys(KEPT["matchLabels"])}}).must()
    return name


def every_change() -> list[Wishes]:
    """From None and None, a policy at a time, through every change of the one beside every other."""
    found = [
        Wishes(policy=own, policy_above=above)
        for fixed in POLICIES
        for own, above in [(fixed, NONE), *((fixed, each) for each in ROUND)]
    ]
    found += [Wishes(policy=each.policy_above, policy_above=each.policy) for each in found]
    changes = {pair for pair in pairwise(found) if pair[0] != pair[1]}
    assert len(changes) == 36
    return found


def test_every_change_of_a_policy_in_mid_drain(sandbox: Sandbox) -> None:
    """What drains goes on, with one pod more; what does not stops at once, with the one that was on its way.

    One pod may be on its way at a time, and leaves only when the test says so: so each change is made in the
    middle of a drain.
    """
    pair = Pair(sandbox, inFlight=1)
    pods = sandbox.pods("member", SLOW_PODS, pair.own, finalizers=[SLOW])
    wait_for_running(sandbox, SLOW_PODS)
    before, gone = evicted_so_far(sandbox), 0
    try:
        for wishes in every_change():
            on_their_way = leaving(sandbox)
            pair.ask(wishes)
            pair.is_answered()
            remove_finalizers(sandbox, *on_their_way)
            if wishes.drains:
                gone += 1
                until(lambda: len(leaving(sandbox)) == 1, f"the next to go: {wishes}")
            else:
                counts_running(sandbox, pair.own, len(pods) - gone)
            assert len(running(sandbox)) == len(pods) - gone
        pair.ask(Wishes())
        pair.is_answered()
        until(lambda: evicted_so_far(sandbox) - before >= gone, "each eviction to be counted")
        assert evicted_so_far(sandbox) - before == gone
    finally:
        remove_finalizers(sandbox, *pods)


def counts_running(sandbox: Sandbox, queue: str, number: int) -> None:
    """Returns once the controller has heard of all that went: had it gone on, more would be on their way."""
    sandbox.queue_that(
        queue, f"count {number} pods", lambda found: found["status"]["pods"]["running"] == number
    )
