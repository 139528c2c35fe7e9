"""`spec.namespaceSelector` of a Queue, compiled: which namespaces may use the queue and those below it.

| the selector                                  | selects                                               |
|-----------------------------------------------|-------------------------------------------------------|
| absent, null, `{}`, or with empty lists alone | every namespace (`compile_selector` returns None)     |
| `matchLabels`, `matchExpressions`             | the namespaces whose labels meet all requirements     |
| what cannot be read as a selector             | no namespace: what it should select is not guessed    |
| one that requires a label of `sluice.dev/`    | no namespace: sluice itself changes those labels      |

Kueue's ClusterQueue differs in one point: there an absent selector selects nothing. Here it selects
everything: Volcano has no such field, and its Queues keep their users.

Invariants
- A selector is compiled once for each change of its Queue; then each requirement is one look-up.
- `unmet` names the same requirement for the same labels on every replica.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from queues.apimachinery.label_selectors import (
    BadSelector,
    Operator,
    Selector,
    parse_selector,
)
from queues.text import printable

#: The label that the API server itself puts on each namespace: its name.
NAME_LABEL = "kubernetes.io/metadata.name"
#: The prefix of the labels that the server writes.
RESERVED_PREFIX = "sluice.dev/"
#: How many of each a selector may have; it is evaluated for each namespace and each queue below.
LABELS_LIMIT, EXPRESSIONS_LIMIT, VALUES_LIMIT = 16, 16, 256
#: Characters of a selector or a requirement that are shown.
TEXT_LIMIT = 120


class LabelRequirement(msgspec.Struct, frozen=True, kw_only=True):
    """One requirement. `example_value`: the value to show or to set, where there is one."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()
    example_value: str = ""
    text: str

    def is_met(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None


class NamespaceSelector(msgspec.Struct, frozen=True, kw_only=True):
    """A selector that does not select everything. `unreadable`: why it selects nothing at all."""

    text: str
    requirements: tuple[LabelRequirement, ...] = ()
    unreadable: str = ""

    def selects(self, labels: Mapping[str, str]) -> bool:
        return not self.unreadable and all(requirement.is_met(labels) for requirement in self.requirements)

    def unmet(self, labels: Mapping[str, str]) -> LabelRequirement | None:
        """The first requirement that the labels do not meet."""
        return next(
            (requirement for requirement in self.requirements if not requirement.is_met(labels)), None
        )

    @property
    def names_namespaces(self) -> bool:
        """Whether it requires only the namespace's name."""
        return not self.unreadable and all(requirement.key == NAME_LABEL for requirement in self.requirements)


def compile_selector(value: Any, *, allowed: Collection[str] = ()) -> NamespaceSelector | None:
    """The selector that was decoded from JSON; None where it selects every namespace.

    `allowed`: labels of `sluice.dev/` that it may require.
    """
    try:
        selector = parse_selector(value)
    except BadSelector as exc:
        return _unreadable(str(exc))
    except (RecursionError, UnicodeEncodeError):  # half of a surrogate pair
        return _unreadable("it is no text")
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return None
    reserved = next((key for key in sorted(selector.keys - set(allowed)) if is_reserved_label(key)), None)
    if reserved is not None:
        return _unreadable(f"label {reserved} is written by sluice itself")
    requirements = tuple(_requirements(selector))
    return NamespaceSelector(
        text=printable(",".join(requirement.text for requirement in requirements), limit=TEXT_LIMIT),
        requirements=requirements,
    )


def is_reserved_label(key: str) -> bool:
    """Whether sluice writes labels of this key: access would then depend on which queues are stopped."""
    return key.startswith(RESERVED_PREFIX)


def relabel_command(namespace: str, unmet: LabelRequirement) -> str:
    """The command that makes the namespace meet the requirement; "" where only another name would."""
    if unmet.key == NAME_LABEL:
        return ""
    label = f"kubectl label namespace {namespace} "
    match unmet.operator:
        case Operator.IN:
            return f"{label}--overwrite {unmet.key}={unmet.example_value}"
        case Operator.EXISTS:
            return f"{label}{unmet.key}="
        case Operator.NOT_IN | Operator.DOES_NOT_EXIST:
            return f"{label}{unmet.key}-"


def _unreadable(why: str) -> NamespaceSelector:
    return NamespaceSelector(text="unreadable", unreadable=printable(why, limit=TEXT_LIMIT))


def _requirements(selector: Selector) -> list[LabelRequirement]:
    requirements = [
        LabelRequirement(
            key=key,
            operator=Operator.IN,
            values=frozenset({value}),
            example_value=value,
            text=f"{key}={value}",
        )
        for key, value in sorted((selector.match_labels or {}).items())
    ]
    for expression in selector.match_expressions or ():
        values = expression.values or []
        requirements.append(
            LabelRequirement(
                key=expression.key,
                operator=expression.operator,
                values=frozenset(values),
                example_value=values[0] if values else "",
                text=printable(str(expression), limit=TEXT_LIMIT),
            )
        )
    return requirements
