"""The scheduler's configurations that are put beside one another."""

from __future__ import annotations

from pathlib import Path

from localcluster.scheduler_config import Edit, SchedulerConfigBody, without_extenders

#: What we recommend for up to some thousand nodes: the scheduler then looks at 100 nodes that fit (its own
#: least) or 5 %, and sends us no more names than that.
RECOMMENDED_PERCENTAGE = 5


def plain(percentage: int = 0) -> Edit:
    """A scheduler that has never heard of us; 0: it decides by itself how many nodes it looks at."""

    def edit(configuration: SchedulerConfigBody) -> None:
        without_extenders(configuration)
        configuration["percentageOfNodesToScore"] = percentage

    return edit


def ours(percentage: int = RECOMMENDED_PERCENTAGE) -> Edit:
    """The project's own example, at that percentage."""

    def edit(configuration: SchedulerConfigBody) -> None:
        configuration["percentageOfNodesToScore"] = percentage

    return edit


def never_asking() -> Edit:
    """A scheduler that has never heard of us, with the least entry of an extender: it is asked about no pod.

    With any entry kube-scheduler computes no signatures of pods, so that it looks at all nodes again for each
    pod of the same kind (`computeBatchablePlugins` in its `framework/runtime`; `OpportunisticBatching`, by
    default since 1.35).
    """
    entry = {
        "urlPrefix": "http://127.0.0.1:9",
        "filterVerb": "filter",
        "nodeCacheCapable": True,
        "managedResources": [{"name": "bench.dev/nobody", "ignoredByScheduler": True}],
    }

    def edit(configuration: SchedulerConfigBody) -> None:
        configuration["extenders"] = [entry]
        configuration["percentageOfNodesToScore"] = 0

    return edit


def asking(url: str, *, ca: Path, percentage: int = RECOMMENDED_PERCENTAGE) -> Edit:
    """The same, but the extender is another one."""

    def edit(configuration: SchedulerConfigBody) -> None:
        configuration["percentageOfNodesToScore"] = percentage
        for extender in configuration["extenders"]:
            extender["urlPrefix"] = url
            extender["tlsConfig"] = {"caFile": str(ca)}

    return edit
