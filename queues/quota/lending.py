"""What a queue lends, and what it may ask back: one rule, by which kube-scheduler evicts
(`queues.policies.victims`), and by which pods that wait for room get it back (`giving_back`).

Short are the resources that the pod requests that asks, and that lack room. A queue deserves what it lists: a
resource that it does not list gives it no claim, and protects none of its pods.

| who                               | rule                                                                   |
|-----------------------------------|------------------------------------------------------------------------|
| asks: its queue, and those above  | with the request each uses no more than it deserves of one of the      |
| it below the common one           | short resources that it lists; the one right below the common one      |
|                                   | lists one                                                              |
| lends: the victim's queue, and    | it is reclaimable; it keeps its guarantee of what the victim requests; |
| those above it below the common   | it uses more than it deserves of a short resource that it lists and    |
| one                               | the victim requests, or the victim requests nothing that it lists      |
| the two queues right below the    | the lender's `priority` is not higher. Of each short resource that the |
| common one                        | victim requests and the lender lists, who asks uses afterwards a       |
|                                   | smaller part of what it deserves than the lender did before; where it  |
|                                   | lists none of it, the lender uses more than it deserves                |

What a queue deserves protects its pods as far as all queues between it and the common one list it, too: who
may update one queue alone gives no child of it more than that queue has beside its siblings.

Pods of a queue that has queues below it stand beside those, and deserve nothing by themselves.

Invariants
- No see-saw: who lends does not ask that back from who was given it.
- A queue that lends keeps what it is guaranteed.

Sources: Volcano's `plugins/capacity` (reclaimable, preemptive). What a queue does not list is there, too, no
reason to protect its pods, nor to take them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from queues.apimachinery.quantities import ResourceAmounts
from queues.text import quoted


class LendingState(NamedTuple):
    """A queue, what it uses with those below it, and what it deserves: no less than its guarantee."""

    name: str
    used: ResourceAmounts
    deserved: ResourceAmounts


def asking_denial(
    side: Iterable[LendingState], *, requests: ResourceAmounts, short: Collection[str]
) -> str | None:
    """Why a queue may ask nothing back. `side`: the queue, and those above it below the common one."""
    denial: str | None = "its queue lists nothing that it deserves of what lacks room"
    for name, used, deserved in side:
        listed = [resource for resource in short if resource in deserved]
        denial = None if listed else f"queue {quoted(name)} lists nothing that it deserves of what lacks room"
        after = {each: used.get(each, 0) + requests.get(each, 0) for each in listed}
        if listed and all(after[each] > deserved[each] for each in listed):
            return f"queue {quoted(name)} would use more {min(listed)} than it deserves"
    return denial


def protected(side: Iterable[LendingState]) -> tuple[LendingState, ...]:
    """The lenders with what each deserves that counts outside of the queues above it. `side`: the victim's
    queue, and those above it below the common one.
    """
    lenders = list(side)
    for at in range(len(lenders) - 2, -1, -1):
        above, own = lenders[at + 1].deserved, lenders[at].deserved
        if any(resource not in above for resource in own):
            kept = {resource: amount for resource, amount in own.items() if resource in above}
            lenders[at] = lenders[at]._replace(deserved=kept)
    return tuple(lenders)


def exchange_denial(
    asks: LendingState,
    lends: LendingState,
    *,
    requests: ResourceAmounts,
    victim: ResourceAmounts,
    short: Collection[str],
) -> str | None:
    """Why the queue that asks does not go before the one that lends. `requests`: of the pod that asks."""
    for resource in short:
        if not victim.get(resource, 0) or resource not in lends.deserved:
            continue
        before, most = lends.used.get(resource, 0), lends.deserved[resource]
        after = asks.used.get(resource, 0) + requests.get(resource, 0)
        own = asks.deserved.get(resource)
        goes = before > most if own is None else after * most < before * own
        if not goes:
            return (
                f"queue {quoted(asks.name)} would use more of the {resource} that it deserves than queue "
                f"{quoted(lends.name)} does"
            )
    return None


def lending_denial(
    lends: LendingState,
    *,
    reclaimable: bool,
    guarantee: ResourceAmounts,
    victim: ResourceAmounts,
    short: Collection[str],
) -> str | None:
    """Why the queue does not lend a pod with these requests."""
    if not reclaimable:
        return f"queue {quoted(lends.name)} is not reclaimable"
    for resource, amount in guarantee.items():
        asked = victim.get(resource, 0)
        if asked and lends.used.get(resource, 0) - asked < amount:
            return f"queue {quoted(lends.name)} would have less {resource} than its guarantee"
    listed = [resource for resource in lends.deserved if victim.get(resource, 0)]
    over = (each in short and lends.used.get(each, 0) > lends.deserved[each] for each in listed)
    return None if not listed or any(over) else f"queue {quoted(lends.name)} uses no more than it deserves"
