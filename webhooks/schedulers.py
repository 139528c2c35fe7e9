"""Who creates members that name a scheduler of which there is no sign is told that they may never start.

Kubernetes' own, those that setting `schedulers` names and the one that Sluice brings count as there. Of any
other there is a sign if a member of it was scheduled, or tried, within a day (`queues.untaken`).
"""

from __future__ import annotations

from collections.abc import Iterable

from cluster.cache.store import Store
from cluster.objects import WorkloadObject
from queues.messages import truncate_warning
from queues.untaken import is_seen, unseen_warning
from queues.world.members import DEFAULT_SCHEDULER
from queues.world.workloads import pod_templates
from webhooks.settings import AdmissionSettings


def scheduler_warnings(obj: WorkloadObject, *, store: Store, settings: AdmissionSettings) -> tuple[str, ...]:
    """For a workload: of the first scheduler of its templates that was not seen."""
    named = (template.spec.scheduler_name or obj.spec.scheduler_name for _, template in pod_templates(obj))
    return names_unseen(named, store=store, settings=settings)


def names_unseen(schedulers: Iterable[str], *, store: Store, settings: AdmissionSettings) -> tuple[str, ...]:
    """The warning for the first of them that was not seen; none where all were."""
    known = {
        "",
        DEFAULT_SCHEDULER,
        *settings.marked_schedulers,
        *store.membership_settings.calling_schedulers,
    }
    signs, now = store.members.schedulers, store.clock.now()
    for scheduler in schedulers:
        if scheduler not in known and not is_seen(signs.last_sign(scheduler), now=now):
            return (truncate_warning(unseen_warning(scheduler)),)
    return ()
