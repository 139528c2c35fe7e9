"""How long a gang may take to be on nodes, by annotation `sluice.dev/place-within`."""

from __future__ import annotations

import re

#: Without the annotation.
PLACEMENT_SECONDS = 300.0
#: The least and the most time that an annotation gives.
MIN_SECONDS, MAX_SECONDS = 10.0, 86400.0

_DURATION = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})s)?", re.ASCII)


def placement_seconds(text: str) -> tuple[float, bool]:
    """The time that an annotation gives, and whether it is one: seconds, or a number of `h`, `m` and `s`.

    What is no time is as if it were not there. A time is at least `MIN_SECONDS`, at most `MAX_SECONDS`.
    """
    found = _DURATION.fullmatch(f"{text}s" if text.isdigit() else text)
    if not text or found is None:
        return PLACEMENT_SECONDS, not text
    hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return min(MAX_SECONDS, max(MIN_SECONDS, hours * 3600.0 + minutes * 60.0 + seconds)), True
