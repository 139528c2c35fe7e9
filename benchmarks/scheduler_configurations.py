"""The scheduler's configurations that are put beside one another."""

from __future__ import annotations

from pathlib import Path

from localcluster.scheduler_config import Configuration, Edit, without_extenders

#: What we recommend for up to some thousand nodes: the scheduler then looks at 100 nodes that fit (its own
#: least) or 5 %, and sends us no more names than that.
RECOMMENDED_PERCENTAGE = 5


def plain(percentage: int = 0) -> Edit:
    """A scheduler that has never heard of us; 0: it decides by itself how many nodes it looks at."""

    def edit(configuration: Configuration) -> None:
        without_extenders(configuration)
        configuration["percentageOfNodesToScore"] = percentage

    return edit


def ours(percentage: int = RECOMMENDED_PERCENTAGE) -> Edit:
    """The project's own example, at that percentage."""

    def edit(configuration: Configuration) -> None:
        configuration["percentageOfNodesToScore"] = percentage

    return edit


def asking(url: str, *, ca: Path, percentage: int = RECOMMENDED_PERCENTAGE) -> Edit:
    """The same, but the extender is another one."""

    def edit(configuration: Configuration) -> None:
        configuration["percentageOfNodesToScore"] = percentage
        for extender in configuration["extenders"]:
            extender["urlPrefix"] = url
            extender["tlsConfig"] = {"caFile": str(ca)}

    return edit
