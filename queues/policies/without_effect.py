"""What of a policy has no effect, in a sentence or two: for whoever writes it, and whoever reads its status.

The lines that it is written in, `kubectl queue policy check` says (`scheduler_conf.Examination.notices`).

Invariant: however many parts there are, a sentence names `NAMES_LIMIT` of each kind at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from queues.policies.model import NamedPart, Policy
from queues.text import all_of, join_limited, printable

#: Names of each kind that a sentence has, and characters of each.
NAMES_LIMIT, NAME_LENGTH = 5, 40
_KINDS = ("action", "plugin", "arguments", "switch", "field")


def texts_without_effect(policy: Policy) -> Iterator[str]:
    """What was passed over since it is not known, and what is known and does nothing here; or nothing."""
    if policy.unknown:
        verb = "is" if len(policy.unknown) == 1 else "are"
        yield f"{_listed(policy.unknown)} {verb} not known here and passed over"
    if policy.idle:
        one = len(policy.idle) == 1 and policy.idle[0].kind != "arguments"
        yield f"{_listed(policy.idle)} {'does' if one else 'do'} nothing here"


def _listed(parts: Sequence[NamedPart]) -> str:
    """The parts by kind: `actions a and b, plugin c and arguments of d`."""
    return all_of([_of_kind(kind, names) for kind in _KINDS if (names := _names(parts, kind))])


def _names(parts: Sequence[NamedPart], kind: str) -> list[str]:
    return [printable(part.name, limit=NAME_LENGTH) for part in parts if part.kind == kind]


def _of_kind(kind: str, names: Sequence[str]) -> str:
    shown = join_limited(names, limit=NAMES_LIMIT)
    if kind == "arguments":
        return f"arguments of {shown}"
    if kind == "switch":
        return shown
    return f"{kind}{'s' if len(names) > 1 else ''} {shown}"
