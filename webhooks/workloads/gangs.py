"""Who creates a workload that asks for a gang (`queues.workload_gangs`) is told where that does not start.

| the workload                                     | the warning                                          |
|--------------------------------------------------|------------------------------------------------------|
| is in a queue without a capability, with none    | its pods start one by one                            |
| above it                                         |                                                      |
| requests more for them than a capability of the  | they never start together                            |
| chain                                            |                                                      |
| wants fewer pods than that at a time             | they wait for the others                             |
| is a StatefulSet that makes one pod at a time    | the same: `podManagementPolicy: Parallel`            |
| is a Deployment that replaces its pods in parts  | the new revision is a gang of its own, and waits:    |
|                                                  | strategy Recreate                                    |
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cluster.cache.store import Store
from cluster.objects import WorkloadObject
from queues.messages import truncate_warning
from queues.metadata.keys import GROUP_MIN_MEMBER
from queues.text import quoted
from queues.workload_gangs import WorkloadGang, asked_gang
from queues.workload_kinds import WorkloadKind
from webhooks.never_fits import gang_fault
from webhooks.review import ReviewRequest, decode_object


class _RollingUpdate(msgspec.Struct, frozen=True, rename="camel"):
    max_surge: int | str | None = None


class _Strategy(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    rolling_update: _RollingUpdate | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    replicas: int | None = None
    parallelism: int | None = None
    pod_management_policy: str = ""
    strategy: _Strategy = _Strategy()


class _Workload(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


_workloads = msgspec.json.Decoder(_Workload)


def gang_warnings(
    kind: WorkloadKind, obj: WorkloadObject, queue: str, request: ReviewRequest, *, store: Store
) -> tuple[str, ...]:
    """For a workload that is created in this queue; nothing for one that asks for no gang."""
    gang = asked_gang(kind.key, obj.metadata.annotations or {})
    if gang is None:
        return ()
    if queue in store.snapshot.tree and not store.snapshot.decision(queue).has_quota:
        return (_warning(f"queue {quoted(queue, limit=20)} has no capability: its pods start one by one"),)
    fault = gang_fault(obj, queue, request, least=gang.least, store=store)
    if fault:
        return (_warning(fault),)
    spec = decode_object(request.object, _workloads).spec
    return tuple(map(_warning, _obstacles(kind, gang, spec)))


#: Of a percentage; the API server takes none that is longer.
_DIGITS = 6


def _obstacles(kind: WorkloadKind, gang: WorkloadGang, spec: _Spec) -> Iterator[str]:
    wanted = spec.parallelism if kind.key == "jobs" else spec.replicas
    wanted = 1 if wanted is None else wanted
    if kind.key != "daemonsets" and 0 < wanted < gang.least:
        yield f"its {wanted} pods wait for {gang.least - wanted} more"
    elif kind.key == "statefulsets" and spec.pod_management_policy != "Parallel":
        yield "its pods wait for each other: set podManagementPolicy Parallel"
    elif kind.key == "deployments" and spec.strategy.type != "Recreate" and _surge(spec, wanted) < gang.least:
        yield "a roll-out waits for its pods: set strategy Recreate"


def _surge(spec: _Spec, replicas: int) -> int:
    """How many pods a roll-out may have beside the old ones; the API server's default is 25%, rounded up."""
    written = spec.strategy.rolling_update.max_surge if spec.strategy.rolling_update else None
    if isinstance(written, int):
        return written
    percent = (written or "25%").removesuffix("%")
    is_number = percent.isascii() and percent.isdigit() and len(percent) <= _DIGITS
    return -(-replicas * int(percent) // 100) if is_number else 0


def _warning(what: str) -> str:
    return truncate_warning(f"{GROUP_MIN_MEMBER}: {what}")
