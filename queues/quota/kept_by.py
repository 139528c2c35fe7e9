"""The rules by which single pods are no victims, and how they are told."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum, unique

from queues.metadata.keys import PREEMPTABLE


@unique
class KeptBy(StrEnum):
    """Which rule keeps a pod, whatever its queue lends. In this order they are told."""

    NOT_PREEMPTABLE = "not-preemptable"
    DAEMON = "daemon"
    CRITICAL = "critical"
    PRIORITY = "priority"
    BUDGET = "budget"
    #: Something of its gang would stay, and less than its minimum.
    GANG = "gang"
    #: What it uses would be kept for its PodGroup (`minResources`).
    KEPT_ROOM = "kept-room"
    #: Its workload gave back, and it was let in again a moment ago. The leader knows.
    LET_IN = "let-in"
    #: Its eviction was refused a moment ago. The leader knows.
    REFUSED = "refused"


#: What one, and what several of them do.
_TEXTS = {
    KeptBy.NOT_PREEMPTABLE: (f"says {PREEMPTABLE}: false", f"say {PREEMPTABLE}: false"),
    KeptBy.DAEMON: ("is of a DaemonSet", "are of DaemonSets"),
    KeptBy.CRITICAL: ("is critical to the system", "are critical to the system"),
    KeptBy.PRIORITY: ("has no lower priority", "have no lower priority"),
    KeptBy.BUDGET: ("is kept by a disruption budget", "are kept by disruption budgets"),
    KeptBy.GANG: ("is of a gang that goes whole or not at all", "are of gangs that go whole or not at all"),
    KeptBy.KEPT_ROOM: (
        "is of a PodGroup for which minResources are kept",
        "are of PodGroups for which minResources are kept",
    ),
    KeptBy.LET_IN: ("was let in again less than a minute ago", "were let in again less than a minute ago"),
    KeptBy.REFUSED: ("could not be evicted a moment ago", "could not be evicted a moment ago"),
}


def kept_text(kept: Iterable[tuple[KeptBy, int]]) -> str:
    """How many pods each rule keeps: `6 say volcano.sh/preemptable: false, 1 is critical to the system`."""
    return ", ".join(f"{number} {_TEXTS[rule][number != 1]}" for rule, number in kept)
