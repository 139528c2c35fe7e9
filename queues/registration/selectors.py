"""Label selectors as sets of requirements, however they were written."""

from __future__ import annotations

from typing import Any, NamedTuple

from queues.apimachinery.label_selectors import Operator, Requirement, parse_selector

_OPPOSITES = {
    Operator.IN: Operator.NOT_IN,
    Operator.NOT_IN: Operator.IN,
    Operator.EXISTS: Operator.DOES_NOT_EXIST,
    Operator.DOES_NOT_EXIST: Operator.EXISTS,
}


class Term(NamedTuple):
    """One requirement, however it was written."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return str(Requirement(self.key, self.operator, sorted(self.values)))

    @property
    def opposite(self) -> Term:
        return self._replace(operator=_OPPOSITES[self.operator])


#: All must hold; empty: everything is selected.
Terms = frozenset[Term]


def terms_of(selector: Any) -> Terms:
    """The requirements of a selector as JSON has it; none where there is none. Raises `BadSelector`."""
    parsed = parse_selector(selector)
    if parsed is None:
        return frozenset()
    labels = (
        Term(key, Operator.IN, frozenset({value})) for key, value in (parsed.match_labels or {}).items()
    )
    expressions = (
        Term(each.key, each.operator, frozenset(each.values or ())) for each in parsed.match_expressions or ()
    )
    return frozenset((*labels, *expressions))
