"""Whether a queue's stop is acknowledged, from its status. Pure.

The server writes `status.stop` with the specs that the stop follows from (`chain`), and `scope` once the stop
is acknowledged for them. An acknowledgement ends with the next change of one of these specs, or when a queue
comes below. The status may be older than the specs that were read, so a reader compares the two.

=================  ===================  ==========================  ===================
`Active` False     `status.stop`        its chain                   the stop is
=================  ===================  ==========================  ===================
for this spec      is not there         (an older server)           ACKNOWLEDGED
otherwise          is not there                                     OUTDATED
whatever           is there             is of other specs           OUTDATED
whatever           without `scope`      is of the specs as read     PENDING
no                 with `scope`         is of the specs as read     PENDING
yes                with `scope`         is of the specs as read     ACKNOWLEDGED
=================  ===================  ==========================  ===================

Invariants
- What cannot be read of `status.stop` counts as absent, so an unreadable chain is of other specs.
- Ancestors that may not be read are not compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from queues.apimachinery.conversion import Converter
from queues.text import printable

#: Characters of `status.stop.waitingFor` that are shown.
WAITING_LIMIT = 300


class Acknowledgement(StrEnum):
    """PENDING: the controller has seen the stop. OUTDATED: the status is for other specs than those read."""

    ACKNOWLEDGED = "Acknowledged"
    PENDING = "Pending"
    OUTDATED = "Outdated"


class QueueGeneration(msgspec.Struct, frozen=True, gc=False):
    """A queue of a chain, and the generation of its spec."""

    name: str
    generation: int


_chain: Converter[list[QueueGeneration]] = Converter(list[QueueGeneration])


class ObservedChain(msgspec.Struct, frozen=True):
    """The chain of a queue as it was read, the queue first. `whole`: all of it was read."""

    links: tuple[QueueGeneration, ...] = ()
    whole: bool = False


def read_acknowledgement(*, stop: Any, active_is_false: bool, chain: ObservedChain) -> Acknowledgement:
    """`stop`: `status.stop` in wire form. `active_is_false`: for the queue's present spec."""
    if not isinstance(stop, Mapping):
        return Acknowledgement.ACKNOWLEDGED if active_is_false else Acknowledgement.OUTDATED
    if not matches_chain(stop, chain):
        return Acknowledgement.OUTDATED
    holds = active_is_false and stop.get("scope")
    return Acknowledgement.ACKNOWLEDGED if holds else Acknowledgement.PENDING


def waiting_for(stop: Any) -> str:
    """What the acknowledgement waits for, as the server writes it; "" where it does not."""
    text = stop.get("waitingFor") if isinstance(stop, Mapping) else None
    return printable(text, limit=WAITING_LIMIT) if isinstance(text, str) and text else ""


def matches_chain(stop: Any, chain: ObservedChain) -> bool:
    """Whether `status.stop` is for the specs of the chain, as far as that was read."""
    if not isinstance(stop, Mapping):
        return False
    links = _links(stop.get("chain"))
    return (links if chain.whole else links[: len(chain.links)]) == chain.links


def _links(chain: Any) -> tuple[QueueGeneration, ...]:
    try:
        return tuple(_chain(chain or []))
    except msgspec.ValidationError:
        return ()
