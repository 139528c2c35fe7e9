"""The states of a queue and the actions that lead from one to another.

`Desired` is what an operator wants, and all that is ever edited. `State` is derived; what each allows follows
from `queues.verdict`. `ACTIONS` says which desired state an action sets. For users both tables are in
docs/concepts/states.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Desired(StrEnum):
    """`spec.state`: what an operator wants."""

    OPEN = "Open"
    SUSPENDED = "Suspended"
    CLOSED = "Closed"


class State(StrEnum):
    """`status.state`: what is true, ancestors and members included."""

    OPEN = "Open"
    SUSPENDED = "Suspended"
    CLOSING = "Closing"
    CLOSED = "Closed"
    UNKNOWN = "Unknown"


class StopPolicy(StrEnum):
    """`spec.stopPolicy`, as Kueue spells it; `strictness` orders them."""

    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"

    @property
    def strictness(self) -> int:
        return _STRICTNESS[self]


class ParkedPods(StrEnum):
    """`spec.parked`: what becomes of pods that were pending without a gate when their queue was stopped."""

    KEEP = "Keep"
    RECREATE = "Recreate"


_STRICTNESS: Mapping[StopPolicy, int] = {
    StopPolicy.NONE: 0,
    StopPolicy.HOLD: 1,
    StopPolicy.HOLD_AND_DRAIN: 2,
}


class Action(StrEnum):
    """The queue actions of `bus.volcano.sh/v1alpha1` Commands."""

    OPEN = "OpenQueue"
    CLOSE = "CloseQueue"
    SUSPEND = "SuspendQueue"
    RESUME = "ResumeQueue"


_NOTHING = None

#: The desired state that an action asks for in a state; None is "nothing".
ACTIONS: Mapping[Action, Mapping[State, Desired | None]] = MappingProxyType(
    {
        Action.OPEN: {
            State.OPEN: _NOTHING,
            State.SUSPENDED: Desired.OPEN,
            State.CLOSING: Desired.OPEN,
            State.CLOSED: Desired.OPEN,
            State.UNKNOWN: _NOTHING,
        },
        Action.CLOSE: {
            State.OPEN: Desired.CLOSED,
            State.SUSPENDED: Desired.CLOSED,
            State.CLOSING: _NOTHING,
            State.CLOSED: _NOTHING,
            State.UNKNOWN: Desired.CLOSED,
        },
        Action.SUSPEND: {
            State.OPEN: Desired.SUSPENDED,
            State.SUSPENDED: _NOTHING,
            State.CLOSING: Desired.SUSPENDED,
            State.CLOSED: _NOTHING,
            State.UNKNOWN: Desired.SUSPENDED,
        },
        Action.RESUME: {
            State.OPEN: _NOTHING,
            State.SUSPENDED: Desired.OPEN,
            State.CLOSING: _NOTHING,
            State.CLOSED: _NOTHING,
            State.UNKNOWN: _NOTHING,
        },
    }
)

#: The action that an edit of `spec.state` to this value amounts to.
ACTION_OF_EDIT: Mapping[Desired, Action] = MappingProxyType(
    {
        Desired.OPEN: Action.OPEN,
        Desired.CLOSED: Action.CLOSE,
        Desired.SUSPENDED: Action.SUSPEND,
    }
)


def own_state(desired: Desired, *, broken: bool, live: bool, terminating: bool = False) -> State:
    """The state that a queue would have without its ancestors: the column of `ACTIONS`.

    `broken`: its chain is broken. `live`: a member of it or below it is live. `terminating`: it is being
    deleted, and so as if it desired Closed where it desires Open.
    """
    if desired is Desired.SUSPENDED:
        return State.SUSPENDED
    if desired is Desired.CLOSED or terminating:
        return State.CLOSING if live else State.CLOSED
    return State.UNKNOWN if broken else State.OPEN


def edit_allowed(before: Desired, after: Desired, *, own: State) -> bool:
    """Whether `spec.state` may be edited from `before` to `after` in own state `own`.

    To write what is there already is always allowed: a manifest applied twice changes nothing. So is Open,
    which the table refuses nowhere: where it says nothing, the queue desires to be open already, or its
    `resumeAt` has opened it.
    """
    if before is after or after is Desired.OPEN:
        return True
    return ACTIONS[ACTION_OF_EDIT[after]][own] is after
