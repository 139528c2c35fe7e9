"""Queues in place of ClusterQueues, Cohorts and LocalQueues.

A Cohort is a queue, and so is each ClusterQueue, below that of its Cohort. `names` has what LocalQueues are,
`limits` what each may use, `fields` what becomes of each field. Beside the table of fields:

- Only namespaces with a LocalQueue can submit to a ClusterQueue. So its queue selects these, beside what the
  ClusterQueue selects itself, and that of a Cohort selects those of all below it.
- The strictest stop policy of a ClusterQueue and of the LocalQueues that are its queue counts.
- `dequeueStrategy` is about a queue's own pods. So queues below a ClusterQueue have it, too.
- Weights count among siblings: they are multiplied until all are whole numbers.

Invariants
- Each queue comes after its parent.
- Never raises; what cannot be converted is a fault of the report.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import msgspec

from kubectl_queue.kueue.decoding import NO_NAMESPACE
from kubectl_queue.kueue.fields import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE
from kubectl_queue.kueue.limits import CohortTree, KueueLimits, LimitsByName, cohort_tree, limits_of
from kubectl_queue.kueue.model import ClusterQueue, Cohort, Kueue, LocalQueue
from kubectl_queue.kueue.names import Leaf, QueueNames, queue_names
from kubectl_queue.kueue.preemption import policies, policy_name
from kubectl_queue.kueue.report import Report
from queues.apimachinery.quantities import ResourceAmounts, format_quantity
from queues.namespace_selectors import EXPRESSIONS_LIMIT, LABELS_LIMIT, NAME_LABEL, VALUES_LIMIT
from queues.states import StopPolicy
from queues.text import join_limited

#: Of the amounts of a Queue (`manifests/crds/queues.yaml`).
RESOURCES_LIMIT = 256
#: Levels of queues below root, unless the server's setting `depth_limit` says otherwise.
DEPTH_LIMIT = 5
#: What weights are multiplied by at most, and the greatest.
_FACTOR_LIMIT, _WEIGHT_LIMIT = 1000, 2**31 - 1
_NAMES = 3

QueueSpecBody = dict[str, Any]


class ConvertedQueue(msgspec.Struct, frozen=True, kw_only=True):
    """`origin`: what it was, in words."""

    name: str
    origin: str
    spec: Mapping[str, Any]


class Conversion(msgspec.Struct, frozen=True, kw_only=True):
    """`policies`: texts of scheduling policies that queues name, by key."""

    queues: Sequence[ConvertedQueue]
    policies: Mapping[str, str]


def convert(kueue: Kueue, *, report: Report) -> Conversion:
    tree = cohort_tree(kueue)
    kueue = _without_cycles(kueue, tree, report)
    made = _Queues(kueue, tree, report)
    for parent in (None, *tree.cohorts):
        above = parent.name if parent else ""
        siblings: list[Cohort | ClusterQueue] = [*tree.below.get(above, ()), *tree.queues.get(above, ())]
        made.add(siblings, below=parent)
    return Conversion(queues=made.queues, policies=policies(kueue.cluster_queues.values()))


def _without_cycles(kueue: Kueue, tree: CohortTree, report: Report) -> Kueue:
    """Without the ClusterQueues whose Cohorts have no topmost one."""
    if not tree.cyclic:
        return kueue
    cyclic = set(tree.cyclic)
    lost = [queue.name for queue in kueue.cluster_queues.values() if queue.cohort in cyclic]
    for kind, names in ((COHORT, tree.cyclic), (CLUSTER_QUEUE, sorted(lost))):
        for name in names:
            report.fault(kind, name, "is in a cycle of Cohorts, or below one; it is not converted")
    return Kueue(
        cluster_queues={name: each for name, each in kueue.cluster_queues.items() if name not in lost},
        cohorts={name: each for name, each in kueue.cohorts.items() if name not in cyclic},
        local_queues=tuple(each for each in kueue.local_queues if each.cluster_queue not in lost),
    )


class _Queues:
    """The queues of one conversion, as they are made."""

    def __init__(self, kueue: Kueue, tree: CohortTree, report: Report) -> None:
        self.queues: list[ConvertedQueue] = []
        self._names: QueueNames = queue_names(kueue, tree, report=report)
        self._limits: LimitsByName = limits_of(kueue, tree)
        self._namespaces = _Namespaces(tree, self._names)
        self._levels: dict[str, int] = {"": 0}
        self._report = report

    def add(self, siblings: Sequence[Cohort | ClusterQueue], *, below: Cohort | None) -> None:
        """Those below one Cohort, or the topmost, which no weight concerns: they share nothing."""
        weights = _whole_weights([each.weight for each in siblings]) if below else None
        for index, node in enumerate(siblings):
            kind = COHORT if isinstance(node, Cohort) else CLUSTER_QUEUE
            spec: QueueSpecBody = {}
            if below:
                spec["parent"] = self._names.cohorts[below.name]
            if weights:
                spec["weight"] = weights[index]
                self._say_weight(kind, node.name, node.weight, exact=weights.exact)
            level = self._levels[below.name if below else ""] + 1
            if isinstance(node, Cohort):
                self._add_cohort(node, spec, level)
            else:
                self._add_cluster_queue(node, spec, level)

    def _add_cohort(self, cohort: Cohort, spec: QueueSpecBody, level: int) -> None:
        self._levels[cohort.name] = level
        spec |= self._amounts(COHORT, cohort.name, self._limits.cohorts[cohort.name])
        selector = self._selector(COHORT, cohort.name, {}, self._namespaces.of_cohort(cohort.name))
        self._append(COHORT, cohort.name, self._names.cohorts[cohort.name], spec | selector, level)

    def _add_cluster_queue(self, queue: ClusterQueue, spec: QueueSpecBody, level: int) -> None:
        name, merged = self._names.queues[queue.name], self._names.merged[queue.name]
        leaves = self._names.leaves[queue.name]
        spec |= self._amounts(CLUSTER_QUEUE, queue.name, self._limits.queues[queue.name])
        own = queue.selector
        if own is None:
            text = "selects no namespace, as an absent one does in Kueue"
            self._report.lost(CLUSTER_QUEUE, queue.name, text, field="spec.namespaceSelector")
            own = NO_NAMESPACE
        namespaces = self._namespaces.of_queue(queue.name)
        if not namespaces:
            text = "has no LocalQueue: no namespace may use its queue until spec.namespaceSelector says which"
            self._report.lost(CLUSTER_QUEUE, queue.name, text)
        spec |= self._selector(CLUSTER_QUEUE, queue.name, own, namespaces)
        spec |= _stop([queue.stop, *(each.stop for each in merged)])
        order: QueueSpecBody = {"dequeueStrategy": "fifo"} if queue.strict else {}
        if order and leaves:
            text = "StrictFIFO holds in each queue below it, and not between them"
            self._report.lost(CLUSTER_QUEUE, queue.name, text, field="spec.queueingStrategy")
        if policy := policy_name(queue):
            spec["schedulerPolicy"] = policy
        self._say_flavors(queue)
        self._append(CLUSTER_QUEUE, queue.name, name, spec | order, level, merged)
        self._add_leaves(leaves, name, order, level + 1)

    def _add_leaves(self, leaves: Sequence[Leaf], parent: str, order: QueueSpecBody, level: int) -> None:
        weights = _whole_weights([leaf.local_queues[0].weight for leaf in leaves])
        for index, leaf in enumerate(leaves):
            first = leaf.local_queues[0]
            spec: QueueSpecBody = {"parent": parent, **order, **_stop([first.stop])}
            if weights:
                spec["weight"] = weights[index]
                self._say_weight(LOCAL_QUEUE, first.path, first.weight, exact=weights.exact)
            namespaces = sorted({each.namespace for each in leaf.local_queues})
            spec |= self._selector(LOCAL_QUEUE, first.path, {}, namespaces)
            self._append(LOCAL_QUEUE, first.path, leaf.name, spec, level, leaf.local_queues)

    def _append(
        self,
        kind: str,
        name: str,
        queue: str,
        spec: QueueSpecBody,
        level: int,
        local_queues: Sequence[LocalQueue] = (),
    ) -> None:
        if level > DEPTH_LIMIT:
            text = f"its queue is more than {DEPTH_LIMIT} levels below root: raise setting depth_limit first"
            self._report.lost(kind, name, text)
        paths = join_limited([each.path for each in local_queues], limit=_NAMES)
        if kind == LOCAL_QUEUE:
            origin = f"{kind} {paths}"
        else:
            origin = f"{kind} {name}" + (f", {LOCAL_QUEUE} {paths}" if paths else "")
        self.queues.append(ConvertedQueue(name=queue, origin=origin, spec=spec))

    def _amounts(self, kind: str, name: str, limits: KueueLimits) -> QueueSpecBody:
        fields = limits._asdict()
        if len(limits.capability) > RESOURCES_LIMIT:
            named = {resource: amount for resource, amount in limits.capability.items() if amount}
            fields["capability"] = named
            text = (
                f"resources of which it may use nothing are left out: there are more than {RESOURCES_LIMIT}"
            )
            self._report.lost(kind, name, text)
            if len(named) > RESOURCES_LIMIT:
                text = f"has more than {RESOURCES_LIMIT} resources: the API server refuses the queue"
                self._report.fault(kind, name, text)
        spec: QueueSpecBody = {field: _shown(amounts) for field, amounts in fields.items() if amounts}
        if "guarantee" in spec:
            spec["guarantee"] = {"resource": spec["guarantee"]}
        return spec

    def _selector(
        self, kind: str, name: str, own: Mapping[str, Any], namespaces: Sequence[str]
    ) -> QueueSpecBody:
        if not namespaces or own == NO_NAMESPACE:
            return {"namespaceSelector": NO_NAMESPACE}
        selector = dict(own)
        if len(namespaces) <= VALUES_LIMIT:
            here = {"key": NAME_LABEL, "operator": "In", "values": list(namespaces)}
            selector["matchExpressions"] = [*own.get("matchExpressions", ()), here]
        else:
            text = (
                f"its LocalQueues are in {len(namespaces):,} namespaces, and a selector names "
                f"{VALUES_LIMIT}: namespaces without a LocalQueue may use its queue, too"
            )
            self._report.lost(kind, name, text)
        expressions = selector.get("matchExpressions", ())
        if len(expressions) > EXPRESSIONS_LIMIT or len(selector.get("matchLabels", ())) > LABELS_LIMIT:
            text = "is larger than that of a queue may be: no namespace is selected"
            self._report.lost(kind, name, text, field="spec.namespaceSelector")
            return {"namespaceSelector": NO_NAMESPACE}
        return {"namespaceSelector": selector} if selector else {}

    def _say_weight(self, kind: str, name: str, weight: Fraction, *, exact: bool) -> None:
        if weight == 0:
            text = "0 is last of all in Kueue; here it is the smallest weight"
            self._report.lost(kind, name, text, field="spec.fairSharing.weight")
        elif not exact:
            text = "is rounded: weights of queues are whole numbers"
            self._report.lost(kind, name, text, field="spec.fairSharing.weight")

    def _say_flavors(self, queue: ClusterQueue) -> None:
        flavors: dict[str, set[str]] = {}
        for resource, flavor in queue.quotas:
            flavors.setdefault(resource, set()).add(flavor)
        if any(len(several) > 1 for several in flavors.values()):
            text = "flavors of one resource are one limit, their sum; to limit each, make a queue for each"
            self._report.lost(CLUSTER_QUEUE, queue.name, text, field="spec.resourceGroups")


class _Namespaces:
    """Those that have a LocalQueue, in the order of names."""

    def __init__(self, tree: CohortTree, names: QueueNames) -> None:
        self._of_queue = {
            name: sorted({each.namespace for each in _local_queues(names, name)}) for name in names.queues
        }
        self._of_cohort: dict[str, list[str]] = {}
        for cohort in reversed(tree.cohorts):
            below = [
                *(self._of_cohort[child.name] for child in tree.below.get(cohort.name, ())),
                *(self._of_queue[queue.name] for queue in tree.queues.get(cohort.name, ())),
            ]
            self._of_cohort[cohort.name] = sorted({each for part in below for each in part})

    def of_queue(self, name: str) -> Sequence[str]:
        return self._of_queue[name]

    def of_cohort(self, name: str) -> Sequence[str]:
        return self._of_cohort[name]


def _local_queues(names: QueueNames, queue: str) -> Iterator[LocalQueue]:
    yield from names.merged[queue]
    for leaf in names.leaves[queue]:
        yield from leaf.local_queues


def _stop(policies: Iterable[StopPolicy]) -> QueueSpecBody:
    strictest = max(policies, key=lambda policy: policy.strictness)
    return {} if strictest is StopPolicy.NONE else {"stopPolicy": strictest.value}


def _shown(amounts: ResourceAmounts) -> dict[str, str]:
    return {resource: format_quantity(amount, resource) for resource, amount in amounts.items()}


class _Weights(tuple[int, ...]):
    """`exact`: whether they are in the proportion that was asked for."""

    exact = True


def _whole_weights(weights: Sequence[Fraction]) -> _Weights | None:
    """Whole numbers of the same proportion; None where all are equal. 0 counts as the smallest."""
    if len(set(weights)) < 2:
        return None
    factor = math.lcm(*(weight.denominator for weight in weights))
    exact = factor <= _FACTOR_LIMIT
    scaled = [max(1, math.ceil(weight * min(factor, _FACTOR_LIMIT))) for weight in weights]
    common = math.gcd(*scaled)
    whole = _Weights(min(value // common, _WEIGHT_LIMIT) for value in scaled)
    whole.exact = exact and max(scaled) // common <= _WEIGHT_LIMIT
    return whole
