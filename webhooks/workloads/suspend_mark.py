"""The mark on work that a drain suspended (`sluice.dev/suspended`), which is ours alone.

It says that the work is to be given back when its queue schedules, so no user may write it:

=====================================  ====================================================
who else writes                        what becomes of the mark
=====================================  ====================================================
a new workload                         it is taken off
an update that sets or changes it      it is put back to what it was, or taken off
an update that removes it              it is put back
one that ends the suspension           it is taken off: the next suspension is its author's
=====================================  ====================================================

Pure. A `batch.volcano.sh` Job has no suspension in its spec: the controller itself takes its mark off.
"""

from __future__ import annotations

from msgspec.structs import replace

from cluster.objects import WorkloadObject
from queues import labels as names
from webhooks.json_patch import PatchStep, patch_map


def protect_suspend_mark(
    before: WorkloadObject | None, after: WorkloadObject
) -> tuple[WorkloadObject, list[PatchStep]]:
    """What somebody else wrote, with the mark as it has to be, and the steps to that."""
    held, mark = after.metadata.annotations, _mark(before, after)
    steps = patch_map("/metadata/annotations", held, {names.SUSPENDED: mark})
    if not steps:
        return after, steps
    others = {key: value for key, value in (held or {}).items() if key != names.SUSPENDED}
    mended = others if mark is None else {**others, names.SUSPENDED: mark}
    return replace(after, metadata=replace(after.metadata, annotations=mended)), steps


def _mark(before: WorkloadObject | None, after: WorkloadObject) -> str | None:
    if before is None or (before.spec.suspend and not after.spec.suspend):
        return None
    return (before.metadata.annotations or {}).get(names.SUSPENDED)
