"""Which pods a scheduling policy schedules: those that one of its actions is for.

| the pod                          | goes only where its policy has the action |
|----------------------------------|-------------------------------------------|
| has resource requests            | `allocate`                                |
| has none                         | `backfill`                                |

Our own marker resources are no requests. Without a policy every pod is scheduled.

Sources: Volcano's `actions/allocate` and `actions/backfill`, which share the pods between them in this way.
"""

from __future__ import annotations

from queues.causes import MissingAction
from queues.policies.resolution import PolicySource, Resolution

ALLOCATE, BACKFILL = "allocate", "backfill"


def missing_action(resolution: Resolution, *, queue: str, has_requests: bool) -> MissingAction | None:
    """The action that the policy of a pod lacks, so that the pod goes to no node; None: it is scheduled."""
    action = ALLOCATE if has_requests else BACKFILL
    if resolution.policy is None or action in resolution.policy.actions:
        return None
    return MissingAction(
        action=action,
        has_requests=has_requests,
        queue=queue,
        policy=resolution.name,
        by=resolution.queue,
        by_job=resolution.source is PolicySource.JOB,
    )
