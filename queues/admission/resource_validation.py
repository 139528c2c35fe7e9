"""The quotas of queues compared with each other, up and down the tree.

====================  =================================================================================
within one queue      guarantee <= deserved <= capability, and guarantee <= capability
parent and children   the children's guarantees together <= the parent's; the same for deserved
parent and child      the child's capability <= the parent's
====================  =================================================================================

Each rule is checked for each resource that both sides name. Below another parent than `root` a resource
that the parent does not name counts as 0: of `guarantee` always, of `deserved` where the parent has any. So
who may update one queue alone takes nothing of its siblings through a child of it. Where the parent has no
`deserved` at all, that of a child is taken, and counts below the parent alone (`queues.quota.lending`).

Source: Volcano's webhook for queues. It refuses more:

| what differs                                            | in Volcano        | here  |
|---------------------------------------------------------|-------------------|-------|
| `guarantee` of a resource that `deserved` does not name | refused           | taken |
| `capability` above that of an ancestor above the parent | refused           | taken |
| `capability` below that of a queue two levels down      | refused           | taken |
| `guarantee` of a resource that `root` does not name     | refused: it has 0 | taken |
| `deserved` below a parent without any                   | refused: it has 0 | taken |

None of this can make a quota that could not be kept, by the rules by which quotas are to hold:

- A queue deserves at least its guarantee, whatever `deserved` says.
- A release of a pod is checked against the capability of each queue of its chain. So the smallest holds; a
  greater one below it, or above it, says too much and allows nothing.
- A queue keeps for those below it the sum of their guarantees, where that is more than its own. A sum that no
  ancestor's capability has room for is scaled down then.
- What `root` does not name has no bound. Zero is written as 0.

Invariants
- An edit is refused only for what it makes worse: a rule that was broken before, and is not broken by more
  after, does not count. So a tree that breaks rules can be corrected queue by queue, in any order.
- A rule between a child and its parent is the same whether the child is edited or the parent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from queues.apimachinery.quantities import (
    Amount,
    BadQuantity,
    ResourceAmounts,
    format_quantity,
    parse_quantity,
    sum_amounts,
)
from queues.fields.checks import key_path
from queues.queue import ROOT
from queues.text import quoted

#: Children that are named in a message.
_NAMED = 3


class Quota(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One queue's three amounts by resource."""

    guarantee: ResourceAmounts = {}
    deserved: ResourceAmounts = {}
    capability: ResourceAmounts = {}


class QuotaFamily(msgspec.Struct, frozen=True, kw_only=True):
    """A queue with those whose quotas are compared with its own.

    `parent_quota`: None for `root`, and where there is no such parent. `is_child`: the queue is under that
    parent already, and not only after the edit.
    """

    name: str
    own: Quota = Quota()
    parent: str = ""
    parent_quota: Quota | None = None
    sibling_quotas: Mapping[str, Quota] = {}
    child_quotas: Mapping[str, Quota] = {}
    is_child: bool = True


class Violation(msgspec.Struct, frozen=True):
    """By how much a rule is broken, and the refusal."""

    excess: Amount
    text: str


#: Which rule, which field or fields, which resource.
FieldPath = tuple[str, ...]

_ORDER = (("guarantee", "deserved"), ("deserved", "capability"), ("guarantee", "capability"))
_SHARED = ("guarantee", "deserved")


def quota_of(*, guarantee: object, deserved: object, capability: object) -> Quota:
    """The quota in a spec. What is no amount is left out: a stored object can hold anything."""
    promised = guarantee.get("resource") if isinstance(guarantee, dict) else None
    return Quota(guarantee=_amounts(promised), deserved=_amounts(deserved), capability=_amounts(capability))


def quota_refusal(before: QuotaFamily, after: QuotaFamily) -> str | None:
    """The first rule that an edit breaks, or breaks by more than before.

    Both families are the same but for the queue that is edited; `before.own` is empty for a new one.
    """
    was = dict(violations(before))
    for key, fault in violations(after):
        if key not in was or fault.excess > was[key].excess:
            return fault.text
    return None


def violations(family: QuotaFamily) -> Iterator[tuple[FieldPath, Violation]]:
    """Every rule that is broken in this family."""
    yield from _within(family.own)
    if family.parent_quota is not None and family.is_child:
        yield from _under(family, family.parent_quota)
    elif family.parent_quota is not None:
        yield from _under(_without(family), family.parent_quota)
    yield from _over(family)


def _within(own: Quota) -> Iterator[tuple[FieldPath, Violation]]:
    for low, high in _ORDER:
        for resource, less, more in _both(_amounts_of(own, low), _amounts_of(own, high)):
            if less > more:
                yield (
                    ("within", low, high, resource),
                    Violation(
                        less - more,
                        f"{_place(low, resource)}: {_shown(less, resource)} is more than "
                        f"{_place(high, resource)}, {_shown(more, resource)}; lower it or raise the other",
                    ),
                )


def _under(family: QuotaFamily, above: Quota) -> Iterator[tuple[FieldPath, Violation]]:
    """The queue as one of its parent's children."""
    parent = quoted(family.parent)
    for field in _SHARED:
        own = _amounts_of(family.own, field)
        asked = [own, *(_amounts_of(quota, field) for quota in family.sibling_quotas.values())]
        for resource, bound in _bounds(family.parent, above, field, asked=asked):
            mine = own.get(resource, 0)
            others = _sum(family.sibling_quotas, field, resource)
            if mine + others > bound:
                yield (
                    ("under", field, resource),
                    Violation(
                        mine + others - bound,
                        f"{_place(field, resource)}: {_shown(mine, resource)} makes "
                        f"{_shown(mine + others, resource)} for the children of queue {parent}, which has "
                        f"{_shown(bound, resource)}; set {_shown(max(bound - others, 0), resource)} at most, "
                        f"or raise that of queue {parent} first",
                    ),
                )
    for resource, mine, bound in _both(family.own.capability, above.capability):
        if mine > bound:
            yield (
                ("under", "capability", resource),
                Violation(
                    mine - bound,
                    f"{_place('capability', resource)}: {_shown(mine, resource)} is more than the "
                    f"{_shown(bound, resource)} of its parent, queue {parent}; set "
                    f"{_shown(bound, resource)} at most, or raise that of queue {parent} first",
                ),
            )


def _over(family: QuotaFamily) -> Iterator[tuple[FieldPath, Violation]]:
    """The queue as its children's parent."""
    for field in _SHARED:
        asked = [_amounts_of(quota, field) for quota in family.child_quotas.values()]
        for resource, bound in _bounds(family.name, family.own, field, asked=asked):
            needed = _sum(family.child_quotas, field, resource)
            children = _named(family.child_quotas, field, resource)
            if needed > bound:
                yield (
                    ("over", field, resource),
                    Violation(
                        needed - bound,
                        f"{_place(field, resource)}: {_shown(bound, resource)} is less than its children "
                        f"have together, {_shown(needed, resource)} ({children}); "
                        f"set {_shown(needed, resource)} at least, or lower theirs first",
                    ),
                )
    for resource, bound in family.own.capability.items():
        over = {
            name: quota
            for name, quota in family.child_quotas.items()
            if quota.capability.get(resource, bound) > bound
        }
        if over:
            most = max(quota.capability[resource] for quota in over.values())
            yield (
                ("over", "capability", resource),
                Violation(
                    most - bound,
                    f"{_place('capability', resource)}: {_shown(bound, resource)} is less than children "
                    f"of it have ({_named(over, 'capability', resource)}); "
                    f"set {_shown(most, resource)} at least, or lower theirs first",
                ),
            )


def _bounds(
    name: str, quota: Quota, field: str, *, asked: Iterable[ResourceAmounts]
) -> Iterator[tuple[str, Amount]]:
    """What the children of queue `name` may have together, of what it names and of what is asked for."""
    named = _amounts_of(quota, field)
    yield from named.items()
    if name != ROOT and (named or field == "guarantee"):
        others = {resource: None for amounts in asked for resource in amounts if resource not in named}
        yield from ((resource, 0) for resource in others)


def _without(family: QuotaFamily) -> QuotaFamily:
    """The family as it was before the edit, without the queue, which is new under this parent."""
    return QuotaFamily(name=family.name, parent=family.parent, sibling_quotas=family.sibling_quotas)


def _amounts_of(quota: Quota, field: str) -> ResourceAmounts:
    amounts: ResourceAmounts = getattr(quota, field)
    return amounts


def _both(low: ResourceAmounts, high: ResourceAmounts) -> Iterator[tuple[str, Amount, Amount]]:
    return ((resource, amount, high[resource]) for resource, amount in low.items() if resource in high)


def _sum(quotas: Mapping[str, Quota], field: str, resource: str) -> Amount:
    return sum_amounts(_amounts_of(quota, field).get(resource, 0) for quota in quotas.values())


def _named(quotas: Mapping[str, Quota], field: str, resource: str) -> str:
    """The queues that have most of the resource, and how many more there are."""
    having = {name: _amounts_of(quota, field).get(resource, 0) for name, quota in quotas.items()}
    most = sorted((name for name in having if having[name]), key=lambda name: (-having[name], name))
    shown = [f"{quoted(name)} {_shown(having[name], resource)}" for name in most[:_NAMED]]
    return ", ".join([*shown, f"{len(most) - _NAMED} more"] if len(most) > _NAMED else shown)


def _place(field: str, resource: str) -> str:
    return key_path("spec.guarantee.resource" if field == "guarantee" else f"spec.{field}", resource)


def _shown(amount: Amount, resource: str) -> str:
    return f'"{format_quantity(amount, resource)}"'


def _amounts(value: Any) -> ResourceAmounts:
    amounts = {}
    for resource, text in value.items() if isinstance(value, dict) else ():
        try:
            amounts[resource] = parse_quantity(text)
        except BadQuantity:
            continue
    return amounts
