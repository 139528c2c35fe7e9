"""The four verbs that are actions on queues: what they are called and which flags they take."""

from __future__ import annotations

from functools import partial

from kubectl_queue.cli.flag_values import boolean, moment
from kubectl_queue.cli.flags import Flag, stretch
from kubectl_queue.cli.options import (
    ALL,
    DRY_RUN,
    OUTPUT,
    SELECTOR,
    TIMEOUT,
)
from kubectl_queue.commands.command import Verb
from kubectl_queue.edit.change import CLOSED, change
from queues.states import Action

REASON = Flag(name="reason", help="Why, in your words; shown to whoever is stopped by it.")


def waiting(text: str) -> str:
    return str(boolean(text)).lower()


def _waiting_or_closed(text: str) -> str:
    return CLOSED if text == CLOSED else waiting(text)


_WAIT = Flag(
    name="wait",
    default="false",
    bare="true",
    read=waiting,
    value="true|false",
    help="Wait until the controller has acknowledged it, for the specs of the queue and of those above it.",
)
_WAIT_CLOSED = Flag(
    name="wait",
    default="false",
    bare="true",
    read=_waiting_or_closed,
    value="true|false|closed",
    help="Wait until it is acknowledged that nothing new is taken; `closed`: until nothing is left.",
)
_SHARED = (ALL, SELECTOR, TIMEOUT, DRY_RUN, OUTPUT)

VERBS = (
    Verb(
        name="open",
        usage="NAME...",
        long=(
            "Set spec.state to Open, whatever it was. A stopPolicy stays, and an ancestor that is "
            "stopped goes on stopping the queue: both are said."
        ),
        examples=("kubectl queue open research",),
        flags=(_WAIT, *_SHARED),
        run=partial(change, Action.OPEN),
    ),
    Verb(
        name="close",
        usage="NAME...",
        long=(
            "Set spec.state to Closed. Nothing new is taken from then on, what was taken is still "
            "scheduled, also what waited in a Suspended queue, and the queue is Closed once nothing is live "
            "in it or below it. --wait waits "
            "until the controller has acknowledged that nothing new is taken, and says how many pods "
            "are left; --wait=closed waits until none is."
        ),
        examples=(
            "kubectl queue close team-a --reason 'moved to team-b'",
            "kubectl queue close team-a --wait=closed",
        ),
        flags=(REASON, _WAIT_CLOSED, *_SHARED),
        run=partial(change, Action.CLOSE),
    ),
    Verb(
        name="suspend",
        usage="NAME...",
        long=(
            "Set spec.state to Suspended. What runs goes on, what is submitted waits. With --for or "
            "--until it undoes itself at that time. A queue that is Suspended already takes a new "
            "reason or time."
        ),
        examples=(
            "kubectl queue suspend research --for 30m --reason 'quota change'",
            "kubectl queue suspend research team-a --until 18:30 --wait",
        ),
        flags=(
            stretch("for", "Resume after this long, e.g. 30m, 2h or 7d."),
            Flag(
                name="until",
                default=None,
                read=moment,
                value="TIME",
                help="Resume at this time: 18:30 or 2030-01-31T18:30 (both in your zone), or ...T18:30:00Z.",
            ),
            REASON,
            _WAIT,
            *_SHARED,
        ),
        run=partial(change, Action.SUSPEND),
    ),
    Verb(
        name="resume",
        usage="NAME...",
        long=(
            "Set spec.state of a Suspended queue to Open, and spec.stopPolicy to None; the reason and "
            "the time go with them. It never undoes Closed: use open for that."
        ),
        examples=("kubectl queue resume research --wait",),
        flags=(_WAIT, *_SHARED),
        run=partial(change, Action.RESUME),
    ),
)
