"""What a queue and its parent ask for, and what the queue then tells: a table for each rule.

`tests/queues/status/test_stop_policy_table.py` tries all 81 combinations as values;
`tests/e2e/stops/test_stop_policy_table.py` those on a cluster that have each pair of wishes.
"""

from __future__ import annotations

from itertools import combinations, product
from typing import NamedTuple

OPEN, SUSPENDED, CLOSED, CLOSING = "Open", "Suspended", "Closed", "Closing"
NONE, HOLD, DRAIN = "None", "Hold", "HoldAndDrain"
STATES = (SUSPENDED, OPEN, CLOSED)
POLICIES = (NONE, HOLD, DRAIN)
OWN, ABOVE = "own", "above"

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
    (HOLD, HOLD): (HOLD, ABOVE),
    (HOLD, DRAIN): (DRAIN, ABOVE),
    (DRAIN, NONE): (DRAIN, OWN),
    (DRAIN, HOLD): (DRAIN, OWN),
    (DRAIN, DRAIN): (DRAIN, ABOVE),
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


ALL = tuple(Wishes(*each) for each in product(STATES, POLICIES, STATES, POLICIES))
#: Each pair of wishes is in one of these. A queue may be asked for each after the one before: Closed to
#: Suspended is refused.
PAIRWISE = (
    Wishes(SUSPENDED, NONE, SUSPENDED, NONE),
    Wishes(SUSPENDED, HOLD, OPEN, DRAIN),
    Wishes(SUSPENDED, DRAIN, CLOSED, HOLD),
    Wishes(OPEN, NONE, OPEN, HOLD),
    Wishes(OPEN, DRAIN, SUSPENDED, DRAIN),
    Wishes(OPEN, HOLD, CLOSED, NONE),
    Wishes(CLOSED, NONE, CLOSED, DRAIN),
    Wishes(CLOSED, DRAIN, OPEN, NONE),
    Wishes(CLOSED, HOLD, SUSPENDED, HOLD),
)


def pairs_of(wishes: Wishes) -> set[tuple[tuple[int, str], ...]]:
    """Each two of its four wishes."""
    return set(combinations(enumerate(wishes), 2))
