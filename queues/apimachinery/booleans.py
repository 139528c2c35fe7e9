"""Booleans in labels and annotations, as Go's strconv.ParseBool reads them."""

from __future__ import annotations

from collections.abc import Mapping

_VALUES: Mapping[str, bool] = {
    **dict.fromkeys(("1", "t", "T", "true", "True", "TRUE"), True),
    **dict.fromkeys(("0", "f", "F", "false", "False", "FALSE"), False),
}


def parse_bool(text: str) -> bool | None:
    """The value; None where the text is none."""
    return _VALUES.get(text)
