"""What a row of the table of fields says."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec

from queues.fields.checks import FieldCheck
from queues.queue import Queue


class Origin(StrEnum):
    """Whose API has the field: by this name, and with this meaning."""

    VOLCANO = "Volcano"
    KUEUE = "Kueue"
    SLUICE = "Sluice"


class FieldEffect(StrEnum):
    """What the field does in this version."""

    ALWAYS = "always"
    #: Says which pods of the queue may be evicted, where a scheduling policy has action `reclaim`.
    RECLAIM = "with `reclaim`"
    #: That as well.
    ALSO_RECLAIM = "always, and with `reclaim`"
    NONE = "none yet"


class Reading(msgspec.Struct, frozen=True):
    """How a field of `spec` becomes one of `Queue`.

    `read` takes the value as JSON has it, or as `cluster.objects.QueueSpec` has it decoded; what it cannot
    read counts as absent, or as a stop.
    """

    attribute: str
    read: Callable[[Any], Any]


class FieldWarning(msgspec.Struct, frozen=True):
    """The warning for who sets or changes the field; none for a value of `unless`."""

    text: str
    unless: tuple[Any, ...] = ()


class QueueField(msgspec.Struct, frozen=True, kw_only=True):
    """A field of `spec`, or of an object in it.

    `name`: on the wire. `help`: what it does, in a sentence or two: the beginning of its description, and the
    help of the plugin's flag. `details`: the rest of the description. `reading`: None where the field is not
    one of `Queue`. `history`: its text in `status.changes`, "" for none; None where its changes are not
    recorded. `of_stop`: it belongs to the stop that it was set with, and goes with it. `notice`: None where
    the field does what people expect of it. `fields`: those of the object that it is.
    """

    name: str
    origin: Origin
    effect: FieldEffect
    help: str
    details: str = ""
    check: FieldCheck
    reading: Reading | None = None
    history: Callable[[Queue], str] | None = None
    of_stop: bool = False
    notice: FieldWarning | None = None
    fields: tuple[QueueField, ...] = ()

    @property
    def description(self) -> str:
        """As the definition has it, so that `kubectl explain` shows it."""
        return f"{self.help} {self.details}".strip()
