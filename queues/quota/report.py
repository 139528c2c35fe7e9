"""What the status of a queue with a quota says of it: what is used, and how many pods wait.

Promises
- Amounts are those of the queue and of all below it, of the resources that a quota of its chain names, and
  of `pods`; a resource that nobody uses is there, with 0.
- At most `RESOURCES` resources are reported, those of every cluster first, and `MORE_RESOURCES` says how many
  more there are.
- A text has at most `TEXT_RESOURCES` resources and one line: it is a column of a table.
- All that counts is there by its reason. `used` has what pods use, and what is kept for gangs. What counts
  beside that, for others than those for whom it is there, has fields of its own (`CountedBeside`).
- A pod is named where it has a claim (`queues.quota.claims`): one for each queue, and its name says no more
  than that it waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest

import msgspec

from queues.apimachinery.quantities import Amount, format_quantity
from queues.queue import Amounts, Queue
from queues.quota.usage import PODS
from queues.text import printable

#: Resources that are reported, and what the field is called that says how many more there are.
RESOURCES = 100
MORE_RESOURCES = "sluice.dev/more-resources"
#: What each cluster has; these are first.
NATIVE = ("cpu", "memory", "ephemeral-storage")
#: PodGroups that are named.
KEPT_FOR = 5
#: Resources in a text, and the characters of the name of one.
TEXT_RESOURCES, TEXT_NAME = 3, 40
_NOTHING: Mapping[str, Amount] = {}


class QuotaClaim(msgspec.Struct, frozen=True, kw_only=True):
    """The pod for which others leave room in a queue. `queue`: its own. `since`: its creation (RFC 3339)."""

    namespace: str
    pod: str
    queue: str
    since: str


class CountedBeside(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What of a queue others may not have, though no pod uses it. `releasing`: of pods whose release has
    begun and is not seen yet. `ungated`: of pods that pend without a gate of ours, and may be bound.
    `set_aside`: for pods that wait while others are evicted for them. `guaranteed_below`: what queues below
    are guaranteed and do not use. `claimed`: what the pod with the claim requests.
    """

    releasing: Mapping[str, Amount] = _NOTHING
    ungated: Mapping[str, Amount] = _NOTHING
    set_aside: Mapping[str, Amount] = _NOTHING
    guaranteed_below: Mapping[str, Amount] = _NOTHING
    claimed: Mapping[str, Amount] = _NOTHING


NOTHING_BESIDE = CountedBeside()
#: Its fields, as the status has them.
BESIDE = CountedBeside.__struct_encode_fields__


class QuotaReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`used`: as quantities. `waiting`: pods that wait for room. `used_text`, `limit_text`: of the resources
    that its own capability names, for tables; of all that are reported where it has none. `claim`: of the pod
    for which others leave room in it. `force_deleted`: what of `used` is of pods that were deleted by force
    and may still run (`queues.quota.force_deletion`); `kept_for_gangs`: what of it is kept for PodGroups, and
    `kept_for`: which these are (NAMESPACE/NAME), the first `KEPT_FOR` by name; None where there is none of
    that. What follows is as in `CountedBeside`.
    """

    used: Mapping[str, str]
    waiting: int
    used_text: str
    limit_text: str
    claim: QuotaClaim | None = None
    force_deleted: Mapping[str, str] | None = None
    kept_for_gangs: Mapping[str, str] | None = None
    kept_for: Sequence[str] | None = None
    releasing: Mapping[str, str] | None = None
    ungated: Mapping[str, str] | None = None
    set_aside: Mapping[str, str] | None = None
    guaranteed_below: Mapping[str, str] | None = None
    claimed: Mapping[str, str] | None = None


def quota_report(
    chain: Sequence[Queue],
    *,
    used: Mapping[str, Amount],
    waiting: int,
    claim: QuotaClaim | None = None,
    force_deleted: Mapping[str, Amount] = _NOTHING,
    kept_for_gangs: Mapping[str, Amount] = _NOTHING,
    kept_for: Iterable[str] = (),
    beside: CountedBeside = NOTHING_BESIDE,
) -> QuotaReport:
    """`chain`: the queue, and those above it. `used`: by it and all below it; `force_deleted`,
    `kept_for_gangs`: of that. `beside`: what counts, and is not in that.
    """
    named = {resource for queue in chain for resource in _named(queue)} | {PODS}
    shown = nsmallest(RESOURCES, named, key=_rank)
    more = {MORE_RESOURCES: str(len(named) - len(shown))} if len(named) > len(shown) else {}
    capability = dict(chain[0].capability or ())
    own = capability or dict.fromkeys(named, 0)
    return QuotaReport(
        used={**{name: format_quantity(used.get(name, 0), name) for name in sorted(shown)}, **more},
        waiting=waiting,
        used_text=amounts_text({resource: used.get(resource, 0) for resource in own}),
        limit_text=amounts_text(capability),
        claim=claim,
        force_deleted=_part(force_deleted, shown),
        kept_for_gangs=_part(kept_for_gangs, shown),
        kept_for=nsmallest(KEPT_FOR, kept_for) or None,
        releasing=_part(beside.releasing, shown),
        ungated=_part(beside.ungated, shown),
        set_aside=_part(beside.set_aside, shown),
        guaranteed_below=_part(beside.guaranteed_below, shown),
        claimed=_part(beside.claimed, shown),
    )


def _part(amounts: Mapping[str, Amount], shown: Iterable[str]) -> Mapping[str, str] | None:
    """What is not 0."""
    found = {name: format_quantity(amounts[name], name) for name in sorted(shown) if amounts.get(name)}
    return found or None


def amounts_text(amounts: Mapping[str, Amount]) -> str:
    """Such as `cpu 2, memory 4Gi`."""
    return _text({name: format_quantity(amount, name) for name, amount in _first(amounts)}, of=len(amounts))


def use_text(used: Mapping[str, Amount], limits: Mapping[str, Amount]) -> str:
    """Such as `cpu 2 of 3, memory 1Gi of 4Gi`, of the resources that have a limit."""
    texts = {
        name: f"{format_quantity(used.get(name, 0), name)} of {format_quantity(limit, name)}"
        for name, limit in _first(limits)
    }
    return _text(texts, of=len(limits))


def _first(amounts: Mapping[str, Amount]) -> list[tuple[str, Amount]]:
    return [(name, amounts[name]) for name in nsmallest(TEXT_RESOURCES, amounts, key=_rank)]


def _text(texts: Mapping[str, str], *, of: int) -> str:
    parts = [f"{printable(name, limit=TEXT_NAME)} {text}" for name, text in texts.items()]
    return ", ".join([*parts, *([f"{of - len(texts)} more"] if of > len(texts) else [])])


def sorted_resources(names: Iterable[str]) -> list[str]:
    """Those of every cluster first, then by name."""
    return sorted(names, key=_rank)


def _named(queue: Queue) -> Iterable[str]:
    quotas: tuple[Amounts | None, ...] = (queue.capability, queue.deserved, queue.guarantee)
    return (resource for quota in quotas for resource, _ in quota or ())


def _rank(resource: str) -> tuple[int, str]:
    return (NATIVE.index(resource) if resource in NATIVE else len(NATIVE)), resource
