"""What each field of a Queue's `spec` may hold, whatever the other queues hold.

Promises
- A refusal is one line: the field, its value (cut), what it should be.
- Only what an edit changes is checked: a field that is stored already passes, whatever it holds. So a faulty
  object can be corrected field by field.
- null is the same as absent, as it is for the API server.

The CustomResourceDefinition (`manifests/crds/queues.yaml`) has most of these rules too, and the API server
applies it first. Only this module checks that no amount is negative or greater than 2^63-1, the names of
resources and labels, that Kubernetes would accept a selector, the keys of a ConfigMap, and control
characters.
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
from queues.states import Desired, ParkedPods, StopPolicy
from queues.text import printable, show_character

REASON_LENGTH = 1024
TEXT_LENGTH = 253
INT32 = 2**31 - 1
#: Characters of a value that are shown.
_SHOWN = 80

#: Takes a place, the value there and the value before; raises `BadField` where the value is wrong.
Check = Callable[[str, Any, Any], None]


class BadField(ValueError):
    """A field has a value that it may not have; the message is for its author."""


def field_refusal(before: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """What is wrong with the first faulty field that an edit changes; `before`: {} for a new queue."""
    try:
        for field, check in CHECKS.items():
            _changed(check, f"spec.{field}", after.get(field), before.get(field))
    except BadField as exc:
        return str(exc)
    return None


def _changed(check: Check, place: str, value: Any, before: Any) -> None:
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


def _whole(least: int, most: int) -> Check:
    def check(place: str, value: Any, before: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise _not(place, value, f"a whole number from {least} to {most}")

    return check


def _boolean(place: str, value: Any, before: Any) -> None:
    if not isinstance(value, bool):
        raise _not(place, value, "true or false")


def _one_of(*words: str) -> Check:
    def check(place: str, value: Any, before: Any) -> None:
        if value not in words:
            raise _not(place, value, f"one of {', '.join(words)}")

    return check


def _text(length: int) -> Check:
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


def _matching(pattern: re.Pattern[str], length: int, wanted: str) -> Check:
    def check(place: str, value: Any, before: Any) -> None:
        if not isinstance(value, str) or len(value) > length or not pattern.fullmatch(value):
            raise _not(place, value, wanted)

    return check


def _queue_name(place: str, value: Any, before: Any) -> None:
    if not isinstance(value, str):
        raise _not(place, value, "a queue name")
    if value and not valid_name(value):
        raise BadField(f"{place}: {show_value(value)} is not a queue name: {name_fault(value)}; {NAME_RULE}")


def _time(place: str, value: Any, before: Any) -> None:
    try:
        moment = _datetime(value) if isinstance(value, str) else None
    except (msgspec.ValidationError, UnicodeEncodeError):  # half of a surrogate pair
        moment = None
    if moment is None or moment.tzinfo is None:
        raise _not(place, value, "a time with its zone, such as 2030-01-31T18:00:00Z")


def _rate(place: str, value: Any, before: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1000:
        raise _not(place, value, "a number above 0 and up to 1000, such as 0.5 or 20")


def _each(check: Check) -> Check:
    """A list whose items all pass."""

    def every(place: str, value: Any, before: Any) -> None:
        if not isinstance(value, list):
            raise _not(place, value, "a list")
        old = before if isinstance(before, list) else []
        for number, (item, was) in enumerate(zip_longest(value, old[: len(value)])):
            _present(f"{place}[{number}]", item)
            _changed(check, f"{place}[{number}]", item, was)

    return every


def _map(key: Check, check: Check) -> Check:
    """An object whose keys and values pass."""

    def every(place: str, value: Any, before: Any) -> None:
        was = before if isinstance(before, dict) else {}
        for name, item in _fields(place, value).items():
            _changed(key, f"{place} key", name, name if name in was else None)
            _present(key_path(place, name), item)
            _changed(check, key_path(place, name), item, was.get(name))

    return every


def _object(required: tuple[str, ...] = (), **checks: Check) -> Check:
    """An object of these fields; the API server drops others."""

    def every(place: str, value: Any, before: Any) -> None:
        fields, was = _fields(place, value), before if isinstance(before, dict) else {}
        for field, check in checks.items():
            if field in required and fields.get(field) is None:
                raise BadField(f"{place}.{field}: is missing; set it")
            _changed(check, f"{place}.{field}", fields.get(field), was.get(field))

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


def _namespace_selector(place: str, value: Any, before: Any) -> None:
    """A selector of bounded size: it is evaluated for each namespace that uses the queue or one below."""
    fields = _fields(place, value)
    _several(f"{place}.matchLabels", fields.get("matchLabels"), LABELS_LIMIT, "labels")
    expressions = fields.get("matchExpressions")
    _several(f"{place}.matchExpressions", expressions, EXPRESSIONS_LIMIT, "expressions")
    _NAMESPACE_SELECTOR(place, value, before)
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


def _several(place: str, value: Any, limit: int, what: str) -> None:
    if isinstance(value, dict | list) and len(value) > limit:
        raise BadField(f"{place}: has {len(value)} {what}, and {limit} are allowed; use fewer")


def _drain(place: str, value: Any, before: Any) -> None:
    _DRAIN(place, value, before)
    if _deletes_at_no_time(value) and not _deletes_at_no_time(before):
        raise BadField(f"{place}.deadline: is missing, and afterDeadline is Delete; set a time to delete at")


def _deletes_at_no_time(drain: Any) -> bool:
    fields = drain if isinstance(drain, dict) else {}
    return fields.get("afterDeadline") == "Delete" and fields.get("deadline") is None


_datetime = Converter[datetime](datetime)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|[\ud800-\udfff]")
_KEY = re.compile(r"(?!\.\.?$|\.\.)[-._a-zA-Z0-9]*")

_resource = _matching(QUALIFIED_NAME, 317, 'the name of a resource, such as "cpu" or "nvidia.com/gpu"')
_label = _matching(QUALIFIED_NAME, 317, 'the key of a label, such as "tier" or "example.com/tier"')
_label_value = _matching(LABEL_VALUE, 63, "the value of a label: up to 63 letters, digits, '-', '_' and '.'")
_policy = _matching(_KEY, TEXT_LENGTH, "a key of a ConfigMap: letters, digits, '-', '_' and '.'")
_amounts = _map(_resource, _amount)
_groups = _object(
    requiredDuringSchedulingIgnoredDuringExecution=_each(_label_value),
    preferredDuringSchedulingIgnoredDuringExecution=_each(_label_value),
)
_REQUIREMENT = _object(
    required=("key", "operator"),
    key=_label,
    operator=_one_of("In", "NotIn", "Exists", "DoesNotExist"),
    values=_each(_label_value),
)
_NAMESPACE_SELECTOR = _object(matchLabels=_map(_label, _label_value), matchExpressions=_each(_requirement))
_DRAIN = _object(
    rate=_rate,
    inFlight=_whole(1, INT32),
    gracePeriodSeconds=_whole(0, INT32),
    barePods=_one_of("Evict", "Keep"),
    keep=_object(matchLabels=_map(_label, _label_value), matchExpressions=_each(_requirement)),
    deadline=_time,
    afterDeadline=_one_of("Keep", "Delete"),
)

#: Every field of `spec`, in the order in which they are checked. `SchedulerPolicy` comes before the other
#: spelling, into which admission has copied it.
CHECKS: Mapping[str, Check] = {
    "state": _one_of(*Desired),
    "stopPolicy": _one_of(*StopPolicy),
    "resumeAt": _time,
    "reason": _text(REASON_LENGTH),
    "parent": _queue_name,
    "namespaceSelector": _namespace_selector,
    "weight": _whole(1, 65535),
    "priority": _whole(0, INT32),
    "reclaimable": _boolean,
    "dequeueStrategy": _one_of("fifo", "traverse"),
    "type": _text(TEXT_LENGTH),
    "guarantee": _object(resource=_amounts),
    "deserved": _amounts,
    "capability": _amounts,
    "affinity": _object(nodeGroupAffinity=_groups, nodeGroupAntiAffinity=_groups),
    "extendClusters": _each(
        _object(name=_text(TEXT_LENGTH), weight=_whole(0, INT32), capacity=_amounts),
    ),
    "drain": _drain,
    "parked": _one_of(*ParkedPods),
    "SchedulerPolicy": _policy,
    "schedulerPolicy": _policy,
}
