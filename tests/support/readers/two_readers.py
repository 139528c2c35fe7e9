"""What the leader does next about the drains of a cluster, and what the plugin says that it would do.

Both answers are what `drain --dry-run` prints, so that each unit, each blocker and each text is compared. The
leader's is made of its own plan: `RunningPodReader` of the cache, `read_snapshot` of the API server.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from controller.drain.running_pods import RunningPodReader, gang_minimums
from controller.drain.snapshot import DrainSnapshot, ReadMemory, ReadRequest, merge_requests, read_snapshot
from kubectl_queue.access.client import ApiClient
from kubectl_queue.drain.inventory import InventoryReader
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.views.drain_preview import DrainPreview, preview_of, previews
from queues.drain.broken_gangs import broken_gangs, stays
from queues.drain.disruption_budgets import BudgetIndex, BudgetKey
from queues.drain.model import DrainSpec, RunningPod, parse_drain_spec
from queues.drain.plan import plan
from queues.windows.drains import drain_in_force
from tests.support.http.asking import Server
from tests.support.http.wire_objects import Wire
from tests.support.readers.listed_objects import ListedObjects
from tests.support.rules.cases import NOW

#: The order in which what decides comes before what it decides about.
_ORDER = ("Namespace", "Queue", "PodGroup", "Other", "Pod")


class _Drain(NamedTuple):
    by: str
    queues: tuple[str, ...]
    spec: DrainSpec
    pods: list[RunningPod]
    broken: dict[BudgetKey, str]


def leader_previews(objects: Collection[Wire], *, unsuspendable: Collection[str] = ()) -> list[DrainPreview]:
    """`unsuspendable`: UIDs of workloads that the leader has found that no controller suspends."""
    server = Server()
    server.has(*sorted((each for each in objects if is_cached(each)), key=place))
    for absent in server.store.missing_owners.pending():  # each was looked up by now
        server.store.missing_owners.forget(absent.uid)
    drains = list(_drains(server, NOW, unsuspendable))
    snapshot = _snapshot(server, objects, drains)
    return [
        preview_of(
            each.by,
            each.queues,
            plan(each.pods, snapshot.index, each.spec, now=NOW, broken_gangs=each.broken),
            each.spec,
            now=NOW,
        )
        for each in drains
    ]


def is_cached(obj: Wire) -> bool:
    return obj["kind"] not in {"PodDisruptionBudget", "Node", "PriorityClass"}


def place(obj: Wire) -> int:
    return _ORDER.index(obj["kind"] if obj["kind"] in _ORDER else "Other")


def _drains(server: Server, now: datetime, unsuspendable: Collection[str]) -> Iterator[_Drain]:
    store = server.store
    for by, queues in sorted(store.snapshot.draining_queues().items()):
        obj, queue = store.queues.get(by), store.snapshot.tree.get(by)
        assert obj is not None
        assert queue is not None
        on = queue.policy_window(now)
        spec = parse_drain_spec(drain_in_force(obj.spec.drain, obj.spec.windows, on))
        reader = RunningPodReader(
            store=store,
            queues=frozenset(queues),
            requested=(),
            unsuspendable=unsuspendable,
            delayed=(),
            now=now,
            scales=spec.scales(now),
        )
        pods = sorted(reader.pods(), key=lambda pod: (pod.namespace, pod.name, pod.uid))
        minimums = gang_minimums(store, pods) if spec.evict_broken_gangs else {}
        broken = broken_gangs(pods, spec, minimums, now=now)
        yield _Drain(by, tuple(sorted(queues)), spec, pods, broken)


def _snapshot(server: Server, objects: Iterable[Wire], drains: Iterable[_Drain]) -> DrainSnapshot:
    """All of it in one read, as when no more namespaces and budgets are short than one read takes."""
    requests = [_request(server, each) for each in drains]
    if not requests:
        return DrainSnapshot(at=0.0, index=BudgetIndex(()))
    client: Any = ListedObjects(objects)
    snapshot = read_snapshot(client, merge_requests(requests), ReadMemory()).snapshot
    assert snapshot is not None
    return snapshot


def _request(server: Server, drain: _Drain) -> ReadRequest:
    members = [each for queue in drain.queues for each in server.store.members.in_queue(queue)]
    to_go = (pod for pod in drain.pods if stays(pod, drain.spec, drain.broken) is None)
    return ReadRequest(
        at=0.0,
        pods_to_go={pod.uid: (pod.namespace, pod.labels) for pod in to_go},
        waiting_pods=frozenset(each.uid for each in members if each.waiting),
    )


def plugin_previews(
    objects: Collection[Wire],
    *,
    names: Collection[str],
    forbidden: Collection[str] = (),
    only: str = "",
    warnings: list[str] | None = None,
) -> list[DrainPreview]:
    """What `kubectl queue drain --dry-run` of queues that drain already says of their pods."""
    said: list[str] = [] if warnings is None else warnings
    api: Any = ListedObjects(objects, forbidden=forbidden, only=only, page=3)
    queues = QueueObjects([each for each in objects if each["kind"] == "Queue"], now=NOW)
    reader = InventoryReader(ApiClient(api, warn=said.append), namespace=lambda: "team", warn=said.append)
    return previews(reader.read(queues, names=names), queues, names=names)
