"""Pods that no scheduler takes: they name a scheduler that does not run. Pure.

Pods of Kubernetes' own scheduler do not count as untaken, nor do those of a scheduler that calls Sluice: its
silence is an outage. Any other scheduler shows that it runs by what it does with members:

| a sign of a scheduler of that name                                                  |
|-------------------------------------------------------------------------------------|
| a pod of it got a node                                                              |
| condition `PodScheduled` of a pod of it is False, for a reason that it wrote itself |

A pod without a gate is untaken once its scheduler has given no sign for `TAKE_SECONDS`, or for the time that
annotation `sluice.dev/place-within` of the pod gives. Then, in this order:

| step                    | where it shows                                                            |
|-------------------------|---------------------------------------------------------------------------|
| it is said              | condition `PodScheduled` of the pod, reason `SchedulerNotSeen`; an event   |
|                         | on the pod and on the workload that the user created                      |
| it is given up          | annotation `sluice.dev/untaken`: filter and the bind guard refuse the     |
|                         | pod, and it is not asked for. It still counts as used                     |
| its room goes to others | label `sluice.dev/released` is removed: the pod counts nowhere. This      |
|                         | follows once no bind of the pod can be stored any more                    |
|                         | (`controller.pods.untaken_pods`)                                          |
| it is asked for again   | once its scheduler gives a sign, or after a pause: 10 min, twice as long  |
|                         | each time, an hour at most                                                |

The pods of a gang give back as gangs do (`queues.quota.gang_rivals`).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from queues.text import quoted

#: The reason of the condition and of the events.
SCHEDULER_NOT_SEEN = "SchedulerNotSeen"
#: As long as a gang has to be on nodes.
TAKE_SECONDS = 300.0
PAUSE_SECONDS, MAX_PAUSE_SECONDS = 600.0, 3600.0
#: A sign holds for so long, for who creates a pod.
SIGN_HOLDS = timedelta(days=1)
#: Characters of a scheduler's name that a line shows.
_NAME = 40


def untaken_text(scheduler: str) -> str:
    """Why the pod waits, and the way out."""
    name = quoted(scheduler, limit=_NAME)
    return f"no scheduler named {name} has taken this pod: run one, or remove schedulerName from its template"


def unseen_warning(scheduler: str) -> str:
    """For who creates pods that name a scheduler of which there is no sign."""
    name = quoted(scheduler, limit=_NAME)
    return f"no scheduler named {name} was seen here: if it does not run, the pods never start"


def is_seen(sign: datetime | None, *, now: datetime) -> bool:
    """Whether the last sign of a scheduler says that it runs."""
    return sign is not None and now - sign < SIGN_HOLDS


def is_untaken(*, since: datetime, seconds: float, sign: datetime | None, now: datetime) -> bool:
    """Whether no scheduler has taken a pod that could be taken since then. `seconds`: its time."""
    return now - since >= timedelta(seconds=seconds) and (sign is None or sign <= since)


def pause_seconds(times: int) -> float:
    """How long a pod is not asked for that was given up so often."""
    return min(MAX_PAUSE_SECONDS, PAUSE_SECONDS * 2.0 ** min(times - 1, 16))
