"""Who stands in line for room, and what each gang lacks: as a new leader reads it, and as the plugin does."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import msgspec

from cluster.cache.priority_classes import PriorityClass
from controller.context import ControllerContext
from controller.quota.gang_placements import GangsInPlacement
from controller.quota.waiting_gangs import TELL_SECONDS
from controller.quota.waiting_pods import WaitingPods
from controller.requests import RequestTables
from kubectl_queue.access.client import ApiClient
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.why.gang import read_group
from kubectl_queue.why.line import read_line
from kubectl_queue.why.reclaim import read_pods
from queues.drain.disruption_budgets import BudgetIndex
from queues.quota.gangs import NotAskedKind, is_placed
from queues.quota.lack import LackKind
from queues.quota.pod_classes import WaitingPod
from queues.tree import Tree
from queues.world.podgroups import PodGroupKey
from tests.support.http.asking import Server
from tests.support.http.wire_objects import Wire
from tests.support.readers.listed_objects import ListedObjects
from tests.support.readers.random_gangs import QUEUE, QUOTA_QUEUES
from tests.support.readers.two_readers import place
from tests.support.rules.cases import NOW

_NOT_IN_LINE = frozenset({LackKind.GANG, LackKind.GATE})
_ALL_GANGS = {PodGroupKey(space, name) for space in ("team", "lab") for name in ("g0", "g1", "ring")}
Lines = Mapping[str, Sequence[WaitingPod]]


class GangAnswer(NamedTuple):
    """What of a gang is asked for, and why nothing is."""

    asked: WaitingPod | None
    lacks: str


class LeaderReading:
    """What a leader reads that has just begun: it remembers nothing."""

    def __init__(self, objects: Collection[Wire]) -> None:
        server = Server()
        self._store, self._clock = server.store, server.clock
        store = server.store
        store.priority_classes.follow(needed=True)
        classes = [each for each in objects if each["kind"] == "PriorityClass"]
        store.priority_classes.replace([msgspec.convert(each, PriorityClass) for each in classes])
        server.has(*sorted((each for each in objects if each["kind"] != "PriorityClass"), key=place))
        context = cast(ControllerContext, SimpleNamespace(store=store, requests=RequestTables()))
        self._waiting = WaitingPods(
            store,
            pause=lambda: None,
            placements=GangsInPlacement(context, changed=lambda _key: None),
        )
        self._waiting.read(frozenset())

    @property
    def would_remember(self) -> bool:
        """Whether a part of a gang's minimum is on nodes: whether it has started, a leader remembers."""
        store = self._store
        for group in store.podgroups.all():
            key = group.metadata.namespace, group.metadata.name
            gang, members = store.podgroups.gang(*key), store.members.in_podgroup(*key)
            there = [each for each in members if each.node and each.live and not each.leaving]
            if gang is not None and there and not is_placed(gang, (each.task for each in there)):
                return True
        return False

    def lines(self) -> Lines:
        indexes = self._waiting._ungated, self._waiting._gated
        return {
            queue: [
                each
                for index in indexes
                for each in sorted(filter(None, map(index.get, index.in_queue(queue))), key=_rank)
            ]
            for queue in QUOTA_QUEUES
        }

    def claimants(self) -> Lines:
        """For whom others are asked to go."""
        index = self._waiting._gated
        return {
            queue: sorted(filter(None, map(index.get, index.in_queue(queue))), key=_rank)
            for queue in QUOTA_QUEUES
        }

    def reasons(self) -> Mapping[str, str]:
        """Why pods are not in line, by name, as each is told; of those that have the label of a queue."""
        self._clock.seconds += TELL_SECONDS
        told = self._waiting.take_reasons()
        listed = ((each, lack) for each, lack in told if each.labels.get(QUEUE))
        return {each.name: lack.why for each, lack in listed if lack.kind in _NOT_IN_LINE}

    def gang(self, group: Wire) -> GangAnswer | None:
        """None where no pod of it waits, or its queue has no quota."""
        meta = group["metadata"]
        if group["spec"]["queue"] not in QUOTA_QUEUES:
            return None
        state = self._waiting.gang_state(meta["namespace"], meta["name"])
        if state is None or (not state.waiting and state.reservation is None):
            return None
        said = state.not_asked
        if said is not None and said.kind is not NotAskedKind.ABSENT and state.reservation is None:
            return _answer(None, str(said))
        return _answer(state.minimum or state.reservation, "")


class PluginReading:
    def __init__(self, objects: Collection[Wire], **rights: Any) -> None:
        """`rights`: as in `ListedObjects`."""
        self.warnings: list[str] = []
        api: Any = ListedObjects(objects, page=3, **rights)
        self.paths: list[str] = api.paths
        self._client = ApiClient(api, warn=self.warnings.append)
        self._client.now = NOW
        queues = [each for each in objects if each["kind"] == "Queue"]
        self._tree: Tree = QueueObjects(queues, now=NOW).tree

    def lines(self) -> Lines:
        found: dict[str, Sequence[WaitingPod]] = {}
        for queue in QUOTA_QUEUES:
            line = read_line(self._client, queue, namespace="team", tree=self._tree)
            assert line is not None
            found[queue] = sorted(line.pods, key=line.place_of)
        return found

    def unread(self) -> str:
        """The kinds that may not be read, of queue `team`."""
        line = read_line(self._client, "team", namespace="team", tree=self._tree)
        assert line is not None
        return line.unread

    def claimants(self) -> Lines:
        """As `reclaim --dry-run` reads them."""
        found: dict[str, Sequence[WaitingPod]] = {}
        for queue in QUOTA_QUEUES:
            read = read_pods(
                self._client, self._tree, BudgetIndex(()), asking=queue, now=NOW, warn=self.warnings.append
            )
            found[queue] = sorted(read.waiting, key=_rank)
        return found

    def reasons(self) -> Mapping[str, str]:
        """Why pods are not in line, by name."""
        found: dict[str, str] = {}
        for queue in QUOTA_QUEUES:
            line = read_line(self._client, queue, namespace="team", tree=self._tree, told=_ALL_GANGS)
            assert line is not None
            found |= {uid.removeprefix("uid-"): reason for uid, reason in line.reasons.items()}
        return found

    def gang(self, group: Wire) -> GangAnswer:
        read = read_group(self._client, group, group["spec"]["queue"], tree=self._tree)
        assert read is not None
        return _answer(read.entry, read.report.lacks)


def _answer(asked: WaitingPod | None, lacks: str) -> GangAnswer:
    """Without the priority: its class is read with the line alone."""
    return GangAnswer(asked and msgspec.structs.replace(asked, priority=0), lacks)


def _rank(pod: WaitingPod) -> Any:
    return pod.rank
