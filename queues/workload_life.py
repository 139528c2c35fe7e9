"""Whether a workload is live or paused, by the fields of its object. Pure.

| life of its kind | live                                            | paused                      |
|------------------|-------------------------------------------------|-----------------------------|
| until finished   | no condition or phase of its row says that it   | `spec.suspend`, or one of   |
|                  | ended, and it has no `status.terminalState`     | the row's `paused_phases`   |
| while scaled     | it wants replicas, also those that a drain      | a drain keeps it at zero    |
|                  | keeps at zero (`queues.scale_record`)           |                             |
| never            | no: what it creates counts in its place         | `spec.suspend`              |
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from queues.scale_record import kept_at_zero
from queues.workload_kinds import Life, WorkloadKind


class WorkloadFields(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What decides.

    `replicas`: None where the object does not say. `phase`: `status.state.phase`. `true_conditions`: the
    types of its conditions that are True. `mark`: annotation `sluice.dev/suspended`. `controlled`: whether
    another object controls it.
    """

    replicas: int | None = None
    suspend: bool = False
    phase: str = ""
    terminal_state: str = ""
    true_conditions: frozenset[str] = frozenset()
    mark: str = ""
    controlled: bool = False


def is_live(kind: WorkloadKind, fields: WorkloadFields) -> bool:
    """Whether it has not finished, or wants replicas, also where a drain keeps it at none."""
    if kind.life is Life.NEVER:
        return False
    if kind.life is Life.WHILE_SCALED:
        return wanted_replicas(kind, fields) > 0
    is_ended = fields.phase in kind.end_phases or bool(kind.end_conditions & fields.true_conditions)
    return not fields.terminal_state and not is_ended


def is_paused(kind: WorkloadKind, fields: WorkloadFields) -> bool:
    """Whether it creates no pods because it is suspended, aborted, or kept at zero."""
    return fields.suspend or fields.phase in kind.paused_phases or replicas_kept_at_zero(kind, fields) > 0


def wanted_replicas(kind: WorkloadKind, fields: WorkloadFields) -> int:
    """How many pods it wants; the API server's default is 1.

    What a drain keeps at zero wants as many as it had.
    """
    return 1 if fields.replicas is None else fields.replicas or replicas_kept_at_zero(kind, fields)


def replicas_kept_at_zero(kind: WorkloadKind, fields: WorkloadFields) -> int:
    """The replicas that it counts as having while a drain keeps it at none; 0 if none does."""
    if not fields.mark or kind.life is not Life.WHILE_SCALED:
        return 0
    return kept_at_zero(fields.mark, replicas=fields.replicas, controlled=fields.controlled)


def names_true(conditions: Iterable[tuple[str, str]]) -> frozenset[str]:
    """The types of the conditions, given as type and status, that are True."""
    return frozenset(kind for kind, status in conditions if status == "True")
