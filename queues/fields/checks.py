"""What a field of a Queue may hold: checks, of which the rows of the table are made.

A check takes the place of the value, for its refusal, and the value as it was before: of an object or a list
only what an edit changes is checked. A refusal is one line: the field, its value (cut), what it should be.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import zip_longest
from typing import Any

import msgspec

from queues.apimachinery.conversion import Converter
from queues.apimachinery.label_selectors import LABEL_VALUE, QUALIFIED_NAME
from queues.apimachinery.quantities import BadQuantity, parse_quantity
from queues.membership import name_fault, valid_name
from queues.messages import NAME_RULE
from queues.namespace_selectors import EXPRESSIONS_LIMIT, LABELS_LIMIT, VALUES_LIMIT, is_reserved_label
from queues.node_groups import NAMES_LIMIT, PREFERRED, REQUIRED
from queues.quota.resource_names import mistake_text
from queues.text import printable, show_character

INT32 = 2**31 - 1
#: Resources in one amount: many times what nodes have. Each admission and each release looks at them.
RESOURCES_LIMIT = 256
#: Characters of a value that are shown.
_SHOWN = 80

#: Takes a place, the value there and the value before; raises `BadField` where the value is wrong.
FieldCheck = Callable[[str, Any, Any], None]


class BadField(ValueError):
    """A field has a value that it may not have; the message is for its author."""


def check_change(check: FieldCheck, place: str, value: Any, before: Any) -> None:
    """Checks a value that is there and was not there before."""
    if value is not None and (value != before or type(value) is not type(before)):
        check(place, value, before)


def _present(place: str, value: Any) -> None:
    if value is None:
        raise BadField(f"{place}: is null; leave it out or give it a value")


def show_value(value: object) -> str:
    """A value as a refusal shows it: short, on one line, whatever it is."""
    if isinstance(value, str):
        return f'"{printable(value, limit=_SHOWN)}"'
    if isinstance(value, int) and abs(value) > 10**_SHOWN:
        return "a number of that many digits"
    if value is None or isinstance(value, int | float):
        return json.dumps(value)
    return "a list" if isinstance(value, list) else "an object"


def key_path(place: str, name: str) -> str:
    """The place of a key: with a dot where that can be read, else in brackets."""
    short = name.isascii() and name.isalnum() and len(name) <= _SHOWN
    return f"{place}.{name}" if short else f'{place}["{printable(name, limit=_SHOWN)}"]'


def _not(place: str, value: object, wanted: str) -> BadField:
    return BadField(f"{place}: {show_value(value)} is not {wanted}")


def whole(least: int, most: int) -> FieldCheck:
    def check(place: str, value: Any, before: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise _not(place, value, f"a whole number from {least} to {most}")

    return check


def boolean(place: str, value: Any, before: Any) -> None:
    if not isinstance(value, bool):
        raise _not(place, value, "true or false")


def one_of(*words: str) -> FieldCheck:
    def check(place: str, value: Any, before: Any) -> None:
        if value not in words:
            raise _not(place, value, f"one of {', '.join(words)}")

    return check


def text(length: int) -> FieldCheck:
    def check(place: str, value: Any, before: Any) -> None:
        if not isinstance(value, str):
            raise _not(place, value, "a text")
        if len(value) > length:
            raise BadField(f"{place}: {show_value(value)} has {len(value)} characters; use {length} at most")
        control = _CONTROL.search(value)
        if control:
            character = f"{show_character(control[0])} at position {control.start() + 1}"
            raise BadField(
                f"{place}: {show_value(value)} has the control character {character}; leave it out"
            )

    return check


def _matching(pattern: re.Pattern[str], length: int, wanted: str) -> FieldCheck:
    def check(place: str, value: Any, before: Any) -> None:
        if not isinstance(value, str) or len(value) > length or not pattern.fullmatch(value):
            raise _not(place, value, wanted)

    return check


def queue_name(place: str, value: Any, before: Any) -> None:
    if not isinstance(value, str):
        raise _not(place, value, "a queue name")
    if value and not valid_name(value):
        raise BadField(f"{place}: {show_value(value)} is not a queue name: {name_fault(value)}; {NAME_RULE}")


def time(place: str, value: Any, before: Any) -> None:
    try:
        moment = _datetime(value) if isinstance(value, str) else None
    except (msgspec.ValidationError, UnicodeEncodeError):  # half of a surrogate pair
        moment = None
    if moment is None or moment.tzinfo is None:
        raise _not(place, value, "a time with its zone, such as 2030-01-31T18:00:00Z")


def rate(place: str, value: Any, before: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1000:
        raise _not(place, value, "a number above 0 and up to 1000, such as 0.5 or 20")


def each_of(check: FieldCheck) -> FieldCheck:
    """A list whose items all pass."""

    def every(place: str, value: Any, before: Any) -> None:
        if not isinstance(value, list):
            raise _not(place, value, "a list")
        old = before if isinstance(before, list) else []
        for number, (item, was) in enumerate(zip_longest(value, old[: len(value)])):
            _present(f"{place}[{number}]", item)
            check_change(check, f"{place}[{number}]", item, was)

    return every


def map_of(key: FieldCheck, check: FieldCheck) -> FieldCheck:
    """An object whose keys and values pass."""

    def every(place: str, value: Any, before: Any) -> None:
        was = before if isinstance(before, dict) else {}
        for name, item in _fields(place, value).items():
            check_change(key, f"{place} key", name, name if name in was else None)
            _present(key_path(place, name), item)
            check_change(check, key_path(place, name), item, was.get(name))

    return every


def object_of(checks: Mapping[str, FieldCheck], *, required: tuple[str, ...] = ()) -> FieldCheck:
    """An object of these fields; the API server drops others."""

    def every(place: str, value: Any, before: Any) -> None:
        fields, was = _fields(place, value), before if isinstance(before, dict) else {}
        for field, check in checks.items():
            if field in required and fields.get(field) is None:
                raise BadField(f"{place}.{field}: is missing; set it")
            check_change(check, f"{place}.{field}", fields.get(field), was.get(field))

    return every


def _fields(place: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _not(place, value, "an object with fields")
    return value


def _amount(place: str, value: Any, before: Any) -> None:
    try:
        amount = parse_quantity(value)
    except BadQuantity as exc:
        raise BadField(f"{place}: {exc}") from exc
    if amount < 0:
        raise BadField(f"{place}: {show_value(value)} is below 0; leave the resource out for no bound")


def _operands(place: str, value: Any) -> None:
    """In and NotIn take values, the other operators none."""
    operator, given = value["operator"], bool(value.get("values"))
    if given is not (operator in {"In", "NotIn"}):
        raise BadField(f"{place}.values: {operator} takes {'none' if given else 'one or more'}; change them")


def _requirement(place: str, value: Any, before: Any) -> None:
    _REQUIREMENT(place, value, before)
    _operands(place, value)


def namespace_selector(place: str, value: Any, before: Any) -> None:
    """A selector of bounded size: it is evaluated for each namespace that uses the queue or one below."""
    fields = _fields(place, value)
    _several(f"{place}.matchLabels", fields.get("matchLabels"), LABELS_LIMIT, "labels")
    expressions = fields.get("matchExpressions")
    _several(f"{place}.matchExpressions", expressions, EXPRESSIONS_LIMIT, "expressions")
    label_selector(place, value, before)
    read = [expression if isinstance(expression, dict) else {} for expression in expressions or ()]
    for number, expression in enumerate(read):
        _several(
            f"{place}.matchExpressions[{number}].values", expression.get("values"), VALUES_LIMIT, "values"
        )
    for key in (*(fields.get("matchLabels") or ()), *(str(expression.get("key")) for expression in read)):
        if is_reserved_label(key):
            raise BadField(
                f"{place}: label {show_value(key)} is written by sluice itself; select by another label"
            )


def at_most(limit: int, what: str, check: FieldCheck) -> FieldCheck:
    """A list, or an object, of so many items, which pass."""

    def bounded(place: str, value: Any, before: Any) -> None:
        _several(place, value, limit, what)
        check(place, value, before)

    return bounded


def _several(place: str, value: Any, limit: int, what: str) -> None:
    if isinstance(value, dict | list) and len(value) > limit:
        raise BadField(f"{place}: has {len(value)} {what}, and {limit} are allowed; use fewer")


_datetime = Converter[datetime](datetime)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|[\ud800-\udfff]")
_KEY = re.compile(r"(?!\.\.?$|\.\.)[-._a-zA-Z0-9]*")

_qualified_name = _matching(QUALIFIED_NAME, 317, 'the name of a resource, such as "cpu" or "nvidia.com/gpu"')


def _resource(place: str, value: Any, before: Any) -> None:
    _qualified_name(place, value, before)
    if text := mistake_text(value):
        raise BadField(f"{place}: {show_value(value)}: {text}")


_label = _matching(QUALIFIED_NAME, 317, 'the key of a label, such as "tier" or "example.com/tier"')
label_value = _matching(LABEL_VALUE, 63, "the value of a label: up to 63 letters, digits, '-', '_' and '.'")
policy_key = _matching(_KEY, 253, "a key of a ConfigMap: letters, digits, '-', '_' and '.'")
amounts = at_most(RESOURCES_LIMIT, "resources", map_of(_resource, _amount))
_group_names = at_most(NAMES_LIMIT, "names", each_of(label_value))
node_groups = object_of({REQUIRED: _group_names, PREFERRED: _group_names})
_REQUIREMENT = object_of(
    {
        "key": _label,
        "operator": one_of("In", "NotIn", "Exists", "DoesNotExist"),
        "values": each_of(label_value),
    },
    required=("key", "operator"),
)
label_selector = object_of(
    {"matchLabels": map_of(_label, label_value), "matchExpressions": each_of(_requirement)}
)
