"""How a gang stands with the quotas, for the status of its PodGroup. Pure.

| the first that holds                        | has room             | lacks                      |
|---------------------------------------------|----------------------|----------------------------|
| it can never start                          | without minResources | that                       |
| it has given back, and has a pause          | without minResources | nodes                      |
| its entry waits for room                    | without minResources | room, once it was looked at |
| its minimum is released, or kept room for   | yes                  | nothing                    |
| fewer pods exist than its minimum           | yes                  | pods, if there are some    |
| otherwise                                   | yes                  | nothing                    |

"Without minResources": who makes its pods need not wait for room; else there is none before it is kept.
"""

from __future__ import annotations

from datetime import datetime

from queues.quota.gangs import Gang, NotAsked, NotAskedKind
from queues.status.podgroup_conditions import Lacking, Standing


def standing_of(
    gang: Gang,
    *,
    not_asked: NotAsked | None,
    asks: bool,
    lacks_room: bool,
    is_reserved: bool,
    until: datetime | None,
) -> Standing:
    """`not_asked`: why nothing is asked for. `asks`: its minimum, or what is to be kept for it, waits in the
    index; `lacks_room`: and has none. `until`: it is to be on nodes by then.
    """
    needs_room = gang.asks_before
    if not_asked is not None and not_asked.kind.never:
        return Standing(has_room=not needs_room, lacking=Lacking.NEVER, never=str(not_asked))
    if not_asked is not None and not_asked.kind is NotAskedKind.PAUSED:
        return Standing(has_room=not needs_room, lacking=Lacking.NODES)
    if asks:
        return Standing(has_room=not needs_room, lacking=Lacking.ROOM if lacks_room else None)
    if until is not None and not is_reserved:
        return Standing(until=until)
    if not_asked is not None and not_asked.kind is NotAskedKind.TOO_FEW and not_asked.have:
        return Standing(lacking=Lacking.PODS_OF_TASK if not_asked.task else Lacking.PODS)
    return Standing()
