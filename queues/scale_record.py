"""The record of a workload that a drain has brought to zero replicas: annotation `sluice.dev/suspended`.

The value is QUEUE/REPLICAS: the queue whose policy drained it, and how many replicas it had. The mark of a
suspended Job is the queue alone.

Invariants
- The record is written in the patch that sets `spec.replicas` to 0, and goes in the one that sets another
  number. So whoever leads next, after a crash at any point, finds either both or neither.
- It counts only while `spec.replicas` is 0, and only on a workload that no other one controls: a Deployment's
  controller copies annotations to its ReplicaSets.
- While it counts, the workload is live and counts as having the recorded replicas. So to put them back is no
  growth, and the queue is not Closed meanwhile.
- The recorded number is put back only if nobody else has set `spec.replicas` since, to 0 or to anything else.
- Users cannot write a record (`webhooks.workloads.workload_patch`). A number that `spec.replicas` cannot have
  is no record.

========== ===============  ======================  ================  ==================================
record     `spec.replicas`  set by somebody since   queue schedules   step
========== ===============  ======================  ================  ==================================
none       any              any                     any               none
unreadable any              any                     any               the record goes
one        not 0            any                     any               the record goes
one        0                yes                     any               the record goes
one        0                no                      no                none
one        0                no                      yes               the recorded number is put back
========== ===============  ======================  ================  ==================================

On a workload that another one controls the record goes, whatever else holds.

Who has set `spec.replicas` since is read from `metadata.managedFields`: a write that changes a field takes
it from all former managers (Updater.Update of structured-merge-diff), so the one that scaled to zero is its
only manager until somebody else sets it. A scale (`/scale`) to 0 leaves it without a manager: such a Scale
lacks the field. An update of the workload that changes the number drops the record at once; a scale cannot,
and is recognised by this alone where it set 0 again. If there are no managed fields at all, since a user
has emptied them, the record alone counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

import msgspec

#: The largest `spec.replicas`.
MAX_REPLICAS = 2**31 - 1
#: What the API server calls the server in `metadata.managedFields`: the start of its User-Agent.
MANAGER = "sluice"


class ScaleRecord(msgspec.Struct, frozen=True):
    """`queue`: the one whose policy drained the workload. `replicas`: 1 to `MAX_REPLICAS`."""

    queue: str
    replicas: int

    def __str__(self) -> str:
        return f"{self.queue}/{self.replicas}"


class RecordStep(Enum):
    """What is to be done about a workload's record."""

    NONE = "none"
    DROP = "drop"
    PUT_BACK = "put back"


def parse_scale_record(mark: str) -> ScaleRecord | None:
    """The record that an annotation holds; None if it holds none."""
    queue, _, number = mark.partition("/")
    if not queue or not (number.isascii() and number.isdigit()) or len(number) > len(str(MAX_REPLICAS)):
        return None
    replicas = int(number)
    return ScaleRecord(queue, replicas) if 1 <= replicas <= MAX_REPLICAS else None


def kept_at_zero(mark: str, *, replicas: int | None, controlled: bool) -> int:
    """How many replicas a workload counts as having while a drain keeps it at zero; 0 if none does.

    `replicas`: its `spec.replicas`. `controlled`: another workload controls it.
    """
    if not mark or replicas != 0 or controlled:
        return 0
    record = parse_scale_record(mark)
    return record.replicas if record is not None else 0


def is_set_by_others(managed_fields: Iterable[Mapping[str, Any]] | None) -> bool:
    """Whether `spec.replicas` is not as the server has set it, but as somebody else has."""
    entries = list(managed_fields or ())
    managers = {each.get("manager") for each in entries if _has_replicas(each.get("fieldsV1"))}
    return bool(entries) and managers != {MANAGER}


def record_step(
    mark: str, *, replicas: int | None, controlled: bool, set_by_others: bool, schedules: bool
) -> RecordStep:
    """The table above."""
    if not mark:
        return RecordStep.NONE
    if parse_scale_record(mark) is None or controlled or replicas != 0 or set_by_others:
        return RecordStep.DROP
    return RecordStep.PUT_BACK if schedules else RecordStep.NONE


def _has_replicas(fields: Any) -> bool:
    spec = fields.get("f:spec") if isinstance(fields, Mapping) else None
    return isinstance(spec, Mapping) and "f:replicas" in spec
