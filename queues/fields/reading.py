"""From a Queue object to a `queues.queue.Queue`: the server and the plugin read by this alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from queues.contacts import contact_text
from queues.fields.table import FIELDS
from queues.queue import ROOT, Queue

#: The fields of `spec` that are read, in the order in which `read_queue` takes their values.
READ = tuple(row.name for row in FIELDS if row.reading)

_READINGS = tuple((row.reading.attribute, row.reading.read) for row in FIELDS if row.reading)


def read_queue(
    name: str,
    *,
    uid: str,
    generation: int,
    values: Iterable[Any],
    terminating: bool = False,
    contact: object = None,
) -> Queue:
    """Return the queue. `values`: of the fields `READ`; None for one that is absent.
    `terminating`: the object has a `deletionTimestamp`. `contact`: the value of annotation
    `sluice.dev/contact`.

    An unknown word stops the queue, since it cannot be what its author meant: a state counts as Suspended, a
    stop policy as Hold. `root` has no parent, whatever is written; and while it is
    being deleted, the server is about to make it anew.
    """
    spec = {
        attribute: read(value)
        for (attribute, read), value in zip(_READINGS, values, strict=True)
        if value is not None
    }
    if name == ROOT:
        spec["parent"], terminating = None, False
    return Queue(
        name=name,
        uid=uid,
        generation=generation,
        terminating=terminating,
        contact=contact_text(contact),
        **spec,
    )
