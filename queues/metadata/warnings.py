"""The few lines that who sets labels and annotations of Volcano or Kueue is told. Pure.

At most one line for each kind of finding, each as short as clients show it, however many keys there are and
however long they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from queues.messages import WARNING_LIMIT, truncate_warning
from queues.metadata.findings import FindingKind, KeyFinding
from queues.text import printable

#: Characters of one key that are shown.
_KEY = 63


def metadata_warnings(found: Sequence[KeyFinding]) -> tuple[str, ...]:
    """Of findings in their order."""
    return tuple(
        truncate_warning(_line(kind, list(of_kind)))
        for kind, of_kind in groupby(found, key=lambda each: each.kind)
    )


def _line(kind: FindingKind, found: Sequence[KeyFinding]) -> str:
    first = found[0]
    what = f"{first.form} {printable(first.key, limit=_KEY)}"
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    match kind:
        case FindingKind.MISPLACED | FindingKind.MISSPELT:
            says = f"{what}{more} names no queue"
        case FindingKind.BAD:
            return f"{what}{more} has no effect: {first.hint}"
        case FindingKind.IGNORED:
            if len(found) > 1:
                return _list(found)
            says = f"{what} has no effect here"
    return f"{says}: {first.hint}" if first.hint else says


def _list(found: Sequence[KeyFinding]) -> str:
    """As many of the keys as fit, and how many more there are."""
    shown = [printable(each.key, limit=_KEY) for each in found]
    for number in range(len(shown), 0, -1):
        more = f" and {len(shown) - number} more" if number < len(shown) else ""
        text = f"{', '.join(shown[:number])}{more} have no effect here"
        if len(text) <= WARNING_LIMIT:
            return text
    return f"{len(shown)} labels and annotations have no effect here"
