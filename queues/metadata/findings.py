"""What is wrong with the labels and annotations of one object, by the table of keys. Pure.

| finding   | the key                                                    | for example                       |
|-----------|------------------------------------------------------------|-----------------------------------|
| MISPLACED | names a queue or a gang where nothing reads it, or in a    | a label                           |
|           | wrong form                                                 | `scheduling.volcano.sh/queue-name`|
| MISSPELT  | is in no row, and reads as if it named a queue             | `scheduling.volcano.sh/queue`     |
| BAD       | acts there, and its value is none                          | group-min-member "abc"            |
| IGNORED   | is not read here at all, or not in this place              | `volcano.sh/sla-waiting-time`     |

Invariants
- A key is found once for an object, whether it is on the object or in several of its templates.
- An empty value counts as absent, as everywhere.
- The kinds come in the order of the table: what makes stops miss something comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from queues import well_known
from queues.apimachinery.booleans import parse_bool
from queues.membership import GROUP_ANNOTATION, KUEUE_LABEL, VOLCANO_ANNOTATION
from queues.metadata.keys import GROUP_MIN_MEMBER, KEYS, PREEMPTABLE, Form, KeyEffect, MetadataKey, Place
from queues.text import printable

#: Part of the prefix of a key that is meant for one who decides about queues.
_PREFIXES = ("volcano", "kueue", "sluice", "scheduling.k8s.io")
#: The part of a key after its prefix has so many characters at most.
_NAME_LIMIT = 63
#: Of a 32-bit number, as `minMember` is one.
MAX_MEMBERS = 2**31 - 1
#: Keys of our own: the server writes them. On a namespace none of them names a queue.
_OWN, _OWN_QUEUE = "sluice.dev/", well_known.QUEUE
#: Digits of the greatest number that is read.
_DIGITS = 10


class FindingKind(IntEnum):
    """By importance."""

    MISPLACED = 1
    MISSPELT = 2
    BAD = 3
    IGNORED = 4


class KeyFinding(NamedTuple):
    """`hint`: what to do, or why; "" where there is nothing to say."""

    kind: FindingKind
    form: Form
    key: str
    hint: str = ""


class PlacedMetadata(NamedTuple):
    """The labels and annotations at one place of an object."""

    place: Place
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    def items(self) -> Iterator[tuple[Form, str, str]]:
        for form, pairs in ((Form.LABEL, self.labels), (Form.ANNOTATION, self.annotations)):
            for key, value in pairs.items():
                if value:
                    yield form, key, value


def findings(
    after: Iterable[PlacedMetadata], before: Iterable[PlacedMetadata] = (), *, kueue: bool = False
) -> tuple[KeyFinding, ...]:
    """What is wrong with what an edit sets or changes. `before`: as the object was; `kueue`: the setting."""
    known = {(each.place, form, key, value) for each in before for form, key, value in each.items()}
    found: dict[tuple[Form, str], KeyFinding] = {}
    for each in after:
        for form, key, value in each.items():
            if (each.place, form, key, value) in known:
                continue
            finding = find(each.place, form, key, value, kueue=kueue)
            if finding is not None:
                found.setdefault((form, key), finding)
    return tuple(sorted(found.values(), key=lambda each: each.kind))


def find(place: Place, form: Form, key: str, value: str, *, kueue: bool = False) -> KeyFinding | None:
    """What is wrong with one label or annotation; None where nothing is, or the key is somebody else's."""
    row = KEYS.get(key)
    if row is None:
        is_meant = _reads_as_queue(key) and (not key.startswith(_OWN) or key == _OWN_QUEUE)
        if is_meant and (key != _OWN_QUEUE or place is Place.NAMESPACE):
            return KeyFinding(FindingKind.MISSPELT, form, key, _naming(place))
        return None
    if row.effect in {KeyEffect.WRITTEN, KeyEffect.FOR_AGENT}:
        return None
    if row.effect is KeyEffect.ACTS and place in row.places.get(form, ()):
        return _of_value(form, key, value, kueue=kueue)
    if row.names_queue:
        return KeyFinding(FindingKind.MISPLACED, form, key, _right_place(row, place))
    return KeyFinding(FindingKind.IGNORED, form, key, _instead(row, place, form))


def _of_value(form: Form, key: str, value: str, *, kueue: bool) -> KeyFinding | None:
    """Of a key that acts where it stands."""
    if key == KUEUE_LABEL and not kueue:
        return KeyFinding(FindingKind.MISPLACED, form, key, "setting kueue_label is off")
    fault = _value_fault(key, value)
    return KeyFinding(FindingKind.BAD, form, key, fault) if fault else None


def _reads_as_queue(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if not slash or len(name) > _NAME_LIMIT or "queue" not in name:
        return False
    return any(each in prefix for each in _PREFIXES)


def _naming(place: Place) -> str:
    """How a queue is named at this place."""
    match place:
        case Place.PODGROUP:
            return "name the queue in spec.queue"
        case Place.QUEUE:
            return "name the parent in spec.parent"
        case _:
            return f"write annotation {VOLCANO_ANNOTATION}"


def _right_place(row: MetadataKey, place: Place) -> str:
    if row.name == GROUP_ANNOTATION and place in row.places[Form.ANNOTATION]:
        return "write it as an annotation"
    if row.effect is KeyEffect.IGNORED:
        return row.instead
    return _naming(place)


def _instead(row: MetadataKey, place: Place, form: Form) -> str:
    if row.effect is KeyEffect.IGNORED:
        return row.instead
    forms = [each for each, places in row.places.items() if place in places]
    if forms and form not in forms:
        return f"write it as a{'n' if forms[0] is Form.ANNOTATION else ''} {forms[0]}"
    places = sorted({each for where in row.places.values() for each in where})
    return f"it acts on a {places[-1]} alone" if len(places) == 1 else ""


def _value_fault(key: str, value: str) -> str:
    if key == GROUP_MIN_MEMBER and min_member(value) is None:
        return f'"{printable(value, limit=12)}" is no number from 1 to {MAX_MEMBERS}'
    if key == PREEMPTABLE and parse_bool(value) is None:
        return f'"{printable(value, limit=12)}" is neither true nor false'
    return ""


def min_member(value: str) -> int | None:
    """The number in annotation `scheduling.volcano.sh/group-min-member`; None where it is none."""
    if not (value.isascii() and value.isdigit() and len(value) <= _DIGITS):
        return None
    number = int(value)
    return number if 1 <= number <= MAX_MEMBERS else None
