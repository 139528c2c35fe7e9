"""What a drain asks the API server before it plans: the budgets, and what the cache cannot tell.

Asked for in a writer's thread, with what the controller's thread knew at that moment (`Asked`); the answer is
a value. Raises `cluster.exceptions.ClusterError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from cluster import budgets
from cluster.client import Client
from cluster.exceptions import NotFound
from cluster.objects import Pod
from queues import names
from queues.budgets import Budget, Index
from queues.membership import label_value

#: Queues named in one label selector.
AT_ONCE = 50


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """`going`: UIDs of the pods that are to go; `waiting`: of those that the drained queues keep from nodes.

    `nodes`: by UID, the nodes of pods that are on their way for too long. `unread`: queues of which nobody
    knows yet who is on its way.
    """

    at: float
    going: Mapping[str, tuple[str, Mapping[str, str]]]
    waiting: frozenset[str]
    nodes: Mapping[str, str]
    unread: tuple[str, ...] = ()


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """`at`: monotonic seconds before the first request. `leaving`: UIDs on their way, if it was the first.

    `gone_nodes`: those of the nodes asked about that are not there.
    """

    at: float
    index: Index
    leaving: frozenset[str] = frozenset()
    gone_nodes: frozenset[str] = frozenset()


def together(several: Iterable[Asked]) -> Asked:
    """What several drains ask, as one: the oldest time, and all the rest."""
    asked = list(several)
    return Asked(
        at=min(one.at for one in asked),
        going={uid: pod for one in asked for uid, pod in one.going.items()},
        waiting=frozenset().union(*(one.waiting for one in asked)),
        nodes={uid: node for one in asked for uid, node in one.nodes.items()},
        unread=tuple(queue for one in asked for queue in one.unread),
    )


def read(client: Client, asked: Asked) -> Reading:
    found = budgets.budgets(client)
    needs = _needs(Index(found), asked)
    return Reading(
        at=asked.at,
        index=Index(
            _looked_at(client, one, asked) if one.allowed < needs.get(one.key, 0) else one for one in found
        ),
        leaving=_leaving(client, asked.unread),
        gone_nodes=frozenset(node for node in set(asked.nodes.values()) if not _is_there(client, node)),
    )


def _needs(index: Index, asked: Asked) -> dict[tuple[str, str], int]:
    """How many of those that are to go each budget counts."""
    needs: dict[tuple[str, str], int] = {}
    for namespace, labels in asked.going.values():
        for budget in index.of(namespace, labels):
            needs[budget.key] = needs.get(budget.key, 0) + 1
    return needs


def _looked_at(client: Client, budget: Budget, asked: Asked) -> Budget:
    def stays(pod: Pod) -> bool:
        return pod.metadata.uid not in asked.going and pod.metadata.uid not in asked.waiting

    return budgets.looked_at(client, budget, stays=stays)


def _leaving(client: Client, queues: Iterable[str]) -> frozenset[str]:
    labels = sorted({label_value(queue) for queue in queues})
    found: set[str] = set()
    for start in range(0, len(labels), AT_ONCE):
        selector = f"{names.QUEUE} in ({','.join(labels[start : start + AT_ONCE])})"
        found |= {
            pod.metadata.uid for pod in budgets.pods(client, selector=selector) if budgets.is_leaving(pod)
        }
    return frozenset(found)


def _is_there(client: Client, node: str) -> bool:
    try:
        client.get(f"/api/v1/nodes/{node}")
    except NotFound:
        return False
    return True
