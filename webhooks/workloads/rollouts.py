"""The validating webhook for workloads of a queue whose pods are replaced, or that want more at a time.

A change of the pod template replaces pods: the old ones go, and the new ones wait where the queue does not
schedule. Nothing is denied: `scale` and `rollout undo` are the way back.

The queue is the one that the edit leaves the workload in. The mutating webhook says what a move to another
queue means, so only the loss of pods is said of it here.

=========================================  ===========================================================
the edit, in a queue that schedules not    the warning
=========================================  ===========================================================
another template                           its new pods wait
the same, with strategy Recreate           and all its pods go first
the same, where nothing is rolled out      none: it is paused, wants no replicas, or is replaced by hand
                                           (`OnDelete`)
a Job's larger `parallelism`               new pods wait
=========================================  ===========================================================

Where the namespace is bound to another queue (`queues.namespace_binding`), any of these brings a warning that
stops of that queue miss the new pods, whether its own queue schedules or not.

Controllers read no warnings, so they are not asked about (the matchConditions of the entry).
"""

from __future__ import annotations

import msgspec

from cluster.cache.store import Store
from cluster.objects import WorkloadObject
from queues.messages import waiting_warning
from queues.namespace_binding import may_name, passing_warning
from queues.workload_kinds import KINDS, Life, WorkloadKind, find_kind
from queues.world.workloads import recorded_queue
from webhooks.review import ALLOWED, ReviewAnswer, ReviewRequest, decode_object

RECREATED = "strategy Recreate: all its pods go before the new ones come, which wait"
_JOBS = KINDS["jobs"]


class _Strategy(msgspec.Struct, frozen=True):
    type: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    """`template`: the bytes that the API server writes, the same for the same template."""

    template: msgspec.Raw = msgspec.Raw(b"null")
    replicas: int | None = None
    parallelism: int | None = None
    paused: bool = False
    strategy: _Strategy = _Strategy()
    update_strategy: _Strategy = _Strategy()


class _Workload(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


_workloads = msgspec.json.Decoder(_Workload)
_workload_objects = msgspec.json.Decoder(WorkloadObject)


def validate(request: ReviewRequest, *, store: Store) -> ReviewAnswer:
    """The answer to the validating webhook on UPDATE."""
    kind = find_kind(request.resource.group, request.resource.resource)
    if kind is None:
        return ALLOWED
    before = decode_object(request.old_object, _workloads, where="oldObject").spec
    after = decode_object(request.object, _workloads).spec
    what = _what_waits(kind, before, after)
    if not what:
        return ALLOWED
    queue, is_moved = _queue_after(kind, request, store=store)
    if not queue:
        return ALLOWED
    warnings = () if is_moved else _passing_warnings(queue, request.namespace, store=store)
    decision = store.decisions.of_queue(queue, namespace=request.namespace)
    if decision.stop is None or decision.undecided:
        return ReviewAnswer(warnings=warnings)
    recreated = (RECREATED,) if kind is not _JOBS and after.strategy.type == "Recreate" else ()
    waiting = () if is_moved else (waiting_warning(decision.stop, what=what),)
    return ReviewAnswer(warnings=(*warnings, *waiting, *recreated))


def _queue_after(kind: WorkloadKind, request: ReviewRequest, *, store: Store) -> tuple[str, bool]:
    """The queue after the edit, "" for none, and whether it is another one than before. The mutating webhook
    has written it into the templates; of work that is older than the installation the cache has it alone.
    """
    old, new = (
        recorded_queue(decode_object(raw, _workload_objects, where=where))
        for raw, where in ((request.old_object, "oldObject"), (request.object, "object"))
    )
    if old or new:
        return new, old != new
    workload = store.workloads.of_kind[kind.key].by_name(request.namespace, request.name)
    return workload.queue if workload is not None else "", False


def _passing_warnings(queue: str, namespace: str, *, store: Store) -> tuple[str, ...]:
    """For work that was there when its namespace came to be bound to another queue."""
    bound_to = store.namespaces.bound_to(namespace)
    if not bound_to or may_name(queue, bound_to=bound_to, tree=store.snapshot.tree):
        return ()
    return (passing_warning(queue, bound_to=bound_to),)


def _what_waits(kind: WorkloadKind, before: _Spec, after: _Spec) -> str:
    if kind is _JOBS:
        return "new pods wait" if _parallelism(after) > _parallelism(before) else ""
    if bytes(before.template) == bytes(after.template) or not _is_rolled_out(kind, after):
        return ""
    return "its new pods wait"


def _is_rolled_out(kind: WorkloadKind, spec: _Spec) -> bool:
    wants_none = kind.life is Life.WHILE_SCALED and spec.replicas == 0
    return not (wants_none or spec.paused or spec.update_strategy.type == "OnDelete")


def _parallelism(spec: _Spec) -> int:
    """The API server's default is 1."""
    return 1 if spec.parallelism is None else spec.parallelism
