"""What a drain reads from the API server before it plans: budgets, and what the cache does not have.

A read runs in a writer's thread. It takes and returns values: a `ReadRequest`, which the controller's thread
made, and the `ReadMemory` of the read before.

Invariants
- One read takes a bounded number of requests, whatever users make: budgets are read of `NAMESPACES_PER_READ`
  namespaces with pods that are to go, those first that were not read for the longest time, and at most
  `MAX_BUDGETS` of each; the pods of `BUDGETS_PER_READ` budgets are counted, the namespaces in turn;
  `NODES_PER_READ` nodes are looked for.
- What was read before counts until it is read again (`DrainSnapshot.read_at`).
- A namespace or a budget that cannot be read affects no other one. Where nothing can be read there is no
  snapshot; the next read begins with other namespaces all the same.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, zip_longest

import msgspec

from cluster.api.client import Client
from cluster.exceptions import ClusterError, NotFound, Refused
from cluster.objects import Pod
from controller.evictions import budget_reader as budgets
from queues import well_known
from queues.drain.disruption_budgets import Budget, BudgetIndex, BudgetKey, short_budgets
from queues.membership import label_value

#: Queues named in one label selector.
QUEUES_PER_SELECTOR = 50
#: What one read reads, at most.
NAMESPACES_PER_READ = 50
MAX_BUDGETS = 1000
BUDGETS_PER_READ = 20
NODES_PER_READ = 20
#: A namespace with too many budgets is read again after so long.
EXCESS_SECONDS = 30.0
#: What no drain has requested for so long is forgotten.
FORGET_SECONDS = 60.0
NEVER = float("-inf")

log = logging.getLogger(__name__)


class ReadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be read. `at`: monotonic seconds.

    `pods_to_go`: namespace and labels of the pods that are to go, by UID. `waiting_pods`: UIDs of those that
    the drained queues keep from nodes. `nodes`: those of terminating pods whose grace period is over.
    `unread`: queues of which it is not known yet which pods leave already.
    """

    at: float
    pods_to_go: Mapping[str, tuple[str, Mapping[str, str]]]
    waiting_pods: frozenset[str]
    nodes: frozenset[str] = frozenset()
    unread: tuple[str, ...] = ()

    @property
    def namespaces(self) -> frozenset[str]:
        return frozenset(namespace for namespace, _ in self.pods_to_go.values())


def merge_requests(requests: Iterable[ReadRequest]) -> ReadRequest:
    """The requests of several drains as one: the oldest time, and the union of all else."""
    several = list(requests)
    return ReadRequest(
        at=min(each.at for each in several),
        pods_to_go={uid: pod for each in several for uid, pod in each.pods_to_go.items()},
        waiting_pods=frozenset().union(*(each.waiting_pods for each in several)),
        nodes=frozenset().union(*(each.nodes for each in several)),
        unread=tuple(queue for each in several for queue in each.unread),
    )


class DrainSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of the API server. `at`: monotonic seconds before the first request.

    `leaving`: UIDs of pods of the request's `unread` queues that leave already. `read_times`: when the
    budgets of each namespace were read; None where all of them were, at `at`. `gone_nodes`: those of the
    request's nodes that are not there.
    """

    at: float
    index: BudgetIndex
    leaving: frozenset[str] = frozenset()
    gone_nodes: frozenset[str] = frozenset()
    read_times: Mapping[str, float] | None = None

    def knows(self, namespace: str) -> bool:
        """Whether the budgets of that namespace were read."""
        return self.read_times is None or namespace in self.read_times

    def read_at(self, namespace: str) -> float:
        """When the budgets of that namespace were read."""
        return self.at if self.read_times is None else self.read_times.get(namespace, NEVER)


class NamespaceBudgets(msgspec.Struct, frozen=True, kw_only=True):
    """The budgets of one namespace. `excess`: why they are not all."""

    at: float
    budgets: tuple[Budget, ...]
    excess: str = ""


class ReadMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What one read keeps for the next.

    `attempts`: when each namespace was last read, successfully or not. `outside`: by budget, when the pods
    outside were counted, and their number. `nodes`: when each was looked up, and whether it was gone.
    """

    budgets: Mapping[str, NamespaceBudgets] = msgspec.field(default_factory=dict)
    attempts: Mapping[str, float] = msgspec.field(default_factory=dict)
    outside: Mapping[BudgetKey, tuple[float, int | None]] = msgspec.field(default_factory=dict)
    nodes: Mapping[str, tuple[float, bool]] = msgspec.field(default_factory=dict)
    index: BudgetIndex = msgspec.field(default_factory=lambda: BudgetIndex(()))


class ReadResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a read for these drains. `snapshot` is None where nothing could be read."""

    drains: tuple[str, ...] = ()
    snapshot: DrainSnapshot | None = None
    memory: ReadMemory


def read_snapshot(
    client: Client, request: ReadRequest, memory: ReadMemory, *, drains: tuple[str, ...] = ()
) -> ReadResult:
    """Ask the API server. `memory`: what the read before left. From any thread, one at a time.

    Raises nothing, since drains wait for the result: without a snapshot they ask for another read.
    """
    reader = _Reader(client, request, memory)
    try:
        snapshot = reader.read()
    except ClusterError as exc:
        log.warning("the disruption budgets cannot be read: %s", exc)
    except Exception:
        log.exception("the disruption budgets cannot be read")
    else:
        return ReadResult(drains=drains, snapshot=snapshot, memory=reader.memory())
    return ReadResult(drains=drains, memory=reader.memory())


class _Reader:
    """One read."""

    def __init__(self, client: Client, request: ReadRequest, memory: ReadMemory) -> None:
        self._client = client
        self._request = request
        self._index = memory.index
        wanted, since = request.namespaces, request.at - FORGET_SECONDS
        self._budgets = {
            key: each for key, each in memory.budgets.items() if key in wanted or each.at >= since
        }
        self._attempts = {key: at for key, at in memory.attempts.items() if at >= since}
        self._outside = {key: each for key, each in memory.outside.items() if each[0] >= since}
        self._nodes = {node: each for node, each in memory.nodes.items() if each[0] >= since}

    def memory(self) -> ReadMemory:
        return ReadMemory(
            budgets=self._budgets,
            attempts=self._attempts,
            outside=self._outside,
            nodes=self._nodes,
            index=self._index,
        )

    def read(self) -> DrainSnapshot:
        """Raises `cluster.exceptions.ClusterError` where nothing can be read."""
        self._read_namespaces()
        self._index = self._indexed()
        self._count_outside()
        self._index = self._indexed()
        return DrainSnapshot(
            at=self._request.at,
            index=self._index,
            leaving=_leaving_uids(self._client, self._request.unread),
            gone_nodes=self._gone_nodes(),
            read_times={namespace: each.at for namespace, each in self._budgets.items()},
        )

    def _read_namespaces(self) -> None:
        failed, at = None, self._request.at
        waiting = sorted(self._request.namespaces, key=lambda each: (self._attempts.get(each, NEVER), each))
        turn = [namespace for namespace in waiting if not self._rests(namespace)][:NAMESPACES_PER_READ]
        self._attempts |= dict.fromkeys(turn, at)
        for namespace in turn:
            try:
                answer = budgets.list_budgets(self._client, namespace=namespace, most=MAX_BUDGETS)
                self._budgets[namespace] = NamespaceBudgets(
                    at=at, budgets=answer.budgets, excess=answer.excess
                )
            except Refused as exc:
                failed = exc
                log.warning("the disruption budgets of namespace %s cannot be read: %s", namespace, exc)
        if failed is not None and not any(each.at == at for each in self._budgets.values()):
            raise failed

    def _rests(self, namespace: str) -> bool:
        """Whether it had too many budgets to be read, less than `EXCESS_SECONDS` ago."""
        read = self._budgets.get(namespace)
        return read is not None and bool(read.excess) and self._request.at < read.at + EXCESS_SECONDS

    def _indexed(self) -> BudgetIndex:
        return BudgetIndex(
            (
                msgspec.structs.replace(budget, outside=self._outside.get(budget.key, (NEVER, None))[1])
                for read in self._budgets.values()
                for budget in read.budgets
            ),
            excess={namespace: read.excess for namespace, read in self._budgets.items() if read.excess},
            after=self._index,
        )

    def _count_outside(self) -> None:
        """Count the pods that no drain evicts, for budgets that do not allow all others to go."""
        short = short_budgets(self._index, self._request.pods_to_go.values())
        for budget in self._in_turn(short):
            self._outside[budget.key] = self._request.at, self._number_outside(budget)

    def _in_turn(self, short: Iterable[Budget]) -> Iterator[Budget]:
        """The next `BUDGETS_PER_READ` budgets: the namespaces in turn, the longest waiting budgets first."""
        by_namespace: dict[str, list[Budget]] = {}
        for budget in sorted(short, key=self._waiting_since):
            by_namespace.setdefault(budget.namespace, []).append(budget)
        turns = zip_longest(*by_namespace.values())
        return islice((budget for turn in turns for budget in turn if budget is not None), BUDGETS_PER_READ)

    def _waiting_since(self, budget: Budget) -> tuple[float, BudgetKey]:
        return self._outside.get(budget.key, (NEVER, None))[0], budget.key

    def _number_outside(self, budget: Budget) -> int | None:
        request = self._request

        def stays(pod: Pod) -> bool:
            uid = pod.metadata.uid
            return uid not in request.pods_to_go and uid not in request.waiting_pods

        try:
            return budgets.count_staying_pods(self._client, budget, stays=stays)
        except Refused as exc:
            log.warning("the pods of %s cannot be counted: %s", budget, exc)
            return None

    def _gone_nodes(self) -> frozenset[str]:
        """The nodes that do not exist; each read looks up `NODES_PER_READ` of them at most."""
        nodes = self._request.nodes
        turn = sorted(nodes, key=lambda node: (self._nodes.get(node, (NEVER, False))[0], node))
        for node in turn[:NODES_PER_READ]:
            self._nodes[node] = self._request.at, not _node_exists(self._client, node)
        return frozenset(node for node in nodes if self._nodes.get(node, (NEVER, False))[1])


def _leaving_uids(client: Client, queues: Iterable[str]) -> frozenset[str]:
    labels = sorted({label_value(queue) for queue in queues})
    leaving: set[str] = set()
    for start in range(0, len(labels), QUEUES_PER_SELECTOR):
        selector = f"{well_known.QUEUE} in ({','.join(labels[start : start + QUEUES_PER_SELECTOR])})"
        pods = budgets.list_pods(client, selector=selector)
        leaving |= {pod.metadata.uid for pod in pods if budgets.is_leaving(pod)}
    return frozenset(leaving)


def _node_exists(client: Client, node: str) -> bool:
    try:
        client.get(f"/api/v1/nodes/{node}")
    except NotFound:
        return False
    except Refused as exc:
        log.warning("whether node %s is there cannot be read: %s", node, exc)
    return True
