"""What runs in the cluster, what made it and the budgets over it, read with the user's own rights.

Promises
- Lists are read page by page, each once; nothing is written.
- Where a user may not see the pods of all namespaces, those of one are read, and that is said.
- What else may not be read is said, and counts as not there; a kind that is not installed has no objects.
- A pod's queue is what admission wrote down; of one that is older than the installation, what the rules say
  by their defaults (`belonging`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote

from kubectl_queue.access.objects import Objects
from kubectl_queue.access.requests import Calls
from kubectl_queue.access.responses import Object
from kubectl_queue.access.transport import Request
from kubectl_queue.drain.running_pods import (
    JOBS,
    JOBSETS,
    VOLCANO_JOBS,
    Seen,
    Works,
    budgets,
    group_of,
    seen,
)
from kubectl_queue.errors import ForbiddenError, KindMissingError
from kubectl_queue.why.membership import belonging
from kubectl_queue.why.subjects import annotations_of
from kubectl_queue.why.targets import (
    POD,
    TYPES,
    Type,
)
from queues import labels as names
from queues.drain.disruption_budgets import Budget
from queues.workload_kinds import KINDS

BUDGET = Type("PodDisruptionBudget", "poddisruptionbudgets", "policy", "v1")
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
_PAGE = "500"


class Survey(NamedTuple):
    """What was read, at one time."""

    pods: tuple[Seen, ...]
    budgets: tuple[Budget, ...] = ()


class Surveying:
    """One command's reading. `namespace`: the one to look at where not all may be."""

    def __init__(self, calls: Calls, *, namespace: str, warn: Callable[[str], None]) -> None:
        self._calls = calls
        self._objects = Objects(calls)
        self._namespace = namespace
        self._warn = warn
        self._only = ""

    def all(self) -> Survey:
        """Raises ForbiddenError where no pods may be read."""
        pods = self._pods()
        works = Works({key: self._known(_type(key)) for key in (JOBS, JOBSETS, VOLCANO_JOBS)})
        found = tuple(budgets(self._known(BUDGET)))
        return Survey(tuple(self._seen(pod, works) for pod in pods), found)

    def pods(self) -> Survey:
        """The pods alone. Raises ForbiddenError where none may be read."""
        none = Works({})
        return Survey(tuple(self._seen(pod, none) for pod in self._pods()))

    def _pods(self) -> list[Object]:
        try:
            return self._listed(POD, fields=_UNFINISHED)
        except ForbiddenError as exc:
            self._only = self._namespace
            found = self._listed(POD, fields=_UNFINISHED)
            self._warn(f'only namespace "{self._only}" is looked at (another: -n NAME): {exc}')
            return found

    def _known(self, kind: Type) -> list[Object]:
        try:
            return self._listed(kind)
        except KindMissingError:
            return []
        except ForbiddenError as exc:
            self._warn(f"what {kind.full} have to do with it is not known: {exc}")
            return []

    def _listed(self, kind: Type, *, fields: str = "") -> list[Object]:
        place = f"/namespaces/{quote(self._only, safe='')}" if self._only else ""
        query = {"limit": _PAGE, **({"fieldSelector": fields} if fields else {})}
        found: list[Object] = []
        while True:
            request = Request(method="GET", path=f"{kind.base}{place}/{kind.resource}", query=query)
            page = self._calls.send(request, kind=kind.full)
            found += page.get("items") or ()
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return found
            query = {**query, "continue": token}

    def _seen(self, pod: Object, works: Works) -> Seen:
        """The namespace and the PodGroup are read, each once, of pods on which nothing was written down."""
        queue, group = annotations_of(pod).get(names.QUEUE) or "", group_of(pod)
        if not queue and (pod.get("spec") or {}).get("nodeName"):
            found = self._belonging(pod)
            queue = found or ""
        return seen(pod, queue=queue, group=group, works=works)

    def _belonging(self, pod: Object) -> str | None:
        try:
            found = belonging(POD, pod, owners=(), objects=self._objects)
        except ForbiddenError as exc:
            self._warn(f"the queue of a pod is not known: {exc}")
            return None
        return found.queue if found else None


def _type(key: str) -> Type:
    row = KINDS[key]
    return next(each for each in TYPES if (each.resource, each.group) == (row.resource, row.group))
