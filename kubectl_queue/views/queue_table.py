"""The columns of the table of queues, and what each shows of a queue.

Promises
- The columns are the printer columns of the Queue's definition (`manifests/crds`).
- After them come, with -o wide, NAMESPACES, where a queue selects some, ACKNOWLEDGED, since when a stop is,
  where a queue is stopped, PARKED, what becomes of pods that
  wait without a gate, where a queue says that, GATED and UNGATED, the pods of a queue itself that it keeps
  waiting, with our gate and without, where it does, RECREATING, those of the latter that are to be created
  again with the gate, where there are some, and LEFT, the pods of a queue itself that its drain has still to
  end, where one drains; then a column for each label of -L; then RESUMES, when a stop ends by itself, and
  which window is on until when, where that is so.
- A cell is one line.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from kubectl_queue.objects.fields import (
    Object,
    condition_of,
    condition_since,
    generation_of,
    name_of,
    spec_of,
    value_at,
)
from kubectl_queue.objects.queues import stop_acknowledgement
from kubectl_queue.views.text import age, first_line, with_time_left
from queues.namespace_selectors import compile_selector
from queues.status.conditions import ACTIVE
from queues.status.stop_status import Acknowledgement, ObservedChain, QueueGeneration
from queues.windows.in_window import written_on
from queues.windows.texts import get_text


class Column(NamedTuple):
    """A heading and where its value is: at a path, in a label, or the status of a condition. `wide`: shown
    with -o wide alone.
    """

    heading: str
    path: str = ""
    label: str = ""
    condition: str = ""
    wide: bool = False


COLUMNS = (
    Column("NAME", "metadata.name"),
    Column("STATE", "status.state"),
    Column("ACTIVE", condition=ACTIVE),
    Column("STOP", "spec.stopPolicy"),
    Column("PARENT", "spec.parent"),
    Column("PENDING", "status.pods.pending"),
    Column("RUNNING", "status.pods.running"),
    Column("AGE", "metadata.creationTimestamp"),
    Column("REASON", "spec.reason", wide=True),
    Column("POLICY", "spec.schedulerPolicy", wide=True),
    Column("USED", "status.quota.usedText", wide=True),
    Column("LIMIT", "status.quota.limitText", wide=True),
    Column("WAITING", "status.quota.waiting", wide=True),
)
RESUMES = Column("RESUMES", "spec.resumeAt")
#: Since when the stop of the queue is acknowledged, by its own status and spec; `no` while it is not.
ACKNOWLEDGED = Column("ACKNOWLEDGED", "status.stop", wide=True)
LEFT = Column("LEFT", "status.drain.left", wide=True)
NAMESPACES = Column("NAMESPACES", "spec.namespaceSelector", wide=True)
PARKED = Column("PARKED", "spec.parked", wide=True)
GATED = Column("GATED", "status.pods.gated", wide=True)
UNGATED = Column("UNGATED", "status.pods.parked", wide=True)
RECREATING = Column("RECREATING", "status.pods.recreating", wide=True)
#: Those that a table has where a queue shows something in them.
OPTIONAL = (NAMESPACES, ACKNOWLEDGED, PARKED, GATED, UNGATED, RECREATING, LEFT)
#: The columns whose values are names of queues.
NAMES = frozenset({"NAME", "PARENT"})


def label_column(label: str) -> Column:
    """The column of a label: its key is the heading, without the prefix."""
    return Column(label.rpartition("/")[2].upper(), label=label)


def cell(column: Column, item: Object, *, now: datetime) -> str:
    if column.label:
        labels = value_at(item, "metadata.labels")
        return first_line(str(labels.get(column.label, ""))) if isinstance(labels, dict) else ""
    value = (
        condition_of(item, column.condition).get("status")
        if column.condition
        else value_at(item, column.path)
    )
    if column is NAMESPACES:
        return _selector_text(value)
    if column in (GATED, UNGATED):
        return _parked(column, item)
    if column is ACKNOWLEDGED:
        return _acknowledged(item)
    if column.heading == "AGE":
        return age(str(value), now=now)
    is_shown = value is not None and (value or column is not RECREATING)
    return first_line(str(value)) if is_shown else ""


def _acknowledged(item: Object) -> str:
    """Empty where it is not stopped. Edits of ancestors since then are not looked for; `why` reads those."""
    if value_at(item, ACKNOWLEDGED.path) is None:
        return ""
    own = ObservedChain((QueueGeneration(name_of(item), generation_of(item)),))
    is_known = stop_acknowledgement(item, chain=own) is Acknowledgement.ACKNOWLEDGED
    return (condition_since(item, ACTIVE) or "yes") if is_known else "no"


def _parked(column: Column, item: Object) -> str:
    """How many pods the queue keeps waiting, with our gate or without; empty where it keeps none."""
    parked, gated = (int(value_at(item, each.path) or 0) for each in (UNGATED, GATED))
    if not parked:
        return ""
    return str(gated if column is GATED else max(0, parked - gated))


def _selector_text(selector: Any) -> str:
    """Which namespaces a queue's own selector selects; empty where that is all."""
    read = compile_selector(selector)
    if read is None:
        return ""
    return f"none: {read.unreadable}" if read.unreadable else read.text


def resumes(item: Object, *, now: datetime) -> str:
    """When what stops the queue itself ends: its spec, and each window that is on."""
    value = value_at(item, RESUMES.path)
    try:
        own = with_time_left(datetime.fromisoformat(value), now=now) if value else ""
    except (TypeError, ValueError):
        own = "<invalid>"
    return "; ".join([*([own] if own else []), *(get_text(on, now=now) for on in written_on(spec_of(item)))])
