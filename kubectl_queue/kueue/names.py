"""Which queue each LocalQueue is, and how the queues are called.

Label `kueue.x-k8s.io/queue-name` of work names a LocalQueue of the work's namespace. Here it names a queue
of the cluster, where setting `kueue_label` is on. So a queue has the name of its LocalQueues where that name
says which queue is meant, in all namespaces.

| LocalQueues                                          | what they are                                    |
|------------------------------------------------------|--------------------------------------------------|
| all of one ClusterQueue have one name, and no others | the queue of the ClusterQueue, under that name   |
| one ClusterQueue has several names                   | queues of these names below the ClusterQueue's   |
| one name has several ClusterQueues, stops or weights | the queue of the ClusterQueue; those with a stop |
|                                                      | or a weight of their own among others: a queue   |
|                                                      | NAMESPACE-NAME below it                          |

The names `root` and `default` say nothing: these queues are there already. A ClusterQueue or a Cohort whose
name is taken has `-clusterqueue` or `-cohort` behind it: the names of LocalQueues go first, since work has
them.

Invariant: no two queues have one name, and each name is one that a queue can have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count

import msgspec

from kubectl_queue.kueue.fields import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE
from kubectl_queue.kueue.limits import CohortTree
from kubectl_queue.kueue.model import Kueue, LocalQueue
from kubectl_queue.kueue.report import Report
from queues.membership import KUEUE_LABEL
from queues.queue import DEFAULT, ROOT
from queues.states import StopPolicy
from queues.text import NAME_LIMIT, quoted

#: Characters of a name that is given a suffix: enough is left for the longest suffix.
_STEM = NAME_LIMIT - 30


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """A queue below that of a ClusterQueue. `local_queues`: what it is; all have one stop and one weight."""

    name: str
    local_queues: Sequence[LocalQueue]


class QueueNames(msgspec.Struct, frozen=True, kw_only=True):
    """By the names of ClusterQueues and Cohorts. `merged`: the LocalQueues that are the ClusterQueue's own
    queue. `leaves`: the queues below it.
    """

    queues: Mapping[str, str]
    cohorts: Mapping[str, str]
    merged: Mapping[str, Sequence[LocalQueue]]
    leaves: Mapping[str, Sequence[Leaf]]


def queue_names(kueue: Kueue, tree: CohortTree, *, report: Report) -> QueueNames:
    of_queue: dict[str, list[LocalQueue]] = {name: [] for name in sorted(kueue.cluster_queues)}
    of_name: dict[str, list[LocalQueue]] = {}
    for local in kueue.local_queues:
        of_queue[local.cluster_queue].append(local)
        of_name.setdefault(local.name, []).append(local)
    unique = {name for name, those in of_name.items() if _is_unique(name, those)}
    _say_ambiguous(of_name.keys() - unique, report)
    free = _FreeNames({ROOT, DEFAULT, *unique}, report)
    shares = {name: _Share.of(those, unique) for name, those in of_queue.items()}
    queues = {
        name: share.own_name or free.take(name, CLUSTER_QUEUE, name, suffix="clusterqueue")
        for name, share in shares.items()
    }
    for name, share in shares.items():
        if share.own_name not in ("", name):
            text = f"is queue {quoted(share.own_name)}, as its LocalQueues are called"
            report.lost(CLUSTER_QUEUE, name, text)
    return QueueNames(
        queues=queues,
        cohorts={
            cohort.name: free.take(cohort.name, COHORT, cohort.name, suffix="cohort")
            for cohort in tree.cohorts
        },
        merged={name: share.merged for name, share in shares.items()},
        leaves={
            name: [_leaf(those, unique, free) for those in share.leaves] for name, share in shares.items()
        },
    )


def _is_unique(name: str, those: Sequence[LocalQueue]) -> bool:
    """Whether the name alone says which queue is meant."""
    return name not in (ROOT, DEFAULT) and len({each.cluster_queue for each in those}) == 1 and _alike(those)


def _alike(those: Iterable[LocalQueue]) -> bool:
    return len({(each.stop, each.weight) for each in those}) == 1


def _say_ambiguous(names: Iterable[str], report: Report) -> None:
    for name in sorted(names):
        text = (
            f"this name leads to different queues in different namespaces, and label {KUEUE_LABEL} names one "
            "queue of the cluster: leave setting kueue_label off, and have each namespace name its queue"
        )
        if name in (ROOT, DEFAULT):
            text = (
                f"is the name of a queue that is there already, which label {KUEUE_LABEL} would mean: leave "
                "setting kueue_label off, and have each namespace name its queue"
            )
        report.lost(LOCAL_QUEUE, name, text)


class _Share(msgspec.Struct, frozen=True, kw_only=True):
    """The LocalQueues of one ClusterQueue. `own_name`: of its own queue; "" where that has no such name."""

    own_name: str = ""
    merged: Sequence[LocalQueue] = ()
    leaves: Sequence[Sequence[LocalQueue]] = ()

    @classmethod
    def of(cls, those: Sequence[LocalQueue], unique: set[str]) -> _Share:
        by_name: dict[str, list[LocalQueue]] = {}
        others: list[LocalQueue] = []
        for each in those:
            if each.name in unique:
                by_name.setdefault(each.name, []).append(each)
            else:
                others.append(each)
        if not by_name and others and _alike(others):
            return cls(merged=others)
        if len(by_name) == 1 and not others:
            [(name, named)] = by_name.items()
            return cls(own_name=name, merged=named)
        plain = [each for each in others if each.stop is StopPolicy.NONE and each.weight == 1]
        apart = [[each] for each in others if each not in plain]
        return cls(merged=plain, leaves=[*by_name.values(), *apart])


def _leaf(those: Sequence[LocalQueue], unique: set[str], free: _FreeNames) -> Leaf:
    first = those[0]
    if first.name in unique:
        return Leaf(name=first.name, local_queues=those)
    name = free.take(f"{first.namespace}-{first.name}", LOCAL_QUEUE, first.path, suffix="localqueue")
    return Leaf(name=name, local_queues=those)


class _FreeNames:
    """Names that no queue of this conversion has yet."""

    def __init__(self, taken: set[str], report: Report) -> None:
        self._taken = taken
        self._report = report

    def take(self, wanted: str, kind: str, name: str, *, suffix: str) -> str:
        """`wanted`, or it with the suffix where that is taken or too long. `kind`, `name`: whose it is."""
        found = wanted if len(wanted) <= NAME_LIMIT else ""
        numbers = count(2)
        candidate = f"{wanted[:_STEM].rstrip('.-')}-{suffix}"
        stem = candidate
        while not found or found in self._taken:
            found, candidate = candidate, f"{stem}-{next(numbers)}"
        self._taken.add(found)
        if found != name:
            self._report.lost(kind, name, f"is queue {quoted(found)}")
        return found
