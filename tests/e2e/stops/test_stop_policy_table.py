"""What a queue and its parent ask for, every two of their wishes together, and changes between the policies.

One queue and its parent are walked through them. What is expected stands in the tables of
`tests/support/rules/stop_tables.py`, none of which is asked of the code. All 81 combinations are tried as
values, in `tests/queues/status/test_stop_policy_table.py`.
"""

from __future__ import annotations

import contextlib
import re
from functools import partial

from tests.support.drain.draining import (
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
from tests.support.rules.stop_tables import (
    ABOVE,
    CLOSED,
    DRAIN,
    HOLD,
    NONE,
    OPEN,
    OWN,
    PAIRWISE,
    POLICY,
    STATE,
    Told,
    Wishes,
    wanted,
)

#: From None: each change between two policies once.
ROUND = (HOLD, NONE, DRAIN, HOLD, DRAIN, NONE)
KEPT = {"matchLabels": {"stays": "yes"}}
#: One for each combination that drains, or for each change to one that does; and some that are left.
PODS, SLOW_PODS = 8, 10


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
            which = "it" if stopped_by == OWN else '"tests-'  # longer names are cut
            assert f"an admin of queues can resume {which}" in answer.warnings[0]


def test_every_two_wishes_of_an_empty_queue_and_its_parent(sandbox: Sandbox) -> None:
    """What queue and parent tell, and whether a pod would be taken."""
    pair = Pair(sandbox)
    for wishes in PAIRWISE:
        pair.ask(wishes)
        pair.tells_what_the_tables_say(live=False)
        pair.takes_what_the_tables_say()


def test_every_two_wishes_of_a_queue_that_runs_something_and_its_parent(sandbox: Sandbox) -> None:
    """The same, and what runs goes on, unless the strictest policy of the two drains.

    All pods but one bear a label that keeps them. The one goes in each combination that drains, and the label
    is taken off the next.
    """
    pair = Pair(sandbox, keep=KEPT)
    pods = sandbox.pods("member", PODS, pair.own, labels=KEPT["matchLabels"])
    wait_for_running(sandbox, PODS)
    unkept = ""
    for wishes in PAIRWISE:
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


def changes() -> list[Wishes]:
    """From None and None, a policy at a time: each change of the queue's own; each of its parent's while the
    queue is held; and two of its own while its parent drains.
    """
    return [
        *(Wishes(policy=each) for each in ROUND),
        *(Wishes(policy=HOLD, policy_above=each) for each in (NONE, *ROUND)),
        *(Wishes(policy=each, policy_above=DRAIN) for each in (HOLD, NONE)),
    ]


def test_a_policy_is_changed_in_mid_drain(sandbox: Sandbox) -> None:
    """What drains goes on, with one pod more; what does not stops at once, with the one that was on its way.

    One pod may be on its way at a time, and leaves only when the test says so: so each change is made in the
    middle of a drain.
    """
    pair = Pair(sandbox, inFlight=1)
    pods = sandbox.pods("member", SLOW_PODS, pair.own, finalizers=[SLOW])
    wait_for_running(sandbox, SLOW_PODS)
    before, gone = evicted_so_far(sandbox), 0
    try:
        for wishes in changes():
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
