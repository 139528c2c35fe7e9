"""Names of queues that are near one that does not exist: for the question whether that was meant.

Promises
- Only names that differ by about one letter in six are near, as for the plugin's own suggestions.
- Whoever asks for a request pays a few string comparisons for each queue: a name with one fault in it still
  begins or ends with most of the other, or does both with a third of it. Of these, `_COMPARED` are compared
  letter by letter; where there are more, the nearest may be missed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

from queues.text import any_of, quoted

#: The ratio of difflib.
NEAR = 0.8
#: Names that are suggested, at most.
AT_MOST = 3
_COMPARED = 64
#: Characters by which the lengths of two near names differ, at most.
_LONGER = 3


def similar_names(name: str, among: Iterable[str]) -> tuple[str, ...]:
    """The names that are near this one, nearest first."""
    third = (len(name) - 1) // 3  # so that two letters in each other's place are in two parts at most
    if not third:
        return ()
    begin, end = name[: 2 * third], name[-2 * third :]
    first, last = name[:third], name[-third:]
    shortest, longest = len(name) - _LONGER, len(name) + _LONGER
    candidates = (
        other
        for other in among
        if (
            other.startswith(begin)
            or other.endswith(end)
            or (other.startswith(first) and other.endswith(last))
        )
        and shortest <= len(other) <= longest
    )
    compared = list(islice(candidates, _COMPARED))
    return tuple(difflib.get_close_matches(name, compared, n=AT_MOST, cutoff=NEAR)) if compared else ()


def did_you_mean(names: Iterable[str]) -> str:
    """The question; "" where no name is near."""
    near = [quoted(name) for name in names]
    return f"did you mean queue {any_of(near)}?" if near else ""
