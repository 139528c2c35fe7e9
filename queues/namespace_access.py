"""Which namespaces may use a queue: those that every `spec.namespaceSelector` of its chain selects.

Invariants
- A narrower parent narrows its children and no child widens it: all selectors of a chain have to select.
- A queue without a selector on its chain has no restrictions: nobody's labels are looked at.
- Of a namespace whose labels are not known its name is: a selector that asks for more does not select it.
  That is so for the moment after its creation, in which the watch has not told of it.
- What is in a queue whose chain does not select its namespace keeps the queue neither from Closed, nor from
  Drained, nor from having queues below it.

What becomes of what is in, or comes to, a queue whose chain does not select its namespace:

| what                                                 | becomes                                            |
|------------------------------------------------------|----------------------------------------------------|
| a pod that runs                                      | goes on, and keeps nobody waiting                  |
| a pod that waits                                     | waits, says why, and goes once the labels match    |
| a pod of work that the queue had taken               | is taken with a gate, and waits                    |
| a pod of such work that names its node               | is refused: it would run at once                   |
| a new pod, workload or PodGroup, by whatever word    | is refused                                         |
| a workload or an empty PodGroup moved to the queue   | is refused; it stays where it is                   |
| a workload scaled from nothing                       | is refused: it is new work                         |
| a Job that a CronJob makes                           | is refused: it is new work                         |
| new work of a namespace whose labels are not known   | is taken, its pods with a gate, until they are     |
| a pod of such a namespace that names its node        | is refused: try again                              |
| the namespace, when it comes to name the queue       | is refused                                         |
| the namespace, which named it before                 | keeps its annotation; its work is as above         |

Work that the queue had taken is what is stored as its member: nothing new came in while the namespace was not
selected, so whatever is there came before.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from queues.apimachinery.label_selectors import Operator
from queues.namespace_selectors import NAME_LABEL, LabelRequirement, NamespaceSelector
from queues.tree import Chain
from queues.verdict import TRY_AGAIN, Cause, CauseKind


class Restriction(msgspec.Struct, frozen=True):
    """The selector of one queue of a chain."""

    queue: str
    selector: NamespaceSelector


def chain_restrictions(chain: Chain) -> tuple[Restriction, ...]:
    """The selectors of a chain, the nearest first."""
    return tuple(
        Restriction(queue.name, queue.namespace_selector)
        for queue in chain.queues
        if queue.namespace_selector is not None
    )


def namespace_denial(
    queue: str, restricted: tuple[Restriction, ...], *, namespace: str, labels: Mapping[str, str] | None
) -> Cause | None:
    """Why the namespace may not use the queue; None where it may. `labels`: None where they are not known."""
    for one in restricted:
        selector = one.selector
        if labels is None and not selector.names_namespaces and not selector.unreadable:
            unknown = "asks for labels, and those of the namespace are not known yet"
            return _denied(queue, one, namespace, unmet=unknown, way_out=TRY_AGAIN)
        known = {NAME_LABEL: namespace} if labels is None else labels
        if selector.unreadable:
            unreadable = f"cannot be read: {selector.unreadable}"
            return _denied(queue, one, namespace, unmet=unreadable, way_out=_edit(one.queue))
        unmet = selector.unmet(known)
        if unmet is not None:
            way_out = _relabel(namespace, unmet, queue=one.queue)
            return _denied(queue, one, namespace, unmet=f"asks for {unmet.text}", way_out=way_out)
    return None


def _denied(queue: str, one: Restriction, namespace: str, *, unmet: str, way_out: str) -> Cause:
    return Cause(
        kind=CauseKind.NOT_SELECTED,
        queue=queue,
        by=one.queue,
        namespace=namespace,
        unmet=unmet,
        way_out=way_out,
    )


def _edit(queue: str) -> str:
    return f"kubectl edit queue {queue}"


def _relabel(namespace: str, unmet: LabelRequirement, *, queue: str) -> str:
    """The command that makes the namespace meet the requirement; a namespace's name cannot be changed."""
    if unmet.key == NAME_LABEL:
        return _edit(queue)
    label = f"kubectl label namespace {namespace} "
    match unmet.operator:
        case Operator.IN:
            return f"{label}--overwrite {unmet.key}={unmet.example_value}"
        case Operator.EXISTS:
            return f"{label}{unmet.key}="
        case Operator.NOT_IN | Operator.DOES_NOT_EXIST:
            return f"{label}{unmet.key}-"
