"""What a drain asks the API server before it plans: the budgets, and what the cache cannot tell.

A writer's thread asks, with what the controller's thread knew at that moment (`ReadRequest`); the answer is
a value.

Invariants
- One reading takes a bounded number of requests, whatever users make: budgets are read of
  `NAMESPACES_PER_READ` namespaces with pods that are to go, those first that were not read for the longest
  time, and at most `MAX_BUDGETS` of each; the pods of `BUDGETS_PER_READ` budgets are counted, the namespaces
  in turn; `NODES_PER_READ` nodes are looked for.
- What was read before counts until it is read again (`DrainSnapshot.read_at`).
- What cannot be read of one namespace or one budget concerns that alone. Where nothing can be read at all, it
  raises `cluster.exceptions.ClusterError`.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import islice, zip_longest

import msgspec

from cluster.api import disruption_budgets as budgets
from cluster.api.client import Client
from cluster.exceptions import ClusterError, NotFound, Refused
from cluster.objects import Pod
from queues import labels as names
from queues.drain.disruption_budgets import (
    Budget,
    BudgetIndex,
    BudgetKey,
)
from queues.membership import label_value

#: Queues named in one label selector.
QUEUES_PER_SELECTOR = 50
#: What one reading reads, at most.
NAMESPACES_PER_READ = 50
MAX_BUDGETS = 1000
BUDGETS_PER_READ = 20
NODES_PER_READ = 20
#: What is too much to be read is asked for again after so long.
EXCESS_SECONDS = 30.0
#: What no drain has asked for in so long is forgotten.
FORGET_SECONDS = 60.0
NEVER = float("-inf")

log = logging.getLogger(__name__)


class ReadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`going`: UIDs of the pods that are to go; `waiting`: of those that the drained queues keep from nodes.

    `nodes`: those of pods that are on their way for too long. `unread`: queues of which it is not known yet
    which pods are on their way.
    """

    at: float
    leaving_pods: Mapping[str, tuple[str, Mapping[str, str]]]
    waiting_pods: frozenset[str]
    nodes: frozenset[str] = frozenset()
    unread: tuple[str, ...] = ()

    @property
    def namespaces(self) -> frozenset[str]:
        return frozenset(namespace for namespace, _ in self.leaving_pods.values())


class DrainSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """`at`: monotonic seconds before the first request. `leaving`: UIDs on their way, if it was the first.

    `times`: when the budgets of each namespace were read; None where all of them were, just now.
    `gone_nodes`: those of the nodes asked about that are not there.
    """

    at: float
    index: BudgetIndex
    leaving: frozenset[str] = frozenset()
    gone_nodes: frozenset[str] = frozenset()
    times: Mapping[str, float] | None = None

    def knows(self, namespace: str) -> bool:
        """Whether the budgets of that namespace were read."""
        return self.times is None or namespace in self.times

    def read_at(self, namespace: str) -> float:
        """When they were."""
        return self.at if self.times is None else self.times.get(namespace, NEVER)


def merge_requests(several: Iterable[ReadRequest]) -> ReadRequest:
    """What several drains ask, as one: the oldest time, and all the rest."""
    asked = list(several)
    return ReadRequest(
        at=min(one.at for one in asked),
        leaving_pods={uid: pod for one in asked for uid, pod in one.leaving_pods.items()},
        waiting_pods=frozenset().union(*(one.waiting_pods for one in asked)),
        nodes=frozenset().union(*(one.nodes for one in asked)),
        unread=tuple(queue for one in asked for queue in one.unread),
    )


class NamespaceBudgets(msgspec.Struct, frozen=True, kw_only=True):
    """The budgets of one namespace. `excess`: why they are not all."""

    at: float
    budgets: tuple[Budget, ...]
    excess: str = ""


class DrainReader:
    """Reads for all drains. One reading runs at a time, in any thread."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._budgets: dict[str, NamespaceBudgets] = {}
        #: By namespace: when it was asked for last, whatever came of it.
        self._asked_at: dict[str, float] = {}
        self._index = BudgetIndex(())
        #: By budget: when the pods outside were counted last, and how many there were.
        self._outside: dict[BudgetKey, tuple[float, int | None]] = {}
        #: By node: when it was looked for last, and whether it was not there.
        self._node_checks: dict[str, tuple[float, bool]] = {}

    def read(self, asked: ReadRequest) -> DrainSnapshot:
        wanted = asked.namespaces
        self._forget(wanted, at=asked.at)
        self._read_namespaces(wanted, at=asked.at)
        self._index = self._indexed()
        self._count_outside(asked)
        self._index = self._indexed()
        return DrainSnapshot(
            at=asked.at,
            index=self._index,
            leaving=_leaving_uids(self._client, asked.unread),
            gone_nodes=self._gone_nodes(asked),
            times={namespace: entry.at for namespace, entry in self._budgets.items()},
        )

    def _forget(self, wanted: Container[str], *, at: float) -> None:
        """What no drain has asked for in a while: one reading may be of some of the drains."""
        since = at - FORGET_SECONDS
        self._budgets = {
            key: entry for key, entry in self._budgets.items() if key in wanted or entry.at >= since
        }
        self._asked_at = {key: asked for key, asked in self._asked_at.items() if asked >= since}
        self._outside = {key: count for key, count in self._outside.items() if count[0] >= since}
        self._node_checks = {node: entry for node, entry in self._node_checks.items() if entry[0] >= since}

    def _read_namespaces(self, wanted: Iterable[str], *, at: float) -> None:
        """Raises what the last of them raised where none could be read."""
        failed: ClusterError | None = None
        turn = sorted(wanted, key=lambda namespace: (self._asked_at.get(namespace, NEVER), namespace))
        turn = [namespace for namespace in turn if not self._rests(namespace, at=at)][:NAMESPACES_PER_READ]
        self._asked_at |= dict.fromkeys(turn, at)
        for namespace in turn:
            try:
                answer = budgets.list_budgets(self._client, namespace=namespace, most=MAX_BUDGETS)
                self._budgets[namespace] = NamespaceBudgets(
                    at=at, budgets=answer.budgets, excess=answer.excess
                )
            except Refused as exc:
                failed = exc
                log.warning("the disruption budgets of namespace %s cannot be read: %s", namespace, exc)
        if failed is not None and not any(entry.at == at for entry in self._budgets.values()):
            raise failed

    def _rests(self, namespace: str, *, at: float) -> bool:
        """What is too much to be read is asked for more seldom."""
        entry = self._budgets.get(namespace)
        return entry is not None and bool(entry.excess) and at < entry.at + EXCESS_SECONDS

    def _indexed(self) -> BudgetIndex:
        return BudgetIndex(
            (
                msgspec.structs.replace(budget, outside=self._outside.get(budget.key, (NEVER, None))[1])
                for entry in self._budgets.values()
                for budget in entry.budgets
            ),
            excess={namespace: entry.excess for namespace, entry in self._budgets.items() if entry.excess},
            after=self._index,
        )

    def _count_outside(self, asked: ReadRequest) -> None:
        """Of the budgets that would not let all go, count the pods that no drain takes."""
        needs = _pods_to_go(self._index, asked)
        short = {
            budget.key: budget
            for entry in self._budgets.values()
            for budget in entry.budgets
            if budget.allowed < needs.get(budget.key, 0)
        }
        for budget in self._in_turn(short.values()):
            self._outside[budget.key] = asked.at, self._count_outside_of(budget, asked)

    def _in_turn(self, short: Iterable[Budget]) -> Iterator[Budget]:
        """`BUDGETS_PER_READ` of them: namespace after namespace, first those that wait the longest."""
        by_namespace: dict[str, list[Budget]] = {}
        for budget in sorted(short, key=self._waiting_since):
            by_namespace.setdefault(budget.namespace, []).append(budget)
        turns = zip_longest(*by_namespace.values())
        return islice((budget for turn in turns for budget in turn if budget is not None), BUDGETS_PER_READ)

    def _waiting_since(self, budget: Budget) -> tuple[float, BudgetKey]:
        return self._outside.get(budget.key, (NEVER, None))[0], budget.key

    def _count_outside_of(self, budget: Budget, asked: ReadRequest) -> int | None:
        def stays(pod: Pod) -> bool:
            return pod.metadata.uid not in asked.leaving_pods and pod.metadata.uid not in asked.waiting_pods

        try:
            return budgets.count_staying_pods(self._client, budget, stays=stays)
        except Refused as exc:
            log.warning("the pods of %s cannot be counted: %s", budget, exc)
            return None

    def _gone_nodes(self, asked: ReadRequest) -> frozenset[str]:
        """Those of the nodes that are not there; of many, some are looked for in each reading."""
        turn = sorted(asked.nodes, key=lambda node: (self._node_checks.get(node, (NEVER, False))[0], node))
        for node in turn[:NODES_PER_READ]:
            self._node_checks[node] = asked.at, not _node_exists(self._client, node)
        return frozenset(node for node in asked.nodes if self._node_checks.get(node, (NEVER, False))[1])


def _pods_to_go(index: BudgetIndex, asked: ReadRequest) -> dict[BudgetKey, int]:
    """How many of those that are to go each budget counts."""
    needs: dict[BudgetKey, int] = {}
    for namespace, labels in asked.leaving_pods.values():
        for budget in index.selecting(namespace, labels):
            needs[budget.key] = needs.get(budget.key, 0) + 1
    return needs


def _leaving_uids(client: Client, queues: Iterable[str]) -> frozenset[str]:
    labels = sorted({label_value(queue) for queue in queues})
    found: set[str] = set()
    for start in range(0, len(labels), QUEUES_PER_SELECTOR):
        selector = f"{names.QUEUE} in ({','.join(labels[start : start + QUEUES_PER_SELECTOR])})"
        found |= {
            pod.metadata.uid
            for pod in budgets.list_pods(client, selector=selector)
            if budgets.is_leaving(pod)
        }
    return frozenset(found)


def _node_exists(client: Client, node: str) -> bool:
    try:
        client.get(f"/api/v1/nodes/{node}")
    except NotFound:
        return False
    except Refused as exc:
        log.warning("whether node %s is there cannot be read: %s", node, exc)
    return True
