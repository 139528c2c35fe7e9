"""The fields of a Queue that a client of another schema drops with a write of the whole object; those kept.

A client with Go types of Volcano's API reads a queue, changes one field and writes all fields of its types:
the stop, the windows and the selector are not among them. The API server treats them as removed. A review
does not say whether the client removed a field or does not know it. But it has the `status` that the client
sent, which the API server drops later:

| the object that was sent                              | its client                                        |
|-------------------------------------------------------|---------------------------------------------------|
| has each field of `status` that Volcano has not, as   | keeps what it does not know, or sent a patch, of  |
| far as the stored one has it                          | which the API server made the object: `WHOLE`     |
| has a `status`, and lacks some of these               | has types without them: `TYPED`                   |
| has no `status`, and the stored one has               | sent a manifest, with PUT: `MANIFEST`             |
| has the status that is stored, and that has none of   | `UNKNOWN`: before the first status, or where      |
| these fields                                          | Volcano's scheduler writes it too                 |

And so for each field of `spec` that only Sluice has, that says something and that the sent object lacks:

| client    | the field                                           | it is   | the warning says             |
|-----------|-----------------------------------------------------|---------|------------------------------|
| WHOLE     | was removed by name, or by a whole object           | removed | which, if none of several is |
|           |                                                     |         | left                         |
| TYPED     |                                                     | kept    | which, and how to change it  |
| MANIFEST, | by a command of kubectl, such as `replace`, which   | removed | which                        |
| UNKNOWN   | is meant as it is                                   |         |                              |
| the same  | has its value from the field manager of the request | removed | which                        |
| the same  | has it from another, or from an unknown one         | kept    | which, and how to change it  |

An UNKNOWN one that has some other field that only Sluice has is taken for WHOLE. `reason` and `resumeAt` are
no such sign: they go with the stop, and the answer must be the same where it is asked for once more.

Newer fields of Volcano are lost by clients of an older release of it. Each stored queue but `root` names its
parent. So a TYPED client that sends none knows neither it nor what is as new or newer (`NEWER`): these are
kept. The client may have removed the others: a warning says so.

Invariants
- A function of values. What the object has is never changed: fields are put back where there are none.
- A queue that nothing stops, and that has no other field of Sluice's, says nothing: `state: Open` comes back.
- At most two texts, each one line of at most `LENGTH` characters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum, auto
from typing import Any

import msgspec

from queues.admission.stop_edits import LENGTH
from queues.fields.row import Origin
from queues.fields.table import FIELDS
from queues.states import Desired, StopPolicy
from queues.text import quoted, truncated

#: Fields of `spec` that Volcano's Queue has not. `inWindow` is the server's own, and goes with `windows`.
OURS = tuple(row.name for row in FIELDS if row.origin is not Origin.VOLCANO)
#: What goes with the stop that it belongs to.
_OF_STOP = frozenset(row.name for row in FIELDS if row.of_stop)
#: Fields of `status` that Volcano's Queue has not; the first two are there since the first status.
OUR_STATUS = frozenset(
    {"conditions", "observedGeneration", "changes", "pods", "drain", "stop", "quota", "closing"}
)
#: Fields of Volcano's Queue since its release 1.7, oldest first. `parent` came with 1.9.
NEWER = ("affinity", "type", "parent", "deserved", "priority", "dequeueStrategy")
#: What says no more than an absent field. But for `state`, the definition writes it where the field is
#: absent: then it is no sign that the client knows the field.
_SAYS_NOTHING: Mapping[str, Any] = {
    "state": Desired.OPEN.value,
    "stopPolicy": StopPolicy.NONE.value,
    "dequeueStrategy": "traverse",
}
#: Field managers of which each object is meant as it is: kubectl's own, such as kubectl-replace, begin so.
_MEANT = "kubectl"
#: Fields that a text names.
_NAMED = 6
_NAME = 63


class ClientType(Enum):
    """The rows of the first table."""

    WHOLE = auto()
    TYPED = auto()
    MANIFEST = auto()
    UNKNOWN = auto()


class SentQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A Queue as it is stored, or as a client sent it: as JSON has it."""

    spec: Mapping[str, Any]
    status: Mapping[str, Any] = {}


class DroppedFields(msgspec.Struct, frozen=True, kw_only=True):
    """`kept`: the fields of `spec` to put back, with their values. `warnings`: for who sent the object."""

    kept: Mapping[str, Any] = {}
    warnings: tuple[str, ...] = ()


NOTHING_DROPPED = DroppedFields()


def client_of(stored: SentQueue, sent: SentQueue) -> ClientType:
    """By the first table."""
    ours = OUR_STATUS & stored.status.keys()
    if not ours:
        return ClientType.TYPED if sent.status and sent.status != stored.status else ClientType.UNKNOWN
    if ours <= sent.status.keys():
        return ClientType.WHOLE
    return ClientType.TYPED if sent.status else ClientType.MANIFEST


def dropped_fields(
    queue: str, stored: SentQueue, sent: SentQueue, *, manager: str, owned: Callable[[], Collection[str]]
) -> DroppedFields:
    """By the second table. `manager`: the field manager that the request names; "" where it names none.
    `owned`: the fields of `spec` whose stored values are those of the request's field manager.
    """
    gone, newer = (
        tuple(name for name in names if _is_gone(name, stored.spec, sent.spec)) for names in (OURS, NEWER)
    )
    if not gone and not newer:
        return NOTHING_DROPPED
    client, is_meant = client_of(stored, sent), manager.startswith(_MEANT)
    if client is ClientType.TYPED and not is_meant:
        return _typed(queue, stored, sent, gone, newer)
    has_ours = any(_is_sent(name, sent.spec) for name in OURS if name not in _OF_STOP)
    if client is ClientType.WHOLE or (client is ClientType.UNKNOWN and has_ours):
        removed, kept = gone if len(gone) > 1 and not has_ours else gone[:0], gone[:0]
    else:
        mine = gone if is_meant else owned()
        removed = tuple(name for name in gone if name in mine)
        kept = tuple(name for name in gone if name not in mine)
    return DroppedFields(
        kept=_values(kept, stored),
        warnings=(
            *_kept_text(queue, kept, stored),
            *_removed_text(queue, _telling(removed, stored, sent)),
        ),
    )


def _typed(
    queue: str, stored: SentQueue, sent: SentQueue, gone: tuple[str, ...], newer: tuple[str, ...]
) -> DroppedFields:
    lacks_parent = "parent" in newer
    unknown = tuple(name for name in newer if lacks_parent and not _knows(name, sent.spec))
    kept = gone + unknown
    return DroppedFields(
        kept=_values(kept, stored),
        warnings=(
            *_kept_text(queue, kept, stored),
            *_removed_text(queue, [name for name in newer if name not in unknown]),
        ),
    )


def _knows(name: str, spec: Mapping[str, Any]) -> bool:
    """Whether a client that sends no `parent` knows a field: by it, or one that came with it."""
    return name in {"affinity", "type"} and any(_says(each, spec.get(each)) for each in ("affinity", "type"))


def _is_gone(name: str, stored: Mapping[str, Any], sent: Mapping[str, Any]) -> bool:
    return _says(name, stored.get(name)) and not _is_sent(name, sent)


def _is_sent(name: str, spec: Mapping[str, Any]) -> bool:
    value = spec.get(name)
    return value is not None and (name == "state" or value != _SAYS_NOTHING.get(name))


def _says(name: str, value: Any) -> bool:
    return value not in (None, "", [], {}) and value != _SAYS_NOTHING.get(name)


def _values(names: Iterable[str], stored: SentQueue) -> dict[str, Any]:
    return {name: stored.spec[name] for name in names}


def _telling(names: Iterable[str], stored: SentQueue, sent: SentQueue) -> list[str]:
    """Those whose loss is told here. `reason` and `resumeAt` go with their stop."""
    keeps_stop = all(stored.spec.get(key) == sent.spec.get(key) for key in ("state", "stopPolicy"))
    return [
        row.name
        for row in FIELDS
        if row.name in names and row.name != "inWindow" and (keeps_stop or not row.of_stop)
    ]


def _kept_text(queue: str, names: Iterable[str], stored: SentQueue) -> tuple[str, ...]:
    said = [name for name in names if name != "inWindow"]
    if not said:
        return ()
    is_closed = stored.spec.get("state") == Desired.CLOSED
    stops = any(_says(name, stored.spec.get(name)) for name in ("state", "stopPolicy"))
    shown = quoted(queue, limit=_NAME)
    way_out = (
        f"to end its stop: kubectl queue {'open' if is_closed else 'resume'} {shown[1:-1]}"
        if stops
        else "change them with kubectl queue, kubectl edit or a patch"
    )
    text = f"queue {shown} keeps {_fields(said)}: this client sent none of them, as one that does not know"
    return (truncated(f"{text} them does; {way_out}", limit=LENGTH),)


def _removed_text(queue: str, names: Collection[str]) -> tuple[str, ...]:
    if not names:
        return ()
    them = "them" if len(names) > 1 else "it"
    text = f"this edit removes {_fields(names)} of queue {quoted(queue, limit=_NAME)}"
    return (truncated(f"{text}: to keep {them}, send {them} too, or patch single fields", limit=LENGTH),)


def _fields(names: Collection[str]) -> str:
    shown = [f"spec.{name}" if not place else name for place, name in enumerate([*names][:_NAMED])]
    more = len(names) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
