"""A queue's conditions, from its verdict.

===========  =======  ==================  ==================================================
type         status   reason              when
===========  =======  ==================  ==================================================
Accepting    True     Open                submissions are taken
             False    Closed              a queue on the chain desires Closed
             False    Terminating         a queue on the chain is being deleted
             False    ChainBroken         a parent is missing or there is a cycle
Active       True     Ready               its pods are scheduled
             False    Suspended           a queue on the chain desires Suspended
             False    Stopped             a queue on the chain has a stop policy
             False    ChainBroken         a parent is missing or there is a cycle
             Unknown  NotAcknowledged     a stop was acknowledged for specs that changed since
             Unknown  NotAsked            a stop was acknowledged, and the API server does not
                                          ask us about all pods since
===========  =======  ==================  ==================================================

`Active` False says that the stop is acknowledged, for the specs that `status.stop.scope` stands for: those of
the queue, of the queues above it and of those below it.
"""

from __future__ import annotations

import msgspec

from queues.messages import refusal_text, stop_text
from queues.status.closing import ClosingStatus, closing_text
from queues.verdict import Verdict

ACCEPTING = "Accepting"
ACTIVE = "Active"


class DerivedCondition(msgspec.Struct, frozen=True, gc=False):
    """A condition without its times. `status`: None is Unknown."""

    type: str
    status: bool | None
    reason: str
    message: str


def accepting_condition(verdict: Verdict, *, closing: ClosingStatus | None = None) -> DerivedCondition:
    """`closing`: what keeps the queue from Closed, for the message."""
    if verdict.refusal is None:
        return DerivedCondition(ACCEPTING, True, "Open", f'queue "{verdict.queue}" takes new work')
    text = refusal_text(verdict.refusal, state=verdict.state, kind="work")
    if closing is not None:
        text += f"; {closing_text(closing)}"
    return DerivedCondition(ACCEPTING, False, verdict.refusal.kind.value, text)


def active_condition(verdict: Verdict) -> DerivedCondition:
    if verdict.stop is None:
        return DerivedCondition(ACTIVE, True, "Ready", f'queue "{verdict.queue}" schedules its pods')
    return DerivedCondition(ACTIVE, False, verdict.stop.kind.value, stop_text(verdict.stop))


def not_asked_condition(verdict: Verdict, why: str) -> DerivedCondition:
    """In place of False, while the API server does not ask us about all pods. `why`: what is lacking."""
    text = f'queue "{verdict.queue}" is stopped, and new pods of it may start: {why}'
    return DerivedCondition(ACTIVE, None, "NotAsked", text)


def not_acknowledged_condition(verdict: Verdict) -> DerivedCondition:
    """In place of False, where the stop was acknowledged for other specs than there are now."""
    text = f'queue "{verdict.queue}" is stopped, which is not acknowledged for the specs that there are now'
    return DerivedCondition(ACTIVE, None, "NotAcknowledged", text)
