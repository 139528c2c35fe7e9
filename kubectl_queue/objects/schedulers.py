"""Which schedulers workloads name, and which pods no scheduler takes (`queues.untaken`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kubectl_queue.objects.fields import Object, condition_of, spec_of, value_at
from queues.untaken import SCHEDULER_NOT_SEEN
from queues.why.explanation import DEFAULT_SCHEDULER


def names_other_scheduler(item: Object) -> bool:
    """Whether a workload names another scheduler than Kubernetes' own, in its template or its spec."""
    spec = spec_of(item)
    templates = [spec.get("template"), *(each.get("template") for each in spec.get("tasks") or ())]
    named = [spec.get("schedulerName"), *(value_at(each or {}, "spec.schedulerName") for each in templates)]
    return any(name and name != DEFAULT_SCHEDULER for name in named)


def untaken_by_scheduler(pods: Iterable[Object]) -> Counter[str]:
    """How many pods each scheduler has not taken, by its name."""
    return Counter(
        str(spec_of(pod).get("schedulerName") or "")
        for pod in pods
        if condition_of(pod, "PodScheduled").get("reason") == SCHEDULER_NOT_SEEN
    )
