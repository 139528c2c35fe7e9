"""The pods that have not finished, what made them, and the budgets over them, read with the user's rights.

Promises
- Lists are read page by page, each once; nothing is written.
- Where the user may not read the pods of all namespaces, those of one are read, and a warning says so. Any
  other kind that may not be read counts as empty, and a warning says so; a kind that is not installed is
  empty.
- A pod's queue is what admission wrote on it; for a pod that is older than the installation, what the rules
  give by their defaults (`why.membership`).
- Jobs, JobSets (which own their Jobs) and `batch.volcano.sh` Jobs can be suspended; the last only once their
  controller has seen them, since otherwise no controller would carry the suspension out. So can none that
  `spec.managedBy` gives to another controller.
- A budget that cannot be read is left out: the eviction API decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from kubectl_queue.access.client import ApiClient
from kubectl_queue.access.responses import Object
from kubectl_queue.errors import ForbiddenError, KindMissingError
from kubectl_queue.output.tables import value_at
from kubectl_queue.queue_objects import spec_of, status_of
from kubectl_queue.why.membership import membership_of
from kubectl_queue.why.targets import POD, TYPES, Objects, Type, annotations_of, controller_of, labels_of
from queues import well_known
from queues.apimachinery.conversion import Converter
from queues.apimachinery.label_selectors import BadSelector
from queues.drain.disruption_budgets import Budget, BudgetObject, parse_budget
from queues.drain.model import RunningPod, SuspendableWorkload, Termination
from queues.drain.terminating_pods import requested_at
from queues.membership import GROUP_ANNOTATION
from queues.workload_kinds import MAX_OWNERS, SUSPENDABLE, Suspension, WorkloadKind, find_kind_of_owner

BUDGET = Type("PodDisruptionBudget", "poddisruptionbudgets", "policy", "v1")
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_budget_object = Converter[BudgetObject](BudgetObject)


class Inventory(NamedTuple):
    """What was read, at one time. `unscheduled`: the pods that are on no node."""

    pods: tuple[RunningPod, ...]
    unscheduled: tuple[RunningPod, ...] = ()
    budgets: tuple[Budget, ...] = ()


class InventoryReader:
    """For one command. `namespace`: the one to read where the user may not read all."""

    def __init__(
        self, client: ApiClient, *, namespace: Callable[[], str], warn: Callable[[str], None]
    ) -> None:
        self._client = client
        self._objects = Objects(client)
        self._namespace = namespace
        self._warn = warn
        #: The only namespace that is read; empty: all are.
        self._only = ""

    def read(self) -> Inventory:
        """Raises ForbiddenError where no pods may be read."""
        pods = self._pods()
        workloads = {key: self._list_or_warn(_type(row)) for key, row in SUSPENDABLE.items()}
        budgets = read_budgets(self._list_or_warn(BUDGET))
        return inventory(pods, queue=self._queue, workloads=SuspendableWorkloads(workloads), budgets=budgets)

    def read_pods(self) -> Inventory:
        """Only the pods. Raises ForbiddenError where none may be read."""
        return inventory(self._pods(), queue=self._queue, workloads=SuspendableWorkloads({}))

    def _pods(self) -> list[Object]:
        try:
            return self._list(POD, fields=_UNFINISHED)
        except ForbiddenError as exc:
            self._only = self._namespace()
            pods = self._list(POD, fields=_UNFINISHED)
            self._warn(f'only the pods of namespace "{self._only}" are read (another: -n NAME): {exc}')
            return pods

    def _list_or_warn(self, kind: Type) -> list[Object]:
        try:
            return self._list(kind)
        except KindMissingError:
            return []
        except ForbiddenError as exc:
            self._warn(f"{kind.full} are left out: {exc}")
            return []

    def _list(self, kind: Type, *, fields: str = "") -> list[Object]:
        place = f"/namespaces/{quote(self._only, safe='')}" if self._only else ""
        query = {"fieldSelector": fields} if fields else {}
        return self._client.list(f"{kind.base}{place}/{kind.resource}", query=query, kind=kind.full).items

    def _queue(self, pod: Object) -> str:
        """The queue of a pod. Where admission wrote none, its namespace and PodGroup are read once each."""
        queue = annotations_of(pod).get(well_known.QUEUE) or ""
        if queue or not spec_of(pod).get("nodeName"):
            return queue
        try:
            membership = membership_of(POD, pod, owners=(), objects=self._objects)
        except ForbiddenError as exc:
            self._warn(f"the queue of a pod is not known: {exc}")
            return ""
        return (membership.queue or "") if membership else ""


def _type(row: WorkloadKind) -> Type:
    return next(each for each in TYPES if (each.resource, each.group) == (row.resource, row.group))


class SuspendableWorkloads:
    """The workloads that can be suspended, by UID, as far as they were read."""

    def __init__(self, items: Mapping[str, Iterable[Object]]) -> None:
        """`items`: by the key of their kind."""
        self._by_uid = {_uid(item): (kind, item) for kind, those in items.items() for item in those}

    def owner_of(self, pod: Object) -> SuspendableWorkload | None:
        """The topmost of the pod's owners that can be suspended."""
        namespace = str(value_at(pod, "metadata.namespace") or "")
        topmost, reference = None, controller_of(pod)
        for _ in range(MAX_OWNERS):
            work = self._work(reference, namespace=namespace)
            if work is None:
                break
            topmost = work
            reference = controller_of(self._by_uid.get(work.uid, ("", {}))[1])
        return topmost

    def _work(self, reference: Mapping[str, Any], *, namespace: str) -> SuspendableWorkload | None:
        kind = find_kind_of_owner(str(reference.get("apiVersion")), str(reference.get("kind")))
        if kind is None or kind.suspension is None:
            return None
        uid = str(reference.get("uid"))
        _, item = self._by_uid.get(uid, (kind.key, {}))
        if kind.suspension is Suspension.COMMAND and not value_at(item, "status.state.phase"):
            return None
        if kind.is_delegated(spec_of(item).get("managedBy")):
            return None
        name = str(reference.get("name"))
        return SuspendableWorkload(
            kind=kind.key, namespace=namespace, name=name, uid=uid, suspended=_is_suspended(kind, item)
        )


def _is_suspended(kind: WorkloadKind, item: Object) -> bool:
    return spec_of(item).get("suspend") is True or value_at(item, "status.state.phase") in kind.paused_phases


def inventory(
    pods: Iterable[Object],
    *,
    queue: Callable[[Object], str],
    workloads: SuspendableWorkloads,
    budgets: Iterable[Budget] = (),
) -> Inventory:
    """The values that `queues.drain` works on, from objects of the API. `queue`: that of a pod."""
    scheduled: list[RunningPod] = []
    unscheduled: list[RunningPod] = []
    for pod in pods:
        running = _running_pod(pod, queue=queue(pod), workloads=workloads)
        (scheduled if spec_of(pod).get("nodeName") else unscheduled).append(running)
    return Inventory(tuple(scheduled), tuple(unscheduled), tuple(budgets))


def _running_pod(pod: Object, *, queue: str, workloads: SuspendableWorkloads) -> RunningPod:
    reference = controller_of(pod)
    conditions = status_of(pod).get("conditions") or ()
    return RunningPod(
        uid=_uid(pod),
        namespace=str(value_at(pod, "metadata.namespace") or ""),
        name=str(value_at(pod, "metadata.name")),
        queue=queue,
        labels=labels_of(pod),
        created=_created(pod),
        priority=int(spec_of(pod).get("priority") or 0),
        pod_group=str(annotations_of(pod).get(GROUP_ANNOTATION) or ""),
        workload=workloads.owner_of(pod),
        bare=not reference,
        daemon=reference.get("kind") == "DaemonSet",
        ready=any((each.get("type"), each.get("status")) == ("Ready", "True") for each in conditions),
        running=status_of(pod).get("phase") == "Running",
        leaving=bool(value_at(pod, "metadata.deletionTimestamp")),
        grace_period=_number(spec_of(pod).get("terminationGracePeriodSeconds")),
        termination=_termination(pod),
    )


def _termination(pod: Object) -> Termination | None:
    """Its deletion; None where it is not being deleted, or that cannot be read."""
    grace = _number(value_at(pod, "metadata.deletionGracePeriodSeconds"))
    try:
        ends_at = datetime.fromisoformat(str(value_at(pod, "metadata.deletionTimestamp")))
    except ValueError:
        return None
    return Termination(
        requested_at=requested_at(ends_at if ends_at.tzinfo else ends_at.replace(tzinfo=UTC), grace=grace),
        grace=grace,
        node=str(spec_of(pod).get("nodeName") or ""),
        finalizers=tuple(map(str, value_at(pod, "metadata.finalizers") or ())),
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _created(pod: Object) -> datetime:
    try:
        return datetime.fromisoformat(str(value_at(pod, "metadata.creationTimestamp")))
    except ValueError:
        return _EPOCH


def _uid(item: Object) -> str:
    return str(value_at(item, "metadata.uid") or "")


def read_budgets(items: Iterable[Object]) -> Iterator[Budget]:
    for item in items:
        try:
            yield parse_budget(_budget_object(item))
        except (BadSelector, msgspec.ValidationError):
            continue
