"""What a state allows, by the rules themselves: for a queue that has an unbroken chain (but for Unknown),
ancestors that are Open and no stop policy. The tables of the documentation are held to it.
"""

from __future__ import annotations

from typing import NamedTuple

from queues.admission.queue_edits import deletion_refusal
from queues.queue import Queue
from queues.states import Desired, State
from tests.support.rules.cases import CLOSED, OPEN, SUSPENDED, asked, queue, tree

#: A queue that shows each state, and whether a member of it is live.
EXAMPLES = {
    State.OPEN: (queue("q", desired=OPEN), True),
    State.SUSPENDED: (queue("q", desired=SUSPENDED), True),
    State.CLOSING: (queue("q", desired=CLOSED), True),
    State.CLOSED: (queue("q", desired=CLOSED), False),
    State.UNKNOWN: (queue("q", "ghost", desired=OPEN), True),
}


class Abilities(NamedTuple):
    """One row of the table of states."""

    default: bool
    may_be_set: bool
    accepts: bool
    may_be_deleted: bool
    schedules: bool


def abilities(state: State) -> Abilities:
    example, live = EXAMPLES[state]
    verdict = asked(tree(example), "q", live=live)
    assert verdict.state is state
    return Abilities(
        default=Queue(name="q").desired.value == state.value,
        may_be_set=state.value in [word.value for word in Desired],
        accepts=verdict.accepts,
        may_be_deleted=deletion_refusal(verdict, children=()) is None,
        schedules=verdict.schedules,
    )
