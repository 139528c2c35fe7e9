"""The pods that have not finished, what made them, and the budgets over them, read with the user's rights.

Promises
- Lists are read page by page, each once; nothing is written.
- Where the user may not read the pods of all namespaces, those of one are read, and a warning says so. Any
  other kind that may not be read counts as empty, and a warning says so; a kind that is not installed is
  empty.
- A pod's queue is what admission wrote on it; for a pod that is older than the installation, what the rules
  give by their defaults (`why.membership`).
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from kubectl_queue.access.client import ApiClient
from kubectl_queue.access.object_reader import ObjectReader
from kubectl_queue.errors import ForbiddenError, KindMissingError
from kubectl_queue.objects.fields import (
    Object,
    annotations_of,
    spec_of,
)
from kubectl_queue.objects.running_pods import Inventory, SuspendableWorkloads, inventory, read_budgets
from kubectl_queue.objects.types import POD, PODGROUP, TYPES, Type
from kubectl_queue.why.membership import membership_of
from queues import well_known
from queues.workload_kinds import KINDS, Life, WorkloadKind

BUDGET = Type("PodDisruptionBudget", "poddisruptionbudgets", "policy", "v1")
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


class InventoryReader:
    """For one command. `namespace`: the one to read where the user may not read all."""

    def __init__(
        self, client: ApiClient, *, namespace: Callable[[], str], warn: Callable[[str], None]
    ) -> None:
        self._client = client
        self._objects = ObjectReader(client)
        self._namespace = namespace
        self._warn = warn
        #: The only namespace that is read; empty: all are.
        self._only = ""

    def read(self, *, scales: bool, breaks_gangs: bool) -> Inventory:
        """Raises ForbiddenError where no pods may be read.

        `scales`: whether a drain is past its deadline and brings to zero what can be scaled. `breaks_gangs`:
        whether a drain has gangs go whole.
        """
        pods = self._pods()
        kinds = [row for row in KINDS.values() if row.suspension is not None]
        kinds += [row for row in KINDS.values() if scales and row.life is Life.WHILE_SCALED]
        workloads = {row.key: self._list_or_warn(_type(row)) for row in kinds}
        budgets = read_budgets(self._list_or_warn(BUDGET))
        return inventory(
            pods,
            queue=self._queue,
            workloads=SuspendableWorkloads(workloads),
            budgets=budgets,
            podgroups=self._podgroups(breaks_gangs),
        )

    def read_pods(self, *, breaks_gangs: bool) -> Inventory:
        """Only the pods, and the gangs. Raises ForbiddenError where none may be read."""
        pods, workloads = self._pods(), SuspendableWorkloads({})
        podgroups = self._podgroups(breaks_gangs)
        return inventory(pods, queue=self._queue, workloads=workloads, podgroups=podgroups)

    def _podgroups(self, breaks_gangs: bool) -> list[Object]:
        return self._list_or_warn(PODGROUP) if breaks_gangs else []

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
