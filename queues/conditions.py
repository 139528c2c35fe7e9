"""A queue's conditions, from its verdict.

===========  =======  ==================  =========================================
type         status   reason              when
===========  =======  ==================  =========================================
Accepting    True     Open                submissions are taken
             False    Closed              someone on the chain desires Closed
             False    ChainBroken         a parent is missing or there is a cycle
Active       True     Ready               its pods are scheduled
             False    Suspended           someone on the chain desires Suspended
             False    Stopped             someone on the chain has a stop policy
             False    ChainBroken         a parent is missing or there is a cycle
===========  =======  ==================  =========================================
"""

from __future__ import annotations

import msgspec

from queues.texts import refusal_text, stop_text
from queues.verdict import Verdict

ACCEPTING = "Accepting"
ACTIVE = "Active"


class Finding(msgspec.Struct, frozen=True, gc=False):
    """A condition without its times."""

    type: str
    status: bool
    reason: str
    message: str


def accepting(verdict: Verdict, *, kept_by: str = "") -> Finding:
    """`kept_by`: what keeps a Closing queue from being Closed, for the message."""
    if verdict.refusal is None:
        return Finding(ACCEPTING, True, "Open", f'queue "{verdict.queue}" takes new work')
    text = refusal_text(verdict.refusal, state=verdict.state, kind="work")
    return Finding(ACCEPTING, False, verdict.refusal.why.value, text + (f"; {kept_by}" if kept_by else ""))


def active(verdict: Verdict) -> Finding:
    if verdict.stop is None:
        return Finding(ACTIVE, True, "Ready", f'queue "{verdict.queue}" schedules its pods')
    return Finding(ACTIVE, False, verdict.stop.why.value, stop_text(verdict.stop))
