"""`python -m benchmarks [ROW ...]`: run the rows (all by default) and write each one's page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.filtering import measuring

#: Each row's name, what measures it, and the page that it writes beside this file.
ROWS: Mapping[str, tuple[Callable[[], str], str]] = {"filter": (measuring.page, "FILTER.md")}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        print(f"no such row: {', '.join(unknown)}; there are: {', '.join(ROWS)}", file=sys.stderr)
        return 2
    for name in names or ROWS:
        measure, file = ROWS[name]
        text = measure()
        (Path(__file__).parent / file).write_text(text)
        print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
