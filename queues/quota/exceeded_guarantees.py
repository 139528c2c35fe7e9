"""Condition GuaranteesMet of a queue: the queues below it are guaranteed more than its capability.

=============  ======  ==================  ===========================================================
type           status  reason              when
=============  ======  ==================  ===========================================================
GuaranteesMet  False   CapabilityExceeded  those right below ask for more than the capability, in all
absent                                     they do not, or it has no capability
=============  ======  ==================  ===========================================================

Each then gets its part (`queues.quota.guarantees`). Admission refuses most of such guarantees; they come by
a capability of `root`, and were stored by former versions. Nothing but specs, and who lends, changes the
condition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from queues.apimachinery.quantities import Amount
from queues.quota.guarantees import asked_guarantees
from queues.quota.report import sorted_resources
from queues.status.conditions import DerivedCondition
from queues.text import join_limited, quoted
from queues.tree import Tree

GUARANTEES_MET, CAPABILITY_EXCEEDED = "GuaranteesMet", "CapabilityExceeded"
#: Names in a message.
NAMES_LIMIT = 3


def exceeded_capabilities(tree: Tree, *, lending: Collection[str] = ()) -> Mapping[str, tuple[str, ...]]:
    """The queues whose capability is exceeded, with the resources. `lending`: as for guarantees."""
    if all(queue.guarantee is None for queue in tree.queues.values()):
        return {}
    asked = asked_guarantees(tree, lending=lending)
    found = {name: tuple(_exceeded(tree, name, asked)) for name in tree}
    return {name: resources for name, resources in found.items() if resources}


def guarantees_condition(queue: str, resources: Collection[str]) -> DerivedCondition | None:
    """`resources`: those in which its capability is exceeded."""
    if not resources:
        return None
    names = join_limited(sorted_resources(resources), limit=NAMES_LIMIT)
    text = (
        f"the queues below queue {quoted(queue)} are guaranteed more in all than its capability, of {names}: "
        "each gets its part"
    )
    return DerivedCondition(GUARANTEES_MET, False, CAPABILITY_EXCEEDED, text)


def _exceeded(tree: Tree, name: str, asked: Mapping[str, Mapping[str, Amount]]) -> Iterator[str]:
    children = [asked[child] for child in tree.children(name) if child in asked]
    for resource, most in tree.queues[name].capability or ():
        if sum(amounts.get(resource, 0) for amounts in children) > most:
            yield resource
