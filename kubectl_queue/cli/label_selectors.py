"""Label selectors as kubectl's -l writes them, turned into those that objects hold.

Promises
- `k=v`, `k==v`, `k!=v`, `k in (a,b)`, `k notin (a,b)`, `k`, `!k`, with commas between: all of them hold.
- What cannot be such a selector raises ValueError, with the part that is wrong; nothing is guessed.
- Keys and values are those that the API server takes for labels (`queues.admission.field_validation`).

Source of the syntax: `k8s.io/apimachinery/pkg/labels/selector.go`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from kubectl_queue.cli.flag_values import quoted
from queues.admission.field_validation import field_refusal
from queues.apimachinery.label_selectors import Operator, Requirement

_WORD = r"[^\s!=<>(),]"
_TERM = re.compile(
    rf"""(?P<absent>!)?\s*(?P<key>{_WORD}+)
    (?:\s*(?P<sign>==|=|!=)\s*(?P<value>{_WORD}*)
    |\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?""",
    re.VERBOSE,
)
_BETWEEN = re.compile(r",(?![^(]*\))")
_COMPARES = re.compile(r"[^=!(]*[<>]")
_OPERATORS = {"in": Operator.IN, "notin": Operator.NOT_IN}


def parse_pod_selector(text: str) -> dict[str, Any]:
    """The selector as `spec.drain.keep` holds it. Raises ValueError."""
    if not text.strip():
        raise ValueError("an empty selector selects every pod; name a label, as in app=db")
    selector = _read(text)
    _check({"drain": {"keep": selector}})
    return selector


def parse_namespace_selector(text: str) -> dict[str, Any]:
    """The selector as `spec.namespaceSelector` holds it. Raises ValueError."""
    if not text.strip():
        raise ValueError(
            "an empty selector selects every namespace, as none does; name a label, as in team=a"
        )
    selector = _read(text)
    _check({"namespaceSelector": selector})
    return selector


def _read(text: str) -> dict[str, Any]:
    return _object(_requirement(term.strip()) for term in _BETWEEN.split(text))


def _check(spec: Mapping[str, Any]) -> None:
    wrong = field_refusal({}, spec)
    if wrong:
        raise ValueError(wrong)


def _requirement(term: str) -> Requirement | tuple[str, str]:
    """One term; an equality as the pair that it is."""
    if _COMPARES.match(term):
        raise ValueError(f"{quoted(term)} compares, which a selector in an object cannot")
    read = _TERM.fullmatch(term)
    if read is None or (read["absent"] and (read["sign"] or read["set"])):
        raise ValueError(
            f"{quoted(term)} is no part of a selector; use k=v, k!=v, k in (a,b), k notin (a,b), k or !k"
        )
    key = read["key"]
    if read["set"]:
        values = [word.strip() for word in read["values"].split(",")]
        return Requirement(key, _OPERATORS[read["set"]], values)
    if read["sign"] == "!=":
        return Requirement(key, Operator.NOT_IN, [read["value"]])
    if read["sign"]:
        return key, read["value"]
    return Requirement(key, Operator.DOES_NOT_EXIST if read["absent"] else Operator.EXISTS)


def _object(terms: Iterable[Requirement | tuple[str, str]]) -> dict[str, Any]:
    """Equalities as `matchLabels`; a second one of the same label as an expression, for both have to hold."""
    labels: dict[str, str] = {}
    expressions: list[Mapping[str, Any]] = []
    for term in terms:
        if isinstance(term, Requirement):
            expressions.append(_expression(term))
        elif labels.setdefault(*term) != term[1]:
            expressions.append(_expression(Requirement(term[0], Operator.IN, [term[1]])))
    selector = {"matchLabels": labels, "matchExpressions": expressions}
    return {key: value for key, value in selector.items() if value}


def _expression(requirement: Requirement) -> dict[str, Any]:
    values = {"values": requirement.values} if requirement.values is not None else {}
    return {"key": requirement.key, "operator": requirement.operator.value, **values}
