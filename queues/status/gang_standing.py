"""How a gang stands with the quotas, for the status of its PodGroup. Pure.

| the first that holds                        | has room             | lacks                      |
|---------------------------------------------|----------------------|----------------------------|
| it can never start                          | without minResources | that                       |
| it gives back                               | without minResources | nodes: it gives back       |
| it has given back, and has a pause          | without minResources | nodes, until when          |
| its entry waits for its turn                | without minResources | that, of which scope       |
| its entry waits for room                    | without minResources | room, once it was looked at |
| its minimum is released, or kept room for   | yes                  | nothing                    |
| fewer pods exist than its minimum           | yes                  | pods, if there are some    |
| otherwise                                   | yes                  | nothing                    |

"Without minResources": who makes its pods need not wait for room; else there is none before it is kept.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from queues.apimachinery.timestamps import rfc3339
from queues.quota.gang_turns import CLUSTER
from queues.quota.gangs import Gang, NotAsked, NotAskedKind
from queues.quota.lack import Lack, LackKind
from queues.status.podgroup_conditions import GangQuotaState, Lacking
from queues.text import quoted

_IN_CLUSTER = "the cluster, of those with pods on nodes"


def standing_of(
    gang: Gang,
    *,
    not_asked: NotAsked | None,
    asks: bool,
    lack: Lack | None,
    is_reserved: bool,
    until: datetime | None,
) -> GangQuotaState:
    """`not_asked`: why nothing is asked for. `asks`: its minimum, or what is to be kept for it, waits in the
    index; `lack`: why it has none. `until`: it is to be on nodes by then.
    """
    lacking = _refused(not_asked) or (_waiting(lack) if asks else None)
    if lacking is not None:
        return msgspec.structs.replace(lacking, has_room=not gang.asks_before)
    if until is not None and not is_reserved:
        return GangQuotaState(until=until)
    if not_asked is not None and not_asked.kind is NotAskedKind.TOO_FEW and not_asked.have:
        return GangQuotaState(lacking=Lacking.PODS_OF_TASK if not_asked.task else Lacking.PODS)
    return GangQuotaState()


def _refused(not_asked: NotAsked | None) -> GangQuotaState | None:
    """Where nothing is asked for, and not only since pods are missing."""
    if not_asked is None:
        return None
    if not_asked.kind.never:
        return GangQuotaState(lacking=Lacking.NEVER, detail=str(not_asked))
    if not_asked.kind is NotAskedKind.GIVES_BACK:
        return GangQuotaState(lacking=Lacking.GIVES_BACK)
    if not_asked.kind is NotAskedKind.PAUSED:
        pause = f" at {rfc3339(not_asked.until)}" if not_asked.until is not None else ""
        return GangQuotaState(lacking=Lacking.NODES, detail=pause)
    return None


def _waiting(lack: Lack | None) -> GangQuotaState:
    """Where something is asked for, and waits."""
    if lack is None:
        return GangQuotaState()
    if lack.kind is LackKind.TURN:
        scope = f"queue {quoted(lack.queue)} and those below it" if lack.queue != CLUSTER else _IN_CLUSTER
        return GangQuotaState(lacking=Lacking.TURN, detail=f"in {scope}")
    return GangQuotaState(lacking=Lacking.ROOM)
