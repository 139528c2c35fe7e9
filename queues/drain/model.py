"""The values of a drain: its spec, pods, units and plan; and which pods stay by rule.

The first rule that holds:

================  ====================================================================================
rule              pods
================  ====================================================================================
DaemonSet         of a DaemonSet: it would make them again on their nodes, whatever the queue says
SystemCritical    with a priority of 2000000000 or more: those of the classes system-node-critical and
                  system-cluster-critical
KeepSelector      that `drain.keep` selects
BarePod           that no controller would make again, where `drain.barePods` is Keep
================  ====================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

from queues.apimachinery.conversion import Converter
from queues.apimachinery.label_selectors import (
    BadSelector,
    Selector,
    parse_selector,
)
from queues.drain.disruption_budgets import BudgetKey

#: Priorities from here on belong to the system (`scheduling.SystemCriticalPriority`). Any user who may create
#: pods may name its classes, unless a ResourceQuota limits them.
SYSTEM_PRIORITY = 2_000_000_000


class KeepRule(StrEnum):
    """Why a pod stays."""

    DAEMON = "DaemonSet"
    CRITICAL = "SystemCritical"
    LABEL = "KeepSelector"
    BARE = "BarePod"


class DrainAction(StrEnum):
    """How a unit goes. CutGrace is for pods that are terminating already."""

    EVICT = "Evict"
    SUSPEND = "Suspend"
    DELETE = "Delete"
    #: Past the deadline, whatever the budgets say.
    SUSPEND_ANYWAY = "SuspendAnyway"
    #: Past the deadline: its workload is brought to zero replicas, and its controller deletes the pods.
    SCALE = "Scale"
    CUT_GRACE = "CutGrace"


class BlockerReason(StrEnum):
    """Why a unit may not go."""

    BUDGET = "DisruptionBudget"
    TWO_BUDGETS = "SeveralDisruptionBudgets"
    MANY_BUDGETS = "TooManyDisruptionBudgets"
    BUDGET_BUSY = "DisruptionBudgetBusy"
    KEPT_PART = "PartIsKept"
    DEADLINE = "DeadlinePassed"
    SETTINGS = "SettingsUnreadable"
    REFUSED = "Refused"


class DrainSpec(msgspec.Struct, frozen=True, kw_only=True):
    """`spec.drain`. `rate` in evictions a second, `in_flight` in pods; 0 is no limit but the server's."""

    rate: float = 0.0
    in_flight: int = 0
    keep_bare: bool = False
    keep: Selector | None = None
    deadline: datetime | None = None
    #: What is left at the deadline goes, whatever budgets say. Workloads that can be scaled are, if so asked.
    delete_after_deadline: bool = False
    scale_after_deadline: bool = False
    #: Pods that stay by `keep` or `barePods` go, where less than the minimum of their gang would stay.
    evict_broken_gangs: bool = False
    #: Seconds instead of the pods' own.
    grace_seconds: int | None = None
    #: Why it cannot be read: then no pod goes.
    unreadable: str = ""

    def overdue(self, now: datetime) -> bool:
        return self.deadline is not None and self.deadline <= now

    def scales(self, now: datetime) -> bool:
        """Whether workloads that can be scaled are brought to zero replicas now."""
        return self.scale_after_deadline and self.overdue(now)


class SuspendableWorkload(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A workload that owns a pod and can be suspended. `kind` is a key of `queues.workload_kinds`.

    `scaled`: it is brought to zero replicas instead, and `suspended` says that it was. `stalled`: it has been
    suspended for a while, and no controller deletes its pods.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    scaled: bool = False
    suspended: bool = False
    stalled: bool = False

    def __str__(self) -> str:
        return f"{self.kind.partition('.')[0].rstrip('s')} {self.namespace}/{self.name}"


class Termination(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The deletion of a pod: when it was first requested, and the seconds that the pod was given to end."""

    requested_at: datetime
    grace: int
    node: str = ""
    finalizers: tuple[str, ...] = ()


class RunningPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod on a node that has not finished. `running`: its phase is Running, so budgets hold for it.

    `grace_period`: its `terminationGracePeriodSeconds`. `leaving`: its eviction was requested, or it is
    terminating.
    `bare`: it has no owner. `daemon`: a DaemonSet owns it. `task`: in its PodGroup.
    """

    uid: str
    namespace: str
    name: str
    queue: str
    labels: Mapping[str, str]
    created: datetime
    priority: int = 0
    pod_group: str = ""
    task: str = ""
    workload: SuspendableWorkload | None = None
    bare: bool = False
    daemon: bool = False
    ready: bool = True
    running: bool = True
    leaving: bool = False
    grace_period: int = 0
    termination: Termination | None = None

    def __str__(self) -> str:
        return f"pod {self.namespace}/{self.name}"


def gang_key(pod: RunningPod) -> BudgetKey:
    """Namespace and name of the PodGroup that the pod names."""
    return pod.namespace, pod.pod_group


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that go together. `started`: some of them are leaving already. `gang`: the PodGroup's name.

    `parts`: the workloads of a gang, which are suspended in one go; pods of the gang that are of none of them
    follow once that is done. `budgets`: those that it takes disruptions of, once it is a step.
    `overruled`: UIDs of pods that would stay but for `drain.brokenGangs`; `because`: the words for that.
    """

    action: DrainAction
    pods: tuple[RunningPod, ...]
    workload: SuspendableWorkload | None = None
    gang: str = ""
    started: bool = False
    parts: tuple[Unit, ...] = ()
    overruled: frozenset[str] = frozenset()
    because: str = ""
    budgets: tuple[BudgetKey, ...] = ()

    def __str__(self) -> str:
        if self.workload is not None:
            return str(self.workload)
        return self.gang_text or str(self.pods[0])

    @property
    def gang_text(self) -> str:
        """Its gang in words; empty where it has none."""
        return f"podgroup {self.pods[0].namespace}/{self.gang}" if self.gang else ""


class BlockedUnit(msgspec.Struct, frozen=True, kw_only=True):
    """A unit that may not go now. `blocker`: the name of what blocks it. `never`: waiting does not help."""

    unit: Unit
    reason: BlockerReason
    blocker: str
    message: str
    never: bool = False


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """`steps` may be taken now, all of them, in this order.

    `busy_budgets`: those of suspended workloads with pods that are leaving."""

    steps: tuple[Unit, ...] = ()
    kept: tuple[tuple[RunningPod, KeepRule], ...] = ()
    blocked: tuple[BlockedUnit, ...] = ()
    leaving: tuple[RunningPod, ...] = ()
    busy_budgets: frozenset[BudgetKey] = frozenset()

    @property
    def left(self) -> int:
        """Pods that are still to go, the leaving ones included."""
        units = (*self.steps, *(block.unit for block in self.blocked))
        return sum(len(unit.pods) for unit in units) + len(self.leaving)


def parse_drain_spec(drain: Any) -> DrainSpec:
    """`spec.drain` as it is stored. One that cannot be read keeps every pod."""
    if drain is None:
        return DrainSpec()
    try:
        read = _convert_drain(drain)
        keep = parse_selector(read.keep)
    except BadSelector as exc:
        return DrainSpec(unreadable=f"spec.drain.keep cannot be read: {exc}")
    except (msgspec.ValidationError, UnicodeEncodeError) as exc:  # the latter: half of a pair
        return DrainSpec(unreadable=f"spec.drain cannot be read: {exc}")
    at = read.deadline
    return DrainSpec(
        rate=read.rate or 0.0,
        in_flight=read.in_flight or 0,
        keep_bare=read.bare_pods == "Keep",
        keep=keep,
        evict_broken_gangs=read.broken_gangs == "Evict",
        deadline=_in_utc(at) if at is not None else None,
        delete_after_deadline=read.after_deadline in {"Delete", "Scale"},
        scale_after_deadline=read.after_deadline == "Scale",
        grace_seconds=read.grace_period_seconds,
    )


def may_keep(drain: Any) -> bool:
    """Whether pods may stay that `spec.drain` alone lets stay."""
    spec = parse_drain_spec(drain)
    return bool(spec.unreadable) or spec.keep_bare or spec.keep is not None


def keep_rule(pod: RunningPod, spec: DrainSpec) -> KeepRule | None:
    """The rule by which the pod stays; None where it is to go."""
    if pod.daemon:
        return KeepRule.DAEMON
    if pod.priority >= SYSTEM_PRIORITY:
        return KeepRule.CRITICAL
    if spec.keep is not None and spec.keep.selects(pod.labels):
        return KeepRule.LABEL
    return KeepRule.BARE if pod.bare and spec.keep_bare else None


def _in_utc(at: datetime) -> datetime:
    if at.tzinfo is None:
        return at.replace(tzinfo=UTC)
    try:
        return at.astimezone(UTC)
    except OverflowError:  # at either end of the calendar
        return at.replace(tzinfo=UTC)


class _DrainFields(msgspec.Struct, frozen=True, rename="camel"):
    rate: Annotated[float, msgspec.Meta(gt=0)] | None = None
    in_flight: Annotated[int, msgspec.Meta(ge=1)] | None = None
    bare_pods: Literal["Evict", "Keep"] | None = None
    keep: Any = None
    broken_gangs: Literal["Evict", "Keep"] | None = None
    deadline: datetime | None = None
    after_deadline: Literal["Keep", "Scale", "Delete"] | None = None
    grace_period_seconds: Annotated[int, msgspec.Meta(ge=0)] | None = None


_convert_drain = Converter[_DrainFields](_DrainFields)
