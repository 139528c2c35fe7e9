"""Label selectors, as the API server reads them (`metav1.LabelSelector`).

Promises
- An empty selector selects everything, no selector (None) nothing.
- What cannot be read as a selector raises `BadSelector`: what it should select is not guessed. So does what
  the API server would refuse: a key or value that no label can have, an operator with the wrong number of
  values.

Source: `LabelSelectorAsSelector` and `labels.NewRequirement` of `k8s.io/apimachinery`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from queues.apimachinery.conversion import Converter
from queues.text import quoted

_WORD = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
#: A qualified name: what the key of a label is, and the name of a resource.
QUALIFIED_NAME = re.compile(
    rf"((?=.{{1,253}}/){_WORD}(\.{_WORD})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
)
#: The value of a label.
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


class BadSelector(ValueError):
    """The value is not a label selector."""


class Operator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class Requirement(msgspec.Struct, frozen=True):
    """One of `matchExpressions`."""

    key: str
    operator: Operator
    values: list[str] | None = None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """A label that is not there is in no list: NotIn holds."""
        match self.operator:
            case Operator.IN:
                return self.key in labels and labels[self.key] in (self.values or ())
            case Operator.NOT_IN:
                return self.key not in labels or labels[self.key] not in (self.values or ())
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels

    def __str__(self) -> str:
        values = ",".join(self.values or ())
        return {
            Operator.IN: f"{self.key} in ({values})",
            Operator.NOT_IN: f"{self.key} notin ({values})",
            Operator.EXISTS: self.key,
            Operator.DOES_NOT_EXIST: f"!{self.key}",
        }[self.operator]


class Selector(msgspec.Struct, frozen=True, rename="camel"):
    """A selector; `str()` is how a request writes it (`labelSelector=...`)."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the labels that it asks for."""
        return frozenset(self.match_labels or ()) | {
            expression.key for expression in self.match_expressions or ()
        }

    def selects(self, labels: Mapping[str, str]) -> bool:
        wanted = self.match_labels
        if wanted and any(labels.get(key) != value for key, value in wanted.items()):
            return False
        return all(requirement.matches(labels) for requirement in self.match_expressions or ())

    def __str__(self) -> str:
        equal = [f"{key}={value}" for key, value in (self.match_labels or {}).items()]
        return ",".join([*equal, *map(str, self.match_expressions or ())])


_selector = Converter[Selector | None](Selector | None)


def parse_selector(value: Any) -> Selector | None:
    """The selector that was decoded from JSON. Raises `BadSelector`."""
    try:
        selector = _selector(value)
    except msgspec.ValidationError as exc:
        raise BadSelector(str(exc)) from exc
    if selector is not None:
        _check(selector)
    return selector


def _check(selector: Selector) -> None:
    for key, value in (selector.match_labels or {}).items():
        _check_label(key, [value])
    for expression in selector.match_expressions or ():
        takes = expression.operator in {Operator.IN, Operator.NOT_IN}
        if takes is not bool(expression.values):
            raise BadSelector(f"{expression.operator} takes {'one value or more' if takes else 'no values'}")
        _check_label(expression.key, expression.values or [])


def _check_label(key: str, values: list[str]) -> None:
    if not QUALIFIED_NAME.fullmatch(key):
        raise BadSelector(f"{quoted(key)} is not the key of a label")
    for value in values:
        if not LABEL_VALUE.fullmatch(value):
            raise BadSelector(f"{quoted(value)} is not the value of a label")
