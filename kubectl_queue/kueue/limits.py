"""What ClusterQueues and Cohorts may use, as the three amounts of a Queue.

A Cohort has what it names itself, and what those below it have. Of one resource, flavors are added up.

| of                          | `capability`                       | `deserved`  | `guarantee`             |
|-----------------------------|------------------------------------|-------------|-------------------------|
| a ClusterQueue of no Cohort | its nominal quota                  | none        | none                    |
| a ClusterQueue of a Cohort  | nominal quota and borrowing limit, | its nominal | its nominal quota less  |
|                             | where each flavor has that limit   | quota       | its lending limit       |
| a Cohort below another one  | what it has and its borrowing      | what it has | what it does not lend,  |
|                             | limit, likewise                    |             | and that of those below |
| a topmost Cohort            | what it has                        | none        | that of those below it  |

- A ClusterQueue uses nothing of a flavor that it does not name: of what its Cohorts have of that flavor its
  capability leaves out.
- A capability that bounds no more than the one above it is left out.
- A resource that some ClusterQueue or Cohort names, and none of a tree does, is 0 in that tree: Kueue admits
  no such work. `pods` is excepted: Kueue counts pods only where a queue names them.

Promise: the most that a ClusterQueue can use, of a resource with one flavor, is the same as in Kueue: the
least capability on its chain, less what others are guaranteed beside it at each level.

Source: Kueue 0.17.0, `pkg/cache/scheduler/resource_node.go` (potentialAvailable).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from kubectl_queue.kueue.model import ClusterQueue, Cohort, FlavorQuota, FlavorResource, Kueue, Quotas
from queues.apimachinery.quantities import MAX_AMOUNT, Amount, ResourceAmounts, sum_amounts

_PairAmounts = Mapping[FlavorResource, Amount]
#: Counted by Kueue only where a queue names it.
_PODS = "pods"
_NO_QUOTA = FlavorQuota(0)
_Key = TypeVar("_Key")


class KueueLimits(NamedTuple):
    """By resource; none is an empty mapping."""

    capability: ResourceAmounts
    deserved: ResourceAmounts
    guarantee: ResourceAmounts


class CohortTree(NamedTuple):
    """`cohorts`: each after its parent, those without an object included. `below`, `queues`: by the name of
    the Cohort above; "" for none. `cyclic`: Cohorts in a cycle and below one, which are in no other part.
    """

    cohorts: Sequence[Cohort]
    below: Mapping[str, Sequence[Cohort]]
    queues: Mapping[str, Sequence[ClusterQueue]]
    cyclic: Sequence[str]


def cohort_tree(kueue: Kueue) -> CohortTree:
    known = dict(kueue.cohorts)
    named = [queue.cohort for queue in kueue.cluster_queues.values()]
    for name in (*named, *(cohort.parent for cohort in kueue.cohorts.values())):
        if name:
            known.setdefault(name, Cohort(name=name))
    below: dict[str, list[Cohort]] = {}
    for _, cohort in sorted(known.items()):
        below.setdefault(cohort.parent, []).append(cohort)
    ordered = list(below.get("", ()))
    for cohort in ordered:  # it grows meanwhile
        ordered += below.get(cohort.name, ())
    queues: dict[str, list[ClusterQueue]] = {}
    for _, queue in sorted(kueue.cluster_queues.items()):
        queues.setdefault(queue.cohort, []).append(queue)
    return CohortTree(ordered, below, queues, sorted(known.keys() - {each.name for each in ordered}))


class LimitsByName(NamedTuple):
    queues: Mapping[str, KueueLimits]
    cohorts: Mapping[str, KueueLimits]


def limits_of(kueue: Kueue, tree: CohortTree) -> LimitsByName:
    """Those of all ClusterQueues and Cohorts of the tree."""
    absent = dict.fromkeys(_all_resources(kueue), 0)
    had, guaranteed = _totals(tree), _guarantees(tree)
    queues, cohorts = {}, {}
    for queue in tree.queues.get("", ()):
        queues[queue.name] = KueueLimits({**absent, **_sums(_nominal(queue.quotas))}, {}, {})
    allowed: dict[str, ResourceAmounts] = {}
    whole: dict[str, _PairAmounts] = {}
    for cohort in tree.cohorts:
        name, own = cohort.name, had[cohort.name]
        whole[name] = whole.get(cohort.parent, own)
        if not cohort.parent:
            allowed[name] = {**absent, **_sums(own)}
            cohorts[name] = KueueLimits(allowed[name], {}, guaranteed[name])
        else:
            most = {pair: _most(pair, own, cohort.quotas, whole[name]) for pair in whole[name]}
            bounds = _tighter(_sums(most), allowed[cohort.parent])
            allowed[name] = {**allowed[cohort.parent], **bounds}
            cohorts[name] = KueueLimits(bounds, _sums(own), guaranteed[name])
        for queue in tree.queues.get(name, ()):
            nominal = _nominal(queue.quotas)
            most = {pair: _most(pair, nominal, queue.quotas, whole[name]) for pair in queue.quotas}
            nothing = {resource: 0 for resource in allowed[name] if resource != _PODS}
            bounds = _tighter({**nothing, **_sums(most)}, allowed[name])
            queues[queue.name] = KueueLimits(bounds, _sums(nominal), _kept(queue.quotas, nominal))
    return LimitsByName(queues, cohorts)


def _all_resources(kueue: Kueue) -> list[str]:
    nodes: Iterable[ClusterQueue | Cohort] = (*kueue.cluster_queues.values(), *kueue.cohorts.values())
    return sorted({resource for node in nodes for resource, _ in node.quotas} - {_PODS})


def _nominal(quotas: Quotas) -> _PairAmounts:
    return {pair: quota.nominal for pair, quota in quotas.items()}


def _totals(tree: CohortTree) -> Mapping[str, _PairAmounts]:
    """What each Cohort has, with all below it."""
    totals: dict[str, _PairAmounts] = {}
    for cohort in reversed(tree.cohorts):
        parts = [
            _nominal(cohort.quotas),
            *(totals[child.name] for child in tree.below.get(cohort.name, ())),
            *(_nominal(queue.quotas) for queue in tree.queues.get(cohort.name, ())),
        ]
        totals[cohort.name] = _added(parts)
    return totals


def _guarantees(tree: CohortTree) -> Mapping[str, ResourceAmounts]:
    """What each Cohort does not lend, with what those below it do not."""
    kept: dict[str, ResourceAmounts] = {}
    shared: dict[str, _PairAmounts] = {}
    for cohort in reversed(tree.cohorts):
        children = tree.below.get(cohort.name, ())
        queues = tree.queues.get(cohort.name, ())
        lent = _added(
            [
                _nominal(cohort.quotas),
                *(shared[child.name] for child in children),
                *(_lent(queue.quotas, _nominal(queue.quotas)) for queue in queues),
            ]
        )
        parts = [
            _kept(cohort.quotas, lent) if cohort.parent else {},
            *(kept[child.name] for child in children),
            *(_kept(queue.quotas, _nominal(queue.quotas)) for queue in queues),
        ]
        kept[cohort.name] = _added(parts)
        shared[cohort.name] = _lent(cohort.quotas, lent) if cohort.parent else lent
    return kept


def _lent(quotas: Quotas, amounts: _PairAmounts) -> _PairAmounts:
    """What others may use of these amounts."""
    return {pair: amount - _kept_of(pair, quotas, amount) for pair, amount in amounts.items()}


def _kept(quotas: Quotas, amounts: _PairAmounts) -> ResourceAmounts:
    """What they may not, by resource; without zeros."""
    kept = _sums({pair: _kept_of(pair, quotas, amount) for pair, amount in amounts.items()})
    return {resource: amount for resource, amount in kept.items() if amount}


def _kept_of(pair: FlavorResource, quotas: Quotas, amount: Amount) -> Amount:
    lending = quotas.get(pair, _NO_QUOTA).lending
    return 0 if lending is None else max(0, amount - lending)


def _most(pair: FlavorResource, had: _PairAmounts, quotas: Quotas, whole: _PairAmounts) -> Amount:
    """What may be used of one flavor, by the borrowing limit. `whole`: what the topmost Cohort has."""
    borrowing = quotas.get(pair, _NO_QUOTA).borrowing
    most = whole.get(pair, 0)
    return most if borrowing is None else min(most, sum_amounts([had.get(pair, 0), borrowing]))


def _tighter(bounds: ResourceAmounts, above: ResourceAmounts) -> ResourceAmounts:
    """Those that bound more than what is allowed above."""
    return {
        resource: amount
        for resource, amount in bounds.items()
        if resource not in above or amount < above[resource]
    }


def _added(parts: Iterable[Mapping[_Key, Amount]]) -> dict[_Key, Amount]:
    gathered: dict[_Key, list[Amount]] = {}
    for part in parts:
        for key, amount in part.items():
            gathered.setdefault(key, []).append(amount)
    return {key: min(sum_amounts(amounts), MAX_AMOUNT) for key, amounts in gathered.items()}


def _sums(amounts: _PairAmounts) -> dict[str, Amount]:
    """By resource, flavors added up, in the order of names."""
    return dict(sorted(_added({resource: amount} for (resource, _), amount in amounts.items()).items()))
