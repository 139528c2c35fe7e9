"""Pods, what makes them, and budgets, from objects of the API as `queues.drain.plan` takes them. Pure.

Promises
- A pod on a node that has not finished runs; one without a controller is bare.
- What pauses is a Job, a JobSet (whose Jobs are its own), and a `batch.volcano.sh` Job whose controller has
  taken it up: without one nobody would carry out that it is to pause. What `spec.managedBy` leaves to another
  controller does not pause.
- What cannot be read as a budget is left out: the eviction API is who judges it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from kubectl_queue.access.responses import Object
from kubectl_queue.output.tables import at
from kubectl_queue.snapshot import spec, status
from kubectl_queue.why.subjects import annotations_of, labels_of
from queues.apimachinery.conversion import Converter
from queues.apimachinery.label_selectors import BadSelector
from queues.drain.disruption_budgets import (
    Budget,
    BudgetObject,
    parse_budget,
)
from queues.drain.model import (
    RunningPod,
    SuspendableWorkload,
    Termination,
)
from queues.drain.terminating_pods import requested_at
from queues.membership import GROUP_ANNOTATION
from queues.workload_kinds import is_delegated

JOBS, JOBSETS, VOLCANO_JOBS = "jobs", "jobsets", "jobs.batch.volcano.sh"
_PAUSED = frozenset({"Aborting", "Aborted"})
#: Of owner references, by kind and group.
_PAUSABLE: Mapping[tuple[str, str], str] = {
    ("Job", "batch"): JOBS,
    ("JobSet", "jobset.x-k8s.io"): JOBSETS,
    ("Job", "batch.volcano.sh"): VOLCANO_JOBS,
}
#: Owners above each other that are followed: a cycle of references ends.
_HEIGHT = 8
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_budget_object = Converter[BudgetObject](BudgetObject)


class Seen(NamedTuple):
    """A pod that has not finished; `placed`: it is on a node."""

    runner: RunningPod
    placed: bool


class Works:
    """What can pause, by UID, as far as it was read."""

    def __init__(self, held: Mapping[str, Iterable[Object]]) -> None:
        """`held`: objects by the key of their kind."""
        self._held = {_uid(item): (kind, item) for kind, items in held.items() for item in items}

    def of(self, pod: Object) -> SuspendableWorkload | None:
        """What made the pod and can pause: the topmost of its owners that can."""
        place = str(at(pod, "metadata.namespace") or "")
        found, owner = None, controller(pod)
        for _ in range(_HEIGHT):
            work = self._work(owner, namespace=place)
            if work is None:
                break
            found = work
            owner = controller(self._held.get(work.uid, ("", {}))[1])
        return found

    def _work(self, owner: Mapping[str, Any], *, namespace: str) -> SuspendableWorkload | None:
        group, _, _ = str(owner.get("apiVersion")).rpartition("/")
        kind = _PAUSABLE.get((str(owner.get("kind")), group))
        if kind is None:
            return None
        uid = str(owner.get("uid"))
        _, item = self._held.get(uid, (kind, {}))
        if kind == VOLCANO_JOBS and not at(item, "status.state.phase"):
            return None
        if is_delegated(kind, spec(item).get("managedBy")):
            return None
        named = str(owner.get("name"))
        return SuspendableWorkload(
            kind=kind, namespace=namespace, name=named, uid=uid, suspended=_paused(item)
        )


def _paused(item: Object) -> bool:
    return spec(item).get("suspend") is True or at(item, "status.state.phase") in _PAUSED


def controller(item: Object) -> Mapping[str, Any]:
    """The reference to who makes it again; empty where nobody does."""
    listed = at(item, "metadata.ownerReferences") or ()
    return next((each for each in listed if each.get("controller")), {})


def seen(pod: Object, *, queue: str, group: str, works: Works) -> Seen:
    owner = controller(pod)
    conditions = status(pod).get("conditions") or ()
    runner = RunningPod(
        uid=_uid(pod),
        namespace=str(at(pod, "metadata.namespace") or ""),
        name=str(at(pod, "metadata.name")),
        queue=queue,
        labels=labels_of(pod),
        created=_created(pod),
        priority=int(spec(pod).get("priority") or 0),
        pod_group=group,
        workload=works.of(pod),
        bare=not owner,
        daemon=owner.get("kind") == "DaemonSet",
        ready=any((each.get("type"), each.get("status")) == ("Ready", "True") for each in conditions),
        running=status(pod).get("phase") == "Running",
        leaving=bool(at(pod, "metadata.deletionTimestamp")),
        grace_period=_number(spec(pod).get("terminationGracePeriodSeconds")),
        termination=_termination(pod),
    )
    return Seen(runner, placed=bool(spec(pod).get("nodeName")))


def _termination(pod: Object) -> Termination | None:
    """Its deletion; None where it is not being deleted, or that cannot be read."""
    grace = _number(at(pod, "metadata.deletionGracePeriodSeconds"))
    try:
        ends_at = datetime.fromisoformat(str(at(pod, "metadata.deletionTimestamp")))
    except ValueError:
        return None
    return Termination(
        requested_at=requested_at(ends_at if ends_at.tzinfo else ends_at.replace(tzinfo=UTC), grace=grace),
        grace=grace,
        node=str(spec(pod).get("nodeName") or ""),
        finalizers=tuple(map(str, at(pod, "metadata.finalizers") or ())),
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _created(pod: Object) -> datetime:
    try:
        return datetime.fromisoformat(str(at(pod, "metadata.creationTimestamp")))
    except ValueError:
        return _EPOCH


def _uid(item: Object) -> str:
    return str(at(item, "metadata.uid") or "")


def budgets(items: Iterable[Object]) -> list[Budget]:
    return [budget for item in items for budget in _budget(item)]


def _budget(item: Object) -> list[Budget]:
    try:
        return [parse_budget(_budget_object(item))]
    except (BadSelector, msgspec.ValidationError):
        return []


def group_of(pod: Object) -> str:
    """The PodGroup that it names."""
    return str(annotations_of(pod).get(GROUP_ANNOTATION) or "")
