"""Which namespaces may use a queue: those that every `spec.namespaceSelector` of its chain selects.

Invariants
- All selectors of a chain have to select the namespace: a parent narrows its children, no child widens it.
- A queue without a selector on its chain has no restrictions: no labels are read.
- Of a namespace whose labels are not known the name is: a selector that asks for more does not select it. The
  labels are not known in the moment between its creation and its delivery by the watch.
- Members whose namespace the chain of their queue does not select keep the queue neither from Closed, nor
  from Drained, nor from having queues below it.

What happens to members, or to what comes, where the chain of the queue does not select the namespace:

| what                                                 | what happens                                       |
|------------------------------------------------------|----------------------------------------------------|
| a pod that runs                                      | goes on; nothing waits for it                      |
| a pod that waits                                     | waits, says why, and goes once the labels match    |
| a pod that waits for room in a quota                 | the same, and then waits for room                  |
| a pod of work that the queue had accepted            | is admitted with a gate, and waits                 |
| a pod of such work that names its node               | is refused: it would run at once                   |
| a new pod, workload or PodGroup, however it is named | is refused                                         |
| a workload or an empty PodGroup moved to the queue   | is refused; it stays where it is                   |
| a workload scaled from nothing                       | is refused: it is new work                         |
| a Job that a CronJob makes                           | is refused: it is new work                         |
| new work of a namespace whose labels are not known   | is admitted, its pods with a gate, until they are  |
| a pod of such a namespace that names its node        | is refused: try again                              |
| the namespace, when it comes to name the queue       | is refused                                         |
| the namespace, which named it before                 | keeps its annotation; its work is as above         |

Work that the queue had accepted is what is stored as its member: nothing new is admitted while the namespace
is not selected, so whatever is stored came before.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from queues.causes import TRY_AGAIN, Cause, CauseKind
from queues.namespace_selectors import NAME_LABEL, NamespaceSelector, relabel_command
from queues.tree import Chain


class Restriction(msgspec.Struct, frozen=True):
    """The selector of one queue of a chain. `contact`: whom to ask about that queue; "" for nobody."""

    queue: str
    selector: NamespaceSelector
    contact: str = ""


def chain_restrictions(chain: Chain) -> tuple[Restriction, ...]:
    """The selectors of a chain, the nearest first."""
    return tuple(
        Restriction(queue.name, queue.namespace_selector, chain.contact_of(queue.name))
        for queue in chain.queues
        if queue.namespace_selector is not None
    )


def namespace_denial(
    queue: str, restricted: tuple[Restriction, ...], *, namespace: str, labels: Mapping[str, str] | None
) -> Cause | None:
    """Why the namespace may not use the queue; None where it may. `labels`: None where they are not known."""
    for restriction in restricted:
        selector = restriction.selector
        if labels is None and not selector.names_namespaces and not selector.unreadable:
            unknown = "asks for labels, and those of the namespace are not known yet"
            return _denied(queue, restriction, namespace, unmet=unknown, way_out=TRY_AGAIN)
        known = {NAME_LABEL: namespace} if labels is None else labels
        if selector.unreadable:
            unreadable = f"cannot be read: {selector.unreadable}"
            return _denied(queue, restriction, namespace, unmet=unreadable, way_out=_edit(restriction.queue))
        unmet = selector.unmet(known)
        if unmet is not None:
            way_out = relabel_command(namespace, unmet) or _edit(restriction.queue)
            return _denied(queue, restriction, namespace, unmet=f"asks for {unmet.text}", way_out=way_out)
    return None


def _denied(queue: str, restriction: Restriction, namespace: str, *, unmet: str, way_out: str) -> Cause:
    return Cause(
        kind=CauseKind.NOT_SELECTED,
        queue=queue,
        by=restriction.queue,
        namespace=namespace,
        unmet=unmet,
        way_out=way_out,
        contact=restriction.contact,
    )


def _edit(queue: str) -> str:
    return f"kubectl edit queue {queue}"
